package upstreamtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

func TestFaultSpecs(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]fault{
		"GET:conn=reused,do=reset":                                  {target: "GET", when: afterEffect, conn: "reused", action: "reset"},
		"refund:do=ask:sure, really":                                {target: "refund", when: beforeEffect, action: "ask", detail: "sure, really"},
		"*:when=after_effect,do=task":                               {target: "*", when: afterEffect, action: "task"},
		"refund:do=exit":                                            {target: "refund", when: afterEffect, action: "exit"},
		"refund:nth=2,when=before_effect,do=error:-32603:a, b=c: d": {target: "refund", nth: 2, when: beforeEffect, action: "error", detail: "-32603:a, b=c: d"},
		"tools/list:when=before_read,do=delay:1s":                   {target: "tools/list", when: beforeRead, action: "delay", detail: "1s"},
	} {
		var f faults
		require.NoError(t, f.Set(spec))
		assert.Equal(t, faults{want}, f)
	}
	for _, spec := range []string{"", "refund", "refund:nth=1", "refund:do=dance", "refund:when=later,do=exit", "refund:nth=x,do=exit", "refund:how=x,do=exit", "refund:exit",
		"refund:conn=old,do=reset", "refund:do=delay", "refund:do=big:many", "refund:do=cut:x", "refund:do=error:text", "refund:do=status",
		"refund:do=status:99", "refund:do=redirect:600", "refund:do=gate", "refund:do=request", "refund:do=sse:bold"} {
		var f faults
		assert.Error(t, f.Set(spec), spec)
	}
}

func TestUnknownFlagsAndArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`unexpected argument "y"`:               {"--gate", "x", "y"},
		`there is no era "bronze"`:              {"--era", "bronze"},
		`cannot be treated by "forget"`:         {"--consumed", "forget"},
		"--era sse is for http only":            {"--era", "sse"},
		"do=reset is for http only":             {"--fault", "refund:do=reset"},
		"do=close_stdout is for stdio only":     {"--http", ":0", "--fault", "refund:do=close_stdout"},
		"conn= is for http only":                {"--fault", "refund:conn=new,do=drop"},
		"flag provided but not defined: -https": {"--https", ":0"},
	} {
		_, err := parse(args)
		require.ErrorContains(t, err, want)
	}
}

func TestWhatComesInPlaceOfAnAnswer(t *testing.T) {
	t.Parallel()
	for do, want := range map[string]string{
		"garbage": "Traceback (most recent call last):", "broken": `{"id":1,"result":{}}`, "empty": "{}", "batch": `[{"jsonrpc":"2.0","id":1,"result":{}}]`,
		"error:-32603:a, b": `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"a, b"}}`, "log:hi": "notifications/message",
	} {
		for _, when := range []string{beforeRead, afterEffect} {
			if do != "batch" || when == afterEffect { // before, there is no answer to put into it
				assert.Contains(t, talk(t, []string{"--fault", "ping:when=" + when + ",do=" + do}, request(1, "ping", "{}")), want, do)
			}
		}
	}
}

func TestEffectsKeepTheArgumentsAsTheyCame(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "effects")
	none, err := Effects(file)
	require.NoError(t, err)
	assert.Empty(t, none)

	out := talk(t, []string{"--effects", file},
		request(1, "tools/call", `{"name":"refund","arguments":{ "n":9007199254740993.10,"s":"\u00e9" }}`))
	assert.Contains(t, out, `"id":1,"result"`)
	effects, err := Effects(file)
	require.NoError(t, err)
	require.Len(t, effects, 1)
	assert.Equal(t, `{ "n":9007199254740993.10,"s":"\u00e9" }`, string(effects[0].Arguments))
	assert.Equal(t, "refund", effects[0].Tool)
	assert.Equal(t, 1, effects[0].Call)
	assert.WithinDuration(t, time.Now(), effects[0].At, time.Minute)

	require.NoError(t, appendTo(file, []byte(`{"tool":`), false))
	_, err = Effects(file)
	require.ErrorContains(t, err, "line 2")
}

func TestNthCountsOverRestarts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "effects")
	flags := []string{"--effects", file, "--fault", "refund:nth=2,when=before_effect,do=iserror:no"}
	call := request(1, "tools/call", `{"name":"refund"}`)
	assert.NotContains(t, talk(t, flags, call), "isError")
	assert.Contains(t, talk(t, flags, call), `"isError":true`)
	assert.NotContains(t, talk(t, flags, call), "isError")
	effects, err := Effects(file)
	require.NoError(t, err)
	assert.Len(t, effects, 2)
}

