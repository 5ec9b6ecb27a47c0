package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// refusal runs mcp-idem with a client that wants to begin, and asserts that it
// ends with a status and one line on standard error.
func refusal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: refusal STATUS PATTERN [ARG...]")
	}
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	got, stdout, stderr, err := playOf(ts).refused(args[2:])
	ts.Check(err)
	ts.Logf("%s", stderr)
	switch {
	case got != status:
		ts.Fatalf("exit status %d, not %d", got, status)
	case bytes.Count(stderr, []byte("\n")) != 1 || !bytes.HasPrefix(stderr, []byte("mcp-idem: ")):
		ts.Fatalf("not one line on standard error")
	case !pattern.Match(stderr):
		ts.Fatalf("standard error does not match %s", pattern)
	}
	ts.Check(onlyErrors(stdout))
}

// refused runs mcp-idem to its end, with a client on its standard input that
// stays there.
func (p *play) refused(args []string) (status int, stdout, stderr []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	program, err := exec.LookPath("mcp-idem")
	if err != nil {
		return 0, nil, nil, err
	}
	in, client, err := os.Pipe()
	if err != nil {
		return 0, nil, nil, err
	}
	defer client.Close()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = p.ts.MkAbs("."), p.variables()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errs
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		return 0, nil, nil, err
	}
	_, err = client.WriteString(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n")
	if waited := cmd.Wait(); ctx.Err() != nil {
		return 0, nil, nil, fmt.Errorf("it did not end in time: %w", waited)
	}
	if cmd.ProcessState.ExitCode() != 0 {
		err = nil // it may have ended before it read
	}
	return cmd.ProcessState.ExitCode(), out.Bytes(), errs.Bytes(), err
}

// onlyErrors makes sure that a client which reads the output finds errors of the
// protocol and nothing else.
func onlyErrors(stdout []byte) error {
	for line := range bytes.Lines(stdout) {
		m, err := jsonrpc.Parse(bytes.TrimSpace(line))
		if err != nil || m.Error == nil {
			return fmt.Errorf("on standard output: %q", line)
		}
	}
	return nil
}

// execute executes a statement on a database.
func execute(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sqlite FILE STATEMENT")
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.Exec(args[1])
	ts.Check(err)
	ts.Check(db.Close())
}
