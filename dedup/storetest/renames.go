package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

const orderKey = "refund:order-4812:1"

// at is a query of the one key, from an upstream's account that newEntry knows.
func at(upstream string) dedup.Query {
	q := query(upstream, orderKey, "42 dollars")
	q.Scope = dedup.Scope{Namespace: "ada", Upstream: upstream, Account: "/srv", Tool: "refund"}
	return q
}

// claimAt claims the key under an upstream.
func claimAt(t T, s dedup.Store, upstream string) (claimed dedup.Entry) {
	t.Helper()
	q := at(upstream)
	require.NoError(t, s.Claim(context.Background(), q, func(around dedup.Surroundings) (dedup.Change, bool) {
		claimed = newEntry(s, q, around.Now)
		claimed.Scope = q.Scope
		return evented(claimed), true
	}))
	return claimed
}

// rename puts on record that an upstream is called otherwise.
func rename(t T, s dedup.Store, from, to string) {
	t.Helper()
	require.NoError(t, s.Rename(context.Background(), []dedup.Rename{renamed(from, to)}))
}

func renamed(from, to string) dedup.Rename {
	return dedup.Rename{From: dedup.Address{Upstream: from, Account: "/srv"}, To: dedup.Address{Upstream: to, Account: "/srv"}, Actor: "ada", Note: "renamed"}
}

func testRename(t *testing.T, b *bench) {
	e := claimAt(t, b.store, "shop")
	around := find(t, b.store, at("store"))
	assert.Nil(t, around.Same)
	assert.Equal(t, &e, around.Elsewhere)

	rename(t, b.ledger.Open(t), "shop", "store")
	around = find(t, b.store, at("store"))
	assert.Equal(t, &e, around.Same, "it stays what it was")
	assert.Nil(t, around.Elsewhere)
	assert.Empty(t, around.Twins, "it is no twin of itself")
	assert.Equal(t, &e, find(t, b.store, at("shop")).Same, "it is found under its own name too")
	assert.Nil(t, find(t, b.store, at("market")).Same)
	assert.NotNil(t, find(t, b.store, at("market")).Elsewhere)
	other := at("store")
	other.Scope.Account = "/home"
	assert.Nil(t, find(t, b.store, other).Same, "another account is another address")

	e = settle(t, b.store, e.ID, dedup.AnsweredResult, result("{}"))
	assert.Equal(t, &e, find(t, b.store, at("store")).Same, "with its result")
}

func testRenameAgain(t *testing.T, b *bench) {
	e := claimAt(t, b.store, "shop")
	rename(t, b.store, "shop", "store")
	rename(t, b.store, "store", "market")
	assert.Equal(t, &e, find(t, b.store, at("market")).Same)
	rename(t, b.store, "market", "shop")
	assert.Equal(t, &e, find(t, b.store, at("shop")).Same)
	assert.Equal(t, &e, find(t, b.store, at("store")).Same)
	assert.Nil(t, find(t, b.store, at("elsewhere")).Same)
}

func testRenameOwn(t *testing.T, b *bench) {
	e := claimAt(t, b.store, "shop")
	e = settle(t, b.store, e.ID, dedup.ProvenUnsent)
	rename(t, b.store, "shop", "store")
	assert.Nil(t, find(t, b.store, at("store")).Same, "a free key leaves nothing to be found")
	own := claimAt(t, b.store, "store")
	assert.Equal(t, &own, find(t, b.store, at("store")).Same)
	own = settle(t, b.store, own.ID, dedup.ProvenUnsent)

	b.clock.Advance(time.Second)
	require.NoError(t, b.store.Claim(context.Background(), at("shop"), func(around dedup.Surroundings) (dedup.Change, bool) {
		e = moved(*around.Same, dedup.Claimed, around.Now)
		return evented(e), true
	}))
	assert.Equal(t, &e, find(t, b.store, at("store")).Same, "an own one that is released gives way")
	require.NoError(t, b.store.Claim(context.Background(), at("store"), func(around dedup.Surroundings) (dedup.Change, bool) {
		assert.Equal(t, &e, around.Same, "within a claim too")
		return dedup.Change{}, false
	}))
}

func testRenames(t *testing.T, b *bench) {
	first := b.clock.Now().UTC().Truncate(time.Millisecond)
	require.NoError(t, b.store.Rename(context.Background(), []dedup.Rename{renamed("shop", "store"), renamed("a", "b")}))
	b.clock.Advance(time.Minute)
	rename(t, b.store, "shop", "store") // is there already
	rename(t, b.store, "store", "market")
	want := []dedup.Rename{renamed("shop", "store"), renamed("a", "b"), renamed("store", "market")}
	want[0].At, want[1].At, want[2].At = first, first, first.Add(time.Minute)
	got, err := b.ledger.Open(t).Renames(context.Background())
	require.NoError(t, err)
	assert.Equal(t, want, got)
	b.ledger.LosePower(t)
	got, err = b.ledger.Open(t).Renames(context.Background())
	require.NoError(t, err)
	assert.Equal(t, want, got)
}
