package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxSimilar is how many names are suggested in place of one that is not there.
const maxSimilar = 5

// similar returns the names that someone who wrote name may have meant, the
// likeliest first: those that hold it or are held in it, and those that a few
// typing errors lead to.
func similar(name string, names []string) []string {
	const maxLength = 100 // of names that somebody types; distances take the square of it
	type candidate struct {
		name  string
		edits int
	}
	var near []candidate
	for _, other := range names {
		if other == "" || len(other) > maxLength || len(name) > maxLength {
			continue
		}
		a, b := strings.ToLower(name), strings.ToLower(other)
		edits := levenshtein.ComputeDistance(a, b)
		if edits <= 1+len(name)/3 || strings.Contains(a, b) || strings.Contains(b, a) {
			near = append(near, candidate{other, edits})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.edits, b.edits) })
	var found []string
	for _, c := range near[:min(len(near), maxSimilar)] {
		found = append(found, c.name)
	}
	return found
}
