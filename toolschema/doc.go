// Package toolschema knows what an MCP tool is and what a call to it says.
//
// From a tool's definition it decides whether calls need an idempotency key
// (class.go; name.go and lexicon.go for what names say), and offers the tool with
// a schema that demands one (rewrite.go). How a schema is edited so that it says
// of arguments with a key what it said of them without is in blind.go, with
// definition.go and references.go for what $ref refers to; properties that take a
// key of the tool's own are in native.go; what model APIs refuse, in modelapi.go.
//
// From a call it takes the key out again (call.go) and condenses the rest into a
// fingerprint that does not depend on how the caller happened to write it
// (canonical.go).
//
// Everything here is a pure function of its arguments: no I/O, no logging, no
// state. All values are safe for concurrent use as long as nobody changes the
// byte slices that they were made from.
package toolschema
