package dedup_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// call calls with a key that may have been used before, in any way.
func (m *model) call(t *rapid.T) {
	o := &operation{
		tool:      rapid.SampledFrom([]string{"pay", "set", "charge"}).Draw(t, "tool"),
		key:       rapid.SampledFrom([]string{"order-a", "order-b", "order-c"}).Draw(t, "key"),
		arguments: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "arguments"),
	}
	var repeatOf dedup.OperationID
	if len(m.ops) > 0 && rapid.IntRange(0, 3).Draw(t, "repeats") == 0 {
		repeatOf = m.draw(t, func(*operation) bool { return true }).id
	}
	m.ask(t, o, repeatOf)
}

// retry calls again as before.
func (m *model) retry(t *rapid.T) {
	m.ask(t, m.draw(t, func(*operation) bool { return true }), dedup.OperationID{})
}

func (m *model) ask(t *rapid.T, asked *operation, repeatOf dedup.OperationID) {
	g := m.pick(t)
	old := m.ops[asked.tool+asked.key]
	if old != nil && old.arguments == asked.arguments {
		m.buryOne(old) // who meets an operation of the dead buries it
	}
	want := m.expect(old, asked, repeatOf)
	switch v := m.begin(t, g, m.request(t, asked, repeatOf), want).(type) {
	case dedup.Replay:
		require.Equal(t, old.result, string(v.Entry.Result))
		require.Equal(t, old.isError, v.Entry.IsError)
	case dedup.Asked:
		require.Equal(t, old.result, string(v.Entry.Result))
	case *dedup.Lease:
		m.send(t, m.claimed(asked, repeatOf, g, v))
	}
}

// begin asks a gateway's ledger, which must give the verdict that is wanted.
func (m *model) begin(t *rapid.T, g *gateway, r dedup.Request, want string) dedup.Verdict {
	v, found, err := g.ledger.Look(context.Background(), r)
	require.NoError(t, err)
	if !found {
		v, err = g.ledger.Begin(context.Background(), r)
		require.NoError(t, err)
	}
	require.Equal(t, want, fmt.Sprintf("%T", v))
	return v
}

func (m *model) request(t *rapid.T, o *operation, repeatOf dedup.OperationID) dedup.Request {
	key, err := dedup.ParseKey(o.key+"-4812", "tool")
	require.NoError(t, err)
	r := dedup.Request{
		Scope: dedup.Scope{Namespace: "ada", Upstream: "shop", Tool: o.tool}, Key: key,
		FingerprintVersion: 1, Class: "NON_RETRYABLE", Window: week, RepeatOf: repeatOf,
	}
	arguments(o.arguments)(&r)
	switch {
	case o.tool == "pay":
		confirming(&r)
	case o.tool == "set":
		safeRetry(&r)
	case m.twice:
		safeRetry(&r)
	default:
		deduplicate(&r)
	}
	if o.tool == "charge" {
		r.ClassBySaid, r.Downstream = true, m.form
	}
	return r
}

// expect is the verdict that a call should get.
func (m *model) expect(old, asked *operation, repeatOf dedup.OperationID) string {
	switch {
	case old == nil || old.state == dedup.Released:
		if m.duplicate(asked, repeatOf) {
			return "dedup.Duplicate"
		}
		return "*dedup.Lease"
	case old.arguments != asked.arguments:
		return "dedup.Conflict"
	case m.expired(old):
		return "dedup.Expired"
	case old.state == dedup.Completed:
		return "dedup.Replay"
	case old.state == dedup.AwaitingInput:
		return "dedup.Asked"
	case old.state == dedup.Running || old.open():
		return "dedup.Busy"
	case m.again(old) != 0:
		return "*dedup.Lease"
	}
	return "dedup.Lost"
}

// again is the row by which an unknown operation may be sent again, or 0.
func (m *model) again(o *operation) dedup.Row {
	inTime := m.now().Before(o.created.Add(24*time.Hour - 10*time.Minute))
	switch {
	case o.tool == "set", o.tool == "charge" && m.twice:
		return 17
	case o.tool == "charge" && inTime && m.form != "" && o.downstream() == m.form:
		return 16
	}
	return 0
}

// duplicate reports whether a new key is refused for its content, or for what it
// says that it repeats.
func (m *model) duplicate(asked *operation, repeatOf dedup.OperationID) bool {
	repeats := repeatOf.IsZero()
	for _, other := range m.ops {
		same := other.tool == asked.tool && other.arguments == asked.arguments
		if other.id == repeatOf && same {
			repeats = true
		}
		if other.key == asked.key && other.tool == asked.tool || other.state == dedup.Released {
			continue
		}
		if !repeatOf.IsZero() && other.repeatOf == repeatOf {
			return true // consumed
		}
		near := other.state == dedup.Running || m.now().Sub(other.claimed) < nearby
		if asked.tool == "pay" && same && near && (other.state != dedup.Completed || repeatOf.IsZero()) {
			return true
		}
	}
	return !repeats
}

