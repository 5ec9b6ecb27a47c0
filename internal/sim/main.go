// Command sim lets several gateways share one ledger in bad weather, and says
// whether the promise held:
//
//	go run ./internal/sim [--seconds N] [--seed S] [--calm] [--keep]
//
// Callers call a few keys at once, with the same and with other arguments, through
// gateways on stdio and HTTP, whose servers write their effects into one file.
// Servers lose answers and die; gateways are killed with SIGKILL, stopped, and
// started again; callers give up; a person settles what is unknown by looking at the
// effects. What everybody was told is then checked against a model, key by key, and
// against the effects. A seed decides who does what; how it falls together, the
// machine does.
//
//	world.go     the folder, the programs, and a run from beginning to end
//	server.go    the scripted server, whose end others can see
//	weather.go   which faults servers have, and who is killed when
//	remote.go    a server over HTTP that several gateways may share
//	gateway.go   a gateway's process
//	stdio.go     a client of it on stdio
//	http.go      a client of it on HTTP
//	caller.go    who calls
//	person.go    who settles what is unknown
//	history.go   what everybody was told, and when
//	model.go     what everybody may be told
//	telling.go   which of it the checker needs
//	verdict.go   the history against the model, and against the effects
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == serverWord {
		os.Exit(serve(os.Args[2:]))
	}
	seconds := flag.Int("seconds", 30, "how long the weather lasts")
	seed := flag.Uint64("seed", rand.Uint64(), "of what happens")
	calm := flag.Bool("calm", false, "nothing is lost and nobody dies")
	keep := flag.Bool("keep", false, "leave the files, and say where they are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, options{lasts: time.Duration(*seconds) * time.Second, seed: *seed, calm: *calm}, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

// run makes one run in a folder of its own, and prints what it showed.
func run(ctx context.Context, o options, keep bool) error {
	folder, err := os.MkdirTemp("", "mcp-idem-sim-")
	if err != nil {
		return err
	}
	if keep {
		fmt.Println("The files are in", folder)
	} else {
		defer os.RemoveAll(folder)
	}
	if o.program, err = build(ctx, folder); err != nil {
		return err
	}
	o.folder = folder
	r, err := simulate(ctx, o)
	if err != nil {
		return err
	}
	fmt.Println(r)
	return r.err()
}

// build makes the program that is tried, without the race detector: many processes
// share the machine.
func build(ctx context.Context, folder string) (string, error) {
	program := filepath.Join(folder, "mcp-idem")
	said, err := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/mcp-idem/mcp-idem/cmd/mcp-idem").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, said)
	}
	return program, nil
}
