// Package dedup is the ledger: it lets at most one effect happen per
// idempotency key, across crashes, processes and reconnects.
//
// A call that wants to run asks [Ledger.Begin] and gets a [Verdict]. Only the
// verdict *[Lease] is leave to run; every other one is an answer. A lease is
// settled once, by what is known of the effect:
//
//	Begin ── *Lease ──┬─ Complete   the upstream answered
//	      │           ├─ Ask        it asks for input before it goes on
//	      │           ├─ Release    proof that nothing was executed
//	      │           └─ Strand     nobody knows; the operation is unknown
//	      ├─ Replay      it was answered before
//	      ├─ Busy        it is running, or its answer may still arrive
//	      ├─ Asked       it waits for input; the question is told again
//	      ├─ Lost        it may have run; nobody knows
//	      ├─ Stray       it answers a question that was not asked
//	      ├─ Conflict    the key belongs to something else
//	      ├─ Duplicate   the same content was called under another key
//	      └─ Expired     it ran so long ago that its answer is gone
//
// A call that answers a question ([Request].Continues) is sent once per question, by
// whoever is first; the others get what that one was answered with.
//
// The lawful moves between states stand in one table, [Moves]. A [Store] keeps
// operations and decides nothing.
//
// The package knows no MCP, no HTTP and no SQL. Results cross it as raw bytes.
//
// # Compatibility
//
// The words of [State], [Reason] and [OperationID] and the digests of [Scope]
// are written into ledgers. A released version never changes their meaning; a
// new one is added beside them.
package dedup
