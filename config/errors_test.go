package config_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/config"
)

// lines are the lines of an error of a file called "f", without that.
func lines(t *testing.T, name, text string) []string {
	t.Helper()
	file, err := config.Parse([]byte(text), name, root(t), environment)
	require.Error(t, err)
	assert.Nil(t, file)
	assert.NotContains(t, err.Error(), "s3cr3t", "a value is told")
	var all []string
	for _, line := range strings.Split(err.Error(), "\n") {
		all = append(all, strings.TrimPrefix(line, name+":"))
	}
	return all
}

// A refusal is a text and the lines of the error that it gets.
type refusal struct {
	text string
	want []string
}

func refuses(t *testing.T, name string, cases map[string]refusal) {
	t.Helper()
	for title, c := range cases {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, lines(t, name, c.text))
		})
	}
}

func TestTextsThatAreNoFile(t *testing.T) {
	t.Parallel()
	const empty = "1:1: the file is empty; give mcpServers, an object with each server by its name"
	refuses(t, "f.json", map[string]refusal{
		"nothing":             {"", []string{empty}},
		"comments only":       {"// a\n/* b */", []string{empty}},
		"null":                {"null", []string{empty}},
		"a list":              {"\n [1]", []string{"2:2: the file is no object; give one with the member mcpServers, an object with each server by its name"}},
		"an end too early":    {"{\n\"a\": [", []string{"2:7: the file ends in the middle of a value; a closing bracket or quote is missing"}},
		"an open text":        {`{"a": "s3cr3t`, []string{"1:14: the file ends in the middle of a value; a closing bracket or quote is missing"}},
		"a text of two lines": {"{\"a\": \"s3cr3t\n\"}", []string{"1:14: no JSON: invalid character in string (expecting non-control character)"}},
		"an open comment":     {"{} /* s3cr3t", []string{"1:4: no JSON: invalid character at start of value"}},
		"no comma":            {"{\n  \"a\": 1\n  \"b\": 2}", []string{"3:3: no JSON: invalid character after object value (expecting ',' or '}')"}},
		"two commas":          {`{"a": 1,, }`, []string{"1:9: no JSON: invalid character at start of value"}},
		"only a comma":        {`{"a": [,]}`, []string{"1:8: no JSON: invalid character at start of value"}},
		"no quotes":           {`{"é": s3cr3t}`, []string{"1:7: no JSON: invalid character at start of value"}},
		"a bad escape":        {`{"a": "\s3cr3t"}`, []string{"1:8: no JSON: invalid escape sequence in string"}},
		"more after the end":  {"{}\n{}", []string{"2:1: there is more after the end of the object; a file is one object"}},
		"nested too deep":     {strings.Repeat("[", 200), []string{"1:102: lists and objects are nested more than 100 deep"}},
		"not in UTF-8":        {"{\n \"é\xff\": 1}", []string{"2:4: the text is not in UTF-8; save the file as UTF-8"}},
		"a name twice": {"{\"mcpServers\": {\"a\": {\"command\": \"a\"},\n \"a\": {\"command\": \"b\"}},\n \"x\": {\"y\": 1, \"y\": 2}}", []string{
			`2:2: "a" stands twice in one object, first on line 1; take one out`,
			`3:16: "y" stands twice in one object, first on line 3; take one out`,
		}},
	})
	refuses(t, "f.yaml", map[string]refusal{
		"nothing":            {"", []string{empty}},
		"comments only":      {"# a\n", []string{empty}},
		"null":               {"~", []string{empty}},
		"a text":             {"s3cr3t", []string{"1:1: the file is no object; give one with the member mcpServers, an object with each server by its name"}},
		"bad syntax":         {"a:\n  - b\n c: s3cr3t", []string{"2:1: no YAML here or near: did not find expected key"}},
		"a tab":              {"a:\n\tb: s3cr3t", []string{"2:1: no YAML here or near: found character that cannot start any token"}},
		"a second document":  {"a: 1\n---\nb: 1\n", []string{"2:1: there is a second document; a file is one"}},
		"an unknown anchor":  {"a: 1\ntoken: *s3cr3t", []string{"2:8: a * begins an alias, and there is no anchor of its name; put a text that begins with * in quotes"}},
		"an unknown tag":     {"a: !s3cr3t b", []string{"1:1: there are no servers; give mcpServers, an object with each server by its name", "1:4: a value has a tag that is not known here; take the tag out"}},
		"a name that is one": {"? [a]\n: b", []string{"1:1: there are no servers; give mcpServers, an object with each server by its name", "1:3: the name of a member must be a text"}},
		"a cycle":            {"a: &a\n  b: *a", []string{"1:4: lists and objects are nested more than 100 deep"}},
		"aliases of aliases": {bomb(), []string{"1:26: the aliases stand for more than 10000 values"}},
		"merging a text":     {"a:\n  <<: s3cr3t\nmcpServers: {a: {command: a}}", []string{"2:7: << merges objects, and this is none"}},
		"merging texts":      {"a:\n  <<: [s3cr3t]\nmcpServers: {a: {command: a}}", []string{"2:8: << merges objects, and this is none"}},
		"merging twice":      {"a:\n  <<: {b: 1}\n  <<: {c: 1}\nmcpServers: {a: {command: a}}", []string{`3:3: "<<" stands twice in one object, first on line 2; take one out`}},
		"a name twice":       {"mcpServers:\n  a: {command: a}\n  a: {command: b}", []string{`3:3: "a" stands twice in one object, first on line 2; take one out`}},
	})
	const toml = "1:1: this is TOML, as Codex has it, which is not read; write the servers as YAML or JSON"
	assert.Equal(t, []string{toml}, lines(t, "config.toml", ""))
	assert.Equal(t, []string{toml}, lines(t, "f", "# Codex\nmodel = \"x\"\n"))
	assert.Equal(t, []string{toml}, lines(t, "f", "\n[mcp_servers.\"my.srv\"]\ncommand = \"s3cr3t\"\n"))
}