// claimed is an operation with one attempt more.
func (m *model) claimed(asked *operation, repeatOf dedup.OperationID, g *gateway, lease *dedup.Lease) *operation {
	o := m.ops[asked.tool+asked.key]
	if o == nil {
		o = asked
		o.created, o.state, o.seen = m.now(), dedup.Released, map[string]bool{}
		m.ops[o.tool+o.key] = o
	}
	if o.state == dedup.Unknown {
		o.doubt = m.again(o)
		o.round++
	} else {
		o.doubt, o.repeatOf, o.sent, o.round, o.rounds = 0, repeatOf, nil, 0, nil
	}
	form := ""
	if o.tool == "charge" {
		form = m.form
	}
	o.sent = append(o.sent, form)
	o.id, o.arguments, o.state, o.claimed, o.settled = lease.Entry().ID, asked.arguments, dedup.Running, m.now(), time.Time{}
	o.attempt++
	o.by, o.lease, o.late, o.done, o.goesOn = g, lease, nil, false, false
	return o
}

// send lets the call reach the upstream, or not; it may be answered at once.
func (m *model) send(t *rapid.T, o *operation) {
	switch rapid.SampledFrom([]string{"answered", "under way", "executed", "unsent", "forgotten"}).Draw(t, "sent") {
	case "answered":
		m.reply(t, o)
	case "executed": // and the answer is on its way
		o.execute()
	case "unsent":
		m.release(t, o, 2)
	case "forgotten":
		o.lease.Close()
		m.settle(o, dedup.Unknown, "", false)
	}
}

// answer lets something become of a call under way.
func (m *model) answer(t *rapid.T) {
	o := m.draw(t, func(o *operation) bool { return (o.lease != nil || o.late != nil) && !o.by.dead })
	if rapid.Bool().Draw(t, "in time") {
		m.reply(t, o)
		return
	}
	if late := o.late; late != nil {
		require.NoError(t, late.Close())
		o.late = nil
		return
	}
	s := dedup.Stranding{Evidence: dedup.NoAnswer, Reason: dedup.ReasonTimeout}
	if rapid.Bool().Draw(t, "may arrive late") {
		s.OpenFor = lateness
	}
	if !o.done && s.OpenFor == 0 && rapid.Bool().Draw(t, "executes") {
		o.execute()
	}
	_, late, err := o.lease.Strand(s)
	require.NoError(t, err)
	m.settle(o, dedup.Unknown, "", false)
	o.late = late
}

// reply is what the upstream says. It tells the truth.
func (m *model) reply(t *rapid.T, o *operation) {
	says := "a result"
	if !o.done {
		says = rapid.SampledFrom([]string{"a result", "an error", "a refusal", "a question"}).Draw(t, "says")
	}
	if says == "a question" && o.late != nil { // which settles nothing any more
		require.NoError(t, o.late.Close())
		o.late = nil
		return
	}
	switch says {
	case "a result":
		if !o.done {
			o.execute()
		}
		m.complete(t, o, dedup.AnsweredResult)
	case "an error":
		m.complete(t, o, dedup.AnsweredErrorResult)
	case "a refusal":
		m.release(t, o, 3)
	case "a question":
		m.inquire(t, o)
	}
}

func (m *model) complete(t *rapid.T, o *operation, evidence dedup.Evidence) {
	m.answers++
	a := dedup.Answer{Evidence: evidence, Body: fmt.Appendf(nil, "answer %d", m.answers)}
	settled, err := complete(o, a)
	require.NoError(t, err)
	isError := evidence != dedup.AnsweredResult
	switch {
	case o.state == dedup.Completed || o.state == dedup.Released: // a person has settled it
		o.late = nil
	case isError && o.doubt == 16:
		m.stays(o)
	default:
		m.settle(o, dedup.Completed, string(a.Body), isError)
	}
	require.Equal(t, o.state, settled.State)
}

func complete(o *operation, a dedup.Answer) (dedup.Entry, error) {
	if o.late != nil {
		return o.late.Complete(a)
	}
	return o.lease.Complete(a)
}

func (m *model) release(t *rapid.T, o *operation, p proof) {
	settled, err := release(o, p)
	require.NoError(t, err)
	switch {
	case o.state == dedup.Completed || o.state == dedup.Released: // a person has settled it
		o.late = nil
	case o.state == dedup.Running && o.goesOn:
		o.state, o.result, o.lease = dedup.AwaitingInput, o.rounds[len(o.rounds)-1].question, nil
	case o.doubt != 0 || o.round != 0:
		m.stays(o)
	default:
		m.settle(o, dedup.Released, "", false)
	}
	require.Equal(t, o.state, settled.State)
}

func release(o *operation, p proof) (dedup.Entry, error) {
	if o.late != nil {
		return o.late.Release(p)
	}
	return o.lease.Release(p)
}

// stays is an attempt in doubt that ends in what proves nothing.
func (m *model) stays(o *operation) {
	if o.state == dedup.Running {
		m.settle(o, dedup.Unknown, "", false)
	}
	o.late = nil
}
