package config

import "slices"

// MaxDepth is how deep lists and objects of a file may be nested.
const MaxDepth = 100

// A kind says what a node is.
type kind int

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindText
	kindList
	kindObject
)

// A node is a value in a file, whatever the file's format.
type node struct {
	kind    kind
	text    string // of a text, its characters; of a number or a boolean, as it is written
	items   []*node
	members []member
	at      position
}

// A member is a name and value of an object. No object has two of one name.
type member struct {
	name  string
	at    position // of the name
	value *node
}

// member returns the object's member of the name; ok is false without one, and of
// what is no object, nil included.
func (n *node) member(name string) (m member, ok bool) {
	if n == nil {
		return member{}, false
	}
	i := slices.IndexFunc(n.members, func(m member) bool { return m.name == name })
	if i < 0 {
		return member{}, false
	}
	return n.members[i], true
}

// given returns the member of the name that has a value: null says nothing.
func (n *node) given(name string) (m member, ok bool) {
	m, ok = n.member(name)
	return m, ok && m.value.kind != kindNull
}

// firstOf returns the first of the names that is given.
func (n *node) firstOf(names ...string) (member, bool) {
	for _, name := range names {
		if m, ok := n.given(name); ok {
			return m, true
		}
	}
	return member{}, false
}

// holdsObject reports whether an object has one in it, those of some names aside.
func (n *node) holdsObject(except ...string) bool {
	return slices.ContainsFunc(n.members, func(m member) bool { return m.value.kind == kindObject && !slices.Contains(except, m.name) })
}

// says reports whether there is anything in it: null, false, and what is empty say
// nothing.
func (n *node) says() bool {
	switch n.kind {
	case kindNull:
		return false
	case kindBool:
		return !n.isFalse()
	case kindText:
		return n.text != ""
	}
	return n.kind == kindNumber || len(n.items)+len(n.members) > 0
}

func (n *node) isScalar() bool {
	return n.kind == kindText || n.kind == kindNumber || n.kind == kindBool
}

func (n *node) isTrue() bool {
	return n.kind == kindBool && slices.Contains([]string{"true", "True", "TRUE"}, n.text)
}

func (n *node) isFalse() bool {
	return n.kind == kindBool && slices.Contains([]string{"false", "False", "FALSE"}, n.text)
}

// seen tells names of one object apart.
type seen map[string]position

// twice notes a name, and adds an error where it has been there before.
func (s seen) twice(name string, at position, f *faults) bool {
	first, again := s[name]
	if again {
		f.add(at, "%q stands twice in one object, first on line %d; take one out", name, first.line)
		return true
	}
	s[name] = at
	return false
}
