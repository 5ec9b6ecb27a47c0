package toolschema

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// All tools of the corpus, each with a key.
func BenchmarkRewriteCorpusPages(b *testing.B) {
	pages := corpusPages(b)
	for b.Loop() {
		for _, result := range pages {
			if _, err := guardAll.RewritePage(result); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// A list of 2 MB, as one published server has it, from 64 KB definitions.
func BenchmarkRewritePageOf2MB(b *testing.B) {
	var page bytes.Buffer
	page.WriteString(`{"tools":[`)
	for i := 0; page.Len() < 2<<20; i++ {
		if i > 0 {
			page.WriteByte(',')
		}
		fmt.Fprintf(&page, `{"name":"create_%d","inputSchema":{"type":"object","properties":{`, i)
		for p := range 1000 {
			fmt.Fprintf(&page, `"p%d":{"type":"string","description":"The %d-th of them."},`, p, p)
		}
		page.WriteString(`"last":{"type":["string","null"]}},"additionalProperties":false}}`)
	}
	page.WriteString(`]}`)
	b.SetBytes(int64(page.Len()))
	for b.Loop() {
		if _, err := guardAll.RewritePage(page.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}

// arguments are objects of 1 MB, of several shapes.
var arguments = map[string]string{
	"one text": `"text":"` + strings.Repeat("x", 1<<20) + `"`,
	"records":  `"list":[` + strings.Repeat(`{"id":12345,"name":"somebody","tags":["a","b"],"ratio":0.25},`, 1<<20/62) + `{}]`,
	"members":  wide(1 << 20 / 16),
	"numbers":  `"list":[` + strings.Repeat(`9007199254740993,`, 1<<20/17) + `1e999999999]`,
	"nested":   `"deep":` + strings.Repeat(`{"a":`, MaxDepth/2) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`}`, MaxDepth/2),
}

func wide(members int) string {
	var b strings.Builder
	for i := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"m%07d":%4d`, members-i, i%9000+1000)
	}
	return b.String()
}

func benchmarkCalls(b *testing.B, run func(Call)) {
	for name, members := range arguments {
		params := []byte(`{"name":"create_x","arguments":{` + members + `,"idempotency_key":"` + goodKey + `"}}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(params)))
			b.ReportAllocs()
			for b.Loop() {
				call, err := ParseCall(params)
				require.NoError(b, err)
				run(call)
			}
		})
	}
}

// Reading a call and taking the key out of it.
func BenchmarkForward1MB(b *testing.B) {
	benchmarkCalls(b, func(c Call) { c.Forward(Tool{}, "", "") })
}

// Reading a call and condensing its arguments.
func BenchmarkFingerprint1MB(b *testing.B) {
	benchmarkCalls(b, func(c Call) {
		if _, err := c.Fingerprint(Tool{}); err != nil {
			b.Fatal(err)
		}
	})
}
