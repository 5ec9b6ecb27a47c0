package config

import "strings"

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
		if d := distance(text, folded(name)); d < best && d <= len(name)/2 {
			best, found = d, name
		}
	}
	return found
}

// folded makes one of call_timeout, call-timeout, CALL_TIMEOUT and callTimeout.
func folded(name string) string { return separators.Replace(strings.ToLower(name)) }

var separators = strings.NewReplacer("_", "", "-", "")

// distance is how many bytes have to be put in, taken out or replaced to make b of a
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
