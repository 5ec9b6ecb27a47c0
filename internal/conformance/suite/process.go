package suite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// startWithin is how long a program may take to listen.
	startWithin = 30 * time.Second
	// endWithin is how long it may take to end; then it is killed.
	endWithin = 15 * time.Second
	// lookAgain is how often it is looked whether it listens.
	lookAgain = 10 * time.Millisecond
)

// A process is a program that serves an address.
type process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// startProcess starts a program, whose output goes to the file log, and returns
// when it accepts connections at the address. The process is nil where it was not
// started, and is to be stopped otherwise.
func startProcess(ctx context.Context, address, log string, command []string) (*process, error) {
	output, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Env = environment(filepath.Dir(log))
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // how it ended is in the command
	}()
	return p, p.listens(ctx, address)
}

// environment is ours without the gateway's variables, and with a folder for what
// the gateway remembers.
func environment(state string) []string {
	env := []string{"XDG_STATE_HOME=" + state, "GORACE=atexit_sleep_ms=0"}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MCP_IDEM_") && !strings.HasPrefix(variable, "XDG_STATE_HOME=") {
			env = append(env, variable)
		}
	}
	return env
}

func (p *process) listens(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, errors.New("it does not listen"))
	defer cancel()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		if connection, err := net.Dial("tcp", address); err == nil {
			return connection.Close()
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return p.failure(errors.New("it has ended"))
		case <-ctx.Done():
			return p.failure(context.Cause(ctx))
		}
	}
}

// failure is an error with what the program has said.
func (p *process) failure(err error) error {
	said, _ := os.ReadFile(p.log) // without it there is the error alone
	return fmt.Errorf("%s: %w\n%s", filepath.Base(p.cmd.Path), err, said)
}

// stop ends the program as a service manager does, and waits for its end. It is an
// error if that takes too long, or if the program says by its status that it has
// failed: so does one that the race detector has found a race in. To end by the
// signal itself is none.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = p.cmd.Process.Kill() // where there are no signals
	}
	timer := time.NewTimer(endWithin)
	defer timer.Stop()
	select {
	case <-p.exited:
		if status := p.cmd.ProcessState.ExitCode(); status > 0 {
			return p.failure(fmt.Errorf("it has ended with status %d", status))
		}
		return nil
	case <-timer.C:
		_ = p.cmd.Process.Kill() // it is waited for in any case
		<-p.exited
		return p.failure(errors.New("it did not end when asked to"))
	}
}