// bomb are a few lines that stand for a billion values.
func bomb() string {
	var b strings.Builder
	b.WriteString("a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n")
	for c := 'b'; c < 'k'; c++ {
		fmt.Fprintf(&b, "%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10), ", "))
	}
	return b.String()
}

func TestFilesWithoutServers(t *testing.T) {
	t.Parallel()
	refuses(t, "f.json", map[string]refusal{
		"none":          {`{"a": {}}`, []string{"1:1: there are no servers; give mcpServers, an object with each server by its name"}},
		"an empty home": {`{"mcpServers": {}}`, []string{"1:2: there are no servers in mcpServers; give an object with each server by its name"}},
		"a list":        {`{"servers": [{"name": "a"}]}`, []string{"1:2: there are no servers in servers; give an object with each server by its name"}},
		"all off": {`{"mcpServers": {"a": {"command": "a", "disabled": true}}}`, []string{
			"1:2: every server in mcpServers is switched off; switch one on",
		}},
	})
}

// one is a file with one server.
func one(server string) string { return "mcpServers:\n  a: " + server }

func TestServersThatCannotBeServed(t *testing.T) {
	t.Parallel()
	const a = `server "a": `
	refuses(t, "f.yaml", map[string]refusal{
		"nothing to reach it by": {one("{args: [s3cr3t]}"), []string{"2:3: " + a + "it has neither a command nor a url; give one of them"}},
		"two ways to reach it":   {one("{command: a, serverUrl: 'https://s3cr3t'}"), []string{"2:3: " + a + "it has a command and serverUrl; take one of them out"}},
		"stdio with a url":       {one("{type: stdio, url: 'https://s3cr3t'}"), []string{"2:3: " + a + "its type does not go with what it has; a command goes with stdio, and a url with http or sse"}},
		"http with a command":    {one("{type: http, command: s3cr3t}"), []string{"2:3: " + a + "its type does not go with what it has; a command goes with stdio, and a url with http or sse"}},
		"web sockets":            {one("{type: ws, url: 'wss://s3cr3t'}"), []string{"2:13: " + a + "web sockets are not spoken; give the server's URL for streamable HTTP", "2:22: " + a + `url begins with "wss":, which is not spoken; give one that begins with https:// or http://`}},
		"another type":           {one("{type: grpc, command: a}"), []string{`2:13: ` + a + `type "grpc" is not known; it may be stdio, http or sse`}},
		"a socket's address":     {one("{url: 'unix:///run/s3cr3t'}"), []string{"2:12: " + a + `url begins with "unix":, which is not spoken; give one that begins with https:// or http://`}},
		"no address":             {one("{url: s3cr3t}"), []string{"2:12: " + a + "url is no address of a server; give for instance https://example.com/mcp"}},
		"a bad address":          {one("{url: 'https://a:s3cr3t@b:c/'}"), []string{"2:12: " + a + "url is no address of a server; give for instance https://example.com/mcp"}},
		"an address of nobody":   {one("{url: 'https:///s3cr3t'}"), []string{"2:12: " + a + "url names no host; give for instance https://example.com/mcp"}},
		"an extension":           {one("{source: extension, settings: {a: s3cr3t}}"), []string{"2:7: " + a + "a server of an extension is started by the client alone; give the server's own command"}},
		"a headers' helper":      {one("{url: 'https://a', headersHelper: /bin/s3cr3t}"), []string{"2:25: " + a + "headersHelper: a program that makes headers is not run; give headers"}},
		"a token":                {one("{url: 'https://a', bearer_token: s3cr3t}"), []string{"2:25: " + a + "bearer_token: a token does not stand in the file; name its variable in bearer_token_env_var"}},
		"a file of variables":    {one("{command: a, envFile: s3cr3t}"), []string{"2:19: " + a + "envFile: a file of variables is not read; give them in env, or their names in pass_env"}},
		"a sandbox":              {one("{command: a, sandboxEnabled: true}"), []string{"2:19: " + a + "sandboxEnabled: a client's sandbox is not made here; start the server by a sandbox's own command, or take it out"}},
		"a login":                {one("{url: 'https://a', oauth: {clientSecret: s3cr3t}}"), []string{"2:25: " + a + "oauth: there is no login here; give headers with Authorization"}},
		"itself":                 {one("{command: /opt/mcp-idem, args: [serve, f.yaml]}"), []string{"2:7: " + a + "it is mcp-idem itself; give the server's own command, or take the server out"}},
		"a text":                 {one("s3cr3t\n  b: {command: b}"), []string{`2:6: server "a" is no object; give one with command, or with url`}},
		"our block as a server":  {one("{command: a}\n  idempotency: {wait: 5s}"), []string{`3:3: server "idempotency": this would be a server; write idempotency into a server, or beside the object of all servers`}},
		"a switch that is none":  {one("{command: a, disabled: s3cr3t}"), []string{"2:29: " + a + "disabled is neither true nor false; give one of them, without quotes"}},
		"a slip of our block":    {one("{command: a, idempotancy: {}, passEnv: [A]}"), []string{"2:19: " + a + `the member "idempotancy" is not known; perhaps idempotency is meant`, "2:36: " + a + `the member "passEnv" is not known; perhaps pass_env is meant`}},
	})
}

func TestValuesThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	const a = `server "a": `
	refuses(t, "f.yaml", map[string]refusal{
		"an empty command":        {one("{command: ''}"), []string{"2:16: " + a + "command is empty; give a value, or leave it out"}},
		"an empty list":           {one("{command: []}"), []string{"2:16: " + a + "command is empty; give the program and its arguments"}},
		"an object without path":  {one("{command: {args: [s3cr3t]}}"), []string{"2:16: " + a + "command has no path; give the program"}},
		"a home of the shell's":   {one("{command: ~/s3cr3t}"), []string{"2:16: " + a + "command begins with ~, which only a shell knows; write ${HOME}"}},
		"arguments as a text":     {one("{command: a, args: s3cr3t}"), []string{"2:25: " + a + `args is no list; give one: ["a", "b"]`}},
		"arguments twice":         {one("{command: [a, s3cr3t], args: [s3cr3t]}"), []string{"2:35: " + a + "the arguments are given twice, in the command too; take one of them out"}},
		"an argument that is one": {one("{command: a, args: [b, {c: s3cr3t}]}"), []string{"2:29: " + a + "args[1] is no text; give one, in quotes"}},
		"env as a list":           {one("{command: a, env: [A=s3cr3t]}"), []string{"2:24: " + a + "env is no object; give one of variables by their names"}},
		"a variable of no value":  {one("{command: a, env: {A: }}"), []string{"2:28: " + a + `env.A has no value; give one, or "" for an empty one`}},
		"a variable's bad name":   {one("{command: a, env: {'A=B': s3cr3t}}"), []string{"2:25: " + a + "env: the name of a variable is empty, or has = in it"}},
		"a variable twice":        {one("{command: a, env: {A: b}, environment: {A: s3cr3t}}"), []string{"2:46: " + a + "environment: A is given twice; take one out"}},
		"a NUL":                   {one("{command: a, args: ['${NUL}']}"), []string{"2:26: " + a + "args[0] has a NUL character in it; take it out"}},
		"names as a text":         {one("{command: a, pass_env: A}"), []string{"2:29: " + a + "pass_env is no list; give one of the names of variables"}},
		"a name with a value":     {one("{command: a, pass_env: [A=s3cr3t]}"), []string{"2:30: " + a + "pass_env[0] is no name of a variable"}},
		"a variable of elsewhere": {one("{command: a, env_vars: [{name: A, source: remote}]}"), []string{"2:40: " + a + "env_vars[0]: a variable comes from here; take its source out"}},
		"a URL as a list":         {one("{url: [s3cr3t]}"), []string{"2:12: " + a + "url is no text; give one, in quotes"}},
		"a token of no name":      {one("{url: 'https://a', bearer_token_env_var: ''}"), []string{"2:47: " + a + "bearer_token_env_var is empty; give a value, or leave it out"}},
		"pass_env of a URL":       {one("{url: 'https://a', pass_env: [A]}"), []string{"2:25: " + a + "pass_env is for a server that is started by a command; take it out"}},
		"headers as a list":       {one("{url: 'https://a', headers: [s3cr3t]}"), []string{"2:34: " + a + "headers is no object; give one of headers by their names"}},
		"no header's name":        {one("{url: 'https://a', headers: {'a b': s3cr3t}}"), []string{"2:35: " + a + `headers: "a b" is no name of a header`}},
		"the host":                {one("{url: 'https://a', headers: {host: s3cr3t}}"), []string{"2:35: " + a + "headers: the host is that of the URL; put it there"}},
		"a header twice":          {one("{url: 'https://a', headers: {X-A: b, x-a: s3cr3t}}"), []string{"2:43: " + a + "headers: x-a is given twice; take one out"}},
		"a header's bad value":    {one("{url: 'https://a', headers: {X-A: '${LINES}'}}"), []string{"2:35: " + a + "headers: the value of X-A has a character that no header may have"}},
		"a token that is not set": {one("{url: 'https://a', bearer_token_env_var: s3cr3t}"), []string{"2:47: " + a + "bearer_token_env_var: the variable it names is not set"}},
	})
}

func TestVariablesThatAreNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"${UNSET}":           "the variable UNSET is not set; set it, or write ${UNSET:-default}",
		"${env:UNSET}":       "the variable UNSET is not set; set it, or write ${UNSET:-default}",
		"${workspaceFolder}": "the variable workspaceFolder is not set; set it, or write ${workspaceFolder:-default}",
		"${input:s3cr3t}":    "${input:…} is a variable that only a client knows; write ${VAR}, ${env:VAR} or ${VAR:-default}",
		"${file:/s3cr3t}":    "${file:…} is a variable that only a client knows; write ${VAR}, ${env:VAR} or ${VAR:-default}",
		"${env:}":            "a ${ begins no variable; write ${VAR}, ${env:VAR} or ${VAR:-default}",
		"${TOKEN":            "a ${ begins no variable; write ${VAR}, ${env:VAR} or ${VAR:-default}",
		"${}":                "a ${ begins no variable; write ${VAR}, ${env:VAR} or ${VAR:-default}",
		"${s3cr3t-x}":        "a ${ begins no variable; write ${VAR}, ${env:VAR} or ${VAR:-default}",
		"${TOKEN:-${HOME}}":  "the default of ${TOKEN} has a variable in it; a default is a plain text",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			got := lines(t, "f.json", "{\"mcpServers\": {\"a\": {\"command\": \"a\",\n\"env\": {\"K\": \"s3cr3t"+text+"\"}}}}")
			assert.Equal(t, []string{`2:14: server "a": env.K: ` + want}, got)
		})
	}
	t.Run("as opencode writes them", func(t *testing.T) {
		t.Parallel()
		got := lines(t, "f.json", `{"mcp": {"a": {"type": "remote", "url": "https://a", "headers": {"X": "s3cr3t {env:TOKEN}"}}}}`)
		assert.Equal(t, []string{`1:71: server "a": headers.X: {env:VAR} and {file:PATH} are only opencode's; write ${VAR}, ${env:VAR} or ${VAR:-default}`}, got)
	})
}

