package main

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// root is the project's folder.
const root = "../.."

// TestPointsOfFailureHaveTests holds the tables of what can fail in docs/guarantees.md
// against the tests that there are. Each row names one at least, each name is one, and
// each test here that kills a gateway at a step is named.
func TestPointsOfFailureHaveTests(t *testing.T) {
	t.Parallel()
	tests := testsOfTheTree(t)
	named, rows := map[string]bool{}, 0
	name := regexp.MustCompile("`(Test[^`]*)`")
	for _, row := range pointsOfFailure(t) {
		rows++
		cells := strings.Split(row, "|")
		found := name.FindAllStringSubmatch(cells[len(cells)-2], -1)
		assert.NotEmpty(t, found, "a row without a test: %s", row)
		for _, match := range found {
			named[match[1]] = true
			assert.True(t, tests[match[1]], "%s is no test: %s", match[1], row)
		}
	}
	require.NotZero(t, rows)
	for test := range tests {
		if strings.HasPrefix(test, "TestKilledBefore") || strings.HasPrefix(test, "TestKilledAfter") || strings.HasPrefix(test, "TestKilledIn") || strings.HasPrefix(test, "TestKilledWhile") {
			assert.True(t, named[test], "%s is not in the tables", test)
		}
	}
}

// pointsOfFailure are the rows of the tables.
func pointsOfFailure(t *testing.T) (rows []string) {
	t.Helper()
	file, err := os.Open(filepath.Join(root, "docs", "guarantees.md"))
	require.NoError(t, err)
	defer file.Close()
	within := false
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "## ") {
			within = strings.HasPrefix(line, "## What can fail")
		}
		if within && strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| point of failure ") {
			rows = append(rows, line)
		}
	}
	return rows
}

// testsOfTheTree are the names of all tests, and of the scripts that two of them run.
func testsOfTheTree(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests[f.Name.Name] = true
			}
		}
		return nil
	}))
	for folder, test := range map[string]string{"script": "TestScripts", "wire": "TestWire"} {
		scripts, err := filepath.Glob(filepath.Join(root, "testdata", folder, "*.txtar"))
		require.NoError(t, err)
		require.NotEmpty(t, scripts, folder)
		for _, script := range scripts {
			tests[test+"/"+strings.TrimSuffix(filepath.Base(script), ".txtar")] = true
		}
	}
	return tests
}
