package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// What may become of a call that gets no answer. Neither says whether it was
// executed.
var (
	errNoAnswer     = errors.New("no answer came in time")
	errDisconnected = errors.New("the server went away")
)

// A session is a client's connection to one server process, which ends with it.
type session struct {
	client *client.Client
	cmd    *exec.Cmd
	killed bool // by its line
}

// connect starts a server and does the handshake. When life ends, the process is
// killed. log gets what the server writes to its standard error.
func connect(life context.Context, command []string, log *os.File) (*session, error) {
	s := &session{}
	start := func(ctx context.Context, program string, _ []string, args []string) (*exec.Cmd, error) {
		s.cmd = subprocess(ctx, program, args...)
		s.cmd.Stderr = log
		return s.cmd, nil
	}
	stdio := transport.NewStdioWithOptions(command[0], nil, command[1:],
		transport.WithCommandFunc(start), transport.WithCommandLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	s.client = client.NewClient(stdio)
	if err := s.client.Start(life); err != nil {
		return nil, fmt.Errorf("%s: %w", command[0], err)
	}
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion = mcp.LATEST_LEGACY_PROTOCOL_VERSION // a newer one would be probed for first
	hello.Params.ClientInfo = mcp.Implementation{Name: "mcp-idem-demo", Version: "1.0.0"}
	if _, err := s.client.Initialize(life, hello); err != nil {
		s.close()
		return nil, fmt.Errorf("%s did not answer initialize: %w", strings.Join(command[:2], " "), err)
	}
	return s, nil
}

// subprocess is a command of this program, with the environment of this process
// less the settings in it: the experiment is the same wherever it runs.
func subprocess(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MCP_IDEM_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	return cmd
}

// call calls a tool once and waits at most patience for the answer. Its error is
// errNoAnswer, errDisconnected, the end of ctx, or what the server said in place
// of a result.
func (s *session) call(ctx context.Context, patience time.Duration, tool string, arguments map[string]any) (*mcp.CallToolResult, error) {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = tool, arguments
	result, err := s.client.CallTool(limit, request)
	var broken *transport.Error
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limit.Err() != nil:
		return nil, errNoAnswer
	case errors.As(err, &broken):
		return nil, errDisconnected
	}
	return nil, err
}

// close ends the input of the server and waits for its end. How it ended is of no
// interest: it may have been killed on purpose.
func (s *session) close() { _ = s.client.Close() }

// A line is a connection that is made again when it breaks. Callers share it. It
// is safe for concurrent use.
type line struct {
	life    context.Context
	command []string
	log     *os.File

	mu      sync.Mutex
	current *session // nil: to be made
}

// call is session.call on the session of the moment. A session that broke is
// replaced at the next call.
func (l *line) call(ctx context.Context, patience time.Duration, tool string, arguments map[string]any) (*mcp.CallToolResult, error) {
	s, err := l.session()
	if err != nil {
		return nil, err
	}
	result, err := s.call(ctx, patience, tool, arguments)
	if errors.Is(err, errDisconnected) {
		l.drop(s)
	}
	return result, err
}

func (l *line) session() (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.life.Err(); err != nil {
		return nil, err
	}
	if l.current == nil {
		s, err := connect(l.life, l.command, l.log)
		if err != nil {
			return nil, err
		}
		l.current = s
	}
	return l.current, nil
}

// drop closes a session that broke, unless somebody else has.
func (l *line) drop(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == s {
		l.current = nil
		s.close()
	}
}

// kill ends the server at the other end with SIGKILL, and reports whether there
// was one. One that was killed and whose callers have not noticed yet is none.
func (l *line) kill() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil || l.current.killed {
		return false
	}
	l.current.killed = l.current.cmd.Process.Kill() == nil
	return l.current.killed
}

// close ends the server and waits for it.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != nil {
		l.current.close()
		l.current = nil
	}
}