func TestNamesThatCannotBeginTheNamesOfTools(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"my server":             "may have letters, digits, - and _; call it for instance my_server",
		"my.srv/x":              "may have letters, digits, - and _; call it for instance my_srv_x",
		"@a/b":                  "may have letters, digits, - and _; call it for instance a_b",
		"é":                     "may have letters, digits, - and _; call it for instance server",
		"a__b":                  "may have no __ in it and no _ at its end; call it for instance a_b",
		"a_":                    "may have no __ in it and no _ at its end; call it for instance a",
		strings.Repeat("a", 33): "may have 32 characters; call it for instance " + strings.Repeat("a", 32),
		"":                      "may have letters, digits, - and _; call it for instance server",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := lines(t, "f.json", fmt.Sprintf("{\"mcpServers\":\n {%q: {\"command\": \"a\"}}}", name))
			assert.Equal(t, []string{fmt.Sprintf("2:3: the name %q begins the names of its tools, and %s", name, want)}, got)
		})
	}
}

func top(settings string) string {
	return "idempotency: " + settings + "\nmcpServers: {a: {command: a}}"
}

func own(settings string) string {
	return "mcpServers:\n  a:\n    command: a\n    idempotency: " + settings
}

func TestSettingsThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	const a = `server "a": `
	const all = "allow_origin, ambiguous_texts, call_timeout, era, http, input_window, keys, late_start, late_window, ledger, log_format, log_level, max_body, " +
		"namespace, near_duplicate_window, nothing_happened_texts, on_problem, process, refusal_texts, session_idle, start_timeout, strict_codes, " +
		"token_file, trust_annotations, upstream_window, wait, window"
	refuses(t, "f.yaml", map[string]refusal{
		"no object":              {top("strict"), []string{"1:14: idempotency is no object; give its members, or leave it out"}},
		"a slip":                 {top("{call_timout: 5s, callTimeout: 5s}"), []string{`1:15: idempotency has no member "call_timout"; perhaps call_timeout is meant`, `1:32: idempotency has no member "callTimeout"; perhaps call_timeout is meant`}},
		"a member of nothing":    {own("{tools: {a: {colour: red}}}"), []string{`4:31: ` + a + `a tool has no member "colour"; it may have ambiguous_texts, call_timeout, check, class, native_key, near_duplicate, nothing_happened_texts, on_cancel, refusal_texts, strict_codes, upstream_window, window`}},
		"no value":               {top("{wait: }"), []string{"1:21: wait has no value; give one, or leave it out"}},
		"days":                   {top("{window: 7d}"), []string{`1:23: window: "7d" is no length of time; there is no unit for days; give 168h`}},
		"a bare number":          {top("{wait: 25}"), []string{`1:21: wait: "25" is no length of time; give for instance 90s, 10m or 168h`}},
		"no time at all":         {top("{wait: 0s}"), []string{`1:21: wait: "0s" is no length of time that anything fits into; give for instance 30s`}},
		"less than nothing":      {top("{late_window: -1s}"), []string{`1:28: late_window: "-1s" is less than nothing; give for instance 1h, or 0 for not at all`}},
		"a value of a variable":  {top("{wait: '${BAD_SPAN}'}"), []string{`1:21: wait: "${BAD_SPAN}" is no length of time; give for instance 90s, 10m or 168h`}},
		"a word of none":         {top("{keys: modle}"), []string{`1:21: keys: "modle" is none of model, harness, either; perhaps model is meant`}},
		"another word":           {top("{era: stone}"), []string{`1:20: era: "stone" is none of auto, legacy, modern; give one of them`}},
		"a level":                {top("{log_level: trace}"), []string{`1:26: log_level: "trace" is none of debug, info, warn, error, disabled; give one of them`}},
		"a port alone":           {top("{http: 7423}"), []string{`1:21: http: "7423" is no address to listen on; give for instance 127.0.0.1:7423`}},
		"a port of no size":      {top("{http: 'localhost:70000'}"), []string{`1:21: http: "localhost:70000" is no address to listen on; give for instance 127.0.0.1:7423`}},
		"no size":                {top("{max_body: 4MB}"), []string{`1:25: max_body: "4MB" is no number of bytes; give a whole one above 0, for instance 4194304`}},
		"a size of nothing":      {top("{max_body: 0}"), []string{`1:25: max_body: "0" is no number of bytes; give a whole one above 0, for instance 4194304`}},
		"no origin":              {top("{allow_origin: ['https://a/']}"), []string{`1:30: allow_origin: "https://a/" is not what a browser sends as Origin; give for instance https://app.example or http://localhost:6274`}},
		"no origins":             {top("{allow_origin: a}"), []string{"1:29: allow_origin is no list; give one of origins"}},
		"no truth":               {top("{strict_codes: 1}"), []string{"1:29: strict_codes is neither true nor false; give one of them, without quotes"}},
		"no patterns":            {top("{refusal_texts: a}"), []string{"1:30: refusal_texts is no list; give one of regular expressions"}},
		"no pattern":             {top("{refusal_texts: ['(', '']}"), []string{`1:31: refusal_texts: "(" is no regular expression; see https://pkg.go.dev/regexp/syntax`, "1:36: refusal_texts is empty; give a value, or leave it out"}},
		"an empty ledger":        {top("{ledger: ''}"), []string{"1:23: ledger is empty; give a value, or leave it out"}},
		"a ledger's variable":    {top("{ledger: 'postgres://s3cr3t@${UNSET}'}"), []string{"1:23: ledger: the variable UNSET is not set; set it, or write ${UNSET:-default}"}},
		"an account of all":      {top("{account: a}"), []string{"1:15: idempotency has no member account; it holds for one server; write it into the idempotency of that server"}},
		"tools of all":           {top("{tools: {}}"), []string{"1:15: idempotency has no member tools; it holds for one server; write it into the idempotency of that server"}},
		"a class of all":         {top("{class: READ_ONLY}"), []string{"1:15: idempotency has no member class; it holds for tools; write tools: {GLOB: {…}} into the idempotency of their server, and it there"}},
		"a ledger of one":        {own("{ledger: s3cr3t}"), []string{"4:19: " + a + "idempotency has no member ledger; it holds for all servers together; write it into the idempotency beside the servers"}},
		"a name of one":          {own("{name: b}"), []string{"4:19: " + a + "idempotency has no member name; a server's name is that of its member in mcpServers"}},
		"a URL of one":           {own("{url: 'https://s3cr3t'}"), []string{"4:19: " + a + "idempotency has no member url; it is a member of the server itself; write it beside idempotency"}},
		"tools as a list":        {own("{tools: [a]}"), []string{"4:26: " + a + "tools is no object; give one with a tool's name or a glob before each of its members"}},
		"no glob":                {own("{tools: {'[a': {}}}"), []string{`4:27: ` + a + `"[a" is no glob; give a tool's name, or one with * and ? in it`}},
		"a class of none":        {own("{tools: {a: {class: READONLY}}}"), []string{"4:38: " + a + `class: "READONLY" is none of READ_ONLY, UNGUARDED, SAFE_RETRY, DEDUPLICATE, REQUIRES_EFFECT_CHECK, NON_RETRYABLE; perhaps READ_ONLY is meant`}},
		"no native key":          {own("{tools: {a: {native_key: .x}}}"), []string{"4:43: " + a + `native_key: ".x" is no path to a property; give for instance body.idempotency_key, or none`}},
		"keys of a tool":         {own("{tools: {a: {keys: model}}}"), []string{"4:31: " + a + "a tool has no member keys; it holds for all tools of a server; write it into the idempotency of the server"}},
		"a namespace of a tool":  {own("{tools: {a: {namespace: b}}}"), []string{"4:31: " + a + "a tool has no member namespace; it holds for all servers together; write it into the idempotency beside the servers"}},
		"a slip within a check":  {own("{tools: {a: {check: {tol: b}}}}"), []string{"4:38: " + a + "effect checks are not there yet; take check out, and settle what is unknown with mcp-idem ledger resolve", `4:39: ` + a + `check has no member "tol"; perhaps tool is meant`}},
		"variables for all":      {"pass_env: [A]\n" + one("{command: a}"), []string{"1:1: pass_env is a member of a server; write it into those that get the variables"}},
		"a long text":            {top("{era: " + strings.Repeat("e", 50) + "}"), []string{`1:20: era: "` + strings.Repeat("e", 40) + `…" is none of auto, legacy, modern; give one of them`}},
		"a long name":            {top("{" + strings.Repeat("e", 70) + ": 1}"), []string{`1:15: idempotency has no member "` + strings.Repeat("e", 70) + `"; it may have ` + all}},
		"words of no kind":       {top("{wait: [], keys: {}, max_body: [], http: {}}"), []string{"1:21: wait is no text; give one, in quotes", "1:31: keys is no text; give one, in quotes", "1:45: max_body is no text; give one, in quotes", "1:55: http is no text; give one, in quotes"}},
		"a slip beside the rest": {"idempotancy: {}\n" + one("{command: a}"), []string{`1:1: the member "idempotancy" is not known; perhaps idempotency is meant`}},
	})
}

