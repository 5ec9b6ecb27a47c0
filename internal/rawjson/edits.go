package rawjson

import (
	"cmp"
	"slices"
)

// Edits are changes to a document, by offsets in it. They are made in one pass,
// so that every byte that no edit names stays. The zero value changes nothing.
type Edits struct {
	list     []edit
	inserted map[int]bool // places where something is inserted
	removed  []edit       // those that put nothing in place of something
}

type edit struct {
	start, end int
	text       []byte
}

// Replace puts text in place of the bytes from start to end. Ranges must not
// overlap. Of several insertions at one place the earlier stands first.
func (e *Edits) Replace(start, end int, text []byte) {
	e.note(edit{start, end, text})
}

func (e *Edits) note(c edit) {
	e.list = append(e.list, c)
	switch {
	case c.start == c.end:
		if e.inserted == nil {
			e.inserted = map[int]bool{}
		}
		e.inserted[c.start] = true
	case len(c.text) == 0:
		e.removed = append(e.removed, c)
	}
}

// Insert puts text at an offset.
func (e *Edits) Insert(at int, text []byte) { e.Replace(at, at, text) }

// Append adds members, as written between braces, at the end of an object. What
// is removed from it has to be removed before.
func (e *Edits) Append(object *Value, members []byte) {
	at := object.End - 1
	kept := slices.ContainsFunc(object.fields, func(f Field) bool { return !e.removes(f.Value) })
	if kept || e.inserted[at] {
		members = slices.Concat([]byte(","), members)
	}
	e.Insert(at, members)
}

// Prepend adds an element at the beginning of an array. What is removed from it
// has to be removed before.
func (e *Edits) Prepend(array *Value, element []byte) {
	if slices.ContainsFunc(array.entries, func(v *Value) bool { return !e.removes(v) }) {
		element = slices.Concat(element, []byte(","))
	}
	e.Insert(array.Start+1, element)
}

func (e *Edits) removes(v *Value) bool {
	return slices.ContainsFunc(e.removed, func(c edit) bool { return c.start <= v.Start && v.End <= c.end })
}

// RemoveMembers takes members out of an object. It is done once for one object.
func (e *Edits) RemoveMembers(object *Value, names ...string) {
	fields := object.Fields()
	e.remove(len(fields),
		func(i int) bool { return slices.Contains(names, fields[i].Name) },
		func(i int) (int, int) { return fields[i].Start, fields[i].Value.End })
}

// RemoveElements takes elements out of an array, by their places from 0. It is
// done once for one array.
func (e *Edits) RemoveElements(array *Value, places ...int) {
	entries := array.Elements()
	e.remove(len(entries),
		func(i int) bool { return slices.Contains(places, i) },
		func(i int) (int, int) { return entries[i].Start, entries[i].End })
}

// remove takes some of n things in a list out, each with the one comma that it no
// longer needs.
func (e *Edits) remove(n int, goes func(int) bool, bounds func(int) (start, end int)) {
	kept := false
	for i := range n {
		if !goes(i) {
			kept = true
			continue
		}
		start, end := bounds(i)
		switch {
		case kept: // with the comma before it
			_, start = bounds(i - 1)
		case i+1 < n: // with the comma after it
			end, _ = bounds(i + 1)
		}
		e.Replace(start, end, nil)
	}
}

// Empty reports whether nothing is changed.
func (e *Edits) Empty() bool { return len(e.list) == 0 }

// Add adds the edits of another list.
func (e *Edits) Add(other Edits) {
	for _, c := range other.list {
		e.note(c)
	}
}

// Within reports whether something is changed strictly inside of the value.
func (e *Edits) Within(v *Value) bool {
	return slices.ContainsFunc(e.list, func(c edit) bool { return c.start > v.Start && c.end < v.End || c.start == v.Start && c.end == v.End })
}

// Apply returns the bytes of the value with the edits made that lie inside of
// it.
func (e *Edits) Apply(v *Value) []byte {
	list := slices.DeleteFunc(slices.Clone(e.list), func(c edit) bool { return c.start < v.Start || c.end > v.End })
	slices.SortStableFunc(list, func(a, b edit) int { // what is inserted before a range stands before it
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(min(a.end-a.start, 1), min(b.end-b.start, 1)))
	})
	size := v.End - v.Start
	for _, c := range list {
		size += len(c.text)
	}
	out := make([]byte, 0, size)
	from := v.Start
	for _, c := range list {
		out = append(append(out, v.src[from:c.start]...), c.text...)
		from = c.end
	}
	return append(out, v.src[from:v.End]...)
}
