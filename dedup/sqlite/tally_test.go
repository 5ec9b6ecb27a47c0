package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcp-idem/mcp-idem/dedup"
)

func TestNothingIsAddedToCountsThatWereTaken(t *testing.T) {
	t.Parallel()
	waiting := newTallies()
	count := func() { waiting.add(dedup.Tally{Kind: dedup.TallyRefused}, time.UnixMilli(0)) }
	none := waiting.take()
	count()
	assert.True(t, none.empty(), "what was taken before is somebody else's")
	one := waiting.take()
	count()
	assert.Equal(t, 1, one.lines[tallyLine{day: "1970-01-01", kind: dedup.TallyRefused}])
}
