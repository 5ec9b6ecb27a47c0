package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// A mutant is a source file with one place changed.
type mutant struct {
	file     string
	source   []byte
	line     int
	from, to int // the bytes that are replaced
	by       string
}

func (m mutant) changed() []byte {
	return slices.Concat(m.source[:m.from], []byte(m.by), m.source[m.to:])
}

// String says where the change is, and what it is.
func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s → %s", m.file, m.line, brief(string(m.source[m.from:m.to])), brief(m.by))
}

func brief(code string) string {
	code = strings.Join(strings.Fields(code), " ")
	if runes := []rune(code); len(runes) > 90 {
		return string(runes[:90]) + "…"
	}
	if code == "" {
		return "nothing"
	}
	return code
}

// A mutator finds the places of one file.
type mutator struct {
	file   string
	source []byte
	set    *token.FileSet
	found  []mutant
}

// mutate returns every change of a source file that this command knows to make.
func mutate(file string, source []byte) ([]mutant, error) {
	m := &mutator{file: file, source: source, set: token.NewFileSet()}
	tree, err := parser.ParseFile(m.set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		m.visit(n)
		return true
	})
	return m.found, nil
}

// replace notes a change.
func (m *mutator) replace(from, to token.Pos, by string) {
	start := m.set.Position(from)
	m.found = append(m.found, mutant{m.file, m.source, start.Line, start.Offset, m.set.Position(to).Offset, by})
}

func (m *mutator) text(n ast.Node) string {
	return string(m.source[m.set.Position(n.Pos()).Offset:m.set.Position(n.End()).Offset])
}

func (m *mutator) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.ValueSpec:
		m.table(n)
	case *ast.BinaryExpr:
		m.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			m.replace(n.OpPos, n.X.Pos(), "")
		}
	case *ast.IfStmt:
		m.replace(n.Body.Pos(), n.Body.End(), "{}")
	case *ast.CaseClause:
		m.replace(n.Pos(), n.End(), "")
	case *ast.Ident:
		if other, ok := opposite[n.Name]; ok {
			m.replace(n.Pos(), n.End(), other)
		}
	case *ast.BlockStmt:
		m.statements(n.List)
	}
}

var opposite = map[string]string{"true": "false", "false": "true"}

// comparisons are what takes the place of a comparison: its negation, and its
// neighbour at the edge.
var comparisons = map[token.Token][]string{
	token.EQL: {"!="}, token.NEQ: {"=="},
	token.LSS: {">=", "<="}, token.GEQ: {"<", ">"},
	token.GTR: {"<=", ">="}, token.LEQ: {">", "<"},
}

func (m *mutator) binary(n *ast.BinaryExpr) {
	for _, other := range comparisons[n.Op] {
		m.replace(n.OpPos, n.Y.Pos(), other+" ")
	}
	if n.Op == token.LAND || n.Op == token.LOR {
		m.replace(n.Pos(), n.End(), m.text(n.X))
		m.replace(n.Pos(), n.End(), m.text(n.Y))
	}
}

// statements drops calls and assignments. What a deferred call does is for tests
// of its own.
func (m *mutator) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt:
			m.replace(s.Pos(), s.End(), "")
		case *ast.AssignStmt:
			if s.Tok == token.ASSIGN {
				m.replace(s.Pos(), s.End(), "")
			}
		}
	}
}

// table changes the table of moves: a row that is missing, that leads elsewhere,
// that has another number or lacks a condition; and a list of the rows that a
// condition names.
func (m *mutator) table(spec *ast.ValueSpec) {
	for i, value := range spec.Values {
		list, ok := value.(*ast.CompositeLit)
		if !ok || len(spec.Names) <= i {
			continue
		}
		for _, element := range list.Elts {
			row, ok := element.(*ast.CompositeLit)
			if !ok {
				continue
			}
			m.replace(row.Pos(), row.End()+1, "") // with its comma
			for _, member := range row.Elts {
				m.member(row, member.(*ast.KeyValueExpr))
			}
		}
	}
}

var elsewhere = map[string][]string{
	"Running": {"Unknown"}, "AwaitingInput": {"Unknown"}, "Completed": {"Unknown", "Released"},
	"Unknown": {"Released", "Completed"}, "Released": {"Unknown", "Completed"},
}

func (m *mutator) member(row *ast.CompositeLit, member *ast.KeyValueExpr) {
	value := m.text(member.Value)
	switch m.text(member.Key) {
	case "To":
		for _, other := range elsewhere[value] {
			m.replace(member.Value.Pos(), member.Value.End(), other)
		}
	case "Row":
		m.replace(member.Value.Pos(), member.Value.End(), value+"+1")
	case "NewAttempt", "Closed", "After", "Doubt":
		last := row.Elts[len(row.Elts)-1] == ast.Expr(member)
		if last { // with the comma before it
			m.replace(row.Elts[len(row.Elts)-2].End(), member.End(), "")
		} else {
			m.replace(member.Pos(), member.End()+1, "")
		}
	}
}
