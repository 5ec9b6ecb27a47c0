package dedup_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// called calls an upstream by another name.
func called(upstream string) func(*dedup.Request) {
	return func(r *dedup.Request) { r.Scope.Upstream = upstream }
}

func rebind(t *testing.T, l *dedup.Ledger, from, to string) []dedup.Rebound {
	t.Helper()
	rebound, err := l.Rebind(context.Background(), dedup.Rebinding{Upstream: from, ToUpstream: to, By: "ada", Note: "renamed"})
	require.NoError(t, err)
	return rebound
}

func TestARenamedUpstreamAnswersForItsOldName(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r, renamed := request(t, business, deduplicate), request(t, business, deduplicate, called("shop-eu"))
	lease := mayRun(t, b.ledger, r)
	key := lease.DownstreamKey()
	e := lose(t, lease)
	assert.Equal(t, dedup.ReasonScopeChanged, told[dedup.Conflict](t, b.ledger, renamed).Reason)

	rebound := rebind(t, b.peer(), "shop", "shop-eu")
	require.Len(t, rebound, 1)
	assert.Equal(t, 1, rebound[0].Operations)
	again := mayRun(t, b.ledger, renamed)
	assert.Equal(t, e.ID, again.Entry().ID)
	assert.Equal(t, key, again.DownstreamKey(), "the server would know it again")
	answer(t, again)
	b.requireRows(e.ID, 1, 8, 16, 5)
	told[dedup.Replay](t, b.ledger, renamed)
	told[dedup.Replay](t, b.ledger, r)
	found, here, err := b.ledger.OperationOf(context.Background(), renamed.Scope, renamed.Key)
	require.NoError(t, err)
	assert.True(t, here)
	assert.Equal(t, e.ID, found.ID)
	assert.Equal(t, dedup.ReasonKeyReused, told[dedup.Conflict](t, b.ledger, request(t, business, deduplicate, called("shop-eu"), arguments("43 dollars"))).Reason)
	assert.Equal(t, dedup.ReasonScopeChanged, told[dedup.Conflict](t, b.ledger, request(t, business, deduplicate, called("market"))).Reason)
}

func TestTheTaskOfARenamedUpstreamEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := context.Background()
	lease := mayRun(t, b.ledger, request(t, business))
	e, err := lease.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte("{}"), Task: "task-7"})
	require.NoError(t, err)
	scope := request(t, business, called("market")).Scope
	rebind(t, b.ledger, "shop", "shop-eu")
	_, err = b.ledger.TaskEnded(ctx, scope, "task-7", dedup.TaskCompleted)
	require.ErrorIs(t, err, dedup.ErrNotFound)
	require.NoError(t, b.store.Rename(ctx, []dedup.Rename{ // twice, and back
		{From: dedup.Address{Upstream: "shop-eu", Account: "/srv"}, To: scope.Address(), Actor: "ada", Note: "renamed"},
		{From: scope.Address(), To: dedup.Address{Upstream: "shop", Account: "/srv"}, Actor: "ada", Note: "renamed"},
	}))
	ended, err := b.ledger.TaskEnded(ctx, scope, "task-7", dedup.TaskCompleted)
	require.NoError(t, err)
	assert.Equal(t, e.ID, ended.ID)
	_, err = b.ledger.Task(ctx, scope, "task-8")
	require.ErrorIs(t, err, dedup.ErrNotFound)
}

func TestWhatIsRebound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := context.Background()
	in := func(account string) func(*dedup.Request) { return func(r *dedup.Request) { r.Scope.Account = account } }
	for key, account := range map[string]string{"refund:order-1:1": "/a", "refund:order-2:1": "/a", "refund:order-3:1": "/b"} {
		answer(t, mayRun(t, b.ledger, request(t, key, in(account))))
	}
	answer(t, mayRun(t, b.ledger, request(t, "refund:order-4:1", called("bank"), in("/a"))))
	a, moved := "/a", "/moved"
	rename := func(upstream, account, toUpstream, toAccount string) dedup.Rename {
		return dedup.Rename{From: dedup.Address{Upstream: upstream, Account: account}, To: dedup.Address{Upstream: toUpstream, Account: toAccount}, Actor: "ada", Note: "renamed"}
	}
	for name, c := range map[string]struct {
		asked   dedup.Rebinding
		want    []dedup.Rebound
		refused string
	}{
		"all accounts":    {dedup.Rebinding{Upstream: "shop", ToUpstream: "store"}, []dedup.Rebound{{Rename: rename("shop", "/a", "store", "/a"), Operations: 2}, {Rename: rename("shop", "/b", "store", "/b"), Operations: 1}}, ""},
		"one account":     {dedup.Rebinding{Upstream: "shop", Account: &a, ToUpstream: "store"}, []dedup.Rebound{{Rename: rename("shop", "/a", "store", "/a"), Operations: 2}}, ""},
		"a moved folder":  {dedup.Rebinding{Upstream: "shop", Account: &a, ToUpstream: "shop", ToAccount: &moved}, []dedup.Rebound{{Rename: rename("shop", "/a", "shop", "/moved"), Operations: 2}}, ""},
		"nothing":         {dedup.Rebinding{Upstream: "shap", ToUpstream: "store"}, nil, "there is no operation under that name"},
		"no such account": {dedup.Rebinding{Upstream: "shop", Account: &moved, ToUpstream: "store"}, nil, "there is no operation under that name"},
		"its own name":    {dedup.Rebinding{Upstream: "shop", ToUpstream: "shop"}, nil, "are called so already"},
		"many into one":   {dedup.Rebinding{Upstream: "shop", ToUpstream: "store", ToAccount: &a}, nil, "of one account only"},
	} {
		t.Run(name, func(t *testing.T) {
			c.asked.By, c.asked.Note, c.asked.DryRun = "ada", "renamed", true
			got, err := b.ledger.Rebind(ctx, c.asked)
			if c.refused != "" {
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			renames, err := b.ledger.Renames(ctx)
			require.NoError(t, err)
			assert.Empty(t, renames, "it was only asked")
		})
	}
	_, err := b.ledger.Rebind(ctx, dedup.Rebinding{Upstream: "shop", ToUpstream: "store", By: "ada"})
	require.ErrorContains(t, err, "a note on what grounds")
}
