package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changes are what a source becomes, without its first line.
func changes(t *testing.T, code string) (list []string) {
	t.Helper()
	const head = "package p\n"
	mutants, err := mutate("p.go", []byte(head+code))
	require.NoError(t, err)
	for _, m := range mutants {
		_, err := parser.ParseFile(token.NewFileSet(), "p.go", m.changed(), 0)
		require.NoError(t, err, "it can be read: %s", m.changed())
		list = append(list, strings.TrimPrefix(string(m.changed()), head))
	}
	return list
}

func TestEachPlaceIsChangedAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code string
		want []string
	}{
		"an equality":         {"var a = b == c", []string{"var a = b != c"}},
		"an order, both ways": {"var a = b < c", []string{"var a = b >= c", "var a = b <= c"}},
		"a conjunction":       {"var a = b && c", []string{"var a = b", "var a = c"}},
		"a negation":          {"var a = !b", []string{"var a = b"}},
		"a truth":             {"var a = true", []string{"var a = false"}},
		"an if's body":        {"func f() {\n\tif a {\n\t\treturn\n\t}\n}", []string{"func f() {\n\tif a {}\n}"}},
		"a call":              {"func f() {\n\tg()\n}", []string{"func f() {\n\t\n}"}},
		"an assignment":       {"func f() {\n\ta = b\n}", []string{"func f() {\n\t\n}"}},
		"a case":              {"func f() {\n\tswitch {\n\tcase a:\n\t\treturn\n\t}\n}", []string{"func f() {\n\tswitch {\n\t\n\t}\n}"}},
		"a row of a table": {
			"var a = []m{\n\t{Row: 1, To: Running, Closed: true, Doubt: b},\n}",
			[]string{
				"var a = []m{\n\t\n}",
				"var a = []m{\n\t{Row: 1+1, To: Running, Closed: true, Doubt: b},\n}",
				"var a = []m{\n\t{Row: 1, To: Unknown, Closed: true, Doubt: b},\n}",
				"var a = []m{\n\t{Row: 1, To: Running,  Doubt: b},\n}",
				"var a = []m{\n\t{Row: 1, To: Running, Closed: true},\n}",
				"var a = []m{\n\t{Row: 1, To: Running, Closed: false, Doubt: b},\n}",
			},
		},
		"nothing": {"var a = b + c", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, changes(t, c.code))
		})
	}
	_, err := mutate("p.go", []byte("no go"))
	require.Error(t, err)
}

func TestAChangeSaysWhereItIs(t *testing.T) {
	t.Parallel()
	mutants, err := mutate("dedup/p.go", []byte("package p\nfunc f() {\n\tg(\n\t\t1)\n}"))
	require.NoError(t, err)
	require.Len(t, mutants, 1)
	assert.Equal(t, "dedup/p.go:3: g( 1) → nothing", mutants[0].String())
	assert.Equal(t, strings.Repeat("ä", 90)+"…", brief(strings.Repeat("ä", 91)))
}

func TestSpreadIsEven(t *testing.T) {
	t.Parallel()
	all := []mutant{{line: 0}, {line: 1}, {line: 2}, {line: 3}, {line: 4}, {line: 5}}
	assert.Equal(t, []mutant{{line: 0}, {line: 2}, {line: 4}}, spread(all, 3))
	assert.Equal(t, all, spread(all, 0))
	assert.Equal(t, all, spread(all, 7))
}
