package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// An attempt sends a call that has leave to run, once, and settles its lease. It
// belongs to the gateway: the caller's leaving changes nothing for it, but for what
// OnCancelForward says.
type attempt struct {
	g        *Gateway
	lease    *dedup.Lease
	session  upstream.Session
	request  jsonrpc.Message // as it goes upstream, with the caller's id
	from     *Exchange       // hears of progress
	caller   context.Context // ends when the caller leaves
	settings toolSettings
	again    bool // what becomes unknown may be sent again
}

// A settled attempt is what its caller is told.
type settled struct {
	told   told
	passed jsonrpc.Message // the upstream's own response, where the caller gets that
	took   time.Duration   // upstream
}

// run makes the attempt and leaves what the caller is told, or returns early when the
// caller leaves; the attempt then goes on without it.
func (j *journey) run(ctx context.Context, lease *dedup.Lease) {
	j.from.owns(lease.Entry().ID)
	a := &attempt{
		g: j.g, lease: lease, session: j.session, from: j.from, caller: ctx, settings: j.settings,
		request: j.request.With("params", j.input.into(j.call.Forward(j.tool, j.keyText, lease.DownstreamKey()))),
		again:   j.asked.OnUnknown != dedup.OnUnknown{},
	}
	done := make(chan settled)
	gone, stop := untilCallerLeaves(ctx)
	defer stop()
	j.g.running.Add(1)
	j.g.attempts.Go(func() {
		s := a.make()
		j.g.running.Add(-1)
		select {
		case done <- s:
		case <-gone.Done():
			j.g.log.Info().Str("tool", j.call.Name).Str("operation_id", lease.Entry().ID.String()).
				Str("outcome", s.told.outcome.Outcome).Dur("upstream_ms", s.took).Msg("call ended after its caller had left")
		}
	})
	select {
	case s := <-done:
		j.told, j.passed, j.upstreamTook = s.told, s.passed, s.took
	case <-gone.Done():
		j.told = tellRunning(lease.Entry())
	}
	j.warnOfNear(lease)
}

// untilCallerLeaves returns a context that ends when the caller leaves. At a
// shutdown the caller is still there, and is told how its operation stands.
func untilCallerLeaves(ctx context.Context) (context.Context, context.CancelFunc) {
	gone, leave := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), errShutdown) {
			leave()
		}
	})
	return gone, func() { stop(); leave() }
}

// warnOfNear tells of an identical call under another key, where the policy is to
// execute it and say so.
func (j *journey) warnOfNear(lease *dedup.Lease) {
	near := lease.Near()
	if near == nil || j.told.outcome.Outcome != Completed {
		return
	}
	id := near.ID.String()
	j.told.outcome.DuplicateOf = &id
	j.told.outcome = j.told.outcome.because(dedup.ReasonNearDuplicate)
	if j.told.text == "" {
		j.told.text = fmt.Sprintf("COMPLETED (near_duplicate): executed, although an identical call was made under another key at %s (%s).", when(near.ClaimedAt), id)
	}
}

// make sends the call and waits for what comes of it.
func (a *attempt) make() (s settled) {
	defer a.lease.Close()
	began := time.Now()
	ctx, renew, stop := callTime(a.g.life, a.settings.callTimeout)
	defer stop()
	request, unfollow := a.g.progress.follow(a.request, a.from.tell, renew)
	defer unfollow()
	call, err := a.send(ctx, request)
	if err != nil {
		return a.unsent(err)
	}
	unlink := a.whenCancelled(func(cancelled *cancelledError) { cancelled.tell(a.session, call) })
	answer, err := call.Wait(ctx)
	unlink()
	took := time.Since(began)
	if err != nil {
		a.g.progress.givenUp()
		s = a.lost(call, err)
	} else {
		s = a.answered(answer)
	}
	s.took = took
	return s
}

