package dedup_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

func TestTheEndOfATaskIsNoted(t *testing.T) {
	t.Parallel()
	for status, isError := range map[dedup.TaskStatus]bool{dedup.TaskCompleted: false, dedup.TaskFailed: true, dedup.TaskCancelled: true} {
		b := newBench(t)
		r := request(t, business)
		e, err := mayRun(t, b.ledger, r).Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`{"task":1}`), Reason: "task", Task: "t1"})
		require.NoError(t, err)
		l := b.peer() // across a restart
		other := r.Scope
		other.Upstream = "elsewhere"
		_, err = l.TaskEnded(context.Background(), other, "t1", status)
		require.ErrorIs(t, err, dedup.ErrNotFound, "another upstream's task")
		_, err = l.TaskEnded(context.Background(), r.Scope, "t2", status)
		require.ErrorIs(t, err, dedup.ErrNotFound)
		for _, still := range []dedup.TaskStatus{"working", "input_required", ""} {
			working, err := l.TaskEnded(context.Background(), r.Scope, "t1", still)
			require.NoError(t, err)
			assert.Empty(t, working.TaskStatus)
		}
		for _, said := range []dedup.TaskStatus{status, dedup.TaskCompleted, dedup.TaskFailed} {
			ended, err := l.TaskEnded(context.Background(), r.Scope, "t1", said)
			require.NoError(t, err)
			assert.Equal(t, status, ended.TaskStatus, "the first end counts")
		}
		replay := told[dedup.Replay](t, l, r).Entry
		assert.Equal(t, status, replay.TaskStatus)
		assert.Equal(t, isError, replay.IsError)
		assert.JSONEq(t, `{"task":1}`, string(replay.Result), "the handle stays")
		events := b.requireRows(e.ID, 1, 5, 5)
		assert.Equal(t, "task "+string(status), events[2].Note)
		b.requireQuiet()
	}
}

func TestALateTaskIsFoundToo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := request(t, business)
	_, err := strand(t, mayRun(t, b.ledger, r)).Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`{}`), Reason: "task", Task: "t1"})
	require.NoError(t, err)
	ended, err := b.ledger.TaskEnded(context.Background(), r.Scope, "t1", dedup.TaskCompleted)
	require.NoError(t, err)
	assert.Equal(t, dedup.TaskCompleted, ended.TaskStatus)
}
