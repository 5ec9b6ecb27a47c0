// Package gateway is the way of a call through mcp-idem: from the client through
// the schemas, the ledger and the upstream, and back.
//
// READ THIS FIRST: call.go. It is one function, [Gateway.Call], with one step a
// line. Everything else here serves a step of it:
//
//	call.go       the journey of tools/call
//	ask.go        what a call asks of the ledger: key, scope, fingerprint, policy
//	attempt.go    sending a call that may run, and settling what came of it
//	outcome.go    the outcome object that callers are told
//	tell.go       the words for each situation
//	reply.go      the bytes of a result, with the outcome beside them
//	status.go     the gateway's own tool
//	catalog.go    tools/list, rewritten and kept
//	relay.go      everything that is not a tool call, handed on as it came
//	state.go      what a restarted upstream has to be told again
//	stdio.go      one client on standard input and output
//	exchange.go   its requests; order.go, the order in which they are handed on
//	questions.go  the upstream's requests to it; outbox.go, all that is written to it
//
// It is the only package that knows toolschema, dedup and upstream.
package gateway
