package toolschema

import (
	"errors"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// references are the references in a schema document, and what they may refer
// to.
type references struct {
	root    *rawjson.Value
	ids     []*url.URL // of the root, made absolute
	oddID   bool       // it has one that cannot be read
	list    []reference
	at      map[*rawjson.Value]reference // by their strings
	anchors map[string][]*rawjson.Value  // by the fragment that names them
	dynamic map[string][]*rawjson.Value
	bases   []*rawjson.Value // that have an id of their own, less the root
	data    []*rawjson.Value
}

// A reference is one $ref, $dynamicRef or $recursiveRef.
type reference struct {
	keyword string
	text    string
	value   *rawjson.Value // the string
	foreign bool           // it stands below an id of its own, which changes what it is relative to
}

var (
	refKeywords    = []string{"$ref", "$dynamicRef", "$recursiveRef"}
	idKeywords     = []string{"$id", "id"}
	anchorKeywords = []string{"$anchor", "$dynamicAnchor"}
	// dataKeywords hold instances, in which nothing is a keyword.
	dataKeywords = []string{"const", "enum", "default", "examples", "example"}
	// nameKeywords hold schemas by names that are no keywords.
	nameKeywords = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)

// nowhere is what relative ids are made absolute with.
var nowhere = &url.URL{Scheme: "schema", Host: "nowhere", Path: "/"}

func findReferences(root *rawjson.Value) *references {
	r := &references{
		root: root, at: map[*rawjson.Value]reference{}, anchors: map[string][]*rawjson.Value{}, dynamic: map[string][]*rawjson.Value{},
	}
	for _, keyword := range idKeywords {
		if text, ok := root.Get(keyword).Text(); ok {
			id, err := nowhere.Parse(text)
			if r.oddID = r.oddID || err != nil; err == nil {
				r.ids = append(r.ids, id)
			}
		}
	}
	r.collect(root, false)
	return r
}

// collect finds what is in a schema, or in what may hold schemas.
func (r *references) collect(v *rawjson.Value, foreign bool) {
	if v != r.root && ownBase(v) {
		foreign = true
		r.bases = append(r.bases, v)
	}
	for _, f := range v.Fields() {
		switch text, isText := f.Value.Text(); {
		case slices.Contains(dataKeywords, f.Name):
			r.data = append(r.data, f.Value)
			continue
		case slices.Contains(nameKeywords, f.Name) && f.Value.IsObject():
			for _, named := range f.Value.Fields() {
				r.collect(named.Value, foreign)
			}
			continue
		case isText:
			r.note(v, f, text, foreign)
		}
		r.collect(f.Value, foreign)
	}
	for _, e := range v.Elements() {
		r.collect(e, foreign)
	}
}

// note keeps a member of a schema that is a string.
func (r *references) note(schema *rawjson.Value, f rawjson.Field, text string, foreign bool) {
	switch {
	case slices.Contains(refKeywords, f.Name):
		ref := reference{f.Name, text, f.Value, foreign}
		r.list = append(r.list, ref)
		r.at[f.Value] = ref
	case slices.Contains(anchorKeywords, f.Name):
		r.anchors[text] = append(r.anchors[text], schema)
		if f.Name == "$dynamicAnchor" {
			r.dynamic[text] = append(r.dynamic[text], schema)
		}
	case slices.Contains(idKeywords, f.Name) && len(text) > 1 && text[0] == '#': // drafts 04 to 07
		r.anchors[text[1:]] = append(r.anchors[text[1:]], schema)
	}
}

// ownBase reports whether a schema has an id that references below it are
// relative to.
func ownBase(v *rawjson.Value) bool {
	return slices.ContainsFunc(idKeywords, func(keyword string) bool {
		id, ok := v.Get(keyword).Text()
		return ok && !strings.HasPrefix(id, "#")
	})
}

// unname takes the names and ids out of a schema that is to be copied, since two
// things must not have one name. It fails where something in the schema depends
// on them.
func (r *references) unname(v *rawjson.Value, edits *rawjson.Edits) error {
	var names []string
	for _, f := range v.Fields() {
		if slices.Contains(dataKeywords, f.Name) {
			continue
		}
		if slices.Contains(nameKeywords, f.Name) && f.Value.IsObject() {
			for _, named := range f.Value.Fields() {
				if err := r.unname(named.Value, edits); err != nil {
					return err
				}
			}
			continue
		}
		text, isText := f.Value.Text()
		switch {
		case isText && slices.Contains(idKeywords, f.Name):
			if !strings.HasPrefix(text, "#") && slices.ContainsFunc(r.list, func(ref reference) bool { return v.Holds(ref.value) }) {
				return errors.New("refers to a schema that has an id, and references relative to it")
			}
			names = append(names, f.Name)
		case isText && slices.Contains(anchorKeywords, f.Name), f.Name == "$recursiveAnchor":
			if slices.ContainsFunc(r.list, func(ref reference) bool { return ref.keyword != "$ref" }) {
				return errors.New("refers to a schema with a name that dynamic references may mean")
			}
			names = append(names, f.Name)
		}
		if err := r.unname(f.Value, edits); err != nil {
			return err
		}
	}
	for _, e := range v.Elements() {
		if err := r.unname(e, edits); err != nil {
			return err
		}
	}
	edits.RemoveMembers(v, names...)
	return nil
}

// resolve returns what a $ref refers to within the document; nil where it refers
// to nothing there, or to several things.
func (r *references) resolve(text string) *rawjson.Value {
	fragment, ok := r.fragment(text)
	switch {
	case !ok:
		return nil
	case fragment == "":
		return r.root
	case fragment[0] == '/':
		return pointed(r.root, fragment)
	case len(r.anchors[fragment]) == 1:
		return r.anchors[fragment][0]
	}
	return nil
}

// fragment returns the fragment of a reference to the document; ok is false for
// one to elsewhere.
func (r *references) fragment(text string) (fragment string, ok bool) {
	if text == "" || text[0] == '#' {
		ref, err := url.Parse(text)
		return fragmentOf(ref), err == nil
	}
	for _, id := range r.ids {
		if ref, err := id.Parse(text); err == nil && withoutFragment(ref) == withoutFragment(id) {
			return fragmentOf(ref), true
		}
	}
	return "", false
}

func fragmentOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Fragment
}

