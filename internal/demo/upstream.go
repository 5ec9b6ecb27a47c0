package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	refundTool = "refund"
	listTool   = "list_refunds"
)

// UpstreamOptions are the settings of the bundled upstream.
type UpstreamOptions struct {
	Refunds string  // the file in which refunds are committed
	Loss    float64 // the share of answers to refunds that is lost, from 0 to less than 1
	Seed    uint64  // of the losses
}

// ServeUpstream serves the upstream of the experiment, an MCP server with the
// tools refund and list_refunds, until in ends or ctx does. It waits first until
// no other process serves the same file. It is called once in a process that ends
// when it returns: a read of in that blocks is left to that end.
//
// Messages are handled one after the other, in the order in which they came. A
// list of refunds is therefore complete for every call that was written before
// it: whatever was to be executed has been by then.
func ServeUpstream(ctx context.Context, in io.Reader, out io.Writer, options UpstreamOptions) error {
	b, err := openBook(options.Refunds, loss{options.Loss, options.Seed})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(newUpstream(b).serve(ctx, in, out), b.close()) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// An upstream commits refunds and loses some of its answers.
type upstream struct {
	book   *book
	server *server.MCPServer
	silent bool // the answer to the message in hand is lost
}

func newUpstream(b *book) *upstream {
	u := &upstream{book: b, server: server.NewMCPServer("mcp-idem-demo-refunds", "1.0.0", server.WithToolCapabilities(false))}
	u.server.AddTool(mcp.NewTool(refundTool,
		mcp.WithDescription("Refund an order."),
		mcp.WithString("order", mcp.Required(), mcp.Description("The order's number")),
		mcp.WithInteger("amount", mcp.Required(), mcp.Min(1), mcp.Description("In cents")),
	), u.refund)
	u.server.AddTool(mcp.NewTool(listTool,
		mcp.WithDescription("List the refunds of an order."),
		mcp.WithReadOnlyHintAnnotation(true),
		mcp.WithDestructiveHintAnnotation(false),
		mcp.WithString("order", mcp.Description("The order's number; absent: all orders")),
	), u.list)
	return u
}

// serve is the loop over the messages. It is not the loop of the server package,
// which has no way of losing an answer and living on.
func (u *upstream) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // a line without its end was cut off: its sender is gone
		}
		if err != nil {
			return err
		}
		u.silent = false
		reply := u.server.HandleMessage(ctx, line)
		if reply == nil || u.silent {
			continue
		}
		if err := writeLine(out, reply); err != nil {
			return err
		}
	}
}

func writeLine(out io.Writer, message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = out.Write(append(line, '\n'))
	return err
}

func (u *upstream) refund(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	order, err := request.RequireString("order")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	amount, err := request.RequireInt("amount")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	r, err := u.book.add(order, amount)
	if err != nil {
		return nil, err
	}
	u.silent = r.AnswerLost
	return mcp.NewToolResultStructured(shownOf(r), fmt.Sprintf("Refunded %d cents of %s (%s).", r.Amount, r.Order, r.ID)), nil
}

// A shown refund is what the tools tell of it.
type shown struct {
	ID     string `json:"id"`
	Order  string `json:"order"`
	Amount int    `json:"amount"`
}

func shownOf(r refund) shown { return shown{r.ID, r.Order, r.Amount} }

// A listing is the structured result of list_refunds.
type listing struct {
	Refunds []shown `json:"refunds"`
}

func (u *upstream) list(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	order := request.GetString("order", "")
	found := listing{Refunds: []shown{}}
	for _, r := range u.book.refunds {
		if order == "" || r.Order == order {
			found.Refunds = append(found.Refunds, shownOf(r))
		}
	}
	return mcp.NewToolResultStructured(found, fmt.Sprintf("%d refunds", len(found.Refunds))), nil
}
