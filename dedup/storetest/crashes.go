package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// requireAlive asks a store about an owner.
func requireAlive(t T, want bool, s dedup.Store, owner dedup.OwnerID) {
	t.Helper()
	alive, err := s.Alive(owner)
	require.NoError(t, err)
	require.Equal(t, want, alive)
}

func testAliveClosed(t *testing.T, b *bench) {
	peer := b.ledger.Open(t)
	owner := peer.Info().Owner
	requireAlive(t, true, b.store, b.store.Info().Owner)
	for range 2 { // asking changes nothing
		requireAlive(t, true, b.store, owner)
		requireAlive(t, true, b.ledger.Open(t), owner)
	}
	requireAlive(t, false, b.store, dedup.NewOwnerID())
	require.NoError(t, peer.Close())
	requireAlive(t, false, b.store, owner)
}

func testAliveKilled(t *testing.T, b *bench) {
	peer := b.ledger.Open(t)
	e := claim(t, peer, asked)
	b.ledger.Kill(t, peer)
	requireAlive(t, false, b.store, e.Owner)
	late := b.ledger.Open(t) // may clear up after the dead
	requireAlive(t, false, late, e.Owner)
	requireAlive(t, true, late, b.store.Info().Owner)
	requireAlive(t, true, b.store, late.Info().Owner)
	unsettled, err := late.Unsettled(context.Background())
	require.NoError(t, err)
	assert.Equal(t, []dedup.OperationID{e.ID}, ids(unsettled), "a killed process leaves its operations running")
	settle(t, late, e.ID, dedup.OwnerDead)
}

// work leaves a ledger with operations in several states, and returns how they
// stand.
func work(t *testing.T, b *bench) (left []dedup.Entry) {
	for i := range 10 {
		e := claim(t, b.store, query("shop", fmt.Sprint(i), fmt.Sprint(i)))
		if i%2 == 0 {
			settle(t, b.store, e.ID, dedup.AnsweredResult, result(fmt.Sprintf(`{"n":%d}`, i)))
		}
		left = append(left, get(t, b.store, e.ID))
	}
	return left
}

func requireAll(t *testing.T, s dedup.Store, want []dedup.Entry) {
	t.Helper()
	for _, e := range want {
		require.Equal(t, e, get(t, s, e.ID))
	}
	require.Len(t, list(t, s, dedup.Filter{}), len(want))
}

func testPowerLoss(t *testing.T, b *bench) {
	left, info := work(t, b), b.store.Info()
	b.ledger.LosePower(t)
	s := b.ledger.Open(t)
	requireAll(t, s, left)
	assert.Equal(t, info.Secret, s.Info().Secret)
	assert.Equal(t, info.Since, s.Info().Since)
	requireAlive(t, false, s, info.Owner)
	claim(t, s, query("shop", "goes on", "goes on"))
}

func testKill(t *testing.T, b *bench) {
	left := work(t, b)
	b.ledger.Kill(t, b.store)
	s := b.ledger.Open(t)
	requireAll(t, s, left)
	claim(t, s, query("shop", "goes on", "goes on"))
}
