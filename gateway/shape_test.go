package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
)

// How a part of a result can stand, as in the table of results.
type part string

const (
	kept     part = "as the upstream's"
	appended part = "the upstream's, with the outcome behind it"
	ours     part = "the outcome alone"
)

// A situation is something that a caller can be told.
type situation struct {
	name    string
	play    func(*scene) reply
	outcome string
	members string // of the outcome: "reason effect next.action"
	shape   part
	success bool   // of ours: no error, where the tool promises no structuredContent
	result  string // of the others: the upstream's; empty: that of the kind
	line    string // a pattern of the first line; empty: no text tells the outcome
}

var large = strings.Repeat("x", dedup.MaxResultBytes+1)

const sentOn = `^EFFECT_UNKNOWN: the call was sent on \S+Z \(op_\w+\), but `

var situations = []situation{
	{name: "a first answer", play: func(s *scene) reply {
		s.server.on("refund", func(c *call) { c.answer(s.result()) })
		return s.first()
	}, outcome: gateway.Completed, members: "null executed none", shape: kept},
	{name: "a replay", play: func(s *scene) reply { s.succeeded(); return s.first() },
		outcome: gateway.Completed, members: "null executed none", shape: appended,
		line: `^COMPLETED \(was_replay\): this call was already executed on \S+Z \(op_\w+\)\. The result above is the recorded original; nothing was executed now\.$`},
	{name: "a first error", play: func(s *scene) reply {
		s.server.on("refund", func(c *call) { c.answer(errorResult) })
		return s.first()
	}, outcome: gateway.Completed, members: "upstream_error answered_error new_key", shape: appended, result: errorResult,
		line: `^COMPLETED \(error\): the answer above is an error, and it is recorded under this key \(op_\w+\).* use a new key\.$`},
	{name: "the replay of an error", play: func(s *scene) reply { s.failed(); return s.first() },
		outcome: gateway.Completed, members: "upstream_error answered_error new_key", shape: appended, result: errorResult,
		line: `^COMPLETED \(was_replay\): this call was already answered on \S+Z with the error above .* use a new key\.$`},
	{name: "a first task", play: func(s *scene) reply {
		s.server.on("refund", func(c *call) { c.answer(taskResult) })
		return s.first()
	}, outcome: gateway.Accepted, members: "task unknown none", shape: kept, result: taskResult},
	{name: "a task once more", play: func(s *scene) reply {
		s.completed(dedup.AnsweredResult, taskResult, "task")
		return s.first()
	}, outcome: gateway.Accepted, members: "task unknown none", shape: kept, result: taskResult},

	{name: "an answer that was too large to keep", play: func(s *scene) reply {
		s.completed(dedup.AnsweredResult, large, "")
		return s.first()
	}, outcome: gateway.Completed, members: "null executed none", shape: ours, success: true,
		line: `^COMPLETED \(was_replay\): this call was already executed on .* Its result is not on record: it was too large to keep\. Nothing was executed now\.$`},
	{name: "an error that was too large to keep", play: func(s *scene) reply {
		s.completed(dedup.AnsweredErrorResult, large, "")
		return s.first()
	}, outcome: gateway.Completed, members: "upstream_error answered_error new_key", shape: ours,
		line: `^COMPLETED \(was_replay\): this call was already answered with an error on .* it was too large to keep\. Nothing was executed now\.$`},
	{name: "a task that was too large to keep", play: func(s *scene) reply {
		s.completed(dedup.AnsweredResult, large, "task")
		return s.first()
	}, outcome: gateway.Accepted, members: "task unknown none", shape: ours, success: true,
		line: `^ACCEPTED \(was_replay\): this call was already accepted as a task on .* it was too large to keep\. Nothing was executed now\.$`},
	{name: "what a person has established", play: func(s *scene) reply {
		e := s.stranded(dedup.ReasonTimeout, 0)
		_, err := s.ledger.Resolve(context.Background(), e.ID, dedup.Resolution{Executed: true, By: "ada", Note: "seen"})
		require.NoError(s.server.t, err)
		return s.first()
	}, outcome: gateway.Completed, members: "resolved_executed executed none", shape: ours, success: true,
		line: `^COMPLETED \(was_replay\): .* not on record: a person established that the call was executed\. Nothing was executed now\.$`},

	{name: "unknown, and the answer may still come", play: func(s *scene) reply {
		s.stranded(dedup.ReasonTimeout, time.Hour)
		return s.first()
	}, outcome: gateway.EffectUnknown, members: "timeout unknown check_status", shape: ours,
		line: sentOn + `no answer came in time\. It MAY have been executed\. Do not send it again under a new key\. Call idempotency_status \{"operation_id":"op_\w+"\} in 20 s\.$`},
	unknown(dedup.ReasonTimeout, "no answer came in time"),
	unknown(dedup.ReasonUpstreamExited, "the tool's server exited before it answered"),
	unknown(dedup.ReasonConnectionLost, "the connection to the tool's server was lost before it answered"),
	unknown(dedup.ReasonBadAnswer, "the tool's server sent an answer that cannot be read"),
	unknown(dedup.ReasonAmbiguousError, "the tool answered with an error that leaves open what it did"),
	unknown(dedup.ReasonOwnerDied, "the gateway that ran it ended before the answer came"),
	unknown(dedup.ReasonShutdown, "the gateway was shut down before the answer came"),
	unknown("store_rolled_back", "no usable answer came"),
	{name: "an ambiguous error", play: func(s *scene) reply {
		s.server.on("refund", func(c *call) { c.fail(-32603, "it failed\nsomehow") })
		r := s.first()
		assert.True(s.server.t, strings.HasSuffix(r.text, "\nThe tool's server said: it failed\nsomehow (code -32603)"), r.text)
		return r
	}, outcome: gateway.EffectUnknown, members: "ambiguous_error unknown ask_human", shape: ours, line: sentOn + "the tool answered with an error that leaves open what it did"},
	{name: "an error result that does not know itself", play: func(s *scene) reply {
		s.server.on("refund", func(c *call) {
			c.answer(`{"content":[{"type":"image"},{"type":"text","text":"timed out"}],"isError":true}`)
		})
		r := s.first()
		assert.True(s.server.t, strings.HasSuffix(r.text, "\nThe tool's server said: timed out"), r.text)
		return r
	}, outcome: gateway.EffectUnknown, members: "ambiguous_error unknown ask_human", shape: ours, line: sentOn},
	{name: "an answer that is none", play: func(s *scene) reply {
		s.server.on("refund", func(c *call) { c.answer(`7`) })
		return s.first()
	}, outcome: gateway.EffectUnknown, members: "bad_answer unknown ask_human", shape: ours, line: sentOn + "the tool's server sent an answer that cannot be read"},
	{name: "a refusal before anything was executed", play: func(s *scene) reply {
		s.server.on("refund", func(c *call) { c.refuse(-32601, "not here") })
		r := s.first()
		assert.True(s.server.t, strings.HasSuffix(r.text, "\nThe tool's server said: not here (code -32601)"), r.text)
		return r
	}, outcome: gateway.FailedBeforeInput, members: "refused not_executed fix_arguments", shape: ours,
		line: `^FAILED_BEFORE_INPUT \(refused\): the tool's server refused the call before running it\. Nothing was executed\. The key is free`},
	{name: "the same call is running", play: func(s *scene) reply { s.leased(); return s.first() },
		outcome: gateway.Running, members: "null unknown retry_same_key", shape: ours,
		line: `^RUNNING: the same call is still executing since \S+Z \(op_\w+\)\. Repeat it with the SAME key in 20 s\.$`},

	{name: "the key of what was executed", play: func(s *scene) reply { s.succeeded(); return s.call("refund", s.other()) },
		outcome: gateway.RejectedDuplicate, members: "key_reused executed none", shape: ours,
		line: `^REJECTED_DUPLICATE \(key_reused\): the action of this key was ALREADY EXECUTED at \S+Z \(op_\w+\) with other arguments\. Nothing was executed now\. Do nothing more, unless`},
	{name: "the key of an error", play: func(s *scene) reply { s.failed(); return s.call("refund", s.other()) },
		outcome: gateway.RejectedDuplicate, members: "key_reused answered_error new_key", shape: ours,
		line: `^REJECTED_DUPLICATE \(key_reused\): the action of this key was answered with an error at .* Nothing was executed now\. To try with these arguments use a new key\.$`},
	{name: "the key of what is running", play: func(s *scene) reply { s.leased(); return s.call("refund", s.other()) },
		outcome: gateway.RejectedDuplicate, members: "key_reused unknown check_status", shape: ours,
		line: `^REJECTED_DUPLICATE \(key_reused\): the action of this key is still executing, begun at .* Nothing was executed now\. Call idempotency_status`},
	{name: "the key of what may still be answered", play: func(s *scene) reply {
		s.stranded(dedup.ReasonTimeout, time.Hour)
		return s.call("refund", s.other())
	}, outcome: gateway.RejectedDuplicate, members: "key_reused unknown check_status", shape: ours, line: `is still executing`},
	{name: "the key of what is unknown", play: func(s *scene) reply {
		s.stranded(dedup.ReasonTimeout, 0)
		return s.call("refund", s.other())
	}, outcome: gateway.RejectedDuplicate, members: "key_reused unknown ask_human", shape: ours,
		line: `^REJECTED_DUPLICATE \(key_reused\): the action of this key MAY have been executed at .* Nothing was executed now\. Do not send it under a new key`},
	elsewhere("there", `of the server "shop", account "there" at`),
	elsewhere("", `of the server "shop" at`),
	{name: "the key is past its window", play: func(s *scene) reply {
		r := s.asked("refund", s.arguments(1))
		r.Window = 0
		_, err := s.run(r).Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(s.result())})
		require.NoError(s.server.t, err)
		return s.first()
	}, outcome: gateway.RejectedDuplicate, members: "key_expired executed new_key", shape: ours,
		line: `^REJECTED_DUPLICATE \(key_expired\): the call of this key was executed at \S+Z \(op_\w+\), .* It is not run again\. A new action needs a new key\.$`},
	{name: "the key of an error is past its window", play: func(s *scene) reply {
		r := s.asked("refund", s.arguments(1))
		r.Window = 0
		_, err := s.run(r).Complete(dedup.Answer{Evidence: dedup.AnsweredErrorResult, Body: []byte(errorResult)})
		require.NoError(s.server.t, err)
		return s.first()
	}, outcome: gateway.RejectedDuplicate, members: "key_expired answered_error new_key", shape: ours,
		line: `the call of this key was answered with an error at`},

	{name: "an identical call was executed", play: func(s *scene) reply { s.succeeded(); return s.second() },
		outcome: gateway.RejectedDuplicate, members: "near_duplicate executed repeat_of", shape: ours,
		line: `^REJECTED_DUPLICATE \(near_duplicate\): an identical call under another key already completed at \S+Z \(op_\w+, result id "marker-result"\)\. Nothing was executed now\. If the user wants it a second time, add idempotency_repeat_of: "op_\w+"\.$`},
	{name: "an identical call was answered with an error", play: func(s *scene) reply { s.failed(); return s.second() },
		outcome: gateway.RejectedDuplicate, members: "near_duplicate answered_error repeat_of", shape: ours,
		line: `an identical call under another key already was answered with an error at \S+Z \(op_\w+\)\.`},
	{name: "an identical call is running", play: func(s *scene) reply { s.leased(); return s.second() },
		outcome: gateway.RejectedDuplicate, members: "near_duplicate_unresolved unknown check_status", shape: ours,
		line: `^REJECTED_DUPLICATE \(near_duplicate_unresolved\): an identical call under another key is still executing since .* Wait for it: call idempotency_status`},
	{name: "an identical call is unknown", play: func(s *scene) reply {
		s.stranded(dedup.ReasonTimeout, 0)
		return s.second()
	}, outcome: gateway.RejectedDuplicate, members: "near_duplicate_unresolved unknown ask_human", shape: ours,
		line: `^REJECTED_DUPLICATE \(near_duplicate_unresolved\): an identical call under another key MAY have been executed at .* Tell the user, and go on without it\.$`},
	{name: "what is to be repeated is unheard of", play: func(s *scene) reply {
		return s.call("refund", s.repeating(1, dedup.NewOperationID().String()))
	}, outcome: gateway.RejectedDuplicate, members: "repeat_unknown not_executed fix_arguments", shape: ours,
		line: `^REJECTED_DUPLICATE \(repeat_unknown\): idempotency_repeat_of names no earlier call with the same content\. Nothing was executed\.`},
	{name: "what is to be repeated was repeated already", play: func(s *scene) reply {
		e := s.succeeded()
		s.server.on("refund", nil)
		if s.output != "" {
			s.server.on("refund", func(c *call) { c.answer(s.result()) })
		}
		s.call("refund", s.repeating(2, e.ID.String())).require(gateway.Completed)
		return s.call("refund", s.repeating(3, e.ID.String()))
	}, outcome: gateway.RejectedDuplicate, members: "repeat_unknown executed repeat_of", shape: ours,
		line: `^REJECTED_DUPLICATE \(repeat_unknown\): the call that idempotency_repeat_of names was already repeated at .* If the user wants it once more, add idempotency_repeat_of: "op_\w+"\.$`},

	refused("no key", `{}`, "key_required"),
	refused("a weak key", `{"idempotency_key":"your-key-here"}`, "key_weak"),
	refused("a card number", `{"idempotency_key":"refund:4111111111111111:1"}`, "key_sensitive"),
	refused("a key with a line's end", `{"idempotency_key":"marker-key\nrefund"}`, "key_invalid"),
	refused("a key that is no text", `{"idempotency_key":7}`, "key_invalid"),
	refused("a member twice", `{"idempotency_key":"marker-key:1:9","a":{"b\nc":1,"b\nc":2}}`, "invalid_arguments"),
	refused("arguments that are none", `[]`, "invalid_arguments"),
	refused("an operation id that is none", `{"idempotency_key":"marker-key:1:9","idempotency_repeat_of":"the\nfirst"}`, "repeat_unknown"),
	{name: "two keys of the harness", play: func(s *scene) reply {
		return s.start("refund", `{}`, `{"mcp-idem/key":"marker-key:1","mcp-idem/run":"r","mcp-idem/step":"s"}`).reply()
	}, outcome: gateway.FailedBeforeInput, members: "key_conflict not_executed fix_arguments", shape: ours, line: `^FAILED_BEFORE_INPUT \(key_conflict\): `},
	{name: "the ledger cannot be read", play: func(s *scene) reply {
		s.store.cue(find, fails(errDisk))
		defer s.store.cue(find, nil)
		return s.first()
	}, outcome: gateway.FailedBeforeInput, members: "ledger_unavailable not_executed retry_same_key", shape: ours,
		line: `^FAILED_BEFORE_INPUT \(ledger_unavailable\): .* Nothing was sent to the tool\.`},
}

