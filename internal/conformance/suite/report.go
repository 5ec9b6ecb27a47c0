package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Status is what became of a check.
type Status string

// The statuses of the suite. Absent is ours: the scenario ended before the check,
// or has no such check where nothing fails.
const (
	Success Status = "SUCCESS"
	Failure Status = "FAILURE"
	Warning Status = "WARNING" // of something that a server should do
	Skipped Status = "SKIPPED"
	Info    Status = "INFO" // no check but a note
	Absent  Status = "ABSENT"
)

// rank orders the statuses from bad to good.
func (s Status) rank() int {
	switch s {
	case Failure:
		return 0
	case Warning:
		return 1
	case Success:
		return 3
	}
	return 2
}

// A Check is one thing that the suite has looked at.
type Check struct {
	ID     string
	Status Status
	// Words are what the suite says of a failure.
	Words string
}

// A Report has the checks of each scenario, by their ids. A second check with the
// same id in one scenario has "#2" behind it, and so on.
type Report map[string]map[string]Check

// folderName is the name of the folder of one scenario's result: the scenario
// behind the word server, and when it was run.
var folderName = regexp.MustCompile(`^server-(.+)-\d{4}-\d{2}-\d{2}T[0-9-]+Z$`)

// readReport reads what the suite has written: one folder for each scenario.
func readReport(folder string) (Report, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*", "checks.json"))
	if err != nil {
		return nil, err
	}
	report := Report{}
	for _, file := range files {
		name := folderName.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		if name == nil {
			return nil, fmt.Errorf("%s: the folder is not named as the suite does it", file)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if report[name[1]], err = parseChecks(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return report, nil
}

func parseChecks(raw []byte) (map[string]Check, error) {
	var written []struct {
		ID           string `json:"id"`
		Status       Status `json:"status"`
		ErrorMessage string `json:"errorMessage"`
	}
	if err := json.Unmarshal(raw, &written); err != nil {
		return nil, err
	}
	checks, seen := map[string]Check{}, map[string]int{}
	for _, w := range written {
		if w.Status == Info {
			continue
		}
		if !slices.Contains([]Status{Success, Failure, Warning, Skipped}, w.Status) {
			return nil, fmt.Errorf("check %q has the status %q, which is not known", w.ID, w.Status)
		}
		seen[w.ID]++
		if n := seen[w.ID]; n > 1 {
			w.ID = fmt.Sprintf("%s#%d", w.ID, n)
		}
		checks[w.ID] = Check{ID: w.ID, Status: w.Status, Words: strings.TrimSpace(w.ErrorMessage)}
	}
	return checks, nil
}

// Count returns how many checks of a scenario have the status; of all scenarios
// where the name is empty.
func (r Report) Count(scenario string, status Status) int {
	n := 0
	for name, checks := range r {
		for _, c := range checks {
			if (scenario == "" || scenario == name) && c.Status == status {
				n++
			}
		}
	}
	return n
}
