package gateway

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"time"

	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// A ToolRule is what is said of the tools that its pattern names, in place of what
// Options say of all. What it leaves zero, it says nothing about. For each setting, a
// pattern that is the tool's name beats a glob, and among equals the later beats the
// earlier. Calls that are not recorded do not heed it.
type ToolRule struct {
	Pattern        string        // as of toolschema.Override; without Options.Name
	CallTimeout    time.Duration // see Options
	UpstreamWindow time.Duration // see Options
	OnCancel       OnCancel      // OnCancelDetach, unless said
	StrictCodes    *bool         // see upstream.Judgement
	// The texts count beside those of Options.Judgement, each list where that of the
	// same name does.
	AmbiguousTexts, RefusalTexts, NothingHappened []*regexp.Regexp
}

// OnCancel says what becomes of a call that was sent when its caller cancels it, by
// notifications/cancelled or, in the modern era over HTTP, by closing the stream
// (2026-07-28, basic/patterns/cancellation). A shutdown cancels nothing.
type OnCancel string

// What can become of a call that is cancelled.
const (
	// OnCancelDetach lets the call go on, and tells the upstream nothing.
	OnCancelDetach OnCancel = "detach"
	// OnCancelForward tells the upstream, once. A call of which no byte has left by
	// then is not sent at all. Else its answer is waited for as if nothing had been
	// said, and recorded: that it was cancelled is no evidence of what it did. Where an
	// upstream is told by closing the call's stream, no answer can come, and the call
	// is unknown at once.
	OnCancelForward OnCancel = "forward"
)

// toolSettings are how the calls of one tool are treated.
type toolSettings struct {
	callTimeout    time.Duration
	upstreamWindow time.Duration
	onCancel       OnCancel
	judgement      upstream.Judgement
}

// settingsOf are what the options say of a tool.
func (o *Options) settingsOf(tool string) toolSettings {
	var said ToolRule
	for _, r := range toolschema.Naming(o.Tools, tool, patternOf) {
		said.CallTimeout = cmp.Or(r.CallTimeout, said.CallTimeout)
		said.UpstreamWindow = cmp.Or(r.UpstreamWindow, said.UpstreamWindow)
		said.OnCancel = cmp.Or(r.OnCancel, said.OnCancel)
		said.StrictCodes = cmp.Or(r.StrictCodes, said.StrictCodes)
		said.AmbiguousTexts = orTexts(r.AmbiguousTexts, said.AmbiguousTexts)
		said.RefusalTexts = orTexts(r.RefusalTexts, said.RefusalTexts)
		said.NothingHappened = orTexts(r.NothingHappened, said.NothingHappened)
	}
	return toolSettings{
		callTimeout:    cmp.Or(said.CallTimeout, o.CallTimeout),
		upstreamWindow: cmp.Or(said.UpstreamWindow, o.UpstreamWindow),
		onCancel:       cmp.Or(said.OnCancel, OnCancelDetach),
		judgement:      said.judgement(o.Judgement),
	}
}

func patternOf(r ToolRule) string { return r.Pattern }

func orTexts(said, before []*regexp.Regexp) []*regexp.Regexp {
	if len(said) > 0 {
		return said
	}
	return before
}

// judgement is one of all tools with what the rule says beside it.
func (r ToolRule) judgement(j upstream.Judgement) upstream.Judgement {
	if r.StrictCodes != nil {
		j.StrictCodes = *r.StrictCodes
	}
	for _, list := range []struct{ all, said *[]*regexp.Regexp }{
		{&j.AmbiguousTexts, &r.AmbiguousTexts}, {&j.RefusalTexts, &r.RefusalTexts}, {&j.NothingHappened, &r.NothingHappened},
	} {
		if len(*list.said) > 0 {
			*list.all = slices.Concat(*list.all, *list.said)
		}
	}
	return j
}

// longestCall is the longest time that a call of any tool may be given.
func (o *Options) longestCall() time.Duration {
	longest := o.CallTimeout
	for _, r := range o.Tools {
		longest = max(longest, r.CallTimeout)
	}
	return longest
}

// Unmatched returns the patterns of Policy and Tools that name none of the tools, each
// once.
func (o *Options) Unmatched(tools []string) []string {
	patterns := o.Policy.Unmatched(tools)
	for _, r := range o.Tools {
		patterns = append(patterns, r.Pattern)
	}
	return toolschema.Unmatched(patterns, tools)
}

// whenCancelled calls f, once, when the caller whose context it is cancels; at once, if
// it has. It does not when ctx ends for another reason, and not after stop has been
// called, which waits for an f that runs.
func whenCancelled(ctx context.Context, f func(*cancelledError)) (stop func()) {
	var cancelled *cancelledError
	if ctx.Err() != nil {
		if errors.As(context.Cause(ctx), &cancelled) {
			f(cancelled)
		}
		return func() {}
	}
	done := make(chan struct{})
	drop := context.AfterFunc(ctx, func() {
		defer close(done)
		if errors.As(context.Cause(ctx), &cancelled) {
			f(cancelled)
		}
	})
	return func() {
		if !drop() {
			<-done
		}
	}
}

// UpstreamWindowOf is how long, from the first send, the upstream is taken to honour a
// key of the tool.
func (o *Options) UpstreamWindowOf(tool string) time.Duration {
	return o.settingsOf(tool).upstreamWindow
}
