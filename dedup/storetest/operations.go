package storetest

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

const (
	nearby = 10 * time.Minute
	window = 168 * time.Hour
)

// digest makes a digest of a word.
func digest(word string) dedup.Digest { return sha256.Sum256([]byte(word)) }

// query asks for a key under an upstream, with some content.
func query(upstream, key, content string) dedup.Query {
	return dedup.Query{
		Lookup: digest("lookup " + upstream + " " + key), Loose: digest("loose " + key),
		Content: digest("content " + content), Near: nearby,
	}
}

// asked is the query of the tests that need but one operation.
var asked = query("shop", "refund:order-4812:1", "42 dollars")

// newEntry is the entry of a first claim.
func newEntry(s dedup.Store, q dedup.Query, now time.Time) dedup.Entry {
	return dedup.Entry{
		ID: dedup.NewOperationID(), Lookup: q.Lookup, Loose: q.Loose, Content: q.Content, Fingerprint: digest("arguments"),
		FingerprintVersion: 1, Scope: dedup.Scope{Namespace: "ada", Upstream: "shop", Account: "/srv", Tool: "refund"},
		KeyHint: "refu… (19)", Class: "NON_RETRYABLE", State: dedup.Running, Row: 1, Attempt: 1, Owner: s.Info().Owner,
		Downstream: "params.client_token",
		CreatedAt:  now, ClaimedAt: now, Window: window, RepeatOf: q.RepeatOf,
	}
}

// evented is a change with the event that belongs to it.
func evented(e dedup.Entry) dedup.Change {
	return dedup.Change{Entry: e, Event: dedup.Event{Row: e.Row, Attempt: e.Attempt, State: e.State}}
}

// claim claims a key that must be free to claim, as the newest attempt.
func claim(t T, s dedup.Store, q dedup.Query) (claimed dedup.Entry) {
	t.Helper()
	require.NoError(t, s.Claim(context.Background(), q, func(around dedup.Surroundings) (dedup.Change, bool) {
		claimed = newEntry(s, q, around.Now)
		if around.Same != nil {
			claimed = moved(*around.Same, dedup.Claimed, around.Now)
			claimed.Owner, claimed.Content, claimed.RepeatOf = s.Info().Owner, q.Content, q.RepeatOf
			claimed.Downstream = "idempotency_key raw"
		}
		return evented(claimed), true
	}))
	return claimed
}

// moved applies evidence to an entry, by the first row of the table that fits.
func moved(e dedup.Entry, evidence dedup.Evidence, now time.Time) dedup.Entry {
	i := slices.IndexFunc(dedup.Moves, func(m dedup.Move) bool { return m.Evidence == evidence && fits(e, m) })
	if i < 0 {
		panic("a test asks for a move that the table lacks")
	}
	m := dedup.Moves[i]
	if m.NewAttempt {
		e.Attempt++
		e.ClaimedAt = now
		if e.Doubt = 0; m.From == dedup.Unknown {
			e.Doubt = m.Row
		}
	}
	if m.To == dedup.Running {
		if e.Round++; m.Row == 1 {
			e.Round = 0
		}
	}
	if m.Row != 11 {
		e.InputUntil = time.Time{}
	}
	if m.Evidence == dedup.InputRequired {
		e.InputUntil = now.Add(time.Hour)
	}
	e.State, e.Row, e.OpenUntil, e.SettledAt = m.To, m.Row, time.Time{}, now
	if m.To == dedup.Running || m.To == dedup.AwaitingInput {
		e.SettledAt = time.Time{}
	}
	return e
}

// fits reports whether an entry is where a move of the table begins.
func fits(e dedup.Entry, m dedup.Move) bool {
	return m.From == e.State && (len(m.After) == 0 || slices.Contains(m.After, e.Row)) &&
		(len(m.Doubt) == 0 || slices.Contains(m.Doubt, e.Doubt)) && (!m.FirstRound || e.Round == 0)
}

// settle moves an operation on evidence, with more set where more is given.
func settle(t T, s dedup.Store, id dedup.OperationID, evidence dedup.Evidence, more ...func(*dedup.Change)) (after dedup.Entry) {
	t.Helper()
	require.NoError(t, s.Move(context.Background(), id, func(e dedup.Entry, now time.Time) (dedup.Change, bool) {
		c := evented(moved(e, evidence, now))
		for _, add := range more {
			add(&c)
		}
		after = c.Entry
		return c, true
	}))
	return after
}

// result keeps a result with a change.
func result(body string) func(*dedup.Change) {
	return func(c *dedup.Change) {
		c.Keep, c.Entry.Result, c.Entry.Kept = true, []byte(body), dedup.KeptWhole
	}
}

// dropped is an operation without its result.
func dropped(e dedup.Entry, _ time.Time) (dedup.Change, bool) {
	e.Kept = dedup.KeptDropped
	c := evented(e)
	c.Keep = true
	return c, true
}

// open leaves the attempt open with a change.
func open(c *dedup.Change) { c.Entry.OpenUntil = c.Entry.SettledAt.Add(time.Hour) }

// get returns an operation that must exist.
func get(t T, s dedup.Store, id dedup.OperationID) dedup.Entry {
	t.Helper()
	e, err := s.Get(context.Background(), id)
	require.NoError(t, err)
	return e
}

// find gathers what stands around a query.
func find(t T, s dedup.Store, q dedup.Query) dedup.Surroundings {
	t.Helper()
	around, err := s.Find(context.Background(), q)
	require.NoError(t, err)
	return around
}

// ids are the ids of entries, in their order.
func ids(entries []dedup.Entry) []dedup.OperationID {
	list := []dedup.OperationID{}
	for _, e := range entries {
		list = append(list, e.ID)
	}
	return list
}
