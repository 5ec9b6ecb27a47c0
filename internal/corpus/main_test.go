package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

func TestMain(m *testing.M) {
	upstreamtest.Main()
	goleak.VerifyTestMain(m)
}

// scripted is an installer that needs no network: its server is the running
// test binary, and the server's args are flags of the scripted server.
func scripted(context.Context, string, server) ([]string, error) {
	program, args := upstreamtest.Self()
	return append([]string{program}, args...), nil
}

// a report is what a run has left behind.
type report struct {
	status         int
	stdout, stderr string
	out            string // the folder
}

// collect runs the program with a list of scripted servers.
func collect(t *testing.T, list string, flags ...string) report {
	t.Helper()
	return prepare(t, list, flags...)(t.Context())
}

// prepare returns a function that does what collect does, on any goroutine.
func prepare(t *testing.T, list string, flags ...string) func(context.Context) report {
	t.Helper()
	folder := t.TempDir()
	file, out := filepath.Join(folder, "list.json"), filepath.Join(folder, "out")
	require.NoError(t, os.WriteFile(file, []byte(list), 0o600))
	return func(ctx context.Context) report {
		var stdout, stderr bytes.Buffer
		status := run(ctx, append([]string{"--out", out, "--servers", file}, flags...), scripted, &stdout, &stderr)
		return report{status: status, stdout: stdout.String(), stderr: stderr.String(), out: out}
	}
}

// file returns what was written for a server.
func (r report) file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.out, "tools", name+".json"))
	require.NoError(t, err, "%s%s", r.stdout, r.stderr)
	return string(text)
}

// quiet keeps the test binary, as a server, from sleeping under the race detector
// and from asking for a folder when coverage is measured.
const quiet = `"GORACE":"atexit_sleep_ms=0","GOCOVERDIR":"{home}"`

// entry is a list's entry for a scripted server with the flags, an array of JSON.
func entry(name, flags string) string {
	return fmt.Sprintf(`{"name":%q,"set":"test","package":"scripted@1.2.3","bin":"server","args":%s,"env":{%s}}`, name, flags, quiet)
}

// tools is a file of tools whose bytes no encoder would write like this.
func tools(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tools")
	require.NoError(t, os.WriteFile(file, []byte(`[ {"name":"a" , "x":1.0e2},{"name":"b","inputSchema":{"maximum":9007199254740993},"annotations":{}}, `+
		`{"name":"c","description":"Caf\u00e9 \/ 3","annotations":{"readOnlyHint":true}} ]`), 0o600))
	return file
}

func TestAFileHasTheBytesOfTheAnswer(t *testing.T) {
	t.Parallel()
	offered := tools(t)
	r := collect(t, "["+entry("one-page", fmt.Sprintf(`["--tools",%q,"--junk","2"]`, offered))+","+
		entry("pages", fmt.Sprintf(`["--tools",%q,"--page-size","2"]`, offered))+"]")
	assert.Equal(t, 0, r.status, r.stderr)
	const want = `{"tools":[{"name":"a" , "x":1.0e2},{"name":"b","inputSchema":{"maximum":9007199254740993},"annotations":{}},` +
		`{"name":"c","description":"Caf\u00e9 \/ 3","annotations":{"readOnlyHint":true}}]}`
	assert.Equal(t, want, r.file(t, "one-page"))
	assert.Equal(t, want, r.file(t, "pages"), "pages are joined")
	assert.Regexp(t, `(?m)^server +version +tools +annotated +seconds\none-page +1\.2\.3 +3 +1 +\d+\.\d\npages +1\.2\.3 +3 +1 +\d+\.\d\n\n`+
		`2 servers, 0 failed, 6 tools, 2 annotated\n$`, r.stdout)
}

func TestMaskedFilesKeepNames(t *testing.T) {
	t.Parallel()
	r := collect(t, "["+entry("s", fmt.Sprintf(`["--tools",%q]`, tools(t)))+"]", "--mask")
	assert.Contains(t, r.file(t, "s"), `{"name":"c","description":"Xxxx \/ 3"`)
}

func TestAFailureDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ flags, says string }{
		"exits at once":           {`["--exit-before-initialize","--stderr","Error: no token; set TOKEN"]`, `bad: exited with status 1 before it answered initialize; the last line of its standard error is "Error: no token; set TOKEN"`},
		"refuses the handshake":   {`["--fault","initialize:do=error:-32603:no licence"]`, `bad: initialize: no licence (JSON-RPC error -32603)`},
		"cannot list its tools":   {`["--fault","tools/list:do=error:-32603:fetch failed","--stderr","connect ENETUNREACH"]`, `bad: tools/list: fetch failed (JSON-RPC error -32603); it says "connect ENETUNREACH"`},
		"exits while it lists":    {`["--fault","tools/list:do=exit"]`, `bad: tools/list: the answer was lost (upstream_exited)`},
		"lists no tools":          {`["--fault","tools/list:do=result:{\"tools\":[]}"]`, `bad: it lists no tools; it may want other args or env`},
		"lists a nameless tool":   {`["--fault","tools/list:do=result:{\"tools\":[{\"name\":\"a\"},{}]}"]`, `bad: tools/list: page 1: tool 2 has no name`},
		"never ends its pages":    {`["--fault","tools/list:do=result:{\"tools\":[],\"nextCursor\":\"again\"}"]`, `bad: tools/list: it has more than 1000 pages`},
		"answers with a non-list": {`["--fault","tools/list:do=result:{\"tools\":{}}"]`, `bad: tools/list: page 1: tools: not a JSON array`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := collect(t, "["+entry("bad", test.flags)+","+entry("good", `[]`)+"]")
			assert.Equal(t, 1, r.status)
			assert.Contains(t, r.stderr, test.says)
			assert.Contains(t, r.file(t, "good"), `"refund"`)
			assert.NoFileExists(t, filepath.Join(r.out, "tools", "bad.json"))
			assert.Regexp(t, `(?m)^bad +1\.2\.3 +failed +- `, r.stdout)
			assert.Contains(t, r.stdout, "2 servers, 1 failed, 6 tools, 5 annotated")
		})
	}
}

