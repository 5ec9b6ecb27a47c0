package gateway

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/yosida95/uritemplate/v3"
)

// aliasScheme begins the URI of a resource whose own is that of another upstream's
// too: mcp-idem://NAME/URI.
const aliasScheme = "mcp-idem://"

// maxHeard is how many URIs are remembered of an upstream that it has named in
// results, and does not list.
const maxHeard = 4096

// A directory knows which of several upstreams a resource is of. URIs stay as they
// are; where two upstreams list the same, the one that comes first has it, and the
// other's is offered under an alias. The zero value is ready to use.
type directory struct {
	mu      sync.Mutex
	shelves map[string]*shelf // by the name of the upstream
}

// A shelf is what an upstream is known to have.
type shelf struct {
	uris      map[string]bool // nil before they were read
	templates []template      // likewise
	heard     map[string]bool // URIs that it has named otherwise
	order     []string        // of heard
	read      time.Time       // when the lists were; zero: not since they have changed
}

type template struct {
	text    string
	pattern *regexp.Regexp // nil where the text is no template
}

// shelf is called with the lock held.
func (d *directory) shelf(m *member) *shelf {
	if d.shelves == nil {
		d.shelves = map[string]*shelf{}
	}
	if d.shelves[m.name] == nil {
		d.shelves[m.name] = &shelf{heard: map[string]bool{}}
	}
	return d.shelves[m.name]
}

// list notes the resources that an upstream lists.
func (d *directory) list(m *member, uris []string) {
	all := make(map[string]bool, len(uris))
	for _, uri := range uris {
		all[uri] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.shelf(m)
	s.uris, s.read = all, time.Now()
}

// listTemplates notes the templates that an upstream lists (RFC 6570).
func (d *directory) listTemplates(m *member, texts []string) {
	all := make([]template, 0, len(texts))
	for _, text := range texts {
		t := template{text: text}
		if parsed, err := uritemplate.New(text); err == nil {
			t.pattern = parsed.Regexp()
		}
		all = append(all, t)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shelf(m).templates = all
}

// hear notes that an upstream has named a resource.
func (d *directory) hear(m *member, uri string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.shelf(m)
	if s.heard[uri] {
		return
	}
	s.heard[uri] = true
	if s.order = append(s.order, uri); len(s.order) > maxHeard {
		delete(s.heard, s.order[0])
		s.order = s.order[1:]
	}
}

// invalidate notes that an upstream's lists have changed.
func (d *directory) invalidate(m *member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shelf(m).read = time.Time{}
}

// forget forgets an upstream that is there no more, nor another in its place.
func (d *directory) forget(m *member, all []*member) {
	if slices.ContainsFunc(all, func(other *member) bool { return other.name == m.name }) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.shelves, m.name)
}

// isRead reports whether an upstream's lists were read.
func (d *directory) isRead(m *member) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shelf(m).isRead()
}

func (s *shelf) isRead() bool { return s.uris != nil && s.templates != nil }

// isOlder reports whether an upstream's lists were read so long ago, or not at all.
func (d *directory) isOlder(m *member, than time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.shelf(m)
	return !s.isRead() || time.Since(s.read) > than
}

// shown is the URI, or the template of URIs, under which clients know what an upstream
// calls uri. all are the upstreams in their order. What looks like an alias gets one in
// any case.
func (d *directory) shown(all []*member, m *member, uri string) string {
	if strings.HasPrefix(uri, aliasScheme) {
		return aliasScheme + m.name + "/" + uri
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, other := range all {
		if other.name == m.name {
			break
		}
		if s := d.shelf(other); s.uris[uri] || s.hasTemplate(uri) {
			return aliasScheme + m.name + "/" + uri
		}
	}
	return uri
}

func (s *shelf) hasTemplate(text string) bool {
	return slices.ContainsFunc(s.templates, func(t template) bool { return t.text == text })
}

// find returns the upstream of a resource, or of a template, and what that calls it;
// nil where none is known. isSure says that it is listed, word for word.
func (d *directory) find(all []*member, uri string) (m *member, own string, isSure bool) {
	if rest, ok := strings.CutPrefix(uri, aliasScheme); ok {
		name, own, _ := strings.Cut(rest, "/")
		for _, m := range all {
			if m.name == name {
				return m, own, true
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, has := range []func(*shelf) bool{ // the surest first
		func(s *shelf) bool { return s.uris[uri] || s.hasTemplate(uri) },
		func(s *shelf) bool {
			return slices.ContainsFunc(s.templates, func(t template) bool { return t.pattern != nil && t.pattern.MatchString(uri) })
		},
		func(s *shelf) bool { return s.heard[uri] },
	} {
		for _, m := range all {
			if has(d.shelf(m)) {
				return m, uri, i == 0
			}
		}
	}
	return nil, uri, false
}
