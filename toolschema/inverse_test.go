package toolschema

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// An extent is a JSON value and where it stands in its text.
type extent struct {
	text       string // the whole text, of which the value is a part
	start, end int
	members    []extentMember // of an object
	elements   []extent       // of an array
}

type extentMember struct {
	name  string
	start int // of the quoted name
	value extent
}

func (s extent) raw() string { return s.text[s.start:s.end] }

func (s extent) get(name string) (extent, bool) {
	for _, m := range slices.Backward(s.members) { // of several, most readers take the last
		if m.name == name {
			return m.value, true
		}
	}
	return extent{}, false
}

// word is the text of a string.
func (s extent) word() string { return unquoted(s.raw()) }

func unquoted(raw string) string {
	text, _ := jsontext.AppendUnquote(nil, raw)
	return string(text)
}

func parseExtent(text string) (extent, error) {
	dec := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return readExtent(dec, text)
}

func readExtent(dec *jsontext.Decoder, text string) (s extent, err error) {
	s.text = text
	kind := dec.PeekKind()
	if kind != '{' && kind != '[' {
		value, err := dec.ReadValue()
		s.end = int(dec.InputOffset())
		s.start = s.end - len(value)
		return s, err
	}
	if _, err := dec.ReadToken(); err != nil {
		return s, err
	}
	s.start = int(dec.InputOffset()) - 1
	for next := dec.PeekKind(); next != kind+2; next = dec.PeekKind() { // the closing one, in ASCII
		var m extentMember
		if kind == '{' {
			name, err := dec.ReadValue()
			if err != nil {
				return s, err
			}
			m.name, m.start = unquoted(string(name)), int(dec.InputOffset())-len(name)
		}
		if m.value, err = readExtent(dec, text); err != nil {
			return s, err
		}
		if kind == '{' {
			s.members = append(s.members, m)
		} else {
			s.elements = append(s.elements, m.value)
		}
	}
	_, err = dec.ReadToken()
	s.end = int(dec.InputOffset())
	return s, err
}

// An inverse takes the additions out of an offered definition, by comparing it
// with the original, and refuses whatever it does not know for an addition. It
// knows nothing of how Rewrite works.
type inverse struct {
	before, after extent // the schemas that references are looked up in
	cuts          []cut
	copies        map[string]int // the definitions that were added, and where the original of each stands, or unused
}

const unused = -1

// A cut replaces a part of the offered text.
type cut struct {
	start, end int
	text       string
}

// withoutAddedBytes returns the offered definition without the additions.
func withoutAddedBytes(original, offered string) (string, error) {
	o, err := parseExtent(original)
	if err != nil {
		return "", err
	}
	f, err := parseExtent(offered)
	if err != nil {
		return "", fmt.Errorf("what is offered is no JSON: %w", err)
	}
	inv := &inverse{}
	if err := inv.compare(o, f, nil); err != nil {
		return "", err
	}
	return inv.apply(0, len(offered), offered), nil
}

// apply carries the cuts within a part of the offered text out.
func (inv *inverse) apply(start, end int, text string) string {
	slices.SortFunc(inv.cuts, func(a, b cut) int { return a.start - b.start })
	var out strings.Builder
	for _, c := range inv.cuts {
		if c.start >= start && c.end <= end {
			out.WriteString(text[start:c.start] + c.text)
			start = c.end
		}
	}
	return out.String() + text[start:end]
}

func (inv *inverse) replace(o, f extent) { inv.cuts = append(inv.cuts, cut{f.start, f.end, o.raw()}) }

// compare walks both values at once. The path are the names that lead to them.
func (inv *inverse) compare(o, f extent, path []string) error {
	same := o.raw()[0] == f.raw()[0]
	switch {
	case o.raw() == f.raw():
		return nil
	case len(path) > 0 && path[len(path)-1] == "propertyNames" && inv.namesWrapped(o, f, path):
		inv.replace(o, f)
		return nil
	case same && o.raw()[0] == '{' && len(path) == 1 && isSchema(path):
		return inv.compareSchemas(o, f, path)
	case same && o.raw()[0] == '{':
		return inv.compareObjects(o, f, path)
	case same && o.raw()[0] == '[':
		return inv.compareArrays(o, f, path)
	case inv.lawful(o, f, path):
		inv.replace(o, f)
		return nil
	}
	return fmt.Errorf("%s: %s has become %s", strings.Join(path, "/"), o.raw(), f.raw())
}

