// Package config reads the file of mcp-idem serve: the servers as every MCP client
// writes them, and beside them what mcp-idem is to do.
//
// [Load] and [Parse] return either a [File] in which everything is known to be good,
// or all that is wrong with it, by line and column. What a client has put in its file
// for itself is left alone; what would change how a server behaves and cannot be done
// here is an error or a note, and never passed over in silence.
//
//	config.go    what a file says
//	source.go    text and format; json.go and yaml.go make a tree of it (tree.go)
//	servers.go   where the servers are; local.go and remote.go, how one is reached
//	settings.go  the members of idempotency; tools.go, those for tools
//	read.go      values: texts, spans of time, words; expand.go, variables in them
//	fault.go     what is wrong; nearest.go, what was meant
//
// The reference of the file is docs/configuration.md.
package config

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// A File is what a file says. Zero values stand for what it does not say, unless
// stated otherwise.
type File struct {
	Settings
	// Servers are those that are not switched off, in the order of the file; there is
	// one at least.
	Servers []Server
	// Notes are what the user should hear of: servers that are switched off, members
	// of clients that do nothing here. Each is one line and begins with the place.
	Notes []string
}

// Settings are what holds for all servers together.
type Settings struct {
	Ledger       string // a URL, or an absolute path
	Namespace    string
	HTTP         string // HOST:PORT to listen on
	TokenFile    string // an absolute path
	MaxBody      int64  // bytes
	AllowOrigins []string
	SessionIdle  time.Duration
	LateStart    time.Duration
	LogLevel     string
	LogFormat    string
}

// A Server is a server behind the gateway: a command, or else a URL.
type Server struct {
	Name string // fit to be a prefix of its tools' names

	Command string   // absolute, or a name to be found on the PATH
	Args    []string // without the program's own name
	Env     []string // NAME=value, each name once; set over what PassEnv brings
	PassEnv []string // the names of variables that are handed on if they are set; one may stand twice
	Dir     string   // absolute, or empty for ours

	URL     string      // http or https, may hold a user and a password
	Headers http.Header // with secrets in it; never nil of a URL

	Account string
	Guard
	Tools []Tool // in the order of the file
}

// A Guard is what may be said for each server, and for all of them at the top: what
// a server does not say itself is what the top says.
type Guard struct {
	CallTimeout         time.Duration
	LateWindow          time.Duration // negative: an answer is not listened for
	Wait                time.Duration
	StartTimeout        time.Duration
	Window              time.Duration
	InputWindow         time.Duration
	UpstreamWindow      time.Duration
	NearDuplicateWindow time.Duration
	TrustAnnotations    Trust
	Keys                gateway.KeyPolicy
	OnProblem           toolschema.OnProblem
	Era                 upstream.Era
	Process             gateway.Process
	StrictCodes         bool
	Texts
}

// Trust says whether a server's annotations are believed.
type Trust string

// The words for it.
const (
	TrustAuto Trust = "auto" // of a command, not of a URL
	TrustYes  Trust = "yes"
	TrustNo   Trust = "no"
)

// Texts find errors of a server's that mean something definite, beside those that are
// known; see upstream.Judgement.
type Texts struct {
	Ambiguous       []*regexp.Regexp
	Refusal         []*regexp.Regexp
	NothingHappened []*regexp.Regexp
}

// A Tool is what is said of the tools that a pattern names.
type Tool struct {
	Pattern        string // as of toolschema.Override
	Class          toolschema.Class
	NearDuplicate  toolschema.NearDuplicate
	Native         *toolschema.NativeRule
	Window         time.Duration
	CallTimeout    time.Duration
	UpstreamWindow time.Duration
	OnCancel       gateway.OnCancel
	StrictCodes    *bool // nil: as the server
	Texts
	Check *Check
}

// A Check is how to find out whether a call was executed. The file's syntax has it,
// but files with one are refused: there is nothing that runs checks.
type Check struct {
	Tool          string
	Arguments     string // a jq expression
	Executed      string // a jq expression
	Authoritative bool
}

// Load reads the file at path. Relative paths in it count from its folder; env looks
// variables up, as os.LookupEnv does. See Parse for its errors; one of the file
// system comes as it is, wrapped.
func Load(path string, env func(string) (string, bool)) (*File, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration's folder cannot be found: %w", err)
	}
	return Parse(data, path, filepath.Dir(full), env)
}

// readFile reads no more of a file than shows that it is too large.
func readFile(path string) (data []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err = io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if shut := file.Close(); err == nil {
		err = shut
	}
	return data, err
}

// Parse reads a file's text. Its name, which errors begin with, tells the format by
// its ending: .json, .jsonc and .json5 are JSON with comments and trailing commas,
// .yaml and .yml are YAML; otherwise the text tells. Relative paths count from dir,
// which is absolute. The error is of all *Error values that there is room for, joined
// by errors.Join.
func Parse(data []byte, name, dir string, env func(string) (string, bool)) (*File, error) {
	f := &faults{file: name}
	root := parseTree(data, f)
	if root == nil {
		return nil, f.err()
	}
	r := reader{dir: dir, env: env, faults: f, file: &File{}}
	r.root(root)
	if err := f.err(); err != nil {
		return nil, err
	}
	return r.file, nil
}
