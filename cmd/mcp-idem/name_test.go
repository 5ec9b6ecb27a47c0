package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestUpstreamName(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"npx -y @modelcontextprotocol/server-memory":                     "@modelcontextprotocol/server-memory",
		"npx -y @modelcontextprotocol/server-memory@2026.8.31 --x":       "@modelcontextprotocol/server-memory",
		"npx --yes --registry http://r some-server@latest dir":           "some-server",
		"npx --package=@a/b@1.2 -- c":                                    "@a/b",
		"npx -p @a/b c":                                                  "@a/b",
		"npm exec --yes -- @a/b@3 x":                                     "@a/b",
		"npm run start":                                                  "npm",
		"pnpm dlx @a/b@3":                                                "@a/b",
		"bunx server":                                                    "server",
		"uvx mcp-server-git==1.2 --repository .":                         "mcp-server-git",
		"uvx --from git-server@1.2 mcp-git":                              "git-server",
		"uvx mcp-server[extra]>=2":                                       "mcp-server",
		"uv tool run mcp-server-time":                                    "mcp-server-time",
		"pipx run mcp-server-time":                                       "mcp-server-time",
		"docker run -i --rm -e TOKEN -v /a:/b ghcr.io/github/server:1.2": "ghcr.io/github/server",
		"docker run --env=TOKEN=s3cret reg:5000/team/server@sha256:0abc": "reg:5000/team/server",
		"docker ps":                                      "docker",
		`C:\node\npx.cmd -y server@1`:                    "server",
		"/usr/bin/node /srv/mail/index.js --port 1":      "node /srv/mail/index.js",
		"python3 server.py":                              "python3 server.py",
		"./postgres-mcp postgresql://app:s3cret@db/prod": "postgres-mcp",
		"./mcp --api-key c2VjcmV0/dG9rZW4= run":          "mcp",
		"./mcp --config=/etc/passwd sk_live_51H.abcdef":  "mcp",
		"npx": "npx",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, want, upstreamName(strings.Fields(command)))
		})
	}
}

func TestPlainEscapesWhatDeceives(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"refund ü €":      "refund ü €",
		"a\x1b[31mb":      `a\x1b[31mb`,
		"a\nb":            `a\nb`,
		"a\u202eb\u200bc": `a\u202eb\u200bc`,
		"a\x9bb":          `a\x9bb`,
		"a\u009bb":        `a\u009bb`,
		"a\ufffdb":        "a\ufffdb",
	} {
		assert.Equal(t, want, plain(text))
	}
}
