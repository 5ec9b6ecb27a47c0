package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A remote is a scripted server over HTTP that is started again when it has ended. It
// is safe for concurrent use.
type remote struct {
	world   *world
	weather *weather
	url     string
	address string

	mu      sync.Mutex
	process *os.Process // of the moment
	over    bool
	ended   chan struct{} // closed when it is not started again
}

// startRemote starts the server at a free port, and returns when it can be reached.
func startRemote(w *world, weather *weather) (*remote, error) {
	r := &remote{world: w, weather: weather, address: "127.0.0.1:0", ended: make(chan struct{})}
	cmd, err := r.launch()
	if err != nil {
		return nil, err
	}
	r.url = "http://" + r.address + "/mcp"
	go r.supervise(cmd)
	return r, nil
}

// launch starts the server, and waits until it is where it says.
func (r *remote) launch() (*exec.Cmd, error) {
	file := filepath.Join(r.world.folder, "address")
	_ = os.Remove(file) // there may be none
	line, err := r.world.server(r.weather, append(faultsOfHTTP, faultsOfAll...), "--http", r.address, "--address-file", file)
	if err != nil {
		return nil, err
	}
	cmd := command(line[0], line[1:]...)
	cmd.Stderr = r.world.log
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, net.ErrClosed
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r.process = cmd.Process
	return cmd, r.find(file)
}

// find reads where the server is, which it says as soon as it listens.
func (r *remote) find(file string) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); <-tick.C {
		if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
			r.address = strings.TrimSpace(string(text))
			return nil
		}
	}
	return fmt.Errorf("the server at %s did not start", r.address)
}

func (r *remote) supervise(cmd *exec.Cmd) {
	defer close(r.ended)
	for cmd != nil {
		_ = cmd.Wait() // it is killed more often than not
		var err error
		if cmd, err = r.launch(); err != nil {
			return // at the end, or the gateway tells that there is no server
		}
	}
}

// kill kills the server of the moment.
func (r *remote) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.process.Kill() // it may have ended by a fault
}

// stop kills the server for good.
func (r *remote) stop() {
	r.mu.Lock()
	r.over = true
	_ = r.process.Kill()
	r.mu.Unlock()
	<-r.ended
}
