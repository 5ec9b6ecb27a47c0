package dedup

import "time"

// A Request is a call that asks to run.
type Request struct {
	Scope              Scope
	Key                Key
	Fingerprint        Digest // of the arguments, without key and repeat members
	FingerprintVersion int
	Class              string // the tool's class, in words; kept with the operation
	// ClassBySaid reports whether a person gave the class. Only then may it
	// loosen what an operation was claimed under.
	ClassBySaid bool
	OnUnknown   OnUnknown
	// Downstream says where and in which form the upstream gets a key with this
	// call, in the caller's words: "params.client_token", say, or "idempotency_key
	// raw". Empty: it gets none. At most MaxDownstreamBytes. Ledgers keep it and it
	// is compared byte by byte, so that the same form has the same words in every
	// version of the caller.
	Downstream string
	Window     time.Duration // how long the answer will be replayed
	Near       Near
	RepeatOf   OperationID // the operation that the caller means to repeat; may be zero
	// Continues is what the call says to a question of its upstream's; nil: nothing.
	Continues  *Continuation
	Provenance []byte // JSON; kept, never compared
}

// OnUnknown says what a repeated call may do to an operation that is unknown
// and closed. The zero value is the safe one: nothing.
type OnUnknown struct {
	// RunAgain: the tool may run twice, by declaration.
	RunAgain bool
	// ResendWithin is how long, from the first claim, the upstream honours the
	// key that it was given. Zero: it does not. It is of no use where earlier attempts
	// carried no key, or carried it otherwise than Request.Downstream says.
	ResendWithin time.Duration
}

// resendMargin is taken off OnUnknown.ResendWithin, since the upstream counts by
// its own clock and from its own moment; of a short one, half of it.
const resendMargin = 10 * time.Minute

// A NearMode says what happens to a call whose content was called before under
// another key.
type NearMode uint8

// The modes. The zero value lets such calls through without a word.
const (
	NearOff NearMode = iota
	NearWarn
	NearConfirm
)

// Near is the near-duplicate policy of a call.
type Near struct {
	Mode   NearMode
	Within time.Duration // how far back an operation counts, from its claim
}

// A Verdict is what the ledger says to a call. The set is sealed: *Lease, Replay,
// Busy, Asked, Lost, Stray, Conflict, Duplicate, Expired. Only a *Lease lets a call
// run.
type Verdict interface{ verdict() }

// Replay: the operation is completed. Entry.Result is what was recorded, unless
// Entry.Kept says that there is none.
type Replay struct{ Entry Entry }

// Busy: the operation is running, or its answer may still arrive. [Ledger.Await]
// waits for a change.
type Busy struct{ Entry Entry }

// Asked: the upstream asks for input before it goes on. Entry.Result is its question,
// the newest, or the one that the call's continuation was answered with; nil where it
// was too large to keep.
type Asked struct{ Entry Entry }

// Stray: the call answers a question that was not asked (ReasonInputUnknown; Entry may
// be zero), or would carry the key downstream otherwise than the call that was asked
// (ReasonKeyFormChanged). It is not sent.
type Stray struct {
	Entry  Entry
	Reason Reason
}

// Lost: the operation may have run, nobody knows, and nothing allows another
// attempt.
type Lost struct{ Entry Entry }

// Conflict: the key belongs to another call (ReasonKeyReused), or to another
// upstream or account (ReasonScopeChanged).
type Conflict struct {
	Entry  Entry
	Reason Reason
}

// Duplicate: an operation of the same content stands in the way
// (ReasonNearDuplicate, ReasonNearDuplicateUnresolved), or the operation to be
// repeated is none of the same content or was repeated already
// (ReasonRepeatUnknown; Entry may then be zero).
type Duplicate struct {
	Entry  Entry
	Reason Reason
}

// Expired: the operation completed so long ago that its answer is gone. It is
// not run again.
type Expired struct{ Entry Entry }

func (*Lease) verdict()    {}
func (Replay) verdict()    {}
func (Busy) verdict()      {}
func (Asked) verdict()     {}
func (Lost) verdict()      {}
func (Stray) verdict()     {}
func (Conflict) verdict()  {}
func (Duplicate) verdict() {}
func (Expired) verdict()   {}

// Reasons of the refusals above.
const (
	ReasonKeyReused               Reason = "key_reused"
	ReasonKeyExpired              Reason = "key_expired"
	ReasonScopeChanged            Reason = "scope_changed"
	ReasonNearDuplicate           Reason = "near_duplicate"
	ReasonNearDuplicateUnresolved Reason = "near_duplicate_unresolved"
	ReasonRepeatUnknown           Reason = "repeat_unknown"
	ReasonInputUnknown            Reason = "input_unknown"
	ReasonKeyFormChanged          Reason = "key_form_changed"
)
