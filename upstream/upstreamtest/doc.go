// Package upstreamtest is a scripted MCP server that counts its effects and
// misbehaves on cue. It speaks raw JSON-RPC over standard input and output, and
// over HTTP by net/http, in both eras of the protocol, since no library would let
// it do what it has to do.
//
// A test binary that calls Main first thing in its TestMain can start itself as
// the server: over standard input and output with the command line that Self
// returns, over HTTP with Serve. Run is the same server for a program.
//
// # Eras
//
// The server is of the legacy era unless --era says otherwise: it has a handshake
// and, over HTTP, sessions, a GET stream and DELETE. In the modern era, of the
// revision 2026-07-28, each request stands for itself; its headers have to agree
// with its body. A server of both eras serves each request as what it is. The era
// sse is the HTTP transport of 2024-11-05: a GET of /mcp opens the stream, and its
// first event names where messages are taken.
//
// # What is counted
//
// Each message that came in is a line of --received, each effect a line of
// --effects, on disk before anything else happens, and each HTTP request a line
// of --requests. Calls of tools are counted beside the effects, so that nth goes on
// counting over a restart; what is no call of a tool is counted in memory.
//
// # Faults
//
// A fault is TARGET[:nth=N][,when=WHEN][,conn=CONN],do=ACTION[:DETAIL]. do= comes
// last, so that a detail may have commas. The target is a tool, * for all tools, a
// method of the protocol, or GET or DELETE. WHEN is before_read, before_effect, or
// after_effect, which it is unless it is said or the action asks or hands a task.
// CONN is new or reused: what the connection of an HTTP request has to be. Several
// faults of one point act in the order of the flags.
//
// Some hold a call up, or say something, and change nothing:
//
//	delay:DURATION
//	gate:NAME                makes DIR/NAME.waiting, waits until DIR/NAME is there
//	progress:N               N notifications of progress
//	log:TEXT                 a log message; to a modern client if it asked for them
//	request:METHOD[:PARAMS]  a request to the client; waits for the response, which
//	                         over stdio it reads only for a tool that it has begun
//	notify:METHOD[:PARAMS]   a notification to the GET streams and subscriptions
//	forget                   all sessions are unknown from now on, and subscriptions end (http)
//
// Some give another answer, and go on:
//
//	error:CODE:TEXT, iserror:TEXT, result:JSON, big:BYTES
//	wrong_id, string_id
//	twice                    the answer, and once more
//
// Some send in place of the answer:
//
//	garbage                  what is not JSON
//	broken                   what is no JSON-RPC
//	empty                    {}
//	batch                    an array with the answer in it
//
// Some change how the answer is sent, whatever it is (http):
//
//	sse[:WORD,...]           as an event, with comments, ids, retry, lines (data of
//	                         several lines), crlf, cr, bom, tight (no space behind
//	                         the colon), unnamed (no event name)
//	rpc_status:STATUS        with that HTTP status
//	cut[:BYTES]              so many bytes of it, then the connection ends
//	slow_headers:DURATION, slow_body:DURATION
//	stay_open                as an event of a stream that does not end
//	resume                   not at all, until the client asks with Last-Event-ID
//
// Some leave the request without an answer:
//
//	exit[:STATUS], kill      the process ends, by itself or by SIGKILL
//	hang                     nothing happens; over HTTP until the client goes
//	drop                     as hang; over HTTP the connection ends
//	close_stdout             (stdio)
//	reset                    the connection breaks, with a reset (http)
//	status:STATUS[:BODY]     that HTTP status; from 400 on with a body of JSON that
//	                         is no JSON-RPC, unless another is given, or none by
//	                         a colon with nothing behind it (http)
//	redirect:STATUS[:URL]    to itself unless there is a URL (http)
//	end                      a stream of events that ends at once (http)
//	endless                  a stream of comments that never ends (http)
//
// And two act before the effect, unless they are told otherwise:
//
//	ask:TEXT                 asks the client for a confirmation: by input_required
//	                         and a requestState, or by elicitation/create in the
//	                         legacy era. Two of them make two rounds. --consumed
//	                         says what a requestState does that was used before
//	task                     answers with a handle; the call goes on behind it, with
//	                         all the other faults of the tool
package upstreamtest
