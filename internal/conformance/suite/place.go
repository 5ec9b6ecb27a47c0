package suite

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
)

// A Place is where the suite is run: at the server itself, or at a gateway that
// stands before it.
type Place struct {
	Name string
	http bool     // whether the server is one over HTTP, with an address of its own
	wrap []string // the gateway's flags; nil for none between
}

// Direct is the place to which the others are compared.
var Direct = Place{Name: "direct", http: true}

// Places are those with the gateway between. All tools pass through it without
// keys: what is tried is the protocol.
var Places = []Place{
	{Name: "stdio shared", wrap: []string{"--process", "shared"}},
	{Name: "stdio per_session", wrap: []string{"--process", "per_session"}},
	{Name: "http shared", http: true, wrap: []string{"--process", "shared"}},
	{Name: "http per_session", http: true, wrap: []string{"--process", "per_session"}},
}

// serve starts what the place needs, and returns the address for the suite. Stop
// ends it, and is to be called after an error too.
func (k *Kit) serve(ctx context.Context, run Run, place Place, folder string) (url string, stop func() error, err error) {
	var running []*process
	stop = func() error {
		var errs []error
		for i := len(running) - 1; i >= 0; i-- {
			errs = append(errs, running[i].stop())
		}
		return errors.Join(errs...)
	}
	start := func(log string, command func(address string) []string) (string, error) {
		address, err := freeAddress()
		if err != nil {
			return "", err
		}
		p, err := startProcess(ctx, address, filepath.Join(folder, log), command(address))
		if p != nil {
			running = append(running, p)
		}
		return "http://" + address + "/mcp", err
	}
	upstream := []string{"--", k.server}
	if place.http {
		url, err = start("server.log", func(address string) []string { return k.direct(run, address) })
		upstream = []string{"--url", url}
	}
	if err == nil && place.wrap != nil {
		url, err = start("gateway.log", func(address string) []string { return k.wrapped(place, address, folder, upstream) })
	}
	return url, stop, err
}

// direct is the command of the server over HTTP.
func (k *Kit) direct(run Run, address string) []string {
	if run.stateless {
		return []string{k.server, "-http", address, "-stateless=true"}
	}
	return []string{k.server, "-http", address, "-stateless=false"}
}

// wrapped is the command of the gateway.
func (k *Kit) wrapped(place Place, address, folder string, upstream []string) []string {
	command := []string{k.Gateway, "wrap", "--http", address, "--class", "*=READ_ONLY",
		"--ledger", filepath.Join(folder, "ledger.db"), "--name", "conformance", "--account", "none"}
	return slices.Concat(command, place.wrap, k.Flags, upstream)
}

// freeAddress is one of this machine on which nobody listens.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
