package dedup_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// inputs are what an upstream asked for.
type inputs struct {
	state, question string // question: empty once nobody is given it any more
	attempt         int
	form            string // of the key in what was answered so
}

func (o *operation) forget() {
	for _, r := range o.rounds {
		r.question = ""
	}
}

// inquire lets the upstream ask for input, without any effect.
func (m *model) inquire(t *rapid.T, o *operation) {
	m.answers++
	r := &inputs{
		state: fmt.Sprint("state ", m.answers), question: fmt.Sprint("question ", m.answers), attempt: o.attempt, form: o.sent[len(o.sent)-1],
	}
	within := rapid.SampledFrom([]time.Duration{nearby, week}).Draw(t, "within")
	_, err := o.lease.Ask(dedup.Question{Body: []byte(r.question), State: stateOf(r.state), Within: within})
	require.NoError(t, err)
	o.rounds = append(o.rounds, r)
	o.state, o.result, o.lease, o.until = dedup.AwaitingInput, r.question, nil, m.now().Add(within)
}

// goOn answers a question, perhaps one that was answered before.
func (m *model) goOn(t *rapid.T) {
	o := m.draw(t, func(o *operation) bool { return len(o.rounds) > 0 })
	at := rapid.IntRange(0, len(o.rounds)-1).Draw(t, "round")
	g, r := m.pick(t), m.request(t, o, dedup.OperationID{})
	continuing(o.rounds[at].state, rapid.SampledFrom([]string{"yes", "no"}).Draw(t, "answers"))(&r)
	if o.state != dedup.Released {
		m.buryOne(o)
	}
	want, body := m.expectContinued(o, at)
	switch v := m.begin(t, g, r, want).(type) {
	case dedup.Replay:
		require.Equal(t, body, string(v.Entry.Result))
	case dedup.Asked:
		require.Equal(t, body, string(v.Entry.Result))
	case *dedup.Lease:
		if o.state == dedup.AwaitingInput {
			m.continued(o, g, v)
		} else {
			m.claimed(o, dedup.OperationID{}, g, v)
		}
		m.send(t, o)
	}
}

// expectContinued is the verdict that the answer to a question should get, and what it
// should be told.
func (m *model) expectContinued(o *operation, at int) (verdict, body string) {
	newest := at == len(o.rounds)-1
	switch {
	case o.state == dedup.Released:
		return "dedup.Stray", ""
	case newest && o.state == dedup.AwaitingInput && o.tool == "charge" && o.rounds[at].form != m.form:
		return "dedup.Stray", ""
	case newest && o.state == dedup.AwaitingInput:
		return "*dedup.Lease", ""
	}
	standing := m.expect(o, o, dedup.OperationID{})
	switch {
	case newest:
		return standing, o.result
	case standing == "*dedup.Lease":
		return "dedup.Lost", ""
	case standing == "dedup.Expired" || o.state == dedup.Unknown || o.rounds[at+1].attempt != o.rounds[at].attempt || o.rounds[at+1].question == "":
		return standing, o.result
	}
	return "dedup.Asked", o.rounds[at+1].question
}

// continued is an operation whose upstream goes on.
func (m *model) continued(o *operation, g *gateway, lease *dedup.Lease) {
	o.state, o.result, o.by, o.lease, o.done, o.goesOn = dedup.Running, "", g, lease, false, true
	o.round++
}
