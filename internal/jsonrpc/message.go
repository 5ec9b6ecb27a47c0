// Package jsonrpc reads and writes JSON-RPC 2.0 messages, one a line, as the
// bytes that they are: a message is parsed for its top-level members only, and
// what is handed on keeps every byte that was not asked to change.
//
// The rules are those of https://www.jsonrpc.org/specification, and of the
// stdio transport of the Model Context Protocol for the framing. Batches are
// refused: MCP has had none since its revision 2025-06-18.
package jsonrpc

import (
	"errors"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// protocol is the value that the member "jsonrpc" of every message has.
const protocol = "2.0"

// A Message is a request, a notification or a response. It is made by Parse or
// by one of Request, Notification, Result and ErrorReply; the zero Message is
// none of them. It is read-only and safe for concurrent use as long as its
// source is not changed.
type Message struct {
	// ID, Params, Result and Error are raw JSON, nil where the member is
	// absent. They share memory with the source.
	ID, Params, Result, Error []byte
	// Method is the unescaped method, empty in a response.
	Method string

	raw    []byte
	object rawjson.Object
	parsed bool // object describes raw
}

// Parse reads one message. The Message keeps a reference to line.
//
// It fails with an *Error that is fit to be sent back: CodeParseError for what
// is not JSON, CodeInvalidRequest for JSON that is no message, a repeated
// top-level member included. The Message that comes with an error holds ID and
// Method where they could be read, and nothing else; an ID that could not be
// read is nil, which ErrorReply writes as null, as section 5 of the
// specification demands.
//
// Beyond the specification, because peers do it: "params": null counts as
// absent, and so does a null "error" beside a result, or a null "result" beside
// an error.
func Parse(line []byte) (Message, error) {
	object, err := rawjson.ParseObject(line)
	if err != nil {
		return unreadable(line, err)
	}
	m := Message{raw: line, object: object, parsed: true}
	m.ID, _ = object.Get("id")
	m.Params, _ = object.Get("params")
	m.Params = notNull(m.Params)
	m.Result, _ = object.Get("result")
	m.Error, _ = object.Get("error")
	if m.Result != nil && m.Error != nil {
		m.Error = notNull(m.Error)
	}
	if m.Result != nil && m.Error != nil {
		m.Result = notNull(m.Result)
	}
	m.Method, _ = object.String("method")
	if fault := m.fault(); fault != "" {
		broken := Message{Method: m.Method}
		if isID(m.ID) {
			broken.ID = m.ID
		}
		return broken, &Error{Code: CodeInvalidRequest, Message: "Invalid Request: " + fault}
	}
	return m, nil
}

// unreadable says what is wrong with a line that is not one JSON object.
func unreadable(line []byte, err error) (Message, error) {
	var duplicate *rawjson.DuplicateError
	switch {
	case errors.As(err, &duplicate):
		m := Message{}
		m.ID, m.Method = peek(line)
		if duplicate.Name == "id" {
			m.ID = nil
		}
		return m, &Error{Code: CodeInvalidRequest, Message: "Invalid Request: " + duplicate.Error()}
	case errors.Is(err, rawjson.ErrNotObject):
		return Message{}, &Error{Code: CodeInvalidRequest, Message: "Invalid Request: a message is one JSON object; batches are not supported"}
	default:
		return Message{}, &Error{Code: CodeParseError, Message: "Parse error: " + err.Error()}
	}
}

// fault returns what makes m no message, or nothing.
func (m Message) fault() string {
	version, _ := m.object.String("jsonrpc")
	_, hasMethod := m.object.Get("method")
	answered := m.Result != nil || m.Error != nil
	switch {
	case version != protocol:
		return `"jsonrpc" must be "2.0"`
	case m.ID != nil && !isID(m.ID) && (hasMethod || string(m.ID) != "null"):
		return `"id" must be a string or a number`
	case hasMethod && m.Method == "":
		return `"method" must be a string that is not empty`
	case !hasMethod && !answered:
		return `neither "method" nor "result" nor "error"`
	case hasMethod && answered, m.Result != nil && m.Error != nil:
		return `more than one of "method", "result" and "error"`
	case m.Result != nil && m.ID == nil:
		return `a "result" without an "id"`
	case hasMethod && m.Params != nil && m.Params[0] != '{' && m.Params[0] != '[':
		return `"params" must be an object or an array`
	}
	return ""
}

// IsRequest reports whether m asks for an answer.
func (m Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether m has a method and asks for no answer.
func (m Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether m is a result or an error. The ID of an error may
// be null, or nil: then nobody knows which request it answers.
func (m Message) IsResponse() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// Raw returns the message as it was written. It may be pretty-printed over
// several lines; Line makes it one.
func (m Message) Raw() []byte { return m.raw }

// With returns the message with the value of one top-level member replaced, or
// with the member added at the end. Every other byte is kept. The value must be
// valid JSON; it is not checked.
func (m Message) With(member string, value []byte) Message {
	if member == "params" && stands(value, m.Params) {
		return m
	}
	if !m.parsed {
		m.object, _ = rawjson.ParseObject(m.raw) // ours by construction
	}
	m.object = m.object.With(member, value)
	m.raw, m.parsed = m.object.Raw(), true
	switch member {
	case "id":
		m.ID = value
	case "params":
		m.Params = value
	case "result":
		m.Result = value
	case "error":
		m.Error = value
	case "method":
		m.Method, _ = rawjson.Unquote(value)
	}
	return m
}

// stands reports whether two values are the same bytes at the same place.
func stands(a, b []byte) bool { return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] }

func notNull(value []byte) []byte {
	if string(value) == "null" {
		return nil
	}
	return value
}
