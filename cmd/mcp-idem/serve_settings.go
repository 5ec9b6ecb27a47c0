package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/mcp-idem/mcp-idem/config"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// serveSettings are the flags of serve, and the file behind them.
type serveSettings struct {
	settings
	lateStart time.Duration

	flags *pflag.FlagSet
	file  string
	atop  config.Settings // of the file, when serve was started
	// running are the digests of the servers that are served, by name.
	running map[string]string
}

// unless sets a setting to what the file says, if that is anything and there is no
// such flag.
func unless[T comparable](flags *pflag.FlagSet, flag string, setting *T, said T) {
	var nothing T
	if said != nothing && !flags.Changed(flag) {
		*setting = said
	}
}

// adopt takes over what the file says for all servers together.
func (s *serveSettings) adopt(file *config.File) error {
	s.atop = file.Settings
	unless(s.flags, "ledger", &s.ledger, file.Ledger)
	unless(s.flags, "http", &s.http.address, file.HTTP)
	unless(s.flags, "token-file", &s.http.tokenFile, file.TokenFile)
	unless(s.flags, "max-body", &s.http.maxBody, file.MaxBody)
	unless(s.flags, "session-idle", &s.http.idle, file.SessionIdle)
	unless(s.flags, "late-start", &s.lateStart, file.LateStart)
	unless(s.flags, "log-level", &s.logLevel, file.LogLevel)
	unless(s.flags, "log-format", &s.logFormat, file.LogFormat)
	if file.AllowOrigins != nil && !s.flags.Changed("allow-origin") {
		s.http.origins = file.AllowOrigins
	}
	process, err := processOf(file)
	unless(s.flags, "process", &s.http.process, string(process))
	return err
}

// processOf is who shares the servers; all have to say the same.
func processOf(file *config.File) (process gateway.Process, err error) {
	for i, server := range file.Servers {
		if i > 0 && server.Process != process {
			return "", usagef("process: %q has %q and %q has %q; all servers of one file are shared, or none: say it once, in the idempotency beside the servers",
				file.Servers[0].Name, word(process), server.Name, word(server.Process))
		}
		process = server.Process
	}
	return process, nil
}

func word(p gateway.Process) gateway.Process {
	if p == "" {
		return gateway.Shared
	}
	return p
}

// needRestart names what the file says otherwise than when serve was started, and
// cannot be taken over.
func (s *serveSettings) needRestart(file *config.File) (names []string) {
	before, after := reflect.ValueOf(s.atop), reflect.ValueOf(file.Settings)
	for i := range before.NumField() {
		field := before.Type().Field(i).Name
		if field != "Namespace" && !reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()) {
			names = append(names, field)
		}
	}
	return names
}