func TestChecksAreRefusedUntilThereIsSomethingThatRunsThem(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/checked.yaml")
	require.NoError(t, err)
	assert.Equal(t, []string{
		`15:13: server "github": effect checks are not there yet; take check out, and settle what is unknown with mcp-idem ledger resolve`,
	}, lines(t, "checked.yaml", string(text)))
}

func TestAllErrorsOfAFileAreToldAtOnceInItsOrder(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{
		`2:9: wait: "a" is no length of time; give for instance 90s, 10m or 168h`,
		`4:3: server "x": it has neither a command nor a url; give one of them`,
		`5:3: server "y": it has a command and url; take one of them out`,
	}, lines(t, "f.yaml", "idempotency:\n  wait: a\nmcpServers:\n  x: {}\n  y: {command: a, url: 'https://s3cr3t'}"))

	var many strings.Builder
	many.WriteString("mcpServers:\n")
	for i := range 30 {
		fmt.Fprintf(&many, "  s%d: {}\n", i)
	}
	_, err := config.Parse([]byte(many.String()), "f.yaml", root(t), environment)
	all := strings.Split(err.Error(), "\n")
	require.Len(t, all, 20)
	assert.Equal(t, `f.yaml:20:3: server "s18": it has neither a command nor a url; give one of them`, all[18])
	assert.Equal(t, "f.yaml: 11 more errors are not shown", all[19])
}

func TestErrorsSayWhereTheyAre(t *testing.T) {
	t.Parallel()
	_, err := config.Parse([]byte("mcpServers: {a: {}}"), "f.yaml", root(t), environment)
	var first *config.Error
	require.True(t, errors.As(err, &first))
	assert.Equal(t, config.Error{File: "f.yaml", Line: 1, Column: 14, Problem: `server "a": it has neither a command nor a url; give one of them`}, *first)
}

func TestNotes(t *testing.T) {
	t.Parallel()
	file, err := config.Parse([]byte(`{
  "mcpServers": {
    "a": {"url": "https://a", "args": [], "env": {"K": "s3cr3t"}},
    "b": {"command": "b", "headers": {"K": "s3cr3t"}}
  },
  "servers": {"c": {"command": "c"}}
}`), "f.json", root(t), environment)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"f.json:6:3: the servers in servers are not read, since there are some in mcpServers",
		`f.json:3:43: server "a": env does nothing: the server is reached by a URL`,
		`f.json:4:27: server "b": headers does nothing: the server is reached by a command`,
	}, file.Notes)
}
