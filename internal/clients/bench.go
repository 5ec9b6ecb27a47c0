package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// patience is how long a client may take for one command.
const patience = 2 * time.Minute

// token is what the gateway asks for that is registered as "token".
const token = "0123456789abcdef0123456789abcdef"

// ways are the names under which the gateway is registered.
var ways = []string{"stdio", "http", "token"}

// A bench is where clients are tried.
type bench struct {
	folder, gateway string
	urls            map[string]string // of the gateways that serve HTTP, by way
}

// wrap is the gateway before the demo's server, with the flags.
func (b *bench) wrap(name string, flags ...string) []string {
	command := append([]string{b.gateway, "wrap"}, flags...)
	return append(command, "--", b.gateway, "demo", "upstream", "--refunds", filepath.Join(b.folder, name+".refunds"))
}

// serve starts the gateways that serve HTTP. They run until stop is called.
func (b *bench) serve(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running []*exec.Cmd
	stop = func() {
		cancel()
		for _, cmd := range running {
			_ = cmd.Wait() // says that it was ended
		}
	}
	tokens := filepath.Join(b.folder, "tokens.yaml")
	if err := os.WriteFile(tokens, []byte("ada: "+token+"\n"), 0o600); err != nil {
		return stop, err
	}
	b.urls = map[string]string{}
	for way, flags := range map[string][]string{"http": nil, "token": {"--token-file", tokens}} {
		command := b.wrap(way, append(flags, "--http", "127.0.0.1:0", "--log-format", "json", "--ledger", filepath.Join(b.folder, way+".db"))...)
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 10*time.Second
		log, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return stop, err
		}
		running = append(running, cmd)
		if b.urls[way], err = address(log); err != nil {
			return stop, err
		}
		go func() { _, _ = io.Copy(io.Discard, log) }() // until the gateway ends
	}
	return stop, nil
}

// address reads a gateway's log up to the line that says where it listens.
func address(log io.Reader) (string, error) {
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var line struct{ Message, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "listening" {
			return line.Address, nil
		}
	}
	return "", errors.Join(errors.New("the gateway does not listen"), lines.Err())
}

// try installs a client, registers the gateway in it, and asks by which ways it is
// connected.
func (b *bench) try(ctx context.Context, c client) (version string, connected map[string]bool, err error) {
	root := filepath.Join(b.folder, c.name)
	p := place{program: filepath.Join(root, "node_modules", ".bin", c.program), home: filepath.Join(root, "home")}
	p.env = append(c.env, "HOME="+p.home, "PATH="+os.Getenv("PATH"), "USER="+os.Getenv("USER"), "TERM=dumb", "MCP_TOKEN="+token)
	// Gemini starts no server in a folder that is not trusted. The others have no such file.
	trusted := filepath.Join(p.home, ".gemini", "trustedFolders.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(trusted), 0o700), os.WriteFile(trusted, fmt.Appendf(nil, "{%q: %q}", p.home, "TRUST_FOLDER"), 0o600)); err != nil {
		return "", nil, err
	}
	if err := p.install(ctx, root, c.pkg+"@latest"); err != nil {
		return "", nil, err
	}
	said, err := p.ask(ctx, "--version")
	if err != nil {
		return "", nil, err
	}
	version = regexp.MustCompile(`\d+\.\d+\.\d+`).FindString(said)
	for way, words := range map[string][]string{"stdio": c.local, "http": c.remote, "token": append(c.remote[:len(c.remote):len(c.remote)], c.credential...)} {
		if said, err := p.ask(ctx, fill(words, way, b.urls[way], b.wrap(way))...); err != nil {
			return version, nil, fmt.Errorf("%w\n%s", err, said)
		}
	}
	connected, err = c.list(ctx, p)
	return version, connected, err
}

// fill puts the name, the address and the command into the words NAME, URL, COMMAND
// and ARGS.
func fill(words []string, name, url string, command []string) (filled []string) {
	for _, w := range words {
		switch w {
		case "COMMAND":
			filled = append(filled, command[0])
		case "ARGS":
			filled = append(filled, command[1:]...)
		default:
			filled = append(filled, strings.NewReplacer("NAME", name, "URL", url).Replace(w))
		}
	}
	return filled
}

// A place is an installed client and its HOME, in which it also works.
type place struct {
	program, home string
	env           []string
}

// install puts a package into the folder. Its install scripts have the place's HOME;
// npm has the user's settings.
func (p place) install(ctx context.Context, folder, pkg string) error {
	settings, err := exec.CommandContext(ctx, "npm", "config", "get", "userconfig").Output()
	if err != nil {
		return fmt.Errorf("npm config: %w", err)
	}
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--loglevel=error", pkg)
	cmd.Env = append(os.Environ(), "HOME="+p.home, "NPM_CONFIG_USERCONFIG="+strings.TrimSpace(string(settings)))
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install %s: %w\n%s", pkg, err, said)
	}
	return nil
}

// ask runs the client to its end, and returns what it has said.
func (p place) ask(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := p.command(ctx, args...)
	said, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w", filepath.Base(p.program), strings.Join(args, " "), err)
	}
	return string(said), err
}

func (p place) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.home, p.env, time.Second
	return cmd
}
