package jsonrpc

import (
	"fmt"
	"strconv"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// The codes that section 5.1 of the JSON-RPC specification defines.
const (
	CodeParseError     = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternalError  = -32603
)

// An Error is the error member of a response.
type Error struct {
	Code    int
	Message string
	Data    []byte // raw JSON, nil where absent
}

func (e *Error) Error() string { return fmt.Sprintf("%s (JSON-RPC error %d)", e.Message, e.Code) }

// ParseError reads the error member of a response. It fails where that is not
// an object with an integer code. A message that is missing, or no string, is
// empty.
func ParseError(raw []byte) (*Error, bool) {
	object, err := rawjson.ParseObject(raw)
	if err != nil {
		return nil, false
	}
	number, _ := object.Get("code")
	code, err := strconv.Atoi(string(number))
	if err != nil {
		return nil, false
	}
	e := &Error{Code: code}
	e.Message, _ = object.String("message")
	e.Data, _ = object.Get("data")
	return e, true
}

// Request returns a request. A nil params is left out.
func Request(id []byte, method string, params []byte) Message {
	b := begin(id, len(params))
	b.raw = append(append(b.raw, `,"method":`...), rawjson.Quote(method)...)
	b.Method = method
	return b.end("params", params)
}

// Notification returns a notification. A nil params is left out.
func Notification(method string, params []byte) Message {
	b := begin(nil, len(params))
	b.raw = append(append(b.raw, `,"method":`...), rawjson.Quote(method)...)
	b.Method = method
	return b.end("params", params)
}

// Result returns the response to the request id.
func Result(id, result []byte) Message { return begin(id, len(result)).end("result", result) }

// ErrorReply returns the error response to the request id; a nil id, for a
// request whose id could not be read, is written as null.
func ErrorReply(id []byte, e *Error) Message {
	if id == nil {
		id = []byte("null")
	}
	raw := strconv.AppendInt([]byte(`{"code":`), int64(e.Code), 10)
	raw = append(append(raw, `,"message":`...), rawjson.Quote(e.Message)...)
	if e.Data != nil {
		raw = append(append(raw, `,"data":`...), e.Data...)
	}
	return begin(id, len(raw)).end("error", append(raw, '}'))
}

// begin opens a message with room for size bytes of its last member.
func begin(id []byte, size int) Message {
	m := Message{ID: id, raw: make([]byte, 0, size+len(id)+96)}
	m.raw = append(m.raw, `{"jsonrpc":"2.0"`...)
	if id != nil {
		m.raw = append(append(m.raw, `,"id":`...), id...)
	}
	return m
}

// end adds the last member, if there is one, and closes the message.
func (m Message) end(member string, value []byte) Message {
	if len(value) > 0 {
		m.raw = append(append(append(m.raw, `,"`...), member...), `":`...)
		m.raw = append(m.raw, value...)
	}
	m.raw = append(m.raw, '}')
	switch member {
	case "params":
		m.Params = value
	case "result":
		m.Result = value
	case "error":
		m.Error = value
	}
	return m
}
