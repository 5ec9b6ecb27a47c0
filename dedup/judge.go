package dedup

import "time"

// A ruling is what a claim's surroundings mean for it: a verdict, or leave to
// claim by the evidence.
type ruling struct {
	verdict  Verdict  // nil: it may be claimed
	evidence Evidence // what justifies the claim
	near     *Entry   // an operation of the same content that does not stand in the way
	round    *Round   // the round that the claim continues
}

// judge decides what a call may do. It is pure: the same surroundings give the
// same ruling, so it can be asked before the claim and again within it.
func judge(r Request, content Digest, s Surroundings) ruling {
	if s.Same != nil && s.Same.State != Released {
		return judgeSame(r, *s.Same, s)
	}
	if r.Continues != nil {
		return judgeUnasked(s)
	}
	if s.Elsewhere != nil {
		return ruling{verdict: Conflict{*s.Elsewhere, ReasonScopeChanged}}
	}
	if blocked := judgeRepeat(r, content, s); blocked != nil {
		return ruling{verdict: blocked}
	}
	return judgeTwins(r, s)
}

// judgeUnasked rules on a call that answers a question although its key has no
// operation that could have asked.
func judgeUnasked(s Surroundings) ruling {
	stray := Stray{Reason: ReasonInputUnknown}
	if s.Same != nil {
		stray.Entry = *s.Same
	}
	return ruling{verdict: stray}
}

// judgeSame rules on a call whose key has an operation.
func judgeSame(r Request, e Entry, s Surroundings) ruling {
	if e.FingerprintVersion == r.FingerprintVersion && e.Fingerprint != r.Fingerprint {
		return ruling{verdict: Conflict{e, ReasonKeyReused}}
	}
	if r.Continues != nil {
		return judgeContinuation(r, e, s)
	}
	return judgeStanding(r, e, s.Now)
}

// judgeStanding rules on a call by how its operation stands.
func judgeStanding(r Request, e Entry, now time.Time) ruling {
	switch e.State {
	case Completed:
		if e.Expired(now) {
			return ruling{verdict: Expired{e}}
		}
		return ruling{verdict: Replay{e}}
	case Unknown:
		if e.Open() {
			return ruling{verdict: Busy{e}}
		}
		if evidence, ok := runsAgain(r, e, now); ok {
			return ruling{evidence: evidence}
		}
		return ruling{verdict: Lost{e}}
	case AwaitingInput:
		return ruling{verdict: Asked{e}}
	default:
		return ruling{verdict: Busy{e}}
	}
}

// runsAgain says whether an unknown operation may be attempted again. The class
// of its claim holds, unless a person has said otherwise since.
func runsAgain(r Request, e Entry, now time.Time) (Evidence, bool) {
	switch {
	case e.Class != r.Class && !r.ClassBySaid:
		return 0, false
	case r.OnUnknown.RunAgain:
		return SafeToRepeat, true
	case !carriesSameKey(r, e):
		return 0, false
	case r.OnUnknown.ResendWithin > 0 && now.Before(e.CreatedAt.Add(r.OnUnknown.ResendWithin-min(resendMargin, r.OnUnknown.ResendWithin/2))):
		return ResentWithKey, true
	}
	return 0, false
}

// carriesSameKey reports whether the upstream would know the call again: by a key
// that every attempt which may have executed has carried, at the same place and in
// the same form. An upstream that never saw this key would run the call as new.
func carriesSameKey(r Request, e Entry) bool {
	return r.Downstream != "" && e.Downstream == r.Downstream
}

// downstream is Entry.Downstream with one attempt more.
//
// A claim by row 1 begins anew: no earlier attempt has executed. Row 16 requires the
// form of the earlier attempts, and so keeps it. Row 17 may bring another, and then
// no form is that of all attempts that may have executed: sent as the newest was,
// the call would be new to the upstream if an earlier one executed, and the other
// way round. So the operation has none from then on, and row 16 does not apply to it
// until evidence that nothing was executed lets it begin anew.
func downstream(r Request, e Entry, evidence Evidence) string {
	if evidence == Claimed || e.Downstream == r.Downstream {
		return r.Downstream
	}
	return ""
}

// judgeRepeat rules on the operation that a call says it repeats: it must be of
// the same content, and may be repeated by one operation only.
func judgeRepeat(r Request, content Digest, s Surroundings) Verdict {
	if r.RepeatOf.IsZero() {
		return nil
	}
	if s.Repeated == nil || s.Repeated.Content != content {
		return Duplicate{Reason: ReasonRepeatUnknown}
	}
	if s.RepeatedBy != nil {
		return Duplicate{*s.RepeatedBy, ReasonRepeatUnknown}
	}
	return nil
}

// judgeTwins rules on operations of the same content under other keys. One that
// may still be executing, or may have executed, stands in the way of any other;
// one that was answered gives way to a call that names it.
func judgeTwins(r Request, s Surroundings) ruling {
	free := ruling{evidence: Claimed}
	for _, twin := range s.Twins {
		switch {
		case r.Near.Mode == NearOff:
		case r.Near.Mode == NearWarn:
			free.near = &twin
			return free
		case twin.State != Completed:
			return ruling{verdict: Duplicate{twin, ReasonNearDuplicateUnresolved}}
		case r.RepeatOf.IsZero():
			return ruling{verdict: Duplicate{twin, ReasonNearDuplicate}}
		}
	}
	return free
}
