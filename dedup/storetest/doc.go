// Package storetest is the suite that every dedup.Store must pass, and a store
// in memory that is too simple to be wrong, to compare with.
//
// A test of a store calls [Run] with a function that makes an empty [Ledger].
// The ledger can open stores on itself, as several processes would, kill one of
// them, and lose power; the suite sets the clock.
package storetest

import (
	"testing"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// A T is what a ledger needs of a test: *testing.T and *rapid.T have it.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	FailNow()
	Cleanup(func())
}

// A Ledger is a ledger under test, with power over the processes that use it. It
// is used by one goroutine.
type Ledger interface {
	// Open opens the ledger in one more process, with an owner id of its own. The
	// store is closed when the test ends.
	Open(t T) dedup.Store
	// Kill ends the process of a store as SIGKILL would: what it has not committed
	// is lost, nothing is given back, and the other processes live on. No call of
	// the store is under way.
	Kill(t T, s dedup.Store)
	// LosePower ends all processes at once, and what was not durable is lost. Open
	// works again afterwards.
	LosePower(t T)
}

// New makes an empty ledger whose clock is now.
type New func(t T, now func() time.Time) Ledger

// Run runs the whole suite.
func Run(t *testing.T, newLedger New) {
	for name, test := range map[string]func(*testing.T, *bench){
		"info stays, and owners differ":                      testInfo,
		"a claim inserts and is found":                       testInsert,
		"every member of an entry is kept":                   testMembers,
		"too long a form of the key downstream is refused":   testDownstreamTooLong,
		"a claim that decides against it writes nothing":     testNoClaim,
		"a decision may be asked again":                      testDecideTwice,
		"one of many claims inserts":                         testRace,
		"one of two new keys with the same content inserts":  testTwinRace,
		"the same key elsewhere is seen":                     testElsewhere,
		"twins: running always, others when near":            testTwins,
		"twins end sharply with the time":                    testTwinEdges,
		"twins are the newest, and at most MaxTwins":         testMaxTwins,
		"a repeat is consumed, and given back when released": testRepeat,
		"a move changes and leaves its event":                testMove,
		"an event is written though the entry stays":         testEventAlone,
		"what does not exist is not found":                   testNotFound,
		"a released key is claimed again with other content": testReclaim,
		"a row that the table lacks is refused":              testUnlawful,
		"moves of one operation do not overlap":              testMoveRace,
		"results are kept, replaced and dropped":             testResults,
		"a result of MaxResultBytes is kept whole":           testLargeResult,
		"past its window a result is not given":              testOverdueResult,
		"overdue are the results past their window":          testOverdue,
		"a question is the result while input is awaited":    testQuestion,
		"rounds stand as they were asked":                    testRounds,
		"the answers to a round are noted":                   testAnswers,
		"rounds go when the operation begins anew":           testRoundsGo,
		"questions go when nobody can be given one":          testQuestionsGo,
		"a round that the table lacks is refused":            testUnlawfulRound,
		"one of many continuations is the first":             testContinuationRace,
		"an asked operation survives its owner":              testAskedSurvives,
		"an operation is found by its task":                  testTask,
		"waiting ends with a move of this process":           testAwait,
		"waiting ends with another round":                    testAwaitRound,
		"waiting ends with a move of another process":        testAwaitPeer,
		"waiting ends with its context":                      testAwaitContext,
		"a context that has ended writes nothing":            testEndedContext,
		"unsettled are the running and the open":             testUnsettled,
		"records are yielded in order, once":                 testRecords,
		"records hold what is asked for":                     testRecordMembers,
		"spent are answers and keys past their window":       testSpent,
		"only a released operation is removed":               testRemove,
		"shrinking ends":                                     testShrink,
		"a renamed address finds its operations":             testRename,
		"names are followed, in circles too":                 testRenameAgain,
		"an own operation comes before a renamed one":        testRenameOwn,
		"what was renamed is on record":                      testRenames,
		"listing filters and orders":                         testList,
		"tallies are counted":                                testTallies,
		"totals count by day, upstream and tool":             testTotals,
		"owners live until they close":                       testAliveClosed,
		"owners live until they are killed":                  testAliveKilled,
		"what was acknowledged survives a loss of power":     testPowerLoss,
		"what was acknowledged survives a kill":              testKill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bench{clock: NewClock()}
			b.ledger = newLedger(t, b.clock.Now)
			b.store = b.ledger.Open(t)
			test(t, b)
		})
	}
}

// A bench is what a test works on.
type bench struct {
	clock  *Clock
	ledger Ledger
	store  dedup.Store // of the first process
}
