package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// operatorHands is how many questions the operator has in hand at a time:
	// each takes a process.
	operatorHands = 4
	// operatorPatience is how long the operator waits for a list of refunds.
	operatorPatience = 5 * time.Second
)

// An operator finds out what became of calls of which the gateway does not know,
// and puts it on record: what a person would do. It is safe for concurrent use.
type operator struct {
	line    *line
	program string
	ledger  string
	counts  *counts
	hands   chan struct{}
}

func newOperator(l *line, program, ledger string, c *counts) *operator {
	return &operator{line: l, program: program, ledger: ledger, counts: c, hands: make(chan struct{}, operatorHands)}
}

// settle resolves an operation by the upstream's own list of refunds.
//
// That the list is complete takes three facts. The attempt is closed: the gateway
// listens no longer, and sends nothing under this key any more. An upstream
// handles what it is sent in turn: what stood before the list in its input has been
// executed. And if the gateway that sent the call was killed, its upstream may have
// outlived it, but the upstream that answers now began after the end of that one.
func (o *operator) settle(ctx context.Context, order, operation string) error {
	select {
	case o.hands <- struct{}{}:
		defer func() { <-o.hands }()
	case <-ctx.Done():
		return ctx.Err()
	}
	found, err := o.refunds(ctx, order)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		o.counts.executed.Add(1)
		return o.resolve(ctx, operation, "--executed", fmt.Sprintf("%s of %s is in the list of refunds", found[0].ID, order))
	}
	o.counts.notExecuted.Add(1)
	return o.resolve(ctx, operation, "--not-executed", fmt.Sprintf("no refund of %s is in the list of refunds", order))
}

// refunds asks the upstream for its refunds of an order, until it answers.
func (o *operator) refunds(ctx context.Context, order string) ([]shown, error) {
	for {
		result, err := o.line.call(ctx, operatorPatience, listTool, map[string]any{"order": order})
		if wantsRetry(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return refundsIn(result)
	}
}

func refundsIn(result *mcp.CallToolResult) ([]shown, error) {
	if result.IsError {
		return nil, fmt.Errorf("the refunds cannot be listed: %s", textOf(result))
	}
	raw, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return nil, err
	}
	var found listing
	if err := json.Unmarshal(raw, &found); err != nil {
		return nil, err
	}
	if found.Refunds == nil { // an answer without a list is no evidence that there are none
		return nil, fmt.Errorf("the list of refunds has no list: %s", raw)
	}
	return found.Refunds, nil
}

func (o *operator) resolve(ctx context.Context, operation, finding, note string) error {
	cmd := subprocess(ctx, o.program, "ledger", "resolve", operation, "--ledger", o.ledger, finding, "--by", "demo", "--note", note)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("ledger resolve %s %s: %w: %s", operation, finding, err, strings.TrimSpace(said.String()))
	}
	return nil
}
