package main

import (
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

const defaultStartTimeout = 30 * time.Second

// serverSettings are the flags that say what the server is and how its tools are
// offered.
type serverSettings struct {
	name, namespace, account string
	startTimeout             time.Duration
	window, upstreamWindow   time.Duration
	classes, nativeKeys      []string
	trust, keys, onProblem   string
	at                       urlSettings
}

func (s *serverSettings) register(f *pflag.FlagSet) {
	s.at.register(f)
	f.StringVar(&s.name, "name", "", "what the server is called; part of the scope of keys (default: its package or program; of a URL, host and path)")
	f.StringVar(&s.account, "account", "", "what the server acts on; part of the scope of keys (default: the working folder; of a URL, none)")
	s.registerGuard(f)
}

// registerGuard registers the flags that may hold for any server.
func (s *serverSettings) registerGuard(f *pflag.FlagSet) {
	s.at.registerEra(f)
	f.StringVar(&s.namespace, "namespace", "", "who calls; part of the scope of keys (default: the user of the operating system)")
	f.DurationVar(&s.startTimeout, "start-timeout", defaultStartTimeout, "how long the server may take to answer initialize")
	f.DurationVar(&s.window, "window", gateway.DefaultWindow, "how long a recorded answer is replayed")
	f.DurationVar(&s.upstreamWindow, "upstream-window", gateway.DefaultUpstreamWindow, "how long, from the first sending on, the server honours the keys of DEDUPLICATE tools")
	f.StringArrayVar(&s.classes, "class", nil, "the class of tools, `GLOB=CLASS`; may be repeated. CLASS is READ_ONLY, UNGUARDED, SAFE_RETRY, DEDUPLICATE, REQUIRES_EFFECT_CHECK or NON_RETRYABLE")
	f.StringArrayVar(&s.nativeKeys, "native-key", nil, "where tools take a key of their own, `GLOB=PATH[,shown][,raw]`; may be repeated, in the environment between semicolons. PATH is for instance body.client_token, or none")
	f.StringVar(&s.trust, "trust-annotations", "auto", "believe what the server says of its tools: auto, yes or no; auto is yes for a command, and no for a URL")
	f.StringVar(&s.keys, "keys", string(gateway.KeysEither), "where keys come from: model, harness or either")
	f.StringVar(&s.onProblem, "on-problem", string(toolschema.OnProblemRefuse), "what becomes of tools that cannot be given a key: refuse their calls, take keys from a harness only, or omit the tools (refuse, harness or omit)")
}

// options are the settings for a gateway before the server, which is a command
// unless there is a URL, as far as they go.
func (s *serverSettings) options(command []string) (gateway.Options, error) {
	policy, err := s.policy()
	if err != nil {
		return gateway.Options{}, err
	}
	keys, err := gateway.ParseKeyPolicy(s.keys)
	if err != nil {
		return gateway.Options{}, usagef("--keys: %w", err)
	}
	if err := haveLength(span{"start-timeout", s.startTimeout}, span{"window", s.window}, span{"upstream-window", s.upstreamWindow}); err != nil {
		return gateway.Options{}, err
	}
	era, err := upstream.ParseEra(s.at.era)
	if err != nil {
		return gateway.Options{}, usagef("--era: %w", err)
	}
	scope, err := s.scope(command)
	if err != nil {
		return gateway.Options{}, err
	}
	dial, err := s.at.dialer(scope.Upstream, command)
	if err != nil {
		return gateway.Options{}, err
	}
	return gateway.Options{
		Scope: scope, Policy: policy, Keys: keys, UpstreamWindow: s.upstreamWindow, Dial: dial,
		Upstream: upstream.Options{StartTimeout: s.startTimeout, Era: era},
	}, nil
}

func (s *serverSettings) policy() (p toolschema.Policy, err error) {
	p.Window = s.window
	for _, text := range s.classes {
		override, err := toolschema.ParseOverride(text)
		if err != nil {
			return p, usagef("--class: %w", err)
		}
		p.Overrides = append(p.Overrides, override)
	}
	for _, text := range s.nativeKeys {
		rule, err := toolschema.ParseNativeRule(text)
		if err != nil {
			return p, usagef("--native-key: %w", err)
		}
		p.Natives = append(p.Natives, rule)
	}
	if p.OnProblem, err = toolschema.ParseOnProblem(s.onProblem); err != nil {
		return p, usagef("--on-problem: %w", err)
	}
	switch s.trust {
	case "auto": // who chose the command has chosen what it says, too
		p.TrustAnnotations = s.at.url == ""
	case "yes":
		p.TrustAnnotations = true
	case "no":
	default:
		return p, usagef("--trust-annotations: %q is none of auto, yes, no", s.trust)
	}
	return p, nil
}

func (s *serverSettings) scope(command []string) (dedup.Scope, error) {
	scope := dedup.Scope{Namespace: s.namespace, Upstream: s.name, Account: s.account}
	if scope.Upstream == "" {
		var err error
		if scope.Upstream, err = s.serverName(command); err != nil {
			return scope, err
		}
	}
	if scope.Namespace == "" {
		u, err := user.Current()
		if err != nil {
			return scope, usagef("--namespace: the user cannot be found (%w); give a name", err)
		}
		scope.Namespace = u.Username
	}
	if scope.Account == "" && s.at.url == "" {
		folder, err := os.Getwd()
		if err != nil {
			return scope, usagef("--account: the working folder cannot be found (%w); give a name", err)
		}
		scope.Account = folder
	}
	return scope, nil
}

func (s *serverSettings) serverName(command []string) (string, error) {
	if s.at.url != "" {
		return urlName(s.at.url)
	}
	return upstreamName(command), nil
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