// send sends the call. A cancellation that is to be forwarded keeps it here as long as
// no byte has left.
func (a *attempt) send(ctx context.Context, request jsonrpc.Message) (*upstream.Call, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer a.whenCancelled(func(cancelled *cancelledError) { cancel(cancelled) })()
	return a.session.SendTo(ctx, request, upstream.Listener{Notified: a.g.hears(a.from)})
}

// whenCancelled calls f when the caller cancels, if the upstream is to know.
func (a *attempt) whenCancelled(f func(*cancelledError)) (stop func()) {
	if a.settings.onCancel != OnCancelForward {
		return func() {}
	}
	return whenCancelled(a.caller, f)
}

// unsent frees the key: not a byte has left.
func (a *attempt) unsent(err error) settled {
	var proof *upstream.NotSent
	if !errors.As(err, &proof) {
		e, _, err := a.lease.Strand(dedup.Stranding{Evidence: dedup.NoAnswer, Reason: dedup.ReasonConnectionLost})
		return a.unknown(e, err, "")
	}
	return a.released(proof, upstream.Finding{})
}

// lost leaves the operation unknown. After a timeout the answer may still come,
// and somebody goes on listening for it.
func (a *attempt) lost(call *upstream.Call, cause error) settled {
	if f := a.settings.judgement.JudgeLoss(cause); f.Proof != nil {
		call.Forget()
		return a.released(f.Proof, f)
	}
	s := dedup.Stranding{Evidence: dedup.NoAnswer, Reason: dedup.ReasonConnectionLost, Note: cause.Error()}
	var lost *upstream.LostError
	switch {
	case errors.As(cause, &lost) && lost.Cause != upstream.Forgotten: // that one was lost with its stream, which was closed to cancel it
		s.Reason = dedup.Reason(lost.Cause)
	case errors.Is(cause, errShutdown):
		s.Reason = dedup.ReasonShutdown
	case errors.Is(cause, errCallTimeout):
		s.Reason, s.OpenFor = dedup.ReasonTimeout, max(0, a.g.options.LateWindow)
	}
	e, late, err := a.lease.Strand(s)
	if late != nil {
		a.g.listeners.Go(func() { a.listen(call, late) })
	} else {
		call.Forget()
		e.OpenUntil = time.Time{} // whatever the ledger wanted: nobody listens
	}
	return a.unknown(e, err, "")
}

// listen waits for the answer of a call whose caller was told EFFECT_UNKNOWN.
func (a *attempt) listen(call *upstream.Call, late *dedup.Late) {
	ctx, cancel := context.WithTimeout(a.g.life, a.g.options.LateWindow)
	defer cancel()
	defer call.Forget()
	answer, err := call.Wait(ctx)
	f := a.settings.judgement.JudgeLoss(err)
	if err == nil {
		f = a.settings.judgement.Judge(answer)
	}
	switch {
	case f.Proof != nil:
		_, err = late.Release(f.Proof)
	case evidenceOf(f).Answers():
		_, err = late.Complete(answerOf(f))
	default:
		err = late.Close()
	}
	a.logLate(err)
}

func (a *attempt) logLate(err error) {
	id := a.lease.Entry().ID.String()
	if err != nil {
		a.g.log.Error().Err(err).Str("operation_id", id).Msg("what became of a late call could not be written to the ledger")
		return
	}
	a.g.log.Info().Str("operation_id", id).Msg("late call settled")
}

// answered settles the lease by what the answer proves.
func (a *attempt) answered(answer jsonrpc.Message) settled {
	f := a.settings.judgement.Judge(answer)
	evidence := evidenceOf(f)
	switch {
	case f.Proof != nil:
		s := a.released(f.Proof, f)
		if f.Kind == upstream.FoundURLElicitation { // the client acts on this very error
			s.passed = answer
		}
		return s
	case f.Kind == upstream.FoundInputRequired:
		return a.asked(f.Result)
	case evidence.Answers():
		e, err := a.lease.Complete(answerOf(f))
		return a.completed(e, err, answerOf(f).Body)
	}
	reason := dedup.ReasonAmbiguousError
	if evidence == dedup.NoAnswer {
		reason = dedup.ReasonBadAnswer
	}
	e, _, err := a.lease.Strand(dedup.Stranding{Evidence: evidence, Reason: reason})
	return a.unknown(e, err, quote(f))
}

