package storetest_test

import (
	"testing"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup/storetest"
)

func TestReference(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(_ storetest.T, now func() time.Time) storetest.Ledger { return storetest.NewReference(now) })
}
