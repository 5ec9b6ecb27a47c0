package config

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// nearest returns the name that someone who wrote text may have meant, or "": the
// first of those that the fewest typing errors lead to, and two at most.
func nearest(text string, names []string) string {
	const farthest = 2
	const longest = 64 // of what is a slip of somebody's; distances take the square of it
	best, found := farthest+1, ""
	if len(text) > longest {
		return ""
	}
	text = folded(text)
	for _, name := range names {
		if d := levenshtein.ComputeDistance(text, folded(name)); d < best && d <= len(name)/2 {
			best, found = d, name
		}
	}
	return found
}

// folded makes one of call_timeout, call-timeout, CALL_TIMEOUT and callTimeout.
func folded(name string) string { return separators.Replace(strings.ToLower(name)) }

var separators = strings.NewReplacer("_", "", "-", "")