// unknown is a call that nobody knows of, for a reason that is told in words.
func unknown(reason dedup.Reason, words string) situation {
	return situation{name: "unknown: " + string(reason), play: func(s *scene) reply {
		s.stranded(reason, 0)
		return s.first()
	}, outcome: gateway.EffectUnknown, members: string(reason) + " unknown ask_human", shape: ours,
		line: sentOn + words + `\. It MAY have been executed\. Do not send it again under a new key\. Tell the user, and go on without it\.$`}
}

// elsewhere is a key that was used for another account.
func elsewhere(account, words string) situation {
	return situation{name: "the key was used elsewhere: " + words, play: func(s *scene) reply {
		r := s.asked("refund", s.arguments(1))
		r.Scope.Account = account
		_, err := s.run(r).Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(s.result())})
		require.NoError(s.server.t, err)
		return s.first()
	}, outcome: gateway.RejectedDuplicate, members: "scope_changed executed new_key", shape: ours,
		line: `^REJECTED_DUPLICATE \(scope_changed\): this key was used for the same tool ` + words + `.* Nothing was executed now\.`}
}

// refused is a call that cannot run as it stands.
func refused(name, arguments, reason string) situation {
	return situation{name: name, play: func(s *scene) reply { return s.call("refund", arguments) },
		outcome: gateway.FailedBeforeInput, members: reason + " not_executed fix_arguments", shape: ours,
		line: `^FAILED_BEFORE_INPUT \(` + reason + `\): .* Nothing was sent to the tool\.`}
}

