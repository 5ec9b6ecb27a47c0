package upstreamtest

import (
	"os"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// A line is the way back to the client on which one request came.
type line interface {
	// say sends what comes before the answer: a notification, or a request of
	// ours.
	say(jsonrpc.Message)
	// answer sends the answer, behind which nothing comes.
	answer(jsonrpc.Message)
	// reply sends something that is no message in place of the answer.
	reply([]byte)
	// shape changes how the answer will be sent.
	shape(fault)
	// fail leaves the request without an answer.
	fail(fault)
	// gone is closed when nobody waits for the answer any more.
	gone() <-chan struct{}
}

// stdio is the line of all requests that come over standard input. The process
// ends where its client is gone.
type stdio struct{ out *jsonrpc.Writer }

func newStdio() stdio { return stdio{jsonrpc.NewWriter(os.Stdout)} }

func (l stdio) say(m jsonrpc.Message)    { must(l.out.Write(m)) }
func (l stdio) answer(m jsonrpc.Message) { must(l.out.Write(m)) }
func (l stdio) shape(fault)              {}
func (l stdio) gone() <-chan struct{}    { return nil }

func (l stdio) reply(body []byte) {
	_, err := os.Stdout.Write(jsonrpc.Line(body))
	must(err)
}

func (l stdio) fail(f fault) {
	if f.action == "close_stdout" {
		must(os.Stdout.Close())
	}
}
