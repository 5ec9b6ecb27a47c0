package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/sync/errgroup"
)

// callers is how many callers there are at once.
const callers = 32

// basePatience is how long a caller waits for its first answer. It waits longer
// each time, so that callers do not keep a slow machine from answering.
const basePatience = 300 * time.Millisecond

func patience(try int) time.Duration { return time.Duration(try) * basePatience }

// The orders are numbered from 1.
func orderOf(n int) string { return fmt.Sprintf("order-%d", n) }

func refundOf(order string) map[string]any { return map[string]any{"order": order, "amount": 4200} }

// forEachOrder lets the callers work through the orders, until all are done or
// one has failed.
func forEachOrder(ctx context.Context, calls int, do func(ctx context.Context, order string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var taken atomic.Int64
	for range min(callers, calls) {
		group.Go(func() error {
			for n := taken.Add(1); n <= int64(calls); n = taken.Add(1) {
				if err := do(ctx, orderOf(int(n))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// A straightCaller calls the upstream itself, again and again until it has an
// answer: all that a client can do without a gateway.
type straightCaller struct {
	line *line
	done func() // told of each order whose caller knows that it is refunded
}

func (c *straightCaller) refund(ctx context.Context, order string) error {
	for try := 1; ; try++ {
		result, err := c.line.call(ctx, patience(try), refundTool, refundOf(order))
		switch {
		case wantsRetry(err):
			continue
		case err != nil:
			return err
		case result.IsError:
			return fmt.Errorf("the upstream refused the refund of %s: %s", order, textOf(result))
		}
		c.done()
		return nil
	}
}

func wantsRetry(err error) bool {
	return errors.Is(err, errNoAnswer) || errors.Is(err, errDisconnected)
}

// An outcome is what the gateway tells of a call, as far as a caller needs it.
type outcome struct {
	Outcome     string `json:"outcome"`
	WasReplay   bool   `json:"was_replay"`
	Effect      string `json:"effect"`
	OperationID string `json:"operation_id"`
	Next        struct {
		Action  string `json:"action"`
		AfterMS int64  `json:"after_ms"`
	} `json:"next"`
}

// outcomeOf reads the outcome that stands beside every result of the gateway.
func outcomeOf(result *mcp.CallToolResult) (o outcome, err error) {
	const member = "mcp-idem/outcome"
	if result.Meta == nil || result.Meta.AdditionalFields[member] == nil {
		return o, fmt.Errorf("the gateway's result has no outcome: %s", textOf(result))
	}
	raw, err := json.Marshal(result.Meta.AdditionalFields[member])
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(raw, &o)
}

func textOf(result *mcp.CallToolResult) string {
	for _, block := range result.Content {
		if text, ok := block.(mcp.TextContent); ok {
			return text.Text
		}
	}
	return "no text"
}

// A protectedCaller calls through the gateway, under one key for each order, and
// does what the outcome asks for.
type protectedCaller struct {
	line     *line
	operator *operator
	counts   *counts
	done     func()
}

func (c *protectedCaller) refund(ctx context.Context, order string) error {
	arguments := refundOf(order)
	arguments["idempotency_key"] = "refund:" + order + ":1"
	for try := 1; ; try++ {
		result, err := c.line.call(ctx, patience(try), refundTool, arguments)
		if wantsRetry(err) {
			continue
		}
		if err != nil {
			return err
		}
		known, err := c.follow(ctx, order, result)
		if err != nil {
			return fmt.Errorf("refund of %s: %w", order, err)
		}
		if known {
			c.done()
			return nil
		}
	}
}

// follow does what a result asks for, and reports whether the caller knows now
// that the refund was made. Where it does not, the call is to be repeated.
func (c *protectedCaller) follow(ctx context.Context, order string, result *mcp.CallToolResult) (known bool, err error) {
	o, err := outcomeOf(result)
	if err != nil {
		return false, err
	}
	if o.WasReplay {
		c.counts.replays.Add(1)
	}
	if o.Outcome == "EFFECT_UNKNOWN" {
		c.counts.unknown.Add(1)
	}
	switch o.Next.Action {
	case "none":
		if o.Outcome == "COMPLETED" && o.Effect == "executed" {
			return true, nil
		}
	case "ask_human":
		return false, c.operator.settle(ctx, order, o.OperationID)
	case "retry_same_key", "check_status":
		return false, pause(ctx, o)
	}
	return false, fmt.Errorf("unexpected outcome: %s", textOf(result))
}

// pause waits before the same key is sent again. How long the outcome says is
// meant for models, which pay for each turn; sooner does no harm.
func pause(ctx context.Context, o outcome) error {
	timer := time.NewTimer(min(time.Duration(o.Next.AfterMS)*time.Millisecond, basePatience))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
