package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/config"
)

// seed gives a fuzz target the files that there are.
func seed(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.*")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(text)
	}
}

// FuzzParse holds that there is a file with servers or an error that says where, never
// both or a panic, and that neither tells the value of a variable.
func FuzzParse(f *testing.F) {
	seed(f)
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("[a]\nb = 1"))
	f.Add([]byte(bomb()))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, name := range []string{"f.json", "f.yaml", "f"} {
			file, err := config.Parse(text, name, root(t), environment)
			if err == nil {
				require.NotEmpty(t, file.Servers)
				require.NotContains(t, strings.Join(file.Notes, "\n"), secret)
				continue
			}
			require.Nil(t, file)
			require.NotContains(t, err.Error(), secret)
			for _, line := range strings.Split(err.Error(), "\n") {
				require.True(t, strings.HasPrefix(line, name+":"), "%q does not say where", line)
			}
			var first *config.Error
			require.True(t, errors.As(err, &first))
		}
	})
}

// FuzzYAMLAgrees holds that JSON says the same as YAML, which it is a part of.
func FuzzYAMLAgrees(f *testing.F) {
	seed(f)
	f.Add([]byte(`{"mcpServers": {"a": {"command": "a", "args": [1e5, -0, 1E400, "\u0085é\ud83d\ude00"], "env": {"<<": true, "~": null}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		text, ok := asBoth(text)
		if !ok {
			return
		}
		asJSON, wrongJSON := config.Parse(text, "f.json", root(t), environment)
		asYAML, wrongYAML := config.Parse(text, "f.yaml", root(t), environment)
		if wrongJSON != nil {
			require.Error(t, wrongYAML, "%s", text)
			assert.Equal(t, wrongJSON.Error(), strings.ReplaceAll(wrongYAML.Error(), "f.yaml:", "f.json:"), "%s", text)
			return
		}
		require.NoError(t, wrongYAML, "%s", text)
		for i, note := range asYAML.Notes {
			asYAML.Notes[i] = strings.Replace(note, "f.yaml:", "f.json:", 1)
		}
		assert.Equal(t, asJSON, asYAML, "%s", text)
	})
}

// asBoth writes JSON so that it is YAML too: on one line, without the escapes that
// YAML lacks (surrogates, \/) and without characters that have to be escaped there.
// YAML has no names of more than 1,024 characters (section 7.4.2).
func asBoth(text []byte) ([]byte, bool) {
	const longest = 1000
	var out bytes.Buffer
	dec := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	kind, parts := make([]jsontext.Kind, 0, 8), make([]int, 0, 8)
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, false
		}
		if k := token.Kind(); k == jsontext.KindEndObject || k == jsontext.KindEndArray {
			kind, parts = kind[:len(kind)-1], parts[:len(parts)-1]
		} else if depth := len(kind); depth > 0 {
			switch n := parts[depth-1]; {
			case kind[depth-1] == jsontext.KindBeginObject && n%2 == 1:
				out.WriteString(": ")
			case n > 0:
				out.WriteString(", ")
			}
			parts[depth-1]++
		}
		switch k := token.Kind(); k {
		case jsontext.KindString:
			quoted := quote(token.String())
			if len(quoted) > longest {
				return nil, false
			}
			out.WriteString(quoted)
		case jsontext.KindBeginObject, jsontext.KindBeginArray:
			kind, parts = append(kind, k), append(parts, 0)
			out.WriteString(token.String())
		default:
			out.WriteString(token.String())
		}
		if len(kind) == 0 {
			return out.Bytes(), true
		}
	}
}

func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r <= 0xffff && (r == 0xfeff || !unicode.IsPrint(r)):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}
