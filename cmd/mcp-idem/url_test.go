package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/upstream"
)

func TestAServerBehindAURLIsCalledByHostAndPath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://Example.com/mcp":                 "example.com/mcp",
		"http://example.com:8080":                 "example.com:8080",
		"https://user:secret@example.com/a/b/":    "example.com/a/b",
		"https://example.com/mcp?key=secret#part": "example.com/mcp",
		"https://example.com/a%2Fb":               "example.com/a%2Fb",
	} {
		name, err := urlName(text)
		require.NoError(t, err)
		assert.Equal(t, want, name)
	}
	for _, text := range []string{"", "example.com/mcp", "ftp://example.com", "https://", "://x", "https://user:secret@/mcp?key=secret"} {
		_, err := urlName(text)
		require.ErrorContains(t, err, "--url: ", text)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestHeadersAreExpandedFromTheEnvironment(t *testing.T) {
	t.Setenv("TOKEN", "s3cret")
	t.Setenv("EMPTY", "")
	t.Setenv("ODD", "a${b}")
	for line, want := range map[string]string{
		"Authorization: Bearer ${TOKEN}":         "Bearer s3cret",
		"authorization:${env:TOKEN}":             "s3cret",
		"Authorization: ${NONE_OF_IT:-fallback}": "fallback",
		"Authorization: ${NONE_OF_IT:-}":         "",
		"Authorization: ${EMPTY}":                "",
		"Authorization: ${ODD}":                  "a${b}",
		"Authorization: $TOKEN {TOKEN}":          "$TOKEN {TOKEN}",
	} {
		header, err := parseHeaders([]string{line})
		require.NoError(t, err, line)
		assert.Equal(t, want, header.Get("Authorization"), line)
	}
	header, err := parseHeaders([]string{"X-A: 1", "x-a: 2"})
	require.NoError(t, err)
	assert.Equal(t, []string{"1", "2"}, header.Values("X-A"))
	for line, want := range map[string]string{
		"Bearer ${TOKEN}":            "--header number 1 is not of the form",
		"A B: ${TOKEN}":              "--header number 1 is not of the form",
		"X-A: ${NONE_OF_IT}":         "--header X-A: the variable NONE_OF_IT is not set",
		"X-A: ${input:x} ${TOKEN}":   "--header X-A: ${input:…} is a variable that only a client knows",
		"X-A: ${TOKEN}\r\nX-B: more": "--header X-A: its value has a character",
	} {
		_, err := parseHeaders([]string{line})
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "s3cret")
	}
}

func TestHowAServerSpeaksIsRemembered(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	m := newEraMemory(zerolog.Nop())
	assert.Equal(t, upstream.EraAuto, m.known("a"))
	m.remember("a", upstream.EraModern)
	m.remember("b", upstream.EraLegacy)
	m = newEraMemory(zerolog.Nop())
	assert.Equal(t, upstream.EraModern, m.known("a"))
	assert.Equal(t, upstream.EraLegacy, m.known("b"))
	files, err := filepath.Glob(filepath.Join(filepath.Dir(m.file), "*"))
	require.NoError(t, err)
	assert.Equal(t, []string{m.file}, files, "nothing else is left")

	require.NoError(t, os.WriteFile(m.file, []byte(`{"a":"never"`), 0o600))
	assert.Equal(t, upstream.EraAuto, m.known("a"), "what cannot be read is found out again")
	m.remember("a", upstream.EraLegacy)
	assert.Equal(t, upstream.EraLegacy, m.known("a"))
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	none := newEraMemory(zerolog.Nop())
	none.remember("a", upstream.EraModern)
	assert.Equal(t, upstream.EraAuto, none.known("a"))
}