func TestAnOldFileSurvivesAFailure(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	old := filepath.Join(out, "tools", "bad.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(old), 0o700))
	require.NoError(t, os.WriteFile(old, []byte("old"), 0o600))
	c := collector{install: scripted, stderr: new(bytes.Buffer), limits: defaultLimits}
	results, err := c.collect(t.Context(), out, []server{{Name: "bad", Package: "scripted@1.2.3", Args: []string{"--exit-before-initialize"}}})
	require.NoError(t, err)
	require.Error(t, results[0].err)
	left, err := os.ReadDir(filepath.Dir(old))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing is beside the old file")
	text, err := os.ReadFile(old)
	require.NoError(t, err)
	assert.Equal(t, "old", string(text))
}

func TestASilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	c := collector{install: scripted, stderr: &stderr, limits: defaultLimits}
	c.limits.start = 50 * time.Millisecond
	_, err := c.collect(t.Context(), t.TempDir(), []server{{Name: "mute", Package: "scripted@1.2.3", Args: []string{"--silent"}, Env: map[string]string{"GOCOVERDIR": "{home}"}}})
	require.NoError(t, err)
	assert.Equal(t, "corpus: mute: did not answer initialize within 50ms; "+
		"check that the command is an MCP server, or give it more time\n", stderr.String())
}

func TestNothingIsLeftBehindUnlessItIsKept(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	list := "[" + entry("s", `["--stderr","hello"]`) + "]"

	r := collect(t, list)
	require.Equal(t, 0, r.status, r.stderr)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)

	r = collect(t, list, "--keep")
	require.Equal(t, 0, r.status, r.stderr)
	left, err = os.ReadDir(temporary)
	require.NoError(t, err)
	require.Len(t, left, 1)
	kept := filepath.Join(temporary, left[0].Name())
	assert.Contains(t, r.stderr, "are kept in "+kept)
	text, err := os.ReadFile(filepath.Join(kept, "s", "stderr"))
	require.NoError(t, err)
	assert.Equal(t, "hello\n", string(text))
}

func TestAnInterruptEndsTheServersAndStartsNoOther(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancelCause(t.Context())
	first, second := t.TempDir(), t.TempDir()
	hanging := `["--gate",%q,"--fault","tools/list:do=gate:listing"]`
	list := "[" + entry("first", fmt.Sprintf(hanging, first)) + "," + entry("second", fmt.Sprintf(hanging, second)) + "," + entry("third", `[]`) + "]"
	run := prepare(t, list)
	done := make(chan report, 1)
	go func() { done <- run(ctx) }()
	upstreamtest.WaitForFile(t, first, "listing.waiting")
	upstreamtest.WaitForFile(t, second, "listing.waiting")
	interrupt(errors.New("interrupted"))
	r := <-done
	assert.Equal(t, 1, r.status)
	for _, says := range []string{"first: tools/list: interrupted\n", "second: tools/list: interrupted\n", "third: interrupted\n"} {
		assert.Contains(t, r.stderr, says)
	}
}

func TestTheCommandLineIsChecked(t *testing.T) {
	t.Parallel()
	good := "[" + entry("a", "[]") + "," + entry("b", "[]") + "]"
	for name, test := range map[string]struct {
		list  string
		flags []string
		says  string
	}{
		"an unknown name":        {good, []string{"--only", "a,c"}, `corpus: --only: no server "c"; there are a, b`},
		"an unknown set":         {good, []string{"--set", "none"}, `corpus: there is no server to collect: the list has none of set "none"`},
		"an argument":            {good, []string{"a"}, `corpus: unexpected argument "a"`},
		"an unknown flag":        {good, []string{"--all"}, `flag provided but not defined: -all`},
		"no folder":              {good, []string{"--out", ""}, `corpus: --out is missing`},
		"a list that is missing": {good, []string{"--servers", "/no/such/list"}, `/no/such/list: no such file`},
		"a bad list":             {"[{}]", nil, `list.json: server 1, ""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := collect(t, test.list, test.flags...)
			assert.Equal(t, 2, r.status)
			assert.Contains(t, r.stderr, test.says)
			assert.NoDirExists(t, r.out)
		})
	}
}

func TestHelpIsNoError(t *testing.T) {
	t.Parallel()
	r := collect(t, "[]", "--help")
	assert.Equal(t, 0, r.status)
	assert.Contains(t, r.stderr, "-out FOLDER")
}

func TestOnlyTheNamedServersAreCollected(t *testing.T) {
	t.Parallel()
	r := collect(t, "["+entry("a", "[]")+","+entry("b", "[]")+","+entry("c", "[]")+"]", "--only", "c,a", "--set", "test")
	assert.Equal(t, 0, r.status, r.stderr)
	files, err := filepath.Glob(filepath.Join(r.out, "tools", "*"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	assert.Equal(t, "a.json c.json", filepath.Base(files[0])+" "+filepath.Base(files[1]))
}