// upstreams are the settings of the gateways before the file's servers.
func (s *serveSettings) upstreams(file *config.File, log zerolog.Logger) ([]gateway.Options, error) {
	if _, err := processOf(file); err != nil {
		return nil, err
	}
	var all []gateway.Options
	for _, server := range file.Servers {
		o, err := s.upstream(file, server, log)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// upstream is what wrap would make of the server, with what the file says in place of
// flags.
func (s *serveSettings) upstream(file *config.File, server config.Server, log zerolog.Logger) (gateway.Options, error) {
	one := s.settings
	one.name, one.account, one.at.url = server.Name, server.Account, server.URL
	if one.account == "" {
		one.account = server.Dir
	}
	unless(s.flags, "namespace", &one.namespace, file.Namespace)
	s.guard(&one, server.Guard)
	command := append([]string{server.Command}, server.Args...)
	o, err := one.options(command, log)
	if err != nil {
		return o, err
	}
	o.Name, o.Digest = server.Name, digest(server, file.Namespace)
	o.Dial = dialServer(server)
	o.Policy.Overrides = append(overrides(server), o.Policy.Overrides...)
	o.Policy.Natives = append(natives(server), o.Policy.Natives...)
	o.Tools = toolRules(server)
	o.NearDuplicate = server.NearDuplicateWindow
	o.Judgement.AmbiguousTexts = append(o.Judgement.AmbiguousTexts, server.Ambiguous...)
	o.Judgement.RefusalTexts = append(o.Judgement.RefusalTexts, server.Refusal...)
	o.Judgement.NothingHappened = append(o.Judgement.NothingHappened, server.NothingHappened...)
	return o, nil
}

// guard takes over what the file says of one server, or of all.
func (s *serveSettings) guard(one *settings, said config.Guard) {
	for flag, span := range map[string]struct {
		setting *time.Duration
		said    time.Duration
	}{
		"call-timeout": {&one.callTimeout, said.CallTimeout}, "late-window": {&one.lateWindow, said.LateWindow}, "wait": {&one.wait, said.Wait},
		"start-timeout": {&one.startTimeout, said.StartTimeout}, "window": {&one.window, said.Window}, "input-window": {&one.inputWindow, said.InputWindow},
		"upstream-window": {&one.upstreamWindow, said.UpstreamWindow},
	} {
		unless(s.flags, flag, span.setting, span.said)
	}
	unless(s.flags, "trust-annotations", &one.trust, string(said.TrustAnnotations))
	unless(s.flags, "keys", &one.keys, string(said.Keys))
	unless(s.flags, "on-problem", &one.onProblem, string(said.OnProblem))
	unless(s.flags, "era", &one.at.era, string(said.Era))
	unless(s.flags, "strict-codes", &one.strictCodes, said.StrictCodes)
}

func overrides(server config.Server) (all []toolschema.Override) {
	for _, tool := range server.Tools {
		all = append(all, toolschema.Override{Pattern: tool.Pattern, Class: tool.Class, NearDuplicate: tool.NearDuplicate, Window: tool.Window})
	}
	return all
}

func toolRules(server config.Server) (all []gateway.ToolRule) {
	for _, tool := range server.Tools {
		all = append(all, gateway.ToolRule{
			Pattern: tool.Pattern, CallTimeout: tool.CallTimeout, UpstreamWindow: tool.UpstreamWindow, OnCancel: tool.OnCancel, StrictCodes: tool.StrictCodes,
			AmbiguousTexts: tool.Ambiguous, RefusalTexts: tool.Refusal, NothingHappened: tool.NothingHappened,
		})
	}
	return all
}

func natives(server config.Server) (all []toolschema.NativeRule) {
	for _, tool := range server.Tools {
		if tool.Native != nil {
			all = append(all, *tool.Native)
		}
	}
	return all
}

// digest is of all that the file says of a server.
func digest(server config.Server, namespace string) string {
	text, err := json.Marshal(struct {
		Server    config.Server
		Namespace string
	}{server, namespace})
	if err != nil {
		return "" // it is taken for another one each time
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// dialServer is how a server of the file is reached.
func dialServer(server config.Server) upstream.Dialer {
	if server.URL != "" {
		return gateway.Remote(upstream.Endpoint{Name: server.Name, URL: server.URL, Header: server.Headers, Agent: "mcp-idem/" + version()})
	}
	path := server.Command
	if found, err := exec.LookPath(path); err == nil {
		path = found
	}
	return gateway.Local(upstream.Command{Name: server.Name, Path: path, Args: server.Args, Env: serverEnvironment(server), Dir: server.Dir})
}

// platformVariables are handed to every server. They are those that public SDKs hand
// on.
func platformVariables() []string {
	if runtime.GOOS == "windows" {
		return []string{"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"}
	}
	return []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
}

func serverEnvironment(server config.Server) (env []string) {
	for _, name := range append(platformVariables(), server.PassEnv...) {
		if value, set := os.LookupEnv(name); set && !strings.HasPrefix(value, "()") { // a shell's function
			env = append(env, name+"="+value)
		}
	}
	return append(env, server.Env...)
}
