package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-idem/mcp-idem/upstream"
)

// limits bound the work on one server.
type limits struct {
	atOnce  int           // servers that are worked on at once
	install time.Duration // of the package, with its rebuilds
	start   time.Duration // from the start of the server to its answer to initialize
	list    time.Duration // from the start of the server to its last page
}

var defaultLimits = limits{atOnce: 2, install: 10 * time.Minute, start: time.Minute, list: 2 * time.Minute}

// maxStderr is the number of bytes of a server's standard error that are kept.
const maxStderr = 1 << 20

// A collector collects the answers of servers.
type collector struct {
	install    installer
	mask, keep bool
	stderr     io.Writer // is told of each server when it is done
	limits     limits

	reporting sync.Mutex
}

// A result is what became of one server.
type result struct {
	server
	listing
	took time.Duration
	err  error
}

// collect collects the servers into the folder out and returns their results in
// the order of the list, those that failed included. Its error says that there
// is no folder to work in; nothing was collected then.
func (c *collector) collect(ctx context.Context, out string, servers []server) ([]result, error) {
	tools := filepath.Join(out, "tools")
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "mcp-idem-corpus-")
	if err != nil {
		return nil, err
	}
	results := make([]result, len(servers))
	var group errgroup.Group
	group.SetLimit(c.limits.atOnce)
	for i, s := range servers {
		group.Go(func() error {
			results[i] = c.one(ctx, s, filepath.Join(work, s.Name), filepath.Join(tools, s.Name+".json"))
			return nil
		})
	}
	_ = group.Wait() // what fails is in the results
	if c.keep {
		c.say("packages and standard error are kept in %s", work)
		return results, nil
	}
	if err := os.RemoveAll(work); err != nil {
		c.say("%s is left behind: %v", work, err)
	}
	return results, nil
}

func (c *collector) say(format string, args ...any) {
	c.reporting.Lock()
	defer c.reporting.Unlock()
	fmt.Fprintf(c.stderr, "corpus: "+format+"\n", args...)
}

// one sees one server through, and reports it.
func (c *collector) one(ctx context.Context, s server, work, file string) result {
	r := result{server: s}
	begun := time.Now()
	if r.err = context.Cause(ctx); r.err == nil {
		r.listing, r.err = c.fetch(ctx, s, work)
	}
	if r.err == nil {
		r.err = c.write(file, r.result)
	}
	r.took = time.Since(begun)
	if !c.keep {
		r.err = errors.Join(r.err, os.RemoveAll(work))
	}
	if r.err != nil {
		r.listing = listing{}
		c.say("%s: %s", s.Name, oneLine(r.err))
		return r
	}
	c.say("%s: %d tools", s.Name, r.tools)
	return r
}

// write writes the file by way of another, so that it is never there in part.
func (c *collector) write(file string, tools []byte) error {
	if c.mask {
		var err error
		if tools, err = mask(tools); err != nil {
			return fmt.Errorf("mask: %w", err)
		}
	}
	temporary := file + ".tmp"                  // which is no server's file
	defer func() { _ = os.Remove(temporary) }() // unless it was renamed
	if err := os.WriteFile(temporary, tools, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}

// fetch installs the server, starts it, and asks it for its tools.
func (c *collector) fetch(ctx context.Context, s server, work string) (listing, error) {
	p := places{home: filepath.Join(work, "home"), temporary: filepath.Join(work, "tmp"), modules: filepath.Join(work, "package")}
	s = s.at(p.home)
	if err := p.prepare(s.Files); err != nil {
		return listing{}, err
	}
	limit, cancel := context.WithTimeoutCause(ctx, c.limits.install, fmt.Errorf("it took more than %s", c.limits.install))
	command, err := c.install(limit, p.modules, s)
	cancel()
	if err != nil {
		return listing{}, err
	}
	log := &stderrLog{}
	l, err := c.talk(ctx, upstream.Command{
		Name: s.Name, Path: command[0], Args: slices.Concat(command[1:], s.Args), Env: s.environment(p), Dir: p.home,
	}, log)
	if c.keep {
		err = errors.Join(err, os.WriteFile(filepath.Join(work, "stderr"), log.bytes(), 0o600))
	}
	if err != nil {
		return listing{}, withWords(err, "it says", log.bytes())
	}
	return l, nil
}

// talk runs the server for as long as it takes to list its tools. Nothing of it
// is left when it returns.
func (c *collector) talk(ctx context.Context, command upstream.Command, log *stderrLog) (l listing, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limits.list, fmt.Errorf("it took more than %s", c.limits.list))
	defer cancel()
	p, err := upstream.Start(command, upstream.Options{
		StartTimeout: c.limits.start, Observer: upstream.Observer{Stderr: log.add},
	})
	if err != nil {
		return listing{}, err
	}
	defer func() { _ = p.Close(ctx) }() // its error is only that it had to hurry
	return listTools(ctx, p)
}

// places are the folders of one server.
type places struct {
	home, temporary, modules string
}

// prepare makes the folders, and the files in the home.
func (p places) prepare(files map[string]string) error {
	for _, folder := range []string{p.home, p.temporary, p.modules} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	for name, text := range files {
		file := filepath.Join(p.home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// environment returns all that the server inherits. What the list says comes
// last and wins.
func (s server) environment(p places) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "TMPDIR=" + p.temporary}
	for name, value := range s.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env[3:])
	return env
}

// A stderrLog keeps what a server writes on its standard error. It is safe for
// concurrent use.
type stderrLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *stderrLog) add(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() < maxStderr {
		l.text.Write(line)
		l.text.WriteByte('\n')
	}
}

func (l *stderrLog) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text.Bytes())
}