// evidenceOf says in the ledger's words what an answer is that proves no refusal.
func evidenceOf(f upstream.Finding) dedup.Evidence {
	switch f.Kind {
	case upstream.FoundResult, upstream.FoundTask:
		return dedup.AnsweredResult
	case upstream.FoundErrorResult:
		return dedup.AnsweredErrorResult
	case upstream.FoundErrorReply:
		return dedup.AnsweredErrorReply
	case upstream.FoundAmbiguous:
		if f.Error != nil {
			return dedup.AmbiguousReply
		}
		return dedup.AmbiguousResult
	}
	return dedup.NoAnswer
}

// answerOf is an answer as it is recorded: the result as it came, or, since
// JSON-RPC errors may never reach a model, the error made into one.
func answerOf(f upstream.Finding) dedup.Answer {
	answer := dedup.Answer{Evidence: evidenceOf(f), Body: f.Result}
	if f.Kind == upstream.FoundTask {
		answer.Reason, answer.Task = reasonTask, taskOf(f.Result).id
	}
	if f.Error != nil {
		answer.Body = []byte(`{"content":[` + string(textBlock("The tool's server answered: "+quote(f))) + `],"isError":true}`)
	}
	return answer
}

// quote is what the upstream said in its error, for a text that marks it as such.
func quote(f upstream.Finding) string {
	switch {
	case f.Error == nil && f.Result == nil && f.Proof != nil:
		return f.Proof.Error() // an HTTP status
	case f.Error == nil:
		return firstText(f.Result)
	}
	text := fmt.Sprintf("%s (code %d)", f.Error.Message, f.Error.Code)
	if f.Error.Data != nil {
		text += " " + string(f.Error.Data)
	}
	return text
}

// firstText is the first text block of a result.
func firstText(result []byte) string {
	o, err := rawjson.ParseObject(result)
	if err != nil {
		return ""
	}
	content, _ := o.Get("content")
	blocks, _ := rawjson.ParseArray(content)
	for _, block := range blocks {
		b, err := rawjson.ParseObject(block)
		if err != nil {
			continue
		}
		if text, ok := b.String("text"); ok {
			return text
		}
	}
	return ""
}

func (a *attempt) completed(e dedup.Entry, err error, result []byte) settled {
	if e.State != dedup.Completed { // an error about a call that was sent twice
		return a.unknown(e, err, firstText(result))
	}
	if err != nil {
		return settled{told: tellUnrecorded(e, result)}
	}
	if t := taskOf(result); e.Reason == reasonTask && t.status.Terminal() { // it has ended before it was told of
		if ended, err := a.g.noteEnd(t); err == nil {
			e = ended
		}
	}
	return settled{told: tellFresh(e, result)}
}

// released settles the lease by proof that what was sent was not executed.
func (a *attempt) released(p dedup.Proof, f upstream.Finding) settled {
	e, err := a.lease.Release(p)
	var t told
	switch e.State {
	case dedup.Released:
		t = tellReleased(e, f)
	case dedup.AwaitingInput:
		_, reason := p.ProvesNotExecuted()
		t = tellInputRefused(e, dedup.Reason(reason), f)
	default:
		return a.unknown(e, err, quote(f))
	}
	t.outcome.Recorded = err == nil
	return settled{told: t}
}

// asked records that the upstream asks for input before it goes on.
func (a *attempt) asked(question []byte) settled {
	e, err := a.lease.Ask(a.g.questionOf(question))
	if e.State != dedup.AwaitingInput {
		return a.unknown(e, err, "")
	}
	t := tellQuestion(e, question)
	t.outcome.Recorded = err == nil
	return settled{told: t}
}

func (a *attempt) unknown(e dedup.Entry, err error, quote string) settled {
	t := a.g.tellUnknown(e, a.again)
	t.outcome.Recorded = err == nil
	t.quote = quote
	return settled{told: t}
}
