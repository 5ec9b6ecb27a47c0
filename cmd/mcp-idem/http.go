package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
)

const defaultAddress = "127.0.0.1:7423"

// httpSettings are the flags that have clients served by HTTP in place of stdio.
type httpSettings struct {
	address, tokenFile, process string
	maxBody                     int64
	origins                     []string
	idle                        time.Duration
}

func (s *httpSettings) register(f *pflag.FlagSet) {
	f.StringVar(&s.address, "http", "", "serve streamable HTTP on `ADDR`, path /mcp, in place of stdio; without a value on "+defaultAddress)
	f.Lookup("http").NoOptDefVal = defaultAddress
	f.StringVar(&s.tokenFile, "token-file", "", "a `file` of bearer tokens, a line each, 'principal: token', or a JSON object; who calls is then the namespace of keys")
	f.StringVar(&s.process, "process", "", "who shares the server: shared (all clients) or per_session (default: shared for a command, per_session for a URL)")
	f.Int64Var(&s.maxBody, "max-body", gateway.DefaultMaxBody, "the largest HTTP request, in `bytes`")
	f.StringArrayVar(&s.origins, "allow-origin", nil, "a web `origin` (https://host:port) whose pages may call; may be repeated")
	f.DurationVar(&s.idle, "session-idle", gateway.DefaultSessionIdle, "how long a session lives that nobody uses")
}

// takeAddress reads the flags again where --http was given its address as a word of
// its own: to the flags, which end at the first word that is none, that was the
// command. It returns the words that are left.
func (s *httpSettings) takeAddress(cmd *cobra.Command, args []string) ([]string, error) {
	f := cmd.Flags()
	if len(args) == 0 || !f.Changed("http") || s.address != defaultAddress || f.ArgsLenAtDash() == 0 {
		return args, nil
	}
	if _, _, err := splitAddress(args[0]); err != nil {
		if len(args) > 1 && args[1] == "--" {
			return nil, usagef("--http: %q is no address to listen on; give for instance %s", args[0], defaultAddress)
		}
		return args, nil
	}
	s.address = args[0]
	if err := f.Parse(args[1:]); err != nil {
		return nil, usagef("%s: %w; see %s --help", cmd.CommandPath(), err, cmd.CommandPath())
	}
	return f.Args(), nil
}

// splitAddress reads an address to listen on.
func splitAddress(address string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(text, 10, 16)
	return host, uint16(number), err
}

// options are the settings of a gateway that serves HTTP. remote says that the
// server is reached by a URL.
func (s *httpSettings) options(remote bool, log zerolog.Logger) (o gateway.HTTPOptions, err error) {
	host, _, err := splitAddress(s.address)
	if err != nil {
		return o, usagef("--http: %q is no address to listen on; give for instance %s", s.address, defaultAddress)
	}
	if s.maxBody <= 0 {
		return o, usagef("--max-body: %d bytes are no room for a request", s.maxBody)
	}
	if err := haveLength(span{"session-idle", s.idle}); err != nil {
		return o, err
	}
	for _, origin := range s.origins {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			return o, usagef("--allow-origin: %q is not what a browser sends as Origin; give for instance https://app.example or http://localhost:6274", origin)
		}
	}
	o = gateway.HTTPOptions{Process: gateway.Shared, AllowedOrigins: s.origins, MaxBody: s.maxBody, SessionIdle: s.idle, Version: version()}
	if remote {
		o.Process = gateway.PerSession
	}
	if s.process != "" {
		if o.Process, err = gateway.ParseProcess(s.process); err != nil {
			return o, usagef("--process: %w", err)
		}
	}
	if s.tokenFile != "" {
		o.Tokens, err = readTokens(s.tokenFile, log)
		return o, err
	}
	if !isLoopback(host) {
		return o, usagef("--http: %s can be reached from other machines, and nothing says who may call; give --token-file FILE, or listen on %s", s.address, defaultAddress)
	}
	return o, nil
}

// optionsIfAny are options where clients come by HTTP.
func (s *httpSettings) optionsIfAny(remote bool, log zerolog.Logger) (o gateway.HTTPOptions, err error) {
	switch {
	case s.address != "":
		return s.options(remote, log)
	case s.tokenFile != "":
		return o, usagef("--token-file is for clients that come by HTTP; give --http too, or leave it out")
	}
	return o, nil
}

// isLoopback reports whether only this machine reaches what listens on the host.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.IsLoopback()
}

func (s *httpSettings) listen() (net.Listener, error) {
	l, err := net.Listen("tcp", s.address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--http: %s is in use by another program; end that, or give another port", s.address)
	case err != nil:
		return nil, fmt.Errorf("--http: %w", err)
	}
	return l, nil
}

// serve serves clients by HTTP until the program is told to end.
func (s *httpSettings) serve(cmd *cobra.Command, ledger *dedup.Ledger, options gateway.Options, h gateway.HTTPOptions) error {
	l, err := s.listen()
	if err != nil {
		return err
	}
	gate, err := gateway.NewHTTP(ledger, options, h)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return gate.Serve(cmd.Context(), l)
}

// readTokens reads who has which token. No token is ever shown.
func readTokens(file string, log zerolog.Logger) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("--token-file: %w", err)
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn().Str("file", file).Str("mode", info.Mode().Perm().String()).Msg("others than its owner can read the tokens; chmod 600 is what it should have")
	}
	tokens := map[string]string{}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		if err := json.Unmarshal(text, &tokens); err != nil {
			return nil, usagef("--token-file: %s is no JSON object of principals and tokens", file)
		}
	} else if err := readTokenLines(text, tokens); err != nil {
		return nil, usagef("--token-file: %s, %w", file, err)
	}
	return tokens, checkTokens(file, tokens)
}

// readTokenLines reads the lines 'principal: token', which are YAML, and no more of
// YAML than that.
func readTokenLines(text []byte, tokens map[string]string) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line == "---" || strings.HasPrefix(line, "#") {
			continue
		}
		principal, token, ok := strings.Cut(line, ":")
		principal, token = unquoted(principal), unquoted(token)
		if !ok || principal == "" || token == "" {
			return fmt.Errorf("line %d: not of the form 'principal: token'", number)
		}
		if _, taken := tokens[principal]; taken {
			return fmt.Errorf("line %d: %q has a token already", number, principal)
		}
		tokens[principal] = token
	}
	return lines.Err()
}

func unquoted(word string) string {
	word = strings.TrimSpace(word)
	for _, quote := range []string{`"`, `'`} {
		if len(word) > 1 && strings.HasPrefix(word, quote) && strings.HasSuffix(word, quote) {
			return word[1 : len(word)-1]
		}
	}
	return word
}

// checkTokens refuses tokens that do not tell callers apart.
func checkTokens(file string, tokens map[string]string) error {
	if len(tokens) == 0 {
		return usagef("--token-file: %s has no tokens in it", file)
	}
	owners := map[string]string{}
	for principal, token := range tokens {
		if principal == "" || token == "" || strings.ContainsAny(token, " \t\r\n") {
			return usagef("--token-file: %s: the principal %q, or its token, is empty or has a space in it", file, principal)
		}
		if other, taken := owners[token]; taken {
			first, second := min(other, principal), max(other, principal)
			return usagef("--token-file: %s: %q and %q have the same token", file, first, second)
		}
		owners[token] = principal
	}
	return nil
}
