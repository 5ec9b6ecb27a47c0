//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// install installs with the stand-in for npm, and returns the calls of it.
func install(t *testing.T, s server) (command []string, calls []string, folder string, err error) {
	t.Helper()
	program, err := filepath.Abs("testdata/npm")
	require.NoError(t, err)
	folder = t.TempDir()
	command, err = npm{program: program}.install(t.Context(), folder, s)
	said, readErr := os.ReadFile(filepath.Join(folder, "npm.calls"))
	require.NoError(t, readErr)
	return command, strings.Split(strings.TrimSpace(string(said)), "\n"), folder, err
}

func TestNoInstallScriptRunsThatIsNotAskedFor(t *testing.T) {
	t.Parallel()
	command, calls, folder, err := install(t, server{Package: "@some/package@1.2.3", Bin: "server"})
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(folder, "node_modules", ".bin", "server")}, command)
	require.Len(t, calls, 1)
	assert.Regexp(t, `^install --ignore-scripts .*@some/package@1\.2\.3$`, calls[0])
}

func TestARebuildIsOfTheNamedPackagesOnly(t *testing.T) {
	t.Parallel()
	_, calls, _, err := install(t, server{Package: "@some/package@1.2.3", Bin: "server", Rebuild: []string{"native", "other"}})
	require.NoError(t, err)
	require.Len(t, calls, 2)
	assert.Regexp(t, `^rebuild .* native other$`, calls[1])
}

func TestAScriptIsRunByNode(t *testing.T) {
	t.Parallel()
	command, _, folder, err := install(t, server{Package: "@some/package@1.2.3", Script: "dist/index.js"})
	require.NoError(t, err)
	assert.Equal(t, []string{"node", filepath.Join(folder, "node_modules", "@some", "package", "dist", "index.js")}, command)
}

func TestAnInstallFailureSaysWhatNpmSays(t *testing.T) {
	t.Parallel()
	_, _, _, err := install(t, server{Package: "broken@1.0.0", Bin: "server"})
	require.EqualError(t, err, `npm install: exit status 1; npm says "npm error 404 Not Found - broken@1.0.0"`)
	_, _, _, err = install(t, server{Package: "@some/package@1.2.3", Bin: "other"})
	require.ErrorContains(t, err, `the package has no "other"; correct bin or script in the list`)
	_, err = npm{program: "/no/such/npm"}.install(t.Context(), t.TempDir(), server{Package: "@some/package@1.2.3", Bin: "x"})
	require.ErrorContains(t, err, "npm install: ")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAnInterruptEndsNpmAndItsChildren(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs("testdata/npm")
	require.NoError(t, err)
	folder := t.TempDir()
	ctx, interrupt := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := npm{program: program}.install(ctx, folder, server{Package: "slow@1.0.0", Bin: "server"})
		done <- err
	}()
	upstreamtest.WaitForFile(t, folder, "npm.started")
	interrupt(errors.New("interrupted"))
	require.EqualError(t, <-done, "npm install: interrupted")
	text, err := os.ReadFile(filepath.Join(folder, "npm.started"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

func TestNothingOfAServersGroupIsLeft(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "grandchild")
	r := collect(t, "["+entry("parent", `["--grandchild","`+file+`"]`)+"]")
	require.Equal(t, 0, r.status, r.stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	assert.Eventually(t, func() bool {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // a zombie, where nobody reaps it
		return strings.Contains(string(stat), ") Z ") || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}, 10*time.Second, 2*time.Millisecond)
}

func TestTheTellingLine(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"": "", " \n\n": "", "one\ntwo\n\n": "two",
		"Error: no token\n    at main (error.js:1)\n\nNode.js v20\n": "Error: no token",
		"npm error no package\nnpm error A complete log of this run": "npm error no package",
	} {
		assert.Equal(t, want, tellingLine([]byte(output)))
	}
	err := withWords(errors.New("x"), "it says", []byte(strings.Repeat("a", maxWords+1)))
	require.EqualError(t, err, `x; it says "`+strings.Repeat("a", maxWords)+`..."`)
	require.EqualError(t, withWords(errors.New(`x "a"`), "it says", []byte("a")), `x "a"`)
}
