package main

import (
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// envPrefix begins the names of our environment variables. Children do not get
// them.
const envPrefix = "MCP_IDEM_"

const defaultStartTimeout = 30 * time.Second

// settings are the flags of a gateway. Each is also an environment variable:
// --call-timeout is MCP_IDEM_CALL_TIMEOUT. A flag wins.
type settings struct {
	ledger, name, namespace, account string
	callTimeout, lateWindow, wait    time.Duration
	startTimeout, window             time.Duration
	classes                          []string
	strictCodes                      bool
	trust, keys, logLevel, logFormat string
}

func (s *settings) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.ledger, "ledger", "", "the ledger's `file` (default "+shownLedgerPath+")")
	f.StringVar(&s.name, "name", "", "what the server is called; part of the scope of keys (default: its package or program)")
	f.StringVar(&s.namespace, "namespace", "", "who calls; part of the scope of keys (default: the user of the operating system)")
	f.StringVar(&s.account, "account", "", "what the server acts on; part of the scope of keys (default: the working folder)")
	f.DurationVar(&s.callTimeout, "call-timeout", gateway.DefaultCallTimeout, "how long a call may take before the caller is told EFFECT_UNKNOWN")
	f.DurationVar(&s.lateWindow, "late-window", gateway.DefaultLateWindow, "how long an answer is listened for after that; 0: not at all")
	f.DurationVar(&s.wait, "wait", gateway.DefaultWait, "how long a repeated call waits for the one that is running")
	f.DurationVar(&s.startTimeout, "start-timeout", defaultStartTimeout, "how long the server may take to answer initialize")
	f.DurationVar(&s.window, "window", gateway.DefaultWindow, "how long a recorded answer is replayed")
	f.StringArrayVar(&s.classes, "class", nil, "the class of tools, `GLOB=CLASS`; may be repeated. CLASS is READ_ONLY, UNGUARDED, SAFE_RETRY, DEDUPLICATE, REQUIRES_EFFECT_CHECK or NON_RETRYABLE")
	f.StringVar(&s.trust, "trust-annotations", "auto", "believe what the server says of its tools: auto, yes or no; auto is yes for a local command")
	f.BoolVar(&s.strictCodes, "strict-codes", false, "take no error code of the server for proof that nothing was executed")
	f.StringVar(&s.keys, "keys", string(gateway.KeysEither), "where keys come from: model, harness or either")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn, error or disabled")
	f.StringVar(&s.logFormat, "log-format", "auto", "json or console; auto is console on a terminal")
}

// fromEnvironment sets the flags that were not given and have a variable: those of
// the names, or all.
func fromEnvironment(cmd *cobra.Command, names ...string) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		variable := envPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := os.LookupEnv(variable)
		wanted := len(names) == 0 || slices.Contains(names, f.Name)
		if f.Changed || !ok || !wanted || err != nil {
			return
		}
		values := []string{value}
		if f.Value.Type() == "stringArray" {
			values = strings.Split(value, ",")
		}
		for _, v := range values {
			if bad := cmd.Flags().Set(f.Name, v); bad != nil {
				err = usagef("%s=%q: %w", variable, value, bad)
			}
		}
	})
	return err
}

// options are the settings for a gateway before a local command.
func (s *settings) options(command []string, log zerolog.Logger) (gateway.Options, error) {
	policy, err := s.policy()
	if err != nil {
		return gateway.Options{}, err
	}
	keys, err := gateway.ParseKeyPolicy(s.keys)
	if err != nil {
		return gateway.Options{}, usagef("--keys: %w", err)
	}
	for flag, d := range map[string]time.Duration{"call-timeout": s.callTimeout, "wait": s.wait, "start-timeout": s.startTimeout, "window": s.window} {
		if d <= 0 {
			return gateway.Options{}, usagef("--%s: %s is no length of time that anything fits into; give for instance 30s", flag, d)
		}
	}
	scope, err := s.scope(command)
	if err != nil {
		return gateway.Options{}, err
	}
	late := s.lateWindow
	if late <= 0 {
		late = -1
	}
	judgement := upstream.DefaultJudgement()
	judgement.StrictCodes = s.strictCodes
	return gateway.Options{
		Judgement: judgement,
		Scope:     scope, Policy: policy, Keys: keys,
		CallTimeout: s.callTimeout, LateWindow: late, Wait: s.wait,
		Command:  upstream.Command{Name: scope.Upstream, Path: command[0], Args: command[1:], Env: childEnvironment()},
		Upstream: upstream.Options{StartTimeout: s.startTimeout},
		Log:      log,
	}, nil
}

func (s *settings) policy() (toolschema.Policy, error) {
	p := toolschema.Policy{Window: s.window}
	for _, text := range s.classes {
		override, err := toolschema.ParseOverride(text)
		if err != nil {
			return p, usagef("--class: %w", err)
		}
		p.Overrides = append(p.Overrides, override)
	}
	switch s.trust {
	case "auto", "yes": // the person chose the command, and with it what it says
		p.TrustAnnotations = true
	case "no":
	default:
		return p, usagef("--trust-annotations: %q is none of auto, yes, no", s.trust)
	}
	return p, nil
}

func (s *settings) scope(command []string) (dedup.Scope, error) {
	scope := dedup.Scope{Namespace: s.namespace, Upstream: s.name, Account: s.account}
	if scope.Upstream == "" {
		scope.Upstream = upstreamName(command)
	}
	if scope.Namespace == "" {
		u, err := user.Current()
		if err != nil {
			return scope, usagef("--namespace: the user cannot be found (%w); give a name", err)
		}
		scope.Namespace = u.Username
	}
	if scope.Account == "" {
		folder, err := os.Getwd()
		if err != nil {
			return scope, usagef("--account: the working folder cannot be found (%w); give a name", err)
		}
		scope.Account = folder
	}
	return scope, nil
}

// childEnvironment is what wrap was given, less our own variables: the client has
// built it for the server.
func childEnvironment() []string {
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, envPrefix) {
			env = append(env, variable)
		}
	}
	return env
}

const shownLedgerPath = "$XDG_STATE_HOME/mcp-idem/ledger.db"

// ledgerPath is the ledger's file: the one that was named, else the one in the
// user's state folder (XDG Base Directory Specification).
func (s *settings) ledgerPath() (string, error) {
	switch {
	case strings.Contains(s.ledger, "://"):
		return "", usagef("--ledger: %q is an address, and ledgers are kept in files; give the path of one", s.ledger)
	case s.ledger != "":
		return s.ledger, nil
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification: a relative path is to be ignored
		home, err := os.UserHomeDir()
		if err != nil {
			return "", usagef("--ledger: there is no home folder to keep a ledger in (%w); name a file", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "mcp-idem", "ledger.db"), nil
}

func (s *settings) logger(w io.Writer) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(s.logLevel)
	if err != nil || s.logLevel == "" {
		return zerolog.Nop(), usagef("--log-level: %q is none of debug, info, warn, error, disabled", s.logLevel)
	}
	switch s.logFormat {
	case "json":
	case "console":
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.RFC3339, NoColor: !isTerminal(w)}
	case "auto":
		if isTerminal(w) {
			w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.RFC3339}
		}
	default:
		return zerolog.Nop(), usagef("--log-format: %q is none of auto, json, console", s.logFormat)
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger(), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
