package gateway

import (
	"fmt"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// retryAfter is how long callers are told to wait before they ask again about
// something that is still going on.
const retryAfter = 20 * time.Second

// Each function below is one situation: what happened first, then what to do.
// "Failed" is never said of what nobody knows.

// tellFresh: the upstream has just answered, and the answer is on record.
func tellFresh(e dedup.Entry, result []byte) told {
	switch {
	case e.Reason == reasonTask:
		return told{outcome: taskOutcome(e), result: result}
	case !e.IsError:
		return told{outcome: completed(e), result: result}
	}
	return told{
		outcome: answeredError(e),
		text:    fmt.Sprintf("COMPLETED (error): the answer above is an error, and it is recorded under this key (%s): the same key gets it again. To try again with other arguments use a new key.", e.ID),
		result:  result,
	}
}

// tellUnrecorded: the upstream has just answered, and the ledger could not write
// that yet.
func tellUnrecorded(e dedup.Entry, result []byte) told {
	t := tellFresh(e, result)
	t.outcome.Recorded, t.outcome.ResultAvailable = false, false
	if t.text != "" {
		advice := "To try again with other arguments use a new key."
		t.text = fmt.Sprintf("COMPLETED (error): the answer above is an error, and it could not be recorded yet (%s). %s", e.ID, advice)
		t.outcome = t.outcome.next(actNewKey, 0, advice)
	}
	return t
}

// tellReplay: the call was answered before.
func tellReplay(e dedup.Entry) told {
	e.Replays++ // this one; the ledger writes it with its next commit
	t := told{result: e.Result}
	switch {
	case e.Kept != dedup.KeptWhole:
		t = tellUnkept(e)
	case e.Reason == reasonTask: // a handle is no result: nothing is added to it
		t.outcome = taskOutcome(e)
	case e.IsError:
		t.outcome = answeredError(e)
		t.text = fmt.Sprintf("COMPLETED (was_replay): this call was already answered on %s with the error above (%s). Nothing was executed now. To try again with other arguments use a new key.", when(e.ClaimedAt), e.ID)
	default:
		t.outcome = completed(e)
		t.text = fmt.Sprintf("COMPLETED (was_replay): this call was already executed on %s (%s). The result above is the recorded original; nothing was executed now.", when(e.ClaimedAt), e.ID)
	}
	t.outcome.WasReplay = true
	return t
}

// tellUnkept: the call was answered before, and the answer itself is not on record.
func tellUnkept(e dedup.Entry) told {
	t, how := told{outcome: completed(e), notError: true}, "executed"
	switch {
	case e.Reason == reasonTask:
		t.outcome, how = taskOutcome(e), "accepted as a task"
	case e.IsError:
		t.outcome, t.notError, how = answeredError(e), false, "answered with an error"
	}
	t.text = fmt.Sprintf("%s (was_replay): this call was already %s on %s (%s). Its result is not on record: %s. Nothing was executed now.",
		t.outcome.Outcome, how, when(e.ClaimedAt), e.ID, whyNoResult(e))
	return t
}

func whyNoResult(e dedup.Entry) string {
	switch {
	case e.Kept == dedup.KeptTooLarge:
		return "it was too large to keep"
	case e.Reason == dedup.ReasonResolvedExecuted:
		return "a person established that the call was executed"
	}
	return "it was not kept"
}

func completed(e dedup.Entry) Outcome {
	return outcomeOf(e, Completed, effectExecuted).next(actNone, 0, "Already executed once; do not call again for the same purpose.")
}

func answeredError(e dedup.Entry) Outcome {
	return outcomeOf(e, Completed, effectAnsweredError).next(actNewKey, 0, "The error is recorded under this key. To try again use a new key.")
}

// taskOutcome is that of a call which goes on as a task. A handle says nothing of the
// effect; how the task has ended does.
func taskOutcome(e dedup.Entry) Outcome {
	switch e.TaskStatus {
	case dedup.TaskCompleted:
		return outcomeOf(e, Completed, effectExecuted).next(actNone, 0, "The task has been completed; ask for its result by its task id. Do not start it again.")
	case dedup.TaskFailed, dedup.TaskCancelled:
		// What failed on its way, or was cancelled, may have had its effect: a cancelled
		// task may even run on (2025-11-25, basic/utilities/tasks).
		return outcomeOf(e, Completed, effectUnknown).next(actAskHuman, 0, "The task has "+endedAs(e.TaskStatus)+", and it MAY have been executed before. Do not start it again under a new key: tell the user.")
	}
	return outcomeOf(e, Accepted, effectUnknown).next(actNone, 0, "The task goes on; ask for its result by its task id. Do not start it again.")
}

func endedAs(status dedup.TaskStatus) string {
	switch status {
	case dedup.TaskFailed:
		return "ended uncompleted" // who reads of a failure tries again
	case dedup.TaskCancelled:
		return "been cancelled"
	}
	return "been completed"
}

// tellUnknown: the call was sent, and nobody knows what it did.
// again reports whether the same key may be sent once more.
func (g *Gateway) tellUnknown(e dedup.Entry, again bool) told {
	o := outcomeOf(e, EffectUnknown, effectUnknown)
	fact := fmt.Sprintf("EFFECT_UNKNOWN: the call was sent on %s (%s), but %s. It MAY have been executed.", when(e.ClaimedAt), e.ID, whyUnknown(e.Reason))
	switch {
	case e.Open():
		advice := fmt.Sprintf("Do not send it again under a new key. Call %s {\"operation_id\":\"%s\"} in %d s.", g.statusTool(), e.ID, int(retryAfter.Seconds()))
		return told{text: fact + " " + advice, outcome: o.next(actCheckStatus, retryAfter, advice)}
	case again:
		advice := "Repeat it with the SAME key: that is safe for this tool."
		return told{text: fact + " " + advice, outcome: o.next(actRetrySameKey, 0, advice)}
	}
	advice := "Do not send it again under a new key. Tell the user, and go on without it."
	return told{text: fact + " " + advice, outcome: o.next(actAskHuman, 0, advice)}
}

func whyUnknown(reason dedup.Reason) string {
	switch reason {
	case dedup.ReasonTimeout:
		return "no answer came in time"
	case dedup.ReasonUpstreamExited:
		return "the tool's server exited before it answered"
	case dedup.ReasonConnectionLost:
		return "the connection to the tool's server was lost before it answered"
	case dedup.ReasonBadAnswer:
		return "the tool's server sent an answer that cannot be read"
	case dedup.ReasonAmbiguousError:
		return "the tool answered with an error that leaves open what it did"
	case dedup.ReasonOwnerDied:
		return "the gateway that ran it ended before the answer came"
	case dedup.ReasonInputExpired:
		return "the tool's server asked for input that did not come in time"
	case dedup.ReasonShutdown:
		return "the gateway was shut down before the answer came"
	}
	return "no usable answer came"
}

// tellRunning: the same call is being executed.
func tellRunning(e dedup.Entry) told {
	advice := fmt.Sprintf("Repeat it with the SAME key in %d s.", int(retryAfter.Seconds()))
	return told{
		text:    fmt.Sprintf("RUNNING: the same call is still executing since %s (%s). %s", when(e.ClaimedAt), e.ID, advice),
		outcome: outcomeOf(e, Running, effectUnknown).next(actRetrySameKey, retryAfter, advice),
	}
}

// tellConflict: the key belongs to something else.
func (g *Gateway) tellConflict(c dedup.Conflict) told {
	if c.Reason == dedup.ReasonScopeChanged {
		advice := "If a separate action is wanted here, use another key."
		return told{
			text: fmt.Sprintf("REJECTED_DUPLICATE (scope_changed): this key was used for the same tool of %s at %s (%s). Nothing was executed now. %s",
				place(c.Entry.Scope), when(c.Entry.ClaimedAt), c.Entry.ID, advice),
			outcome: rejected(c.Entry, c.Reason).next(actNewKey, 0, advice),
		}
	}
	fact, advice, action := g.tellReused(c.Entry)
	return told{
		text:    fmt.Sprintf("REJECTED_DUPLICATE (key_reused): %s Nothing was executed now. %s", fact, advice),
		outcome: rejected(c.Entry, c.Reason).next(action, 0, advice),
	}
}

func (g *Gateway) tellReused(e dedup.Entry) (fact, advice, action string) {
	at := fmt.Sprintf("at %s (%s) with other arguments.", when(e.ClaimedAt), e.ID)
	switch {
	case e.State == dedup.Completed && e.IsError:
		return "the action of this key was answered with an error " + at, "To try with these arguments use a new key.", actNewKey
	case e.State == dedup.Completed:
		return "the action of this key was ALREADY EXECUTED " + at, "Do nothing more, unless a separate second action is wanted: that needs its own key.", actNone
	case e.State == dedup.Running || e.Open():
		return "the action of this key is still executing, begun " + at,
			fmt.Sprintf("Call %s {\"operation_id\":\"%s\"} to see how it ends; a separate second action needs its own key.", g.statusTool(), e.ID), actCheckStatus
	}
	if e.State == dedup.AwaitingInput {
		return "the action of this key waits for input, begun " + at,
			"Repeat the call with its own arguments to go on with it; a separate second action needs its own key.", actFixArguments
	}
	return "the action of this key MAY have been executed " + at, "Do not send it under a new key. Tell the user, and go on without it.", actAskHuman
}

func place(s dedup.Scope) string {
	if s.Account == "" {
		return fmt.Sprintf("the server %q", s.Upstream)
	}
	return fmt.Sprintf("the server %q, account %q", s.Upstream, s.Account)
}

// tellDuplicate: the same content was called under another key.
func (g *Gateway) tellDuplicate(d dedup.Duplicate, resultID string) told {
	e, t := d.Entry, told{}
	var advice, action string
	switch {
	case d.Reason == dedup.ReasonRepeatUnknown && e.ID.IsZero():
		advice, action = "Check the operation id, or leave idempotency_repeat_of out.", actFixArguments
		t.text = "REJECTED_DUPLICATE (repeat_unknown): idempotency_repeat_of names no earlier call with the same content. Nothing was executed. " + advice
		t.outcome = notSent(RejectedDuplicate, d.Reason).next(action, 0, advice)
		return t
	case d.Reason == dedup.ReasonRepeatUnknown:
		advice, action = fmt.Sprintf("If the user wants it once more, add idempotency_repeat_of: %q.", e.ID), actRepeatOf
		t.text = fmt.Sprintf("REJECTED_DUPLICATE (repeat_unknown): the call that idempotency_repeat_of names was already repeated at %s (%s). Nothing was executed now. %s", when(e.ClaimedAt), e.ID, advice)
	case d.Reason == dedup.ReasonNearDuplicate:
		advice, action = fmt.Sprintf("If the user wants it a second time, add idempotency_repeat_of: %q.", e.ID), actRepeatOf
		what := "completed"
		if e.IsError {
			what = "was answered with an error"
		}
		if resultID != "" {
			resultID = ", result id " + resultID
		}
		t.text = fmt.Sprintf("REJECTED_DUPLICATE (near_duplicate): an identical call under another key already %s at %s (%s%s). Nothing was executed now. %s", what, when(e.SettledAt), e.ID, resultID, advice)
	case e.State == dedup.Running || e.Open():
		advice, action = fmt.Sprintf("Wait for it: call %s {\"operation_id\":\"%s\"}.", g.statusTool(), e.ID), actCheckStatus
		t.text = fmt.Sprintf("REJECTED_DUPLICATE (near_duplicate_unresolved): an identical call under another key is still executing since %s (%s). Nothing was executed now. %s", when(e.ClaimedAt), e.ID, advice)
	case e.State == dedup.AwaitingInput:
		advice, action = "Tell the user: whoever made that call has to go on with it, under its own key.", actAskHuman
		t.text = fmt.Sprintf("REJECTED_DUPLICATE (near_duplicate_unresolved): an identical call under another key waits for input since %s (%s). Nothing was executed now. %s", when(e.ClaimedAt), e.ID, advice)
	default:
		advice, action = "Tell the user, and go on without it.", actAskHuman
		t.text = fmt.Sprintf("REJECTED_DUPLICATE (near_duplicate_unresolved): an identical call under another key MAY have been executed at %s (%s). Nothing was executed now. %s", when(e.ClaimedAt), e.ID, advice)
	}
	t.outcome = rejected(e, d.Reason).next(action, 0, advice)
	return t
}

// tellExpired: it ran so long ago that its answer is gone.
func tellExpired(e dedup.Entry) told {
	how := "was executed"
	if e.IsError {
		how = "was answered with an error"
	}
	advice := "It is not run again. A new action needs a new key."
	return told{
		text:    fmt.Sprintf("REJECTED_DUPLICATE (key_expired): the call of this key %s at %s (%s), and answers are kept for %s. %s", how, when(e.ClaimedAt), e.ID, hours(e.Window), advice),
		outcome: rejected(e, dedup.ReasonKeyExpired).next(actNewKey, 0, advice),
	}
}

// rejected is the outcome of a call that another operation stands in the way of:
// the members are that operation's.
func rejected(e dedup.Entry, reason dedup.Reason) Outcome {
	effect := effectUnknown
	if e.State == dedup.Completed {
		effect = effectExecuted
		if e.IsError {
			effect = effectAnsweredError
		}
	}
	return outcomeOf(e, RejectedDuplicate, effect).because(reason)
}

// tellRefused: the call cannot run as it stands. Nothing was sent or claimed.
func tellRefused(reason dedup.Reason, detail, advice string) told {
	return told{
		text:    fmt.Sprintf("FAILED_BEFORE_INPUT (%s): %s. Nothing was sent to the tool. %s", reason, detail, advice),
		outcome: notSent(FailedBeforeInput, reason).next(actFixArguments, 0, advice),
	}
}

// tellKey: the call has no usable key.
func tellKey(err *dedup.KeyError) told {
	return tellRefused(err.Reason, err.Detail, fmt.Sprintf(
		"Repeat the call with idempotency_key set to a name of this one intent, verb:thing:occurrence, for example %q with your own values; on any retry send the same key.", dedup.ExampleKey))
}

// tellUnkeyable: the tool has side effects, and its calls cannot be told apart.
func tellUnkeyable(problem string) told {
	advice := "Only whoever runs the gateway can change that (--on-problem, or --class): tell the user, and go on without it."
	return told{
		text:    fmt.Sprintf("FAILED_BEFORE_INPUT (unkeyable): this tool has side effects, and no key can be demanded of its calls (%s). Nothing was sent to the tool. %s", problem, advice),
		outcome: notSent(FailedBeforeInput, reasonUnkeyable).next(actAskHuman, 0, advice),
	}
}

// tellUnreachable: the upstream could not be written to. Nothing was sent.
func tellUnreachable(detail string) told {
	advice := "Safe to retry with the same key."
	return told{
		text:    fmt.Sprintf("FAILED_BEFORE_INPUT (unreachable): nothing was sent to the tool (%s). %s", detail, advice),
		outcome: notSent(FailedBeforeInput, dedup.ReasonUnreachable).next(actRetrySameKey, retryAfter, advice),
	}
}

// tellLedger: the ledger could not be read or written. Nothing was sent.
func tellLedger() told {
	advice := "Safe to retry with the same key; if it stays so, tell the user that the ledger cannot be written."
	return told{
		text:    "FAILED_BEFORE_INPUT (ledger_unavailable): the ledger cannot be written, and nothing is sent without it. Nothing was sent to the tool. " + advice,
		outcome: notSent(FailedBeforeInput, reasonLedgerUnavailable).next(actRetrySameKey, retryAfter, advice),
	}
}

// tellReleased: the call was let run, and is proven not to have executed.
func tellReleased(e dedup.Entry, f upstream.Finding) told {
	t := tellUnreachable("the tool's server could not be written to")
	if e.Reason != dedup.ReasonUnreachable {
		advice := "The key is free: repeat the call with it once the cause is mended."
		t = told{
			text:    fmt.Sprintf("FAILED_BEFORE_INPUT (%s): the tool's server refused the call before running it. Nothing was executed. %s", e.Reason, advice),
			outcome: Outcome{}.next(actFixArguments, 0, advice),
			quote:   quote(f),
		}
	}
	next := t.outcome.Next
	t.outcome = outcomeOf(e, FailedBeforeInput, effectNotExecuted)
	t.outcome.Next = next
	return t
}

// when is a time as texts give it: RFC 3339 in UTC, to the second.
func when(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func hours(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%d hours", int(d.Hours()))
	}
	return d.String()
}
