package config

import (
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// toTools reads an object of what is said of tools, by their names or by globs.
func (r *reader) toTools(to *[]Tool) read {
	return func(name string, n *node) {
		if n.kind != kindObject {
			r.fault(n.at, "%s is no object; give one with a tool's name or a glob before each of its members", name)
			return
		}
		elsewhere := misplaced(inTop, r.topMembers(&Settings{}), fromFlags)
		elsewhere = misplaced(inGuard, r.guardMembers(&Guard{}).with(r.serverMembers(&Server{})), elsewhere)
		for _, m := range n.members {
			if !validGlob(m.name) {
				r.fault(m.at, "%q is no glob; give a tool's name, or one with * and ? in it", m.name)
				continue
			}
			tool := Tool{Pattern: m.name}
			r.block(m.value, "a tool", r.toolMembers(&tool), elsewhere)
			*to = append(*to, tool)
		}
	}
}

func (r *reader) toolMembers(t *Tool) members {
	return members{
		"class": toWord(r, &t.Class, toolschema.ClassReadOnly, toolschema.ClassUnguarded, toolschema.ClassSafeRetry,
			toolschema.ClassDeduplicate, toolschema.ClassRequiresEffectCheck, toolschema.ClassNonRetryable),
		"near_duplicate": toWord(r, &t.NearDuplicate, toolschema.NearDuplicateOff, toolschema.NearDuplicateWarn,
			toolschema.NearDuplicateConfirm, toolschema.NearDuplicateAsk),
		"native_key":      r.toNative(t),
		"window":          r.toSpan(&t.Window),
		"call_timeout":    r.toSpan(&t.CallTimeout),
		"upstream_window": r.toSpan(&t.UpstreamWindow),
		"on_cancel":       toWord(r, &t.OnCancel, gateway.OnCancelDetach, gateway.OnCancelForward),
		"strict_codes":    r.toOptional(&t.StrictCodes),
		"check":           r.toCheck(&t.Check),
	}.with(r.textMembers(&t.Texts))
}

// toNative reads PATH[,shown][,raw], or none, as the flag has it behind GLOB=.
func (r *reader) toNative(t *Tool) read {
	return func(name string, n *node) {
		text, ok := r.text(name, n)
		if !ok {
			return
		}
		rule, err := toolschema.ParseNativeRule("*=" + text)
		if err != nil {
			r.fault(n.at, "%s: %s is no path to a property; give for instance body.idempotency_key, or none", name, shown(n))
			return
		}
		rule.Pattern = t.Pattern
		t.Native = &rule
	}
}

func (r *reader) toOptional(to **bool) read {
	return func(name string, n *node) {
		if value, ok := r.truth(name, n); ok {
			*to = &value
		}
	}
}

// toCheck reads a check, and refuses it: a tool that seems to be checked and is not is
// worse than one that says it cannot be.
func (r *reader) toCheck(to **Check) read {
	return func(name string, n *node) {
		c := &Check{}
		r.block(n, name, members{
			"tool":          r.toText(&c.Tool),
			"arguments":     r.toText(&c.Arguments),
			"executed":      r.toText(&c.Executed),
			"authoritative": r.toTruth(&c.Authoritative),
		}, nil)
		*to = c
		r.fault(n.at, "effect checks are not there yet; take %s out, and settle what is unknown with mcp-idem ledger resolve", name)
	}
}
