package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A verdict is what the tests made of a change.
type verdict string

const (
	killed      verdict = "killed"
	survived    verdict = "SURVIVED"
	unbuildable verdict = "unbuildable"
)

type result struct {
	mutant  mutant
	verdict verdict
	err     error // the tests could not be run at all
}

// maxSourceBytes is the largest file that is copied: sources are smaller.
const maxSourceBytes = 1 << 20

// A bench is a copy of the module in which changes are tested. The build cache is
// shared with every other build.
type bench struct {
	folder   string
	settings settings
}

// newBench copies the module and makes sure that its tests pass unchanged.
func newBench(ctx context.Context, s settings) (*bench, error) {
	folder, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	b := &bench{folder, s}
	if err := copyModule(folder); err != nil {
		b.remove()
		return nil, fmt.Errorf("copy the module: %w", err)
	}
	if output, err := b.test(ctx); err != nil {
		b.remove()
		return nil, fmt.Errorf("the tests fail without any change: %w\n%s", err, output)
	}
	return b, nil
}

func (b *bench) remove() { _ = os.RemoveAll(b.folder) }

func copyModule(to string) error {
	return filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != "." && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, path), 0o700)
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > maxSourceBytes) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), content, 0o600)
	})
}

// try tests one change, and takes it back.
func (b *bench) try(ctx context.Context, m mutant) (r result) {
	r = result{mutant: m}
	path := filepath.Join(b.folder, m.file)
	if r.err = os.WriteFile(path, m.changed(), 0o600); r.err != nil {
		return r
	}
	output, err := b.test(ctx)
	r.err = errors.Join(ctx.Err(), os.WriteFile(path, m.source, 0o600))
	switch {
	case err == nil:
		r.verdict = survived
	case bytes.Contains(output, []byte("[build failed]")):
		r.verdict = unbuildable
	default:
		r.verdict = killed
	}
	return r
}

func (b *bench) test(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-failfast", "-count=1", "-timeout", b.settings.timeout.String(),
		"-skip", b.settings.skip, "./dedup/", "-rapid.nofailfile")
	cmd.Dir = b.folder
	return cmd.CombinedOutput()
}