func TestWhenAFaultStrikes(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]struct{ calls, effects int }{beforeRead: {1, 0}, beforeEffect: {1, 0}, afterEffect: {1, 1}} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "effects")
			out := talk(t, []string{"--effects", file, "--gate", dir, "--fault", "send_mail:when=" + when + ",do=exit:0"},
				request(1, "tools/call", `{"name":"send_mail"}`))
			assert.Empty(t, out)
			effects, err := Effects(file)
			require.NoError(t, err)
			assert.Len(t, effects, want.effects)
			_, err = os.Stat(filepath.Join(dir, "started.1"))
			assert.Equal(t, when == beforeRead, os.IsNotExist(err))
		})
	}
}

func TestListsComeInPages(t *testing.T) {
	t.Parallel()
	flags := []string{"--page-size", "4"}
	first := talk(t, flags, request(1, "tools/list", `{}`))
	assert.Equal(t, 4, strings.Count(first, `"inputSchema"`))
	assert.Contains(t, first, `"nextCursor":"4"`)
	last := talk(t, flags, request(2, "tools/list", `{"cursor":"4"}`))
	assert.Equal(t, 2, strings.Count(last, `"inputSchema"`))
	assert.NotContains(t, last, "nextCursor")
}

func TestToolsOfAFileHaveAnEffect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tools, file := filepath.Join(dir, "tools"), filepath.Join(dir, "effects")
	require.NoError(t, os.WriteFile(tools, []byte(`[ {"name":"launch", "x":1.0} ]`), 0o600))
	flags := []string{"--tools", tools, "--effects", file}
	assert.Contains(t, talk(t, flags, request(1, "tools/list", `{}`)), `{"tools":[{"name":"launch", "x":1.0}]}`)
	assert.Contains(t, talk(t, flags, request(1, "tools/call", `{"name":"refund"}`)), `"code":-32602`)
	talk(t, flags, request(1, "tools/call", `{"name":"launch"}`))
	assert.Equal(t, "launch", WaitForEffects(t, file, 1)[0].Tool)
}

func TestEverythingElseIsAnswered(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{
		"ping": `"result":{}`, "logging/setLevel": `"result":{}`, "resources/list": "9007199254740993", "resources/read": `"uri":null`,
		"prompts/list": "greet", "prompts/get": "hello", "sampling/createMessage": "-32601", "initialize": `"protocolVersion":"2024-11-05"`,
	} {
		assert.Contains(t, talk(t, []string{"--protocol", "2024-11-05"}, request(1, method, `{}`)), want, method)
	}
	assert.Contains(t, talk(t, nil, "{}"), "-32600")
}

func TestGateHoldsACallUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "effects")
	answered := make(chan string, 1)
	go func() {
		answered <- talk(t, []string{"--effects", file, "--gate", dir, "--fault", "refund:when=before_effect,do=gate:go"},
			request(1, "tools/call", `{"name":"refund"}`))
	}()
	WaitForFile(t, dir, "go.waiting")
	effects, err := Effects(file)
	require.NoError(t, err)
	assert.Empty(t, effects)
	Open(t, dir, "go")
	assert.Contains(t, <-answered, `"result"`)
}

func request(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

// talk sends one line to a server of its own and returns the first line of what
// comes back, or nothing when the server ends before.
func talk(t *testing.T, flags []string, line string) string {
	program, args := Self(flags...)
	cmd := exec.CommandContext(t.Context(), program, args...)
	stdin, err := cmd.StdinPipe()
	if !assert.NoError(t, err) {
		return ""
	}
	out := &firstLine{seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.Env = out, os.Stderr, Env()
	if !assert.NoError(t, cmd.Start()) {
		return ""
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	_, err = fmt.Fprintln(stdin, line)
	assert.NoError(t, err)
	select {
	case <-out.seen:
		assert.NoError(t, stdin.Close())
		err = <-exited
	case err = <-exited:
	}
	assert.NoError(t, err)
	return out.text.String()
}

// A firstLine closes seen when it has been given a whole line.
type firstLine struct {
	text bytes.Buffer
	seen chan struct{}
	done bool
}

func (f *firstLine) Write(p []byte) (int, error) {
	n, err := f.text.Write(p)
	if !f.done && bytes.Contains(p, []byte("\n")) {
		f.done = true
		close(f.seen)
	}
	return n, err
}
