package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// drainTime is how long the output of a child that has exited is still read
// when something outside its process group holds it open.
const drainTime = time.Second

// parting is how long a child that is to end at once has between the request to
// end and force, to put away what it holds.
const parting = 400 * time.Millisecond

// A child is one running process and our ends of its three pipes. The pipes are
// our own rather than exec.Cmd's: ours have deadlines, and Wait does not hang on
// a grandchild that inherited one.
type child struct {
	cmd                   *exec.Cmd
	stdin, stdout, stderr *os.File
	exited                chan struct{} // closed when the child has been reaped
}

// spawn starts the command. Its error is a *StartError.
func spawn(c Command) (*child, error) {
	path, err := lookPath(c.Path, c.Env)
	if err != nil {
		return nil, startError(c, err)
	}
	ch := &child{exited: make(chan struct{}), cmd: &exec.Cmd{
		Path: path, Args: append([]string{c.Path}, c.Args...), Dir: c.Dir,
		Env: append([]string{}, c.Env...), // never nil, which would mean ours
	}}
	isolate(ch.cmd)
	theirs, err := ch.connect()
	if err == nil {
		err = ch.cmd.Start()
	}
	for _, file := range theirs {
		_ = file.Close()
	}
	if err != nil {
		ch.hangUp()
		return nil, startError(c, err)
	}
	go func() {
		_ = ch.cmd.Wait() // the state tells more than the error
		close(ch.exited)
	}()
	return ch, nil
}

// connect makes the pipes and returns the child's ends, even with an error.
func (c *child) connect() (theirs []*os.File, err error) {
	in, stdin, err := os.Pipe()
	if err != nil {
		return theirs, err
	}
	theirs, c.stdin, c.cmd.Stdin = append(theirs, in), stdin, in
	stdout, out, err := os.Pipe()
	if err != nil {
		return theirs, err
	}
	theirs, c.stdout, c.cmd.Stdout = append(theirs, out), stdout, out
	stderr, log, err := os.Pipe()
	if err != nil {
		return theirs, err
	}
	theirs, c.stderr, c.cmd.Stderr = append(theirs, log), stderr, log
	return theirs, nil
}

// end makes the child exit and returns when it has been reaped: end of input,
// after grace a request to end, after another grace force. A hurry that is
// closed cuts the graces short, but for the time of parting. What is left of its
// process group is killed.
func (c *child) end(grace time.Duration, hurry <-chan struct{}) {
	_ = c.stdin.Close()
	if !c.exitsWithin(grace, hurry) {
		askToEnd(c.cmd.Process)
		least := min(grace, parting)
		if !c.exitsWithin(least, nil) && !c.exitsWithin(grace-least, hurry) {
			killAll(c.cmd.Process)
			<-c.exited
		}
	}
	killAll(c.cmd.Process)
}

func (c *child) exitsWithin(grace time.Duration, hurry <-chan struct{}) bool {
	if isClosed(c.exited) {
		return true
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
	case <-hurry:
	}
	return false
}

// stopReading lets readers of the output come to its end, but not wait for it
// for ever.
func (c *child) stopReading() {
	for _, file := range []*os.File{c.stdout, c.stderr} {
		if file.SetReadDeadline(time.Now().Add(drainTime)) != nil { // a system without deadlines on pipes
			time.AfterFunc(drainTime, func() { _ = file.Close() })
		}
	}
}

// hangUp closes our ends of the pipes.
func (c *child) hangUp() {
	for _, file := range []*os.File{c.stdin, c.stdout, c.stderr} {
		_ = file.Close() // of a nil or closed file: an error and no more
	}
}

// exit says how the child ended, once it has.
func (c *child) exit() error {
	if signal := signalOf(c.cmd.ProcessState); signal != "" {
		return fmt.Errorf("was ended by a signal (%s)", signal)
	}
	return fmt.Errorf("exited with status %d", c.cmd.ProcessState.ExitCode())
}

// startError puts an error of starting into words that say what to do.
func startError(c Command, err error) *StartError {
	e := &StartError{Name: c.Name, Err: err}
	folder, folderErr := os.Stat(c.Dir)
	switch {
	case c.Dir != "" && (folderErr != nil || !folder.IsDir()):
		e.Reason = fmt.Sprintf("cannot be started: its working folder %q is not a folder that exists", c.Dir)
	case errors.Is(err, exec.ErrNotFound):
		e.Reason = fmt.Sprintf("cannot be started: there is no command %q on the PATH; install it or give its full path", c.Path)
	case errors.Is(err, fs.ErrNotExist):
		e.Reason = fmt.Sprintf("cannot be started: %q, or the interpreter that it names, does not exist; check the path", c.Path)
	case errors.Is(err, fs.ErrPermission):
		e.Reason = fmt.Sprintf("cannot be started: %q may not be executed; check that it is a program and has the permission (chmod +x)", c.Path)
	case errors.Is(err, syscall.ENOEXEC):
		e.Reason = fmt.Sprintf("cannot be started: %q is neither a program for this machine nor a script that begins with #!", c.Path)
	default:
		e.Reason = "cannot be started: " + err.Error()
	}
	return e
}
