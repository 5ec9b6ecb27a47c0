// Package lint holds the project to rules that the compiler does not know.
package lint

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/mcp-idem/mcp-idem/"

// A rule says what the packages under a folder may not import.
type rule struct {
	folder string   // of the importing package, "" for all
	except []string // folders to which the rule does not apply
	banned []string // prefixes of import paths
	why    string
}

var rules = []rule{
	{folder: "toolschema", banned: []string{module + "dedup", module + "upstream", module + "gateway", module + "cmd"}, why: "the leaves do not know each other"},
	{folder: "dedup", banned: []string{module + "toolschema", module + "upstream", module + "gateway", module + "cmd"}, why: "the leaves do not know each other"},
	{folder: "upstream", banned: []string{module + "toolschema", module + "dedup", module + "gateway", module + "cmd"}, why: "the leaves do not know each other"},
	{folder: "gateway", banned: []string{module + "cmd", module + "dedup/sqlite"}, why: "which store there is, the command decides"},
	{folder: "internal/jsonrpc", banned: []string{module + "toolschema", module + "dedup", module + "upstream", module + "gateway"}, why: "it is below them"},
	{folder: "internal/rawjson", banned: []string{module}, why: "it is below everything"},
	{except: []string{"cmd", "gateway"}, banned: []string{"github.com/rs/zerolog"}, why: "leaves return errors and tell observers; they do not log"},
	{except: []string{"dedup/sqlite"}, banned: []string{"modernc.org/sqlite", "database/sql"}, why: "SQL is the store's alone"},
	{folder: "dedup", except: []string{"dedup/sqlite"}, banned: []string{"github.com/mark3labs", "net/http", "encoding/json"}, why: "the ledger knows no MCP, no HTTP, and never decodes a result"},
}

func TestImports(t *testing.T) {
	t.Parallel()
	for file, imports := range importsOf(t, "../..") {
		folder := path.Dir(file)
		for _, r := range rules {
			if !within(folder, r.folder) || excepted(folder, r.except) || strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, imported := range imports {
				for _, banned := range r.banned {
					assert.False(t, strings.HasPrefix(imported, banned), "%s imports %s: %s", file, imported, r.why)
				}
			}
		}
	}
}

func within(folder, parent string) bool {
	return parent == "" || folder == parent || strings.HasPrefix(folder, parent+"/")
}

func excepted(folder string, except []string) bool {
	for _, e := range except {
		if within(folder, e) {
			return true
		}
	}
	return false
}

// importsOf lists the imports of every Go file below root, by its slashed path.
func importsOf(t *testing.T, root string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".go" {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			found[filepath.ToSlash(name)] = append(found[filepath.ToSlash(name)], imported)
		}
		return nil
	}))
	require.NotEmpty(t, found)
	return found
}