func isSchema(path []string) bool {
	return len(path) > 0 && (path[0] == "inputSchema" || path[0] == "outputSchema")
}

// compareSchemas compares roots: definitions that only the offered one has are
// copies, if something that was edited refers to them.
func (inv *inverse) compareSchemas(o, f extent, path []string) error {
	inv.before, inv.after, inv.copies = o, f, map[string]int{}
	for _, container := range containers {
		before, _ := o.get(container)
		after, _ := f.get(container)
		for _, def := range after.members {
			if _, ok := before.get(def.name); !ok {
				inv.copies["#/"+container+"/"+def.name] = unused
			}
		}
	}
	if err := inv.compareObjects(o, f, path); err != nil {
		return err
	}
	for name, original := range inv.copies {
		if original == unused {
			return fmt.Errorf("definition %s was added for nothing", name)
		}
	}
	return nil
}

var containers = []string{"$defs", "definitions"}

func (inv *inverse) compareArrays(o, f extent, path []string) error {
	elements := f.elements
	if slices.Equal(path, []string{"inputSchema", "required"}) && len(elements) == len(o.elements)+1 && elements[0].word() == KeyProperty {
		inv.cutRun(elements[0].start, elements[0].end, f.text)
		elements = elements[1:]
	}
	if len(elements) != len(o.elements) {
		return fmt.Errorf("%s: %s has become %s", strings.Join(path, "/"), o.raw(), f.raw())
	}
	for i := range elements {
		if err := inv.compare(o.elements[i], elements[i], append(path, fmt.Sprint(i))); err != nil {
			return err
		}
	}
	return nil
}

func (inv *inverse) compareObjects(o, f extent, path []string) error {
	_, hasRef := o.get("$ref")
	if _, kept := f.get("$ref"); hasRef && !kept && len(path) == 1 {
		var err error
		if o, f, err = inv.inlined(o, f, path); err != nil {
			return err
		}
	}
	start, end := -1, -1 // a run of added members
	for _, m := range f.members {
		if len(o.members) > 0 && o.members[0].name == m.name {
			inv.cutRun(start, end, f.text)
			start = -1
			if err := inv.compare(o.members[0].value, m.value, append(path, m.name)); err != nil {
				return err
			}
			o.members = o.members[1:]
			continue
		}
		if err := inv.added(m, path); err != nil {
			return err
		}
		if end = m.value.end; start < 0 {
			start = m.start
		}
	}
	inv.cutRun(start, end, f.text)
	if len(o.members) > 0 {
		return fmt.Errorf("%s has lost its %s", strings.Join(path, "/"), o.members[0].name)
	}
	return nil
}

const whiteSpace = " \t\r\n"

// cutRun takes out a run of members or elements, and the one comma that it
// needed.
func (inv *inverse) cutRun(start, end int, text string) {
	if start < 0 {
		return
	}
	if before := strings.TrimRight(text[:start], whiteSpace); strings.HasSuffix(before, ",") {
		start = len(before) - 1
	} else if after := strings.TrimLeft(text[end:], whiteSpace); strings.HasPrefix(after, ",") {
		end = len(text) - len(after) + 1
	}
	inv.cuts = append(inv.cuts, cut{start, end, ""})
}

var additions = []string{KeyProperty, RepeatProperty, OutcomeProperty}

