package suite

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// word is the first argument by which the test binary knows that it is to be a
// server that is started.
const word = "listen"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == word {
		listener, err := net.Listen("tcp", os.Args[2])
		if err != nil {
			os.Exit(1)
		}
		for {
			if _, err := listener.Accept(); err != nil {
				os.Exit(1)
			}
		}
	}
	goleak.VerifyTestMain(m)
}

func TestReportCountsChecksAndNoNotes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(scenario, checks string) {
		dir := filepath.Join(folder, "server-"+scenario+"-2026-11-30T21-03-44-926Z")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "checks.json"), []byte(checks), 0o600))
	}
	write("ping", `[{"id":"a","status":"SUCCESS"},{"id":"a","status":"FAILURE","errorMessage":"no "},{"id":"n","status":"INFO"}]`)
	write("server-sse-polling", `[]`)
	write("json-schema-2020-12", `[{"id":"a","status":"SUCCESS"},{"id":"b","status":"SKIPPED"}]`)
	report, err := readReport(folder)
	require.NoError(t, err)

	assert.Equal(t, Report{
		"ping":                {"a": {"a", Success, ""}, "a#2": {"a#2", Failure, "no"}},
		"server-sse-polling":  {},
		"json-schema-2020-12": {"a": {"a", Success, ""}, "b": {"b", Skipped, ""}},
	}, report)
	assert.Equal(t, 2, report.Count("", Success))
	assert.Equal(t, 1, report.Count("ping", Success))
	assert.Equal(t, 1, report.Count("ping", Failure))
}

func TestReportRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for what, checks := range map[string]string{
		"a status": `[{"id":"a","status":"PERHAPS"}]`, "no status": `[{"id":"a"}]`, "no list": `{}`,
	} {
		_, err := parseChecks([]byte(checks))
		require.Error(t, err, what)
	}
}

func TestCompareTellsWorseFromBetter(t *testing.T) {
	t.Parallel()
	was := func(s Status) map[string]Check {
		if s == Absent {
			return map[string]Check{}
		}
		return map[string]Check{"a": {ID: "a", Status: s}}
	}
	tests := map[string]struct {
		direct, here Status
		differs      bool
		worse        bool
	}{
		"a success stays one":         {Success, Success, false, false},
		"a failure stays one":         {Failure, Failure, false, false},
		"a success is lost":           {Success, Failure, true, true},
		"a success turns to warning":  {Success, Warning, true, true},
		"a success is not reached":    {Success, Absent, true, true},
		"a failure is new":            {Absent, Failure, true, true},
		"a warning is new":            {Absent, Warning, true, true},
		"a failure is gone":           {Failure, Success, true, false},
		"a failure is not reached":    {Failure, Absent, true, false},
		"a success is new":            {Absent, Success, true, false},
		"what is skipped is not here": {Skipped, Absent, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := Compare(Report{"s": was(test.direct)}, Report{"s": was(test.here)})
			if !test.differs {
				assert.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			assert.Equal(t, Difference{Scenario: "s", Check: "a", Direct: test.direct, Here: test.here}, found[0])
			assert.Equal(t, test.worse, found[0].Worse())
		})
	}
	assert.True(t, Compare(Report{"gone": was(Success)}, Report{})[0].Worse(), "a whole scenario is lost")
}

func TestCoreIsToolsTransportAndLifecycle(t *testing.T) {
	t.Parallel()
	for scenario, want := range map[string]bool{
		"tools-list": true, "tools-call-with-progress": true, "server-initialize": true, "server-stateless": true, "ping": true,
		"http-header-validation": true, "dns-rebinding-protection": true, "input-required-result-multi-round": true,
		"tools-call-sampling": false, "tools-call-elicitation": false, "elicitation-sep1330-enums": false,
		"resources-subscribe": false, "prompts-list": false, "tasks-lifecycle": false, "completion-complete": false, "logging-set-level": false,
	} {
		assert.Equal(t, want, Core(scenario), scenario)
	}
}

func TestExpectedAreDifferencesWithAReason(t *testing.T) {
	t.Parallel()
	_, err := Expected()
	require.NoError(t, err)
	for what, list := range map[string]string{
		"no reason": `[{"scenarios":["prompts-list"]}]`, "no scenario": `[{"reason":"so it is"}]`,
	} {
		_, err := parseExpected([]byte(list))
		require.Error(t, err, what)
	}
}

