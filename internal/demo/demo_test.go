package demo

import (
	"bytes"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDemo_KeepsOneRefundForEachOrderBehindTheGateway(t *testing.T) {
	t.Parallel()
	const calls = 60
	cmd, stdout, folder := demoProcess(t, "--calls", strconv.Itoa(calls), "--loss", "0.3", "--seed", "1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Run(), "stderr:\n%s\nstdout:\n%s", &stderr, stdout)
	rows := tableIn(stdout.String())

	assert.Equal(t, []int{calls, calls}, rows["calls"])
	straight, protected := rows["effects"][0], rows["effects"][1]
	assert.GreaterOrEqual(t, straight, effectsOfRetrying(loss{0.3, 1}, calls), "each lost answer costs an effect")
	assert.Equal(t, calls, protected)
	assert.Equal(t, []int{straight - calls, 0}, rows["duplicates"])
	assert.Equal(t, []int{0, 0}, rows["missing"])
	assert.Equal(t, firstLosses(loss{0.3, 1}, calls), rows["lost answers"][1])
	assert.Positive(t, rows["gateway kills"][0])
	assert.LessOrEqual(t, rows["gateway kills"][0], maxKills)

	executed, notExecuted := rows["resolved as executed"][0], rows["resolved as not executed"][0]
	assert.Equal(t, []int{executed + notExecuted}, rows["EFFECT_UNKNOWN seen"])
	assert.Positive(t, executed)
	assert.GreaterOrEqual(t, rows["replays"][0], executed)
	assert.Equal(t, 2*plainSteps, strings.Count(stderr.String(), " of 60\n"), "a line for every tenth of both runs")
	requireEmpty(t, folder)
}

var tableRow = regexp.MustCompile(`(?m)^(\S.*?) {2,}(-|\d+) {2,}(\d+)$`)

// tableIn reads the rows of the table whose figures are whole numbers.
func tableIn(out string) map[string][]int {
	rows := map[string][]int{}
	for _, match := range tableRow.FindAllStringSubmatch(out, -1) {
		for _, cell := range match[2:] {
			if n, err := strconv.Atoi(cell); err == nil {
				rows[match[1]] = append(rows[match[1]], n)
			}
		}
	}
	return rows
}

func effectsOfRetrying(l loss, calls int) (effects int) {
	for n := range calls {
		nth := 1
		for l.loses(orderOf(n+1), nth) {
			nth++
		}
		effects += nth
	}
	return effects
}

func firstLosses(l loss, calls int) (lost int) {
	for n := range calls {
		if l.loses(orderOf(n+1), 1) {
			lost++
		}
	}
	return lost
}

func TestDemo_KeepsItsFilesWhenAsked(t *testing.T) {
	t.Parallel()
	cmd, stdout, folder := demoProcess(t, "--calls", "1", "--loss", "0", "--keep")
	require.NoError(t, cmd.Run())
	kept, err := filepath.Glob(filepath.Join(folder, "mcp-idem-demo-*"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	assert.Contains(t, stdout.String(), kept[0])
	refunds, err := readBook(filepath.Join(kept[0], "protected.jsonl"))
	require.NoError(t, err)
	assert.Equal(t, []refund{{ID: "re_1", Order: "order-1", Amount: 4200}}, refunds)
}

func TestOptions_RefuseWhatIsNoExperiment(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"no calls":            {Calls: 0},
		"too many calls":      {Calls: MaxCalls + 1},
		"every answer lost":   {Calls: 1, Loss: 1},
		"less than none lost": {Calls: 1, Loss: -0.1},
		"no number":           {Calls: 1, Loss: math.NaN()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Error(t, o.Validate())
		})
	}
	assert.NoError(t, Options{Calls: 1, Loss: 0}.Validate())
	assert.NoError(t, Options{Calls: MaxCalls, Loss: 0.999}.Validate())
}
