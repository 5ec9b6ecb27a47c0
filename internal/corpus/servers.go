package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A server is one entry of the list; the package's comment says what its members
// are.
type server struct {
	Name    string            `json:"name"`
	Set     string            `json:"set"`
	Package string            `json:"package"`
	Bin     string            `json:"bin"`
	Script  string            `json:"script"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Files   map[string]string `json:"files"`
	Rebuild []string          `json:"rebuild"`
}

// module matches the names that npm lets be published, and some older ones; none
// of them looks like an option.
const module = `(?:@[\w~][\w.~-]*/)?[\w~][\w.~-]*`

var (
	// A name is part of a file's name, on every system.
	validName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
	// A version is exact when it is one of https://semver.org, and no range.
	validModule  = regexp.MustCompile(`^` + module + `$`)
	validPackage = regexp.MustCompile(`^(` + module + `)@(\d+\.\d+\.\d+(?:-[\w.-]+)?(?:\+[\w.-]+)?)$`)
)

// module returns the package's name without its version.
func (s server) module() string { return validPackage.FindStringSubmatch(s.Package)[1] }

// version returns the package's version.
func (s server) version() string { return validPackage.FindStringSubmatch(s.Package)[2] }

// parseServers reads a list. Members that it does not know are errors, since
// they are most likely misspelt.
func parseServers(list []byte) ([]server, error) {
	dec := json.NewDecoder(bytes.NewReader(list))
	dec.DisallowUnknownFields()
	var servers []server
	if err := dec.Decode(&servers); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the list")
	}
	seen := map[string]bool{}
	for i, s := range servers {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("server %d, %q: %w", i+1, s.Name, err)
		}
		if seen[s.Name] {
			return nil, fmt.Errorf("two servers are named %q", s.Name)
		}
		seen[s.Name] = true
	}
	return servers, nil
}

func (s server) check() error {
	switch {
	case !validName.MatchString(s.Name):
		return errors.New("the name may have lower case letters, digits, hyphens and dots only")
	case !validPackage.MatchString(s.Package):
		return fmt.Errorf("package %q must have the form NAME@1.2.3, with an exact version", s.Package)
	case (s.Bin == "") == (s.Script == ""):
		return errors.New("one of bin and script must be given")
	case s.Bin != "" && filepath.Base(s.Bin) != s.Bin:
		return fmt.Errorf("bin %q must be a name; a file in the package is given as script", s.Bin)
	case s.Script != "" && !filepath.IsLocal(s.Script):
		return fmt.Errorf("script %q must be a path in the package", s.Script)
	}
	for _, name := range s.Rebuild {
		if !validModule.MatchString(name) {
			return fmt.Errorf("rebuild %q must be a package's name", name)
		}
	}
	for file := range s.Files {
		if !filepath.IsLocal(file) {
			return fmt.Errorf("file %q must be a path in the home folder", file)
		}
	}
	return nil
}

// choose returns the servers of the set that are named, in the order of the
// list. No set and no names stand for all.
func choose(servers []server, set string, only []string) ([]server, error) {
	chosen := slices.DeleteFunc(slices.Clone(servers), func(s server) bool {
		return set != "" && s.Set != set || len(only) > 0 && !slices.Contains(only, s.Name)
	})
	for _, name := range only {
		if !slices.ContainsFunc(chosen, func(s server) bool { return s.Name == name }) {
			return nil, fmt.Errorf("--only: no server %q; there are %s", name, strings.Join(names(servers, set), ", "))
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("there is no server to collect: the list has none of set %q", set)
	}
	return chosen, nil
}

func names(servers []server, set string) (names []string) {
	for _, s := range servers {
		if set == "" || s.Set == set {
			names = append(names, s.Name)
		}
	}
	return names
}

// at returns the server with its home folder in the place of {home}.
func (s server) at(home string) server {
	fill := func(text string) string { return strings.ReplaceAll(text, "{home}", home) }
	s.Args = slices.Clone(s.Args)
	for i, arg := range s.Args {
		s.Args[i] = fill(arg)
	}
	s.Env, s.Files = maps.Clone(s.Env), maps.Clone(s.Files)
	for _, texts := range []map[string]string{s.Env, s.Files} {
		for name, text := range texts {
			texts[name] = fill(text)
		}
	}
	return s
}
