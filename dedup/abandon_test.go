package dedup_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

func TestAnOperationOfAVanishedMachineIsAbandoned(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	lost := b.peer()
	r := request(t, business)
	lease := mayRun(t, lost, r)
	id := lease.Entry().ID
	abandon := func(by, note string) (dedup.Entry, error) {
		return b.ledger.Abandon(context.Background(), id, by, note)
	}

	_, err := abandon("ada", "the host was scrapped")
	require.ErrorIs(t, err, dedup.ErrOwnerLives)
	f.doubted, f.cause = lease.Entry().Owner, errors.New("its machine does not answer")
	for _, word := range [][2]string{{"", "note"}, {"ada", ""}} {
		_, err = abandon(word[0], word[1])
		require.ErrorContains(t, err, "needs the name of who does and a note")
	}
	b.requireRows(id, 1)

	e, err := abandon("ada", "the host was scrapped")
	require.NoError(t, err)
	assert.Equal(t, dedup.Unknown, e.State)
	assert.Equal(t, dedup.ReasonOwnerDied, e.Reason)
	assert.False(t, e.Open())
	events := b.requireRows(id, 1, 20)
	assert.Equal(t, "ada", events[1].Actor)
	assert.Equal(t, "the host was scrapped", events[1].Note)
	told[dedup.Lost](t, b.ledger, r)
	_, err = abandon("ada", "once more")
	require.ErrorIs(t, err, dedup.ErrNotRunning)
	require.ErrorContains(t, err, "this one is unknown")
	_, err = b.ledger.Abandon(context.Background(), dedup.NewOperationID(), "ada", "none")
	require.ErrorIs(t, err, dedup.ErrNotFound)

	answer(t, lease) // it was not gone, after all
	b.requireRows(id, 1, 20, 12)
	assert.Equal(t, dedup.Completed, b.stands(id).State)
}

func TestAnAttemptThatBeganMeanwhileIsNotAbandoned(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	lease := mayRun(t, b.peer(), request(t, business, safeRetry))
	f.doubted, f.cause = lease.Entry().Owner, errors.New("its machine does not answer")
	other := b.peer()
	var newer *dedup.Lease
	f.before = func() {
		lose(t, lease)
		newer = mayRun(t, other, request(t, business, safeRetry))
	}
	_, err := b.ledger.Abandon(context.Background(), lease.Entry().ID, "ada", "the host was scrapped")
	require.ErrorContains(t, err, "another attempt has begun")
	answer(t, newer)
	b.requireRows(lease.Entry().ID, 1, 8, 17, 5)
}
