// Package fetch puts what tests need of other people's programs into a cache of
// the user's: npm packages by their lockfile, and programs of Go modules by their
// go.sum. What is there already is not fetched again, so that one download serves
// all runs.
package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// MaxTime is how long one installation may take. A slow network gets through
// with it; a registry that does not answer does not hold a test for ever.
const MaxTime = 5 * time.Minute

// lingering is how long the output of a program that was ended is waited for.
const lingering = time.Second

// NPM installs the packages that package.json and package-lock.json among the files
// pin, in their exact versions and without their install scripts, and returns the
// folder with their node_modules, which must not be written to. It fails where
// there is no npm, with exec.ErrNotFound.
func NPM(ctx context.Context, files fs.FS) (folder string, err error) {
	pinned := pick{files, []string{"package.json", "package-lock.json"}}
	return cached("npm", pinned, func(folder string) error {
		return run(ctx, folder, "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error")
	})
}

// GoModule builds the package in the module whose go.mod and go.sum are among
// the files, and returns the program. It stands outside of this project's own
// module, whose requirements stay as they are.
func GoModule(ctx context.Context, files fs.FS, pkg string) (program string, err error) {
	folder, err := cached("go-"+filepath.Base(pkg), files, func(folder string) error {
		return run(ctx, folder, "go", "build", "-o", executable(folder), pkg)
	})
	return executable(folder), err
}

func executable(folder string) string {
	if runtime.GOOS == "windows" {
		return filepath.Join(folder, "program.exe")
	}
	return filepath.Join(folder, "program")
}

//go:embed node
var node embed.FS

// The oldest Node.js that the suites and the inspector run on.
const (
	nodeMajor = 22
	nodeMinor = 19
)

// Node returns a Node.js that is new enough for all that is fetched: the one on the
// PATH, else one from the npm registry, which has some for Linux.
func Node(ctx context.Context) (program string, err error) {
	said, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err == nil && newEnough(string(said)) {
		return "node", nil
	}
	files, err := fs.Sub(node, "node")
	if err != nil {
		return "", err
	}
	folder, err := NPM(ctx, files)
	if err != nil {
		return "", fmt.Errorf("install Node.js: %w", err)
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	program = filepath.Join(folder, "node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node")
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("install Node.js %d.%d or newer: the registry has none for %s/%s", nodeMajor, nodeMinor, runtime.GOOS, runtime.GOARCH)
	}
	return program, nil
}

func newEnough(version string) bool {
	var major, minor int
	_, err := fmt.Sscanf(version, "v%d.%d.", &major, &minor)
	return err == nil && (major > nodeMajor || major == nodeMajor && minor >= nodeMinor)
}

// cached returns the folder of the files in the cache. It is filled once for each
// content of the files: an unfinished one never stands under the final name.
func cached(kind string, files fs.FS, fill func(folder string) error) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	digest, err := digestOf(files)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "mcp-idem-tests", kind+"-"+digest)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), "unfinished-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, files); err != nil {
		return "", err
	}
	if err := fill(work); err != nil {
		return "", err
	}
	if err := os.Rename(work, folder); err != nil {
		if _, missing := os.Stat(folder); missing != nil { // else another run was faster
			return "", err
		}
	}
	return folder, nil
}

// pick is the files of a file system that have the names.
type pick struct {
	fs.FS
	names []string
}

// ReadDir is part of fs.ReadDirFS.
func (p pick) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(p.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !slices.Contains(p.names, e.Name()) }), err
}

// digestOf tells files with other names or contents apart.
func digestOf(files fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		fmt.Fprintf(sum, "%q %d\n", path, len(content))
		sum.Write(content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:8]), err
}

// run runs a program in the folder, and returns what it has to say where it fails.
func run(ctx context.Context, folder, name string, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, MaxTime, errors.New("it took too long"))
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = folder, &said, &said, lingering
	cmd.Env = append(os.Environ(), "GOWORK=off")
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s %s: %w\n%s", name, args[0], err, said.Bytes())
}