// added reports what is wrong with a member that the original lacks.
func (inv *inverse) added(m extentMember, path []string) error {
	last := ""
	if len(path) > 0 {
		last = path[len(path)-1]
	}
	onlyOurs := !slices.ContainsFunc(m.value.members, func(inner extentMember) bool { return !slices.Contains(additions, inner.name) })
	ok := false
	switch {
	case len(path) == 0:
		_, hasPolicy := m.value.get(PolicyMeta)
		ok = m.name == "description" || m.name == "_meta" && hasPolicy && len(m.value.members) == 1
	case !isSchema(path):
		ok = last == "_meta" && m.name == PolicyMeta
	case m.name == "required":
		ok = path[0] == "inputSchema" && len(path) == 1 && m.value.raw() == fmt.Sprintf("[%q]", KeyProperty)
	case slices.Contains(additions, m.name):
		ok = last == "properties"
	case m.name == "properties":
		ok = onlyOurs && len(m.value.members) > 0
	case len(path) == 2:
		ok = slices.Contains(containers, last)
	case len(path) == 1:
		ok = slices.Contains(containers, m.name)
	}
	if !ok {
		return fmt.Errorf("%s has got a member %s: %s", strings.Join(path, "/"), m.name, m.value.raw())
	}
	return nil
}

// lawful reports whether one value may stand in place of another.
func (inv *inverse) lawful(o, f extent, path []string) bool {
	where := strings.Join(path, "/")
	switch last := path[len(path)-1]; {
	case last == "minProperties", last == "maxProperties":
		before, okBefore := new(big.Rat).SetString(o.raw())
		after, okAfter := new(big.Rat).SetString(f.raw())
		return okBefore && okAfter && after.Cmp(before.Add(before, big.NewRat(1, 1))) == 0
	case last == "$ref":
		return inv.copied(o.word(), f.word())
	case where == "description":
		return strings.HasPrefix(f.raw(), o.raw()[:len(o.raw())-1])
	case where == "inputSchema/properties/"+KeyProperty+"/description":
		return strings.HasSuffix(f.word(), o.word())
	case where == "inputSchema/properties/"+KeyProperty:
		return o.raw() == "true"
	}
	return where == "_meta/"+PolicyMeta
}

// namesWrapped reports whether f is an alternative to o that has nothing but our
// names.
func (inv *inverse) namesWrapped(o, f extent, path []string) bool {
	branches, _ := f.get("anyOf")
	if len(f.members) != 1 || len(branches.elements) != 2 {
		return false
	}
	names, _ := branches.elements[0].get("enum")
	onlyOurs := !slices.ContainsFunc(names.elements, func(name extent) bool { return !slices.Contains(additions, name.word()) })
	return onlyOurs && inv.equals(o, branches.elements[1], append(path, "anyOf"))
}

// equals reports whether f is o but for additions.
func (inv *inverse) equals(o, f extent, path []string) bool {
	inner := &inverse{before: inv.before, after: inv.after, copies: inv.copies}
	return inner.compare(o, f, path) == nil && inner.apply(f.start, f.end, f.text) == o.raw()
}

// copied reports whether a reference now goes to an edited copy of what it went
// to.
func (inv *inverse) copied(before, after string) bool {
	o, okBefore := lookUp(inv.before, before)
	f, okAfter := lookUp(inv.after, after)
	original, isCopy := inv.copies[after]
	if !isCopy || original != unused {
		return isCopy && original == o.start
	}
	inv.copies[after] = o.start // at once: a copy may refer to itself
	return okBefore && okAfter && inv.equalsCopy(o, f, inCopy)
}

// equalsCopy is equals for a definition and its copy, which has none of the
// original's names.
func (inv *inverse) equalsCopy(o, f extent, path []string) bool {
	nameless, named := withoutNames(o)
	if !named {
		return inv.equals(o, f, path)
	}
	inner := &inverse{before: inv.before, after: inv.after, copies: inv.copies}
	err := inner.compare(nameless, f, path)
	return err == nil && compact(inner.apply(f.start, f.end, f.text)) == compact(nameless.raw())
}

// inCopy stands for the path of what is within a copied definition.
var inCopy = []string{"inputSchema", "a copy", "$defs"}

func compact(text string) string {
	value := jsontext.Value(text)
	if err := value.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return err.Error()
	}
	return string(value)
}

