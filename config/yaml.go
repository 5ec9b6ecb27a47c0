package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// MaxAliased is how many values the aliases of a YAML file may stand for, all
// together: a few lines of aliases of aliases can stand for billions.
const MaxAliased = 10_000

// parseYAML reads one YAML document. It returns nil for a text that has no value in
// it, and where it has added an error.
func parseYAML(data []byte, f *faults) *node {
	p := yamlParser{source: newSource(data), faults: f}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	if err := dec.Decode(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		p.syntax(err)
		return nil
	}
	if err := dec.Decode(&next); err == nil {
		f.add(position{next.Line, next.Column}, "there is a second document; a file is one")
		return nil
	} else if !errors.Is(err, io.EOF) {
		p.syntax(err)
		return nil
	}
	root := p.node(&document, 0)
	if p.broken || root.kind == kindNull {
		return nil
	}
	return root
}

type yamlParser struct {
	source
	faults  *faults
	aliased int  // values that aliases have stood for
	within  int  // aliases that stand for what is read
	broken  bool // an error was added that ends the reading
}

// stop adds the one error after which reading on makes no sense.
func (p *yamlParser) stop(at position, format string, args ...any) {
	if !p.broken {
		p.faults.add(at, format, args...)
	}
	p.broken = true
}

func (p *yamlParser) node(y *yaml.Node, depth int) *node {
	n := &node{at: position{y.Line, y.Column}}
	if p.within > 0 {
		p.aliased++
	}
	switch {
	case depth > MaxDepth: // an alias within itself too
		p.stop(n.at, "lists and objects are nested more than %d deep", MaxDepth)
	case p.aliased > MaxAliased:
		p.stop(n.at, "the aliases stand for more than %d values", MaxAliased)
	}
	if p.broken {
		return n
	}
	switch y.Kind {
	case yaml.DocumentNode:
		return p.node(y.Content[0], depth)
	case yaml.AliasNode:
		p.within++
		defer func() { p.within-- }()
		return p.node(y.Alias, depth+1)
	case yaml.SequenceNode:
		n.kind = kindList
		for _, item := range y.Content {
			n.items = append(n.items, p.node(item, depth+1))
		}
	case yaml.MappingNode:
		n.kind = kindObject
		n.members = p.members(y, depth)
	case yaml.ScalarNode:
		n.kind, n.text = p.scalar(y), y.Value
	}
	return n
}

func (p *yamlParser) scalar(y *yaml.Node) kind {
	switch y.ShortTag() {
	case "!!null":
		return kindNull
	case "!!bool":
		return kindBool
	case "!!int", "!!float":
		return kindNumber
	case "!!str", "!!timestamp", "!!merge":
		return kindText
	}
	p.faults.add(position{y.Line, y.Column}, "a value has a tag that is not known here; take the tag out")
	return kindNull
}

// members are those that stand in the object, and then those that it merges from
// others (https://yaml.org/type/merge.html): what stands in it wins.
func (p *yamlParser) members(y *yaml.Node, depth int) (members []member) {
	names := seen{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			names.twice(key.Value, position{key.Line, key.Column}, p.faults)
			merged = append(merged, value)
			continue
		}
		m := member{at: position{key.Line, key.Column}, value: p.node(value, depth+1)}
		name := p.node(key, depth+1)
		if p.broken {
			return nil
		}
		if !name.isScalar() {
			p.faults.add(m.at, "the name of a member must be a text")
			continue
		}
		m.name = name.text
		if !names.twice(m.name, m.at, p.faults) {
			members = append(members, m)
		}
	}
	for _, from := range merged {
		for _, m := range p.merge(p.node(from, depth+1)) {
			if _, taken := names[m.name]; !taken {
				names[m.name] = m.at
				members = append(members, m)
			}
		}
	}
	return members
}

// merge are the members of an object, or of several of which the earlier ones win.
func (p *yamlParser) merge(from *node) (members []member) {
	switch from.kind {
	case kindObject:
		return from.members
	case kindList:
		for _, item := range from.items {
			if item.kind != kindObject {
				p.faults.add(item.at, "<< merges objects, and this is none")
			}
			members = append(members, item.members...)
		}
	default:
		p.faults.add(from.at, "<< merges objects, and this is none")
	}
	return members
}

var (
	yamlError     = regexp.MustCompile(`(?s)^(?:yaml: )?(?:line (\d+): )?(.*)$`)
	unknownAnchor = regexp.MustCompile(`(?s)^unknown anchor '(.*)' referenced$`)
)

// syntax adds an error of the library's. It knows lines at most, and its texts hold
// nothing of the file but the names of anchors, which may be passwords that begin
// with a star.
func (p *yamlParser) syntax(err error) {
	m := yamlError.FindStringSubmatch(err.Error())
	if anchor := unknownAnchor.FindStringSubmatch(m[2]); anchor != nil {
		p.faults.add(p.position(bytes.Index(p.data, []byte("*"+anchor[1]))), "a * begins an alias, and there is no anchor of its name; put a text that begins with * in quotes")
		return
	}
	line, _ := strconv.Atoi(m[1]) // none is line 1
	p.faults.add(position{max(line, 1), 1}, "no YAML here or near: %s", m[2])
}
