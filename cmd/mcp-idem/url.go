package main

import (
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"

	"github.com/mcp-idem/mcp-idem/config"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// urlSettings are the flags that name a server behind a URL, in place of a command.
type urlSettings struct {
	url     string
	headers []string
	era     string
}

func (s *urlSettings) register(f *pflag.FlagSet) {
	f.StringVar(&s.url, "url", "", "the server's `URL`, in place of a command: streamable HTTP, or the older HTTP+SSE")
	f.StringArrayVar(&s.headers, "header", nil, "a header for each request to --url, `'Name: value'`; ${VAR} stands for a variable of the environment; may be repeated, in the environment a line each")
}

func (s *urlSettings) registerEra(f *pflag.FlagSet) {
	f.StringVar(&s.era, "era", string(upstream.EraAuto), "how the server speaks: legacy (up to 2025-11-25), modern (from 2026-07-28), or auto to find out")
}

// needsServer refuses a command line that names no server, or two.
func (s *urlSettings) needsServer(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case s.url != "" && len(args) > 0:
			return usagef("%s: there is a --url and the command %q; give one of them", name, args[0])
		case s.url == "" && len(args) == 0:
			return usagef("%[1]s: no command; give the server's own, for instance: mcp-idem %[1]s -- npx -y @modelcontextprotocol/server-memory; or the --url of one", name)
		}
		return nil
	}
}

// dialer is how the server is reached, which is called name.
func (s *urlSettings) dialer(name string, command []string) (upstream.Dialer, error) {
	if s.url == "" {
		if len(s.headers) > 0 {
			return nil, usagef("--header is for requests to a --url, and there is none")
		}
		return gateway.Local(upstream.Command{Name: name, Path: command[0], Args: command[1:], Env: childEnvironment()}), nil
	}
	header, err := parseHeaders(s.headers)
	if err != nil {
		return nil, err
	}
	to := upstream.Endpoint{Name: name, URL: s.url, Header: header, Agent: "mcp-idem/" + version()}
	return gateway.Remote(to), nil
}

// urlName is what a server behind a URL is called that was given no name: its host
// and path. The rest of a URL may be secret, or change.
func urlName(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", usagef("--url: %q is no address of a server; give for instance https://example.com/mcp", withoutSecrets(text))
	}
	return strings.ToLower(u.Host) + strings.TrimSuffix(u.EscapedPath(), "/"), nil
}

// withoutSecrets cuts off what in a URL may be secret.
func withoutSecrets(text string) string {
	text, _, _ = strings.Cut(text, "?")
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		text = text[at+1:]
	}
	return text
}

// parseHeaders reads 'Name: value' lines. Neither the values nor what they are made
// of is ever shown.
func parseHeaders(lines []string) (http.Header, error) {
	header := http.Header{}
	for i, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) {
			return nil, usagef("--header number %d is not of the form 'Name: value'", i+1)
		}
		if strings.EqualFold(name, "Host") {
			return nil, usagef("--header Host: the host is that of the --url; put it there")
		}
		value, err := config.Expand(value, os.LookupEnv)
		if err != nil {
			return nil, usagef("--header %s: %w", name, err)
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, usagef("--header %s: its value has a character that no header may have", name)
		}
		header.Add(name, value)
	}
	return header, nil
}