func TestExpectationCoversWhatItNames(t *testing.T) {
	t.Parallel()
	list, err := parseExpected([]byte(`[{"runs":["0.1.16"],"places":["http"],"scenarios":["prompts-list"],"checks":["a"],"reason":"so it is"},
		{"scenarios":["prompts-list"],"reason":"so it is"}]`))
	require.NoError(t, err)
	narrow, wide := list[0], list[1]
	d := Difference{Scenario: "prompts-list", Check: "a"}
	assert.True(t, narrow.Covers(Run{Name: "0.1.16"}, Place{Name: "http"}, d))
	assert.False(t, narrow.Covers(Run{Name: "0.2"}, Place{Name: "http"}, d))
	assert.False(t, narrow.Covers(Run{Name: "0.1.16"}, Place{Name: "stdio"}, d))
	assert.False(t, narrow.Covers(Run{Name: "0.1.16"}, Place{Name: "http"}, Difference{Scenario: "prompts-list", Check: "b"}))
	assert.True(t, wide.Covers(Run{Name: "0.2"}, Place{Name: "stdio"}, Difference{Scenario: "prompts-list", Check: "b"}))
	assert.False(t, wide.Covers(Run{Name: "0.1.16"}, Place{Name: "http"}, Difference{Scenario: "prompts-get", Check: "a"}))
}

func TestExpectationExcusesNoFailureInTheCore(t *testing.T) {
	t.Parallel()
	e := Expectation{Scenarios: []string{"tools-list", "prompts-list"}, Reason: "so it is"}
	for _, d := range []Difference{{Scenario: "tools-list", Here: Absent}, {Scenario: "prompts-list", Here: Failure}} {
		assert.True(t, e.Covers(Runs[0], Places[0], d), "%v", d)
	}
	for _, here := range []Status{Failure, Warning} {
		assert.False(t, e.Covers(Runs[0], Places[0], Difference{Scenario: "tools-list", Here: here}), here)
	}
}

func TestExpectationOccursWhereAllOfItIsWorse(t *testing.T) {
	t.Parallel()
	e := Expectation{Scenarios: []string{"prompts-list"}, Checks: []string{"a", "b"}, Reason: "so it is"}
	worse := func(check string) Difference {
		return Difference{Scenario: "prompts-list", Check: check, Direct: Success, Here: Failure}
	}
	better := worse("b")
	better.Direct, better.Here = better.Here, better.Direct
	assert.True(t, e.Occurs(Runs[0], Places[0], []Difference{worse("a"), worse("b")}))
	assert.False(t, e.Occurs(Runs[0], Places[0], []Difference{worse("a")}))
	assert.False(t, e.Occurs(Runs[0], Places[0], []Difference{worse("a"), better}))
}

func TestProcessIsThereWhenItListensAndGoneWhenStopped(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	address, err := freeAddress()
	require.NoError(t, err)
	p, err := startProcess(t.Context(), address, filepath.Join(t.TempDir(), "log"), []string{self, word, address})
	require.NoError(t, err)
	require.NoError(t, p.stop())
	_, err = net.Dial("tcp", address)
	require.Error(t, err, "nobody listens any more")
	require.NoError(t, p.stop(), "a second time there is nothing to do")
}

func TestProcessThatEndsSaysWhatItHasSaid(t *testing.T) {
	t.Parallel()
	address, err := freeAddress()
	require.NoError(t, err)
	p, err := startProcess(t.Context(), address, filepath.Join(t.TempDir(), "log"), []string{"go", "no-such-command"})
	require.ErrorContains(t, err, "it has ended")
	require.ErrorContains(t, err, "no-such-command")
	require.ErrorContains(t, p.stop(), "status 2")
}

func TestProcessThatIsNotThereIsNoneToStop(t *testing.T) {
	t.Parallel()
	p, err := startProcess(t.Context(), "127.0.0.1:1", filepath.Join(t.TempDir(), "log"), []string{"no-such-program-here"})
	require.ErrorIs(t, err, exec.ErrNotFound)
	assert.Nil(t, p)
}

func TestGatewayGetsItsFlagsBeforeTheServer(t *testing.T) {
	t.Parallel()
	k := &Kit{Gateway: "mcp-idem", Flags: []string{"--era", "legacy"}}
	command := k.wrapped(Places[0], "127.0.0.1:1", "folder", []string{"--", "server"})
	assert.Equal(t, []string{"mcp-idem", "wrap", "--http", "127.0.0.1:1"}, command[:4])
	assert.Equal(t, []string{"--process", "shared", "--era", "legacy", "--", "server"}, command[len(command)-6:])
}

func TestServerOverHTTPHasSessionsWhereTheRunNeedsThem(t *testing.T) {
	t.Parallel()
	k := &Kit{server: "server"}
	for _, run := range Runs {
		modern := run.requirements == "2026-07-28"
		assert.Equal(t, fmt.Sprintf("-stateless=%t", modern), k.direct(run, "127.0.0.1:1")[3], run.Name)
	}
}
