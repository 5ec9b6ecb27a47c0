package main

import (
	"io"
	"os"
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
	"github.com/mcp-idem/mcp-idem/upstream"
)

// envPrefix begins the names of our environment variables. Children do not get
// them.
const envPrefix = "MCP_IDEM_"

// separators stand between the values of a flag that may be repeated, where they
// come from the environment. The path of a native key may hold commas.
var separators = map[string]string{"class": ",", "native-key": ";", "allow-origin": ",", "header": "\n"}

// settings are the flags of wrap, and most of them of serve. Each is also an environment variable:
// --call-timeout is MCP_IDEM_CALL_TIMEOUT. A flag wins.
type settings struct {
	serverSettings
	ledgerSetting
	http                          httpSettings
	callTimeout, lateWindow, wait time.Duration
	inputWindow                   time.Duration
	strictCodes                   bool
	logLevel, logFormat           string
}

func (s *settings) register(f *pflag.FlagSet) {
	s.serverSettings.register(f)
	s.registerGate(f)
}

// registerGate registers the flags that are not about what the server is.
func (s *settings) registerGate(f *pflag.FlagSet) {
	s.ledgerSetting.register(f)
	s.http.register(f)
	f.DurationVar(&s.callTimeout, "call-timeout", gateway.DefaultCallTimeout, "how long a call may take before the caller is told EFFECT_UNKNOWN")
	f.DurationVar(&s.lateWindow, "late-window", gateway.DefaultLateWindow, "how long an answer is listened for after that; 0: not at all")
	f.DurationVar(&s.wait, "wait", gateway.DefaultWait, "how long a repeated call waits for the one that is running")
	f.DurationVar(&s.inputWindow, "input-window", dedup.DefaultInputWindow, "how long a question of the server's may be answered")
	f.BoolVar(&s.strictCodes, "strict-codes", false, "take no error code of the server for proof that nothing was executed")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn, error or disabled")
	f.StringVar(&s.logFormat, "log-format", "auto", "json or console; auto is console on a terminal")
}

// fromEnvironment sets the flags that were not given and have a variable that is not
// empty: those of the names, or all.
func fromEnvironment(cmd *cobra.Command, names ...string) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		variable := envPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := os.LookupEnv(variable)
		wanted := len(names) == 0 || slices.Contains(names, f.Name)
		if f.Changed || !ok || value == "" || !wanted || err != nil {
			return
		}
		values := []string{value}
		if separator, repeated := separators[f.Name]; repeated {
			values = strings.Split(value, separator)
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
	o, err := s.serverSettings.options(command)
	if err != nil {
		return o, err
	}
	if err := haveLength(span{"call-timeout", s.callTimeout}, span{"wait", s.wait}, span{"input-window", s.inputWindow}); err != nil {
		return o, err
	}
	o.CallTimeout, o.LateWindow, o.Wait, o.InputWindow, o.Log = s.callTimeout, s.lateWindow, s.wait, s.inputWindow, log
	if o.LateWindow <= 0 {
		o.LateWindow = -1
	}
	eras := newEraMemory(log)
	o.Upstream.Known = eras.known(o.Scope.Upstream)
	o.Upstream.Observer.EraFound = func(era upstream.Era) { eras.remember(o.Scope.Upstream, era) }
	o.Judgement = upstream.DefaultJudgement()
	o.Judgement.StrictCodes = s.strictCodes
	return o, nil
}

// A span is the value of a flag that is a length of time.
type span struct {
	flag  string
	value time.Duration
}

// haveLength refuses spans that nothing fits into.
func haveLength(spans ...span) error {
	for _, s := range spans {
		if s.value <= 0 {
			return usagef("--%s: %s is no length of time that anything fits into; give for instance 30s", s.flag, s.value)
		}
	}
	return nil
}

// A ledgerSetting is the flag that names the ledger.
type ledgerSetting struct{ ledger string }

func (s *ledgerSetting) register(f *pflag.FlagSet) {
	f.StringVar(&s.ledger, "ledger", "", "the ledger's `file` (default "+shownLedgerPath+")")
}

const shownLedgerPath = "$XDG_STATE_HOME/mcp-idem/ledger.db"

// ledgerPath is the ledger's file: the one that was named, else the one in the
// user's state folder (XDG Base Directory Specification).
func (s *ledgerSetting) ledgerPath() (string, error) {
	switch {
	case strings.Contains(s.ledger, "://"):
		return "", usagef("--ledger: %q is an address, and ledgers are kept in files; give the path of one", s.ledger)
	case s.ledger != "":
		return s.ledger, nil
	}
	folder, err := stateFolder()
	if err != nil {
		return "", usagef("--ledger: there is no home folder to keep a ledger in (%w); name a file", err)
	}
	return filepath.Join(folder, "ledger.db"), nil
}

// stateFolder is where the program keeps what it must not forget.
func stateFolder() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification: a relative path is to be ignored
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "mcp-idem"), nil
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