func withoutFragment(u *url.URL) string {
	bare := *u
	bare.Fragment, bare.RawFragment = "", ""
	return bare.String()
}

// pointed follows a JSON pointer (RFC 6901), or returns nil.
func pointed(v *rawjson.Value, pointer string) *rawjson.Value {
	for _, step := range strings.Split(pointer, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if v.IsArray() {
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v.Elements()) {
				return nil
			}
			v = v.Elements()[i]
			continue
		}
		if v = v.Get(step); v == nil {
			return nil
		}
	}
	return v
}

// targets are all the values that the reference may mean.
func (r *references) targets(ref reference) []*rawjson.Value {
	_, name, _ := strings.Cut(ref.text, "#")
	switch {
	case ref.keyword == "$recursiveRef":
		return []*rawjson.Value{r.root} // the outermost with a $recursiveAnchor, which may be the root
	case ref.keyword == "$dynamicRef" && r.dynamic[name] != nil:
		return r.dynamic[name]
	}
	if target := r.resolve(ref.text); target != nil {
		return []*rawjson.Value{target}
	}
	if several := r.anchors[name]; several != nil {
		return several
	}
	if r.mayBeRoot(ref.text) {
		return []*rawjson.Value{r.root}
	}
	return nil
}

// mayBeRoot compares the last path segments of a reference and of the root's
// id: nested ids may change what the reference is relative to, but not that.
func (r *references) mayBeRoot(text string) bool {
	if text == "" || text[0] == '#' {
		return false // what it names is looked up elsewhere
	}
	ref, err := nowhere.Parse(text)
	return r.oddID || err != nil || slices.ContainsFunc(r.ids, func(id *url.URL) bool {
		return path.Base(ref.Path) == path.Base(id.Path) && ref.Opaque == id.Opaque
	})
}

// reach reports whether a reference leads to the value or to something that it
// stands in.
func (r *references) reach(v *rawjson.Value) bool {
	return slices.ContainsFunc(r.list, func(ref reference) bool {
		return slices.ContainsFunc(r.targets(ref), func(target *rawjson.Value) bool { return target.Holds(v) })
	})
}

// isData reports whether a value is, or stands in, what holds instances and no
// schemas.
func (r *references) isData(v *rawjson.Value) bool {
	return slices.ContainsFunc(r.data, func(data *rawjson.Value) bool { return data.Holds(v) })
}

// isBased reports whether a value stands below an id other than the root's.
func (r *references) isBased(v *rawjson.Value) bool {
	return slices.ContainsFunc(r.bases, func(base *rawjson.Value) bool { return base != v && base.Holds(v) })
}
