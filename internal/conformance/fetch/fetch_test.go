package fetch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests set environment variables, and so are not parallel.

func TestCachedFillsOnceForEachContent(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	filled := 0
	fill := func(folder string) error {
		filled++
		return os.WriteFile(filepath.Join(folder, "made"), nil, 0o600)
	}
	one, err := cached("kind", fstest.MapFS{"a": {Data: []byte("1")}}, fill)
	require.NoError(t, err)
	again, err := cached("kind", fstest.MapFS{"a": {Data: []byte("1")}}, fill)
	require.NoError(t, err)
	other, err := cached("kind", fstest.MapFS{"a": {Data: []byte("2")}}, fill)
	require.NoError(t, err)

	assert.Equal(t, one, again)
	assert.NotEqual(t, one, other)
	assert.Equal(t, 2, filled)
	assert.FileExists(t, filepath.Join(one, "made"))
	assert.FileExists(t, filepath.Join(one, "a"))
}

func TestCachedLeavesNothingOfWhatFails(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	refusal := errors.New("no network")
	_, err := cached("kind", fstest.MapFS{"a": {}}, func(string) error { return refusal })
	require.ErrorIs(t, err, refusal)

	left, err := os.ReadDir(filepath.Join(cache, "mcp-idem-tests"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestNPMSaysThatItIsMissing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, err := NPM(t.Context(), fstest.MapFS{"package.json": {Data: []byte("{}")}})
	require.ErrorIs(t, err, exec.ErrNotFound)
}

func TestGoModuleSaysWhatTheCompilerSays(t *testing.T) {
	built, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	t.Setenv("GOCACHE", strings.TrimSpace(string(built))) // else all is built anew in the cache of the next line
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err = GoModule(t.Context(), fstest.MapFS{
		"go.mod":  {Data: []byte("module broken\n\ngo 1.26\n")},
		"main.go": {Data: []byte("package main\n\nfunc main() { missing() }\n")},
	}, ".")
	require.ErrorContains(t, err, "undefined: missing")
}

func TestNodeIsTheOneOfThePathIfThatIsNewEnough(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := t.TempDir()
	t.Setenv("PATH", path)
	for version, fits := range map[string]bool{"v20.20.2": false, "v22.18.0": false, "v22.19.0": true, "v24.1.0": true, "": false} {
		script := "#!/bin/sh\necho " + version + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(path, "node"), []byte(script), 0o700))
		program, err := Node(t.Context())
		if fits {
			require.NoError(t, err, version)
			assert.Equal(t, "node", program)
			continue
		}
		require.ErrorIs(t, err, exec.ErrNotFound, "%s: there is no npm to install another one", version)
	}
}

func TestNPMInstallsAnewOnlyForOtherPackages(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := t.TempDir()
	t.Setenv("PATH", path)
	log := filepath.Join(path, "log")
	script := "#!/bin/sh\necho \"$@\" >> " + log + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(path, "npm"), []byte(script), 0o700))
	files := fstest.MapFS{"package.json": {Data: []byte("{}")}, "client.mjs": {Data: []byte("1")}, "go/main.go": {}}
	one, err := NPM(t.Context(), files)
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(one, "package.json"))
	assert.NoFileExists(t, filepath.Join(one, "client.mjs"))

	files["client.mjs"] = &fstest.MapFile{Data: []byte("2")}
	again, err := NPM(t.Context(), files)
	require.NoError(t, err)
	assert.Equal(t, one, again)
	files["package-lock.json"] = &fstest.MapFile{Data: []byte("{}")}
	other, err := NPM(t.Context(), files)
	require.NoError(t, err)
	assert.NotEqual(t, one, other)

	calls, err := os.ReadFile(log)
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(string(calls), "ci --ignore-scripts"))
}