func TestEverySituationHasItsShape(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, k.tool(), func(o *gateway.Options) { o.Wait = time.Millisecond })
			for i, s := range situations {
				played := t.Run(s.name, func(t *testing.T) {
					s.requireShape(t, k, s.play(&scene{r, k, i + 1}))
				})
				require.True(t, played)
			}
			requireDiscreet(t, r)
		})
	}
}

func (s situation) requireShape(t *testing.T, k kind, got reply) {
	t.Helper()
	got.t = t
	members := strings.Fields(s.members)
	got.require(s.outcome, "reason", members[0], "effect", members[1], "next.action", members[2])
	assert.Regexp(t, s.line, got.line())
	result, structured := s.result, ""
	if result == "" {
		result = k.result()
		structured = k.structured
	}
	isError := got.member("isError")
	told := `"idempotency":` + string(got.raw)
	switch s.shape {
	case kept:
		assert.Equal(t, result, got.upstreams())
		assert.Empty(t, got.text)
		assert.Equal(t, structured, got.member("structuredContent"))
	case appended:
		assert.Equal(t, result, got.upstreams())
		assert.NotEmpty(t, got.text)
		annotated := structured != "" && k.annotates && got.says("was_replay") == "true"
		assert.Equal(t, annotated, strings.Contains(got.member("structuredContent"), told))
	case ours:
		assert.Len(t, got.blocks, 1)
		assert.Equal(t, k.output == "", got.member("structuredContent") == "{"+told+"}", got.member("structuredContent"))
		assert.Equal(t, k.output != "", got.member("structuredContent") == "")
		assert.Equal(t, !s.success || k.output != "", isError == "true", isError)
	}
	if s.shape != ours {
		assert.Equal(t, result == errorResult, isError == "true")
	}
}

// requireDiscreet makes sure that the log has one line for each call, and in none
// of them what only the caller and the ledger should know.
func requireDiscreet(t *testing.T, r *rig) {
	t.Helper()
	calls := r.client.calls()
	r.client.close()
	lines, _ := r.log.with(`"message":"call"`)
	assert.Len(t, lines, calls)
	secrets, _ := r.log.with("marker-")
	assert.Empty(t, secrets)
}