var nameWords = []string{"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}

// withoutNames takes the names out of a definition: a copy must not have them a
// second time.
func withoutNames(o extent) (extent, bool) {
	var inv inverse
	inv.cutNames(o, false)
	if len(inv.cuts) == 0 {
		return o, false
	}
	nameless, err := parseExtent(inv.apply(o.start, o.end, o.text))
	return nameless, err == nil
}

// cutNames cuts the names of a schema, or of those in a map of schemas.
func (inv *inverse) cutNames(s extent, isMap bool) {
	for _, e := range s.elements {
		inv.cutNames(e, false)
	}
	for _, m := range s.members {
		kind := m.value.raw()[0]
		switch isWord := !isMap; {
		case isWord && slices.Contains(nameWords, m.name) && kind != '{' && kind != '[':
			inv.cutRun(m.start, m.value.end, s.text)
		case isWord && slices.Contains([]string{"const", "enum", "default", "examples", "example"}, m.name):
		default:
			inv.cutNames(m.value, isWord && slices.Contains(mapWords, m.name))
		}
	}
}

var mapWords = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}

// lookUp follows a reference by path or name within one schema.
func lookUp(root extent, ref string) (extent, bool) {
	fragment := ref[strings.IndexByte(ref, '#')+1:]
	pointer, isPath := strings.CutPrefix(fragment, "/")
	if !isPath {
		return findNamed(root, fragment)
	}
	at, ok := root, true
	for step := range strings.SplitSeq(pointer, "/") {
		step = strings.NewReplacer("%24", "$", "%20", " ", "%25", "%").Replace(step)
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		var i int
		if _, err := fmt.Sscan(step, &i); err == nil && i < len(at.elements) {
			at = at.elements[i]
		} else if at, ok = at.get(step); !ok {
			return extent{}, false
		}
	}
	return at, true
}

func findNamed(s extent, name string) (extent, bool) {
	for _, word := range []string{"$anchor", "$dynamicAnchor", "$id", "id"} {
		if v, ok := s.get(word); ok && strings.TrimPrefix(v.word(), "#") == name {
			return s, true
		}
	}
	children := slices.Clone(s.elements)
	for _, m := range s.members {
		if !strings.HasPrefix(m.name, "x-") { // a word of nobody's, in which names are texts
			children = append(children, m.value)
		}
	}
	for _, child := range children {
		if found, ok := findNamed(child, name); ok {
			return found, true
		}
	}
	return extent{}, false
}

// inlined takes the definition out that stands in place of the root's $ref, and
// returns both roots without the one and the other.
func (inv *inverse) inlined(o, f extent, path []string) (extent, extent, error) {
	at := slices.IndexFunc(o.members, func(m extentMember) bool { return m.name == "$ref" })
	ref := o.members[at]
	end := at
	for end < len(f.members) && (at+1 == len(o.members) || f.members[end].name != o.members[at+1].name) && !slices.Contains(containers, f.members[end].name) {
		end++
	}
	target, ok := lookUp(inv.before, ref.value.word())
	for next, chained := target.get("$ref"); chained && ok; next, chained = target.get("$ref") {
		target, ok = lookUp(inv.before, next.word())
	}
	if !ok || end == at {
		return o, f, errors.New("the root's $ref is gone")
	}
	for _, m := range f.members[at:end] {
		if said, ok := target.get(m.name); ok && !inv.equalsCopy(said, m.value, append(path, m.name)) {
			return o, f, fmt.Errorf("the root got a %s that its definition lacks: %s", m.name, m.value.raw())
		} else if err := inv.added(m, path); !ok && err != nil {
			return o, f, err
		}
	}
	for _, m := range target.members {
		_, atRoot := f.get(m.name)
		if !atRoot && !slices.Contains(containers, m.name) && !slices.Contains(nameWords, m.name) {
			return o, f, fmt.Errorf("the root lacks the %s of its definition", m.name)
		}
	}
	start, stop := spaced(f.text, f.members[at].start, f.members[end-1].value.end)
	refStart, refStop := spaced(o.text, ref.start, ref.value.end)
	inv.cuts = append(inv.cuts, cut{start, stop, o.text[refStart:refStop]})
	o.members = slices.Delete(slices.Clone(o.members), at, at+1)
	f.members = slices.Delete(slices.Clone(f.members), at, end)
	return o, f, nil
}

// spaced widens a part of the text by the white space around it: an inlined
// definition brings its own.
func spaced(text string, start, end int) (int, int) {
	return len(strings.TrimRight(text[:start], whiteSpace)), len(text) - len(strings.TrimLeft(text[end:], whiteSpace))
}
