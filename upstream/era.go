package upstream

import (
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// An Era is one of the two ways in which the Model Context Protocol is spoken.
type Era string

// The eras. The zero value stands for EraAuto.
const (
	EraAuto   Era = "auto"   // find out
	EraLegacy Era = "legacy" // up to revision 2025-11-25: the request initialize, sessions
	EraModern Era = "modern" // from revision 2026-07-28 on: server/discover, no sessions
)

// ParseEra reads the name of an era.
func ParseEra(name string) (Era, error) {
	switch e := Era(name); e {
	case EraAuto, EraLegacy, EraModern:
		return e, nil
	}
	return "", fmt.Errorf("%q is none of %s, %s and %s", name, EraAuto, EraLegacy, EraModern)
}

// order returns the eras to be tried, in this order, for a client's handshake.
//
// A legacy client's own era goes first: it has what the other has not, as questions
// of the server's in the middle of a call. For a modern one, what was found earlier
// is tried first; without it the modern era is, since a legacy server refuses its
// first request and nothing has happened. A handshake that is repeated begins with
// the era in which it was made.
func (e Era) order(known Era, made bool, params []byte) []Era {
	switch {
	case e == EraLegacy, e == EraModern:
		return []Era{e}
	case known == EraLegacy, !made && !ofModernClient(params):
		return []Era{EraLegacy, EraModern}
	}
	return []Era{EraModern, EraLegacy}
}

// ofModernClient reports whether the params of initialize stand for a client of the
// modern era, or for several of any: they have what such a client declares.
func ofModernClient(params []byte) bool {
	v, err := rawjson.ParseTo(params, 2)
	return err == nil && v.Get("_meta").Get(mcp.MetaKeyClientCapabilities) != nil
}
