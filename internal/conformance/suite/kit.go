package suite

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing/fstest"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/conformance/fetch"
)

// maxRun is how long one run of the suite may take. It takes seconds; each
// scenario has a limit of 30 seconds of its own.
const maxRun = 5 * time.Minute

//go:embed npm
var packages embed.FS

//go:embed server.mod
var serverMod []byte

//go:embed server.sum
var serverSum []byte

// serverPackage is the server that the suite is run against, in the module that
// server.mod pins. It serves both eras, and stdio as well as HTTP.
const serverPackage = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"

// A Run is a version of the suite, at one revision of the protocol.
type Run struct {
	Name         string
	module       string // below node_modules
	requirements string // the revision whose frozen list of scenarios is run; empty for the suite's own choice
	stateless    bool   // what the server over HTTP is to be: without sessions
}

// Runs are those that are made. The sampling and elicitation scenarios of the
// older revisions need a server with sessions, and the newest revision has none.
var Runs = []Run{
	{Name: "0.1.16", module: "conformance-0.1"},
	{Name: "0.2.0-alpha.12 2025-11-25", module: "conformance-0.2", requirements: "2025-11-25"},
	{Name: "0.2.0-alpha.12 2026-07-28", module: "conformance-0.2", requirements: "2026-07-28", stateless: true},
}

// A Kit is the programs that are run. Its methods may be called by several
// goroutines at once, its fields not be written to meanwhile.
type Kit struct {
	node, modules, server string
	// Gateway is the program of mcp-idem.
	Gateway string
	// Flags are more of mcp-idem wrap, for all places that have one.
	Flags []string
}

// Fetch gets what is not in the cache yet: the suites and a Node.js to run them
// from the npm registry, and the server, which is built, from the Go module proxy.
func Fetch(ctx context.Context, gateway string) (*Kit, error) {
	files, err := fs.Sub(packages, "npm")
	if err != nil {
		return nil, err
	}
	folder, err := fetch.NPM(ctx, files)
	if err != nil {
		return nil, fmt.Errorf("install the conformance suites: %w", err)
	}
	k := &Kit{modules: filepath.Join(folder, "node_modules"), Gateway: gateway}
	if k.node, err = fetch.Node(ctx); err != nil {
		return nil, err
	}
	// go:embed takes no folder that has a go.mod, so that it has another name here.
	module := fstest.MapFS{"go.mod": {Data: serverMod}, "go.sum": {Data: serverSum}}
	if k.server, err = fetch.GoModule(ctx, module, serverPackage); err != nil {
		return nil, fmt.Errorf("build the conformance server: %w", err)
	}
	return k, nil
}

// Measure makes a run at a place. The folder, which is made where it is missing,
// gets what the suite and the programs have said.
func (k *Kit) Measure(ctx context.Context, run Run, place Place, folder string) (_ Report, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxRun, errors.New("the run took too long"))
	defer cancel()
	url, stop, err := k.serve(ctx, run, place, folder)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return nil, err
	}
	results := filepath.Join(folder, "results")
	args := []string{filepath.Join(k.modules, run.module, "dist", "index.js"), "server", "--url", url, "--output-dir", results}
	if run.requirements != "" {
		args = append(args, "--requirements", run.requirements)
	}
	said, failed := exec.CommandContext(ctx, k.node, args...).CombinedOutput()
	if err := os.WriteFile(filepath.Join(folder, "suite.log"), said, 0o600); err != nil {
		return nil, err
	}
	report, err := readReport(results)
	if err == nil && len(report) == 0 { // a failed check ends it with a status too
		err = fmt.Errorf("the suite has checked nothing: %w\n%s", failed, bytes.TrimSpace(said))
	}
	return report, err
}
