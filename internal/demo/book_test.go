package demo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/filelock"
)

func TestLoss_DependsOnSeedOrderAndOccurrenceOnly(t *testing.T) {
	t.Parallel()
	const orders = 10_000
	lost, other := 0, 0
	for n := range orders {
		order := orderOf(n)
		first := loss{0.3, 1}.loses(order, 1)
		assert.Equal(t, first, loss{0.3, 1}.loses(order, 1))
		assert.False(t, loss{0, 1}.loses(order, 1))
		if first {
			lost++
		}
		if first != (loss{0.3, 2}).loses(order, 1) {
			other++
		}
	}
	assert.InDelta(t, 0.3, float64(lost)/orders, 0.02)
	assert.InDelta(t, 2*0.3*0.7, float64(other)/orders, 0.02, "another seed loses others, independently")
}

func TestLoss_LetsARetryThrough(t *testing.T) {
	t.Parallel()
	l, lost, lostAgain := loss{0.3, 1}, 0, 0
	for n := range 10_000 {
		if order := orderOf(n); l.loses(order, 1) {
			lost++
			if l.loses(order, 2) {
				lostAgain++
			}
		}
	}
	assert.InDelta(t, 0.3, float64(lostAgain)/float64(lost), 0.04)
}

func TestBook_NextGenerationKnowsWhatTheLastOneDid(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "book.jsonl")
	first, err := openBook(path, loss{})
	require.NoError(t, err)
	_, err = first.add("order-1", 100)
	require.NoError(t, err)
	require.NoError(t, first.close())

	second, err := openBook(path, loss{})
	require.NoError(t, err)
	_, err = second.add("order-1", 200)
	require.NoError(t, err)
	require.NoError(t, second.close())

	refunds, err := readBook(path)
	require.NoError(t, err)
	assert.Equal(t, []refund{{ID: "re_1", Order: "order-1", Amount: 100}, {ID: "re_2", Order: "order-1", Amount: 200}}, refunds)
	assert.Equal(t, 2, second.perOrder["order-1"], "the fate of an answer depends on how often its order was refunded")
}

func TestBook_IsOpenInOneProcessAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "book.jsonl")
	first, err := openBook(path, loss{})
	require.NoError(t, err)
	looking, err := os.Open(lockPath(path))
	require.NoError(t, err)
	held, err := filelock.Held(looking)
	require.NoError(t, err)
	assert.True(t, held)
	require.NoError(t, looking.Close())

	next := make(chan *book)
	go func() {
		b, err := openBook(path, loss{})
		assert.NoError(t, err)
		next <- b
	}()
	_, err = first.add("order-1", 100)
	require.NoError(t, err)
	require.NoError(t, first.close())
	second := <-next
	assert.Len(t, second.refunds, 1)
	require.NoError(t, second.close())
	require.NoError(t, awaitEnd(path))
}

func TestReadBook_RefusesALineThatWasCutOff(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "book.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"id":"re_1","order":"order-1"}`+"\n"+`{"id":"re_2","ord`), 0o600))
	_, err := readBook(path)
	assert.ErrorContains(t, err, "line 2")
	_, err = openBook(path, loss{})
	assert.ErrorContains(t, err, "line 2", "nothing is written behind it")
}
