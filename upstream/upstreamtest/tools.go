package upstreamtest

import (
	"fmt"
	"os"
	"strconv"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// defaultTools are offered where no other tools are given. What is offered from
// a file has an effect, and answers with a line of text.
const defaultTools = `[
{"name":"refund","description":"Refund an order.","inputSchema":{"type":"object","properties":{"order":{"type":"string"},"amount":{"type":"number"}},"required":["order"]}},
{"name":"send_mail","description":"Send a mail.","inputSchema":{"type":"object","properties":{"to":{"type":"string"},"subject":{"type":"string"},"body":{"type":"string"}},"required":["to"]},"annotations":{"destructiveHint":false}},
{"name":"note_set","description":"Set a note.","inputSchema":{"type":"object","properties":{"name":{"type":"string"},"text":{"type":"string"}},"required":["name"]},"annotations":{"idempotentHint":true}},
{"name":"get_balance","description":"Read a balance.","inputSchema":{"type":"object","properties":{"account":{"type":"string"}}},"annotations":{"readOnlyHint":true}},
{"name":"echo_raw","description":"Return the arguments as they came.","inputSchema":{"type":"object","maxProperties":9007199254740993},"annotations":{"readOnlyHint":true}},
{"name":"ask_roots","description":"Ask the client for its roots.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}
]`

// readers are the tools without an effect.
var readers = map[string]bool{"get_balance": true, "echo_raw": true, "ask_roots": true}

// offer reads the tools, raw and by their names.
func offer(file string) (list [][]byte, byName map[string]rawjson.Object, err error) {
	text := []byte(defaultTools)
	if file != "" {
		if text, err = os.ReadFile(file); err != nil {
			return nil, nil, err
		}
	}
	if list, err = rawjson.ParseArray(text); err != nil {
		return nil, nil, fmt.Errorf("tools: %w", err)
	}
	byName = map[string]rawjson.Object{}
	for _, raw := range list {
		tool, err := rawjson.ParseObject(raw)
		if err != nil {
			return nil, nil, fmt.Errorf("tools: %w", err)
		}
		name, _ := tool.String("name")
		byName[name] = tool
	}
	return list, byName, nil
}

// page returns one page of tools; the cursor is the number of the first.
func (s *server) page(params rawjson.Object) string {
	cursor, _ := params.String("cursor")
	from, _ := strconv.Atoi(cursor) // none: the first page
	to := len(s.offered)
	if s.pageSize > 0 {
		to = min(to, from+s.pageSize)
	}
	list := []byte("[")
	for i, tool := range s.offered[min(from, to):to] {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, tool...)
	}
	if to < len(s.offered) {
		return fmt.Sprintf(`{"tools":%s],"nextCursor":"%d"}`, list, to)
	}
	return fmt.Sprintf(`{"tools":%s]}`, list)
}

// result is what a tool says when nothing goes wrong.
func (s *server) result(c call) []byte {
	switch c.target {
	case "echo_raw":
		return fmt.Appendf(nil, `{ "content":[{"type":"text","text":%s},{"type":"x-unknown","payload":%s}], `+
			`"structuredContent":%s,"x_unknown":9007199254740993,"_meta":{"x/n":1.10} }`,
			rawjson.Quote(string(c.arguments)), c.arguments, c.arguments)
	case "get_balance":
		return []byte(`{"content":[{"type":"text","text":"42.50"}],"structuredContent":{"balance":42.50}}`)
	case "ask_roots":
		return fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, rawjson.Quote(string(s.roots(c))))
	case "refund":
		return fmt.Appendf(nil, `{"content":[{"type":"text","text":"refunded re_%d"}],"structuredContent":{"refund_id":"re_%d"}}`, c.number, c.number)
	}
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":"done: %s, call %d"}]}`, c.target, c.number)
}
