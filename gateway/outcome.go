package gateway

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// The outcomes that a caller is told. They are part of the interface.
const (
	Completed         = "COMPLETED"
	Accepted          = "ACCEPTED"
	Running           = "RUNNING"
	RejectedDuplicate = "REJECTED_DUPLICATE"
	NotFound          = "NOT_FOUND"
	FailedBeforeInput = "FAILED_BEFORE_INPUT"
	EffectUnknown     = "EFFECT_UNKNOWN"
)

// What an outcome says of the effect.
const (
	effectExecuted      = "executed"
	effectNotExecuted   = "not_executed"
	effectUnknown       = "unknown"
	effectAnsweredError = "answered_error"
)

// What a caller should do next.
const (
	actNone         = "none"
	actRetrySameKey = "retry_same_key"
	actNewKey       = "new_key"
	actFixArguments = "fix_arguments"
	actCheckStatus  = "check_status"
	actAskHuman     = "ask_human"
	actRepeatOf     = "repeat_of"
)

// Reasons that only the gateway gives; the ledger has the others.
const (
	reasonLedgerUnavailable dedup.Reason = "ledger_unavailable"
	reasonTask              dedup.Reason = "task"
	reasonUnkeyable         dedup.Reason = "unkeyable"
)

// OutcomeMember is the member of a result's _meta that holds the outcome, and
// structuredMember the one of its structuredContent.
const (
	OutcomeMember    = "mcp-idem/outcome"
	structuredMember = "idempotency"
)

// An Outcome is what a caller is told of a call, the same object wherever it
// stands. Members that do not apply are null.
type Outcome struct {
	Outcome          string     `json:"outcome"`
	WasReplay        bool       `json:"was_replay"`
	Effect           string     `json:"effect"`
	OperationID      *string    `json:"operation_id"`
	Attempt          *int       `json:"attempt"`
	ReplayCount      *int       `json:"replay_count"`
	OriginalCalledAt *timestamp `json:"original_called_at"`
	CompletedAt      *timestamp `json:"completed_at"`
	Reason           *string    `json:"reason"`
	Recorded         bool       `json:"recorded"`
	ResultAvailable  bool       `json:"result_available"`
	DuplicateOf      *string    `json:"duplicate_of,omitempty"`
	LedgerSince      *timestamp `json:"ledger_since,omitempty"`
	Next             Next       `json:"next"`
}

// Next is what the caller should do, for a program and in words.
type Next struct {
	Action  string `json:"action"`
	AfterMS *int64 `json:"after_ms"`
	Message string `json:"message"`
}

// timestamp is a time as outcomes give it: RFC 3339 in UTC with milliseconds.
type timestamp time.Time

const timestampLayout = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes the time in UTC with milliseconds.
func (t timestamp) MarshalJSON() ([]byte, error) {
	return []byte(`"` + time.Time(t).UTC().Format(timestampLayout) + `"`), nil
}

func stamp(t time.Time) *timestamp {
	if t.IsZero() {
		return nil
	}
	s := timestamp(t)
	return &s
}

// outcomeOf is the outcome of an operation, with what the entry itself tells;
// the situation adds the rest.
func outcomeOf(e dedup.Entry, outcome, effect string) Outcome {
	id, attempt, replays := e.ID.String(), e.Attempt, e.Replays
	o := Outcome{
		Outcome: outcome, Effect: effect,
		OperationID: &id, Attempt: &attempt, ReplayCount: &replays,
		OriginalCalledAt: stamp(e.ClaimedAt),
		Recorded:         true,
		ResultAvailable:  e.State == dedup.Completed && e.Kept == dedup.KeptWhole,
	}
	if e.State == dedup.Completed {
		o.CompletedAt = stamp(e.SettledAt)
	}
	return o.because(e.Reason)
}

// noRecord is the outcome of an operation that is asked for and not found.
func noRecord(since time.Time) Outcome {
	o := Outcome{Outcome: NotFound, Effect: effectUnknown}
	o.LedgerSince = stamp(since)
	return o
}

// notSent is the outcome of a call of which nothing was sent and nothing claimed.
func notSent(outcome string, reason dedup.Reason) Outcome {
	return Outcome{Outcome: outcome, Effect: effectNotExecuted}.because(reason)
}

func (o Outcome) because(reason dedup.Reason) Outcome {
	if reason == "" {
		o.Reason = nil
		return o
	}
	text := string(reason)
	o.Reason = &text
	return o
}

// next says what to do; after is how long to wait before, zero for at once.
func (o Outcome) next(action string, after time.Duration, message string) Outcome {
	o.Next = Next{Action: action, Message: message}
	if after > 0 {
		ms := after.Milliseconds()
		o.Next.AfterMS = &ms
	}
	return o
}

// json is the outcome in one line. <, > and & stay as they are.
func (o Outcome) json() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(o); err != nil {
		panic("gateway: an outcome has members of fixed types: " + err.Error())
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// OutcomeOf is the outcome that a repeated call with an operation's key would be
// told now.
func OutcomeOf(e dedup.Entry) string {
	switch e.State {
	case dedup.Completed:
		if e.Reason == reasonTask && e.TaskStatus == "" {
			return Accepted
		}
		return Completed
	case dedup.Unknown:
		return EffectUnknown
	case dedup.Released:
		return FailedBeforeInput
	case dedup.AwaitingInput:
		return Accepted
	}
	return Running
}
