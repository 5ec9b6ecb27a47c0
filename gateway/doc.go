// Package gateway is the way of a call through mcp-idem: from the client through
// the schemas, the ledger and the upstream, and back.
//
// READ THIS FIRST: call.go. It is one function, [Gateway.Call], with one step a
// line. Everything else here serves a step of it:
//
//	call.go       the journey of tools/call
//	journey.go    its steps
//	ask.go        what a call asks of the ledger: key, scope, fingerprint, policy
//	wait.go       waiting for the call of the same key that is running
//	attempt.go    sending a call that may run, and settling what came of it
//	timeouts.go   how long that may take; progress.go, whose progress is whose
//	input.go      questions that the upstream asks in answer; asking.go, of the client
//	task.go       handles of tasks, and their end; tell_input.go, the words for both
//	outcome.go    the outcome object that callers are told
//	tell.go       the words for each situation
//	reply.go      the bytes of a result, with the outcome beside them
//	status.go     the gateway's own tool
//	catalog.go    tools/list, rewritten and kept
//	relay.go      everything that is not a tool call, handed on as it came
//	handshake.go  initialize
//	state.go      what a restarted upstream has to be told again
//	observe.go    what happens to the upstream, in the log
//	inspect.go    what tools there are, without a client
//	stdio.go      one client on standard input and output; stdio_modern.go, one of
//	              the era without a handshake
//	caller.go     what is known of the client
//	exchange.go   its requests; order.go, the order in which they are handed on
//	questions.go  the upstream's requests to it; outbox.go, all that is written to it
//
// A client has the upstream for itself (client.go, owner.go), or shares it:
//
//	hub.go        one upstream and many clients; common.go, when it is there
//	guest.go      one of the clients; subscribe.go, what it hears of besides answers
//	drain.go      the end: what runs may end, and what does not is unknown
//	site.go       what clients see of it, and what stands behind; hub_site.go, of a hub
//
// Several upstreams look like one, each behind a Gateway of its own:
//
//	front.go      the upstreams, and how others take their place
//	front_answer.go   whom a request concerns; front_list.go, lists of all
//	front_face.go     one handshake and one set of announcements for all
//	front_serve.go    on stdio and by HTTP; several.go, a client that meets all
//	front_resource.go  whose a resource is (directory.go); front_own.go, whose a task
//	front_attend.go    who hears of changes; front_mind.go, what later members are told
//	front_end.go       members that go, and the end
//
// HTTP is one way to come, and knows two eras of the protocol:
//
//	era.go        what the eras have different in a message
//	http.go       options, start and end; http_guard.go, who is let in
//	http_mcp.go   a request to /mcp, and the legacy era; http_session.go, its sessions
//	http_modern.go    a request of the modern era; http_listen.go, one that listens
//	http_stream.go    one HTTP response
//	severity.go   the levels of log messages
//
// It is the only package that knows toolschema, dedup and upstream.
package gateway
