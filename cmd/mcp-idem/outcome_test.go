package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// outcome asserts what the newest response says of its operation, wherever a
// client may look for it.
func outcome(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: outcome OUTCOME [MEMBER=VALUE...]")
	}
	said, err := readOutcome(playOf(ts).last)
	ts.Check(err)
	for _, want := range append([]string{"outcome=" + args[0]}, args[1:]...) {
		name, value, _ := strings.Cut(want, "=")
		if got := said.member(name); got != value {
			ts.Fatalf("%s is %s, not %s, in %s", name, got, value, said.raw)
		}
	}
}

// save puts a member of the newest outcome into a variable of the script.
func save(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: save VARIABLE MEMBER")
	}
	said, err := readOutcome(playOf(ts).last)
	ts.Check(err)
	ts.Setenv(args[0], said.member(args[1]))
}

// result asserts that a text of the newest result matches a pattern.
func result(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] result PATTERN")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	texts := textsOf(playOf(ts).last.Result)
	found := false
	for _, text := range texts {
		found = found || pattern.MatchString(text)
	}
	if found == neg {
		ts.Fatalf("the texts of the result are %q", texts)
	}
}

// fill writes a file: each argument that is a number is so many letters, any
// other stands for itself.
func fill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fill FILE PART...")
	}
	var content []byte
	for _, part := range args[1:] {
		if n, err := strconv.Atoi(part); err == nil {
			content = append(content, bytes.Repeat([]byte("x"), n)...)
			continue
		}
		content = append(content, part...)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), append(content, '\n'), 0o600))
}

// A saidOutcome is the outcome object in a result.
type saidOutcome struct {
	raw    []byte
	object rawjson.Object
}

// readOutcome finds the outcome in a result's _meta. Where it stands in a text or
// in structuredContent too, it must be the same there, and the text must call an
// unknown effect by its name.
func readOutcome(m jsonrpc.Message) (said saidOutcome, err error) {
	result, err := rawjson.ParseObject(m.Result)
	if err != nil {
		return said, fmt.Errorf("the newest response has no result: %w", err)
	}
	said.raw = inside(result, "_meta", "mcp-idem/outcome")
	if said.object, err = rawjson.ParseObject(said.raw); err != nil {
		return said, fmt.Errorf("no outcome in _meta of %s", m.Result)
	}
	if structured := inside(result, "structuredContent", "idempotency"); structured != nil && !bytes.Equal(structured, said.raw) {
		return said, fmt.Errorf("structuredContent says %s, and _meta %s", structured, said.raw)
	}
	return said, said.checkText(m.Result)
}

// checkText looks at the text block in which an outcome of the gateway's own, or
// a replay, is told to a model.
func (o saidOutcome) checkText(result []byte) error {
	word, replay := o.member("outcome"), o.member("was_replay") == "true"
	for _, text := range textsOf(result) {
		first, rest, _ := strings.Cut(text, "\n")
		if !strings.HasPrefix(first, word) {
			continue
		}
		second, _, _ := strings.Cut(rest, "\n")
		if second != string(o.raw) {
			return fmt.Errorf("the text says %s, and _meta %s", second, o.raw)
		}
		if word == "EFFECT_UNKNOWN" && strings.Contains(strings.ToLower(first), "fail") {
			return fmt.Errorf("what is unknown is called failed: %s", first)
		}
		return nil
	}
	if replay || word != "COMPLETED" && word != "ACCEPTED" {
		return errors.New("no text tells the outcome to a model: " + string(result))
	}
	return nil
}

// member is a member as a script writes it: strings without quotes, next as its
// action.
func (o saidOutcome) member(name string) string {
	value, ok := o.object.Get(name)
	if !ok {
		return "absent"
	}
	if name == "next" {
		next, err := rawjson.ParseObject(value)
		if err != nil {
			return string(value)
		}
		value, _ = next.Get("action")
	}
	if text, ok := rawjson.Unquote(value); ok {
		return text
	}
	return string(value)
}

// inside returns a member of an object's member, nil where there is none.
func inside(o rawjson.Object, names ...string) []byte {
	for _, name := range names[:len(names)-1] {
		value, _ := o.Get(name)
		inner, err := rawjson.ParseObject(value)
		if err != nil {
			return nil
		}
		o = inner
	}
	value, _ := o.Get(names[len(names)-1])
	return value
}

// textsOf are the texts of a result's content.
func textsOf(result []byte) (texts []string) {
	o, err := rawjson.ParseObject(result)
	if err != nil {
		return nil
	}
	content, _ := o.Get("content")
	blocks, _ := rawjson.ParseArray(content) // none: no texts
	for _, block := range blocks {
		if b, err := rawjson.ParseObject(block); err == nil {
			if text, ok := b.String("text"); ok {
				texts = append(texts, text)
			}
		}
	}
	return texts
}
