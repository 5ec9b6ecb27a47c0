package toolschema

import (
	"slices"
	"strings"
	"unicode"
)

// A sense is what a tool's name says about side effects.
type sense uint8

const (
	// unclear: no known word, or words that pull both ways. It counts as side
	// effects, but does not contradict a read-only annotation.
	unclear sense = iota
	// reads: a reading verb governs the name.
	reads
	// mutates: a mutating verb governs the name, clearly enough to overrule a
	// read-only annotation.
	mutates
)

// A reading is the sense of a name, the word that gave it, and whether that
// word sends or creates something.
type reading struct {
	sense   sense
	word    string
	creates bool
}

// readName finds the verb that governs a tool's name.
//
// Names put it first (get_user), after a name space (slack_post_message) or
// last (disk_create), and many verbs are nouns as well (get_update, post_list),
// so the position decides between the candidates. Where it cannot, the sense is
// unclear rather than reads: a needless key costs little, a duplicate effect
// does not.
func readName(name string) reading {
	n := parseName(name)
	if i := n.afterConjunction(); i >= 0 {
		if n.tags[i]&(pureVerb|dualVerb) == 0 {
			return n.says(unclear, i) // find_time_and_book
		}
		return n.says(mutates, i)
	}
	lead, noun := n.first(anyVerb), n.first(nounVerb)
	switch {
	case lead < 0:
		return n.withoutVerb(noun)
	case noun == 0 && n.tags[lead]&readNoun != 0 && lead < n.last():
		return n.says(unclear, noun) // email_list_members
	case n.tags[lead]&(readVerb|readNoun) != 0:
		return n.afterReading(lead)
	default:
		return n.afterMutating(lead)
	}
}

// A toolName is a name split into lower-case words with their meanings.
type toolName struct {
	words []string
	tags  []tag
}

func parseName(name string) toolName {
	n := toolName{words: joinPairs(splitName(name))}
	for _, w := range n.words {
		n.tags = append(n.tags, meaning(w))
	}
	n.muteObjects()
	return n
}

// joinPairs makes one word of two that the lexicon knows as a pair.
func joinPairs(words []string) []string {
	for i := 0; i+1 < len(words); i++ {
		pair := words[i] + "-" + words[i+1]
		if _, known := lexicon[pair]; known {
			words = slices.Replace(words, i, i+2, pair)
		}
	}
	return words
}

// muteObjects takes their meaning from words after a preposition, which say
// what a verb before it is about: check_for_update, reverse_payment_by_id. Only
// a pure verb further on keeps it: search_by_id_delete.
func (n toolName) muteObjects() {
	verb := slices.IndexFunc(n.tags, func(t tag) bool { return t&(anyVerb|nounVerb) != 0 })
	object := false
	for i := verb + 1; verb >= 0 && i < len(n.tags); i++ {
		switch {
		case n.tags[i]&preposition != 0:
			object = true
		case object && (n.tags[i]&pureVerb == 0 || n.tags[i-1]&preposition != 0):
			n.tags[i] = 0
		}
	}
}

func (n toolName) last() int { return len(n.words) - 1 }

// first returns the position of the first word with one of the tags, or -1.
func (n toolName) first(any tag) int {
	return slices.IndexFunc(n.tags, func(t tag) bool { return t&any != 0 })
}

// afterConjunction finds the mutating verb of get_or_create and
// find_text_and_replace, or -1.
func (n toolName) afterConjunction() int {
	verbs := false
	for i := 1; i+1 < len(n.words); i++ {
		verbs = verbs || n.tags[i-1]&(anyVerb|nounVerb) != 0
		joins := n.words[i] == "or" || n.words[i] == "and"
		if joins && verbs && n.tags[i+1]&(pureVerb|dualVerb|nounVerb) != 0 {
			return i + 1
		}
	}
	return -1
}

// withoutVerb judges a name whose words are all nouns, one of them perhaps a
// verb as well. pods_log and user_info name what they give; in order_info the
// first word may be an order to do something.
func (n toolName) withoutVerb(noun int) reading {
	last := n.last()
	switch {
	case last > 0 && n.tags[last]&(info|output) != 0 && (noun < 0 || noun == last):
		return n.says(reads, last)
	case noun >= 0:
		return n.says(unclear, noun)
	}
	return reading{}
}

// afterReading judges a name whose first verb reads.
func (n toolName) afterReading(lead int) reading {
	last := n.last()
	tail := n.tags[last]
	switch {
	case lead == last:
		return n.says(reads, lead)
	case n.tags[lead]&soft != 0:
		return n.says(unclear, lead) // show_tables or show_dialog?
	case n.tags[lead]&readNoun != 0 && n.tags[lead]&foresees == 0:
		// The word may be a noun: search_create, list_remove_member.
		if verb := slices.IndexFunc(n.tags[lead+1:], func(t tag) bool { return t&pureVerb != 0 }); verb >= 0 {
			return n.says(unclear, lead+1+verb)
		}
	}
	// After get, what may be a noun is one: get_update. After read it is one
	// where people read it: read_post, but read_reset.
	contrary := pureVerb
	if n.tags[lead]&readNoun != 0 || n.words[lead] == "read" && tail&creates == 0 {
		contrary |= dualVerb
	}
	if tail&contrary != 0 {
		return n.says(unclear, last)
	}
	return n.says(reads, lead)
}

// afterMutating judges a name whose first verb, apart from mere nouns, mutates.
func (n toolName) afterMutating(lead int) reading {
	last := n.last()
	tail := n.tags[last]
	switch {
	case n.tags[lead]&pureVerb != 0 || lead == last:
		return n.says(n.force(lead), lead) // mark_all_read, disk_create
	case tail&pureVerb != 0:
		return n.says(n.force(last), last) // transfer_cancel
	case n.words[last] == "read" && tail != 0 && lead == 0:
		return n.says(unclear, lead) // set_read or set, read?
	case tail&readVerb != 0:
		return n.says(reads, last) // import_get
	case n.tags[lead]&obtains != 0 && tail&(info|output) != 0:
		return n.says(reads, last) // take_screenshot
	case tail&readNoun != 0:
		return reading{sense: unclear, word: n.words[lead]} // run_query, transfer_list
	case tail&info != 0:
		return n.says(unclear, lead) // post_id, post_status
	}
	return n.says(n.force(lead), lead)
}

// force is what the mutating verb at i says where nothing softens it. What
// carries out a payment is not mild: confirm_payment.
func (n toolName) force(i int) sense {
	if n.tags[i]&soft != 0 && !n.carriesDeed(i) {
		return unclear
	}
	return mutates
}

// carriesDeed reports whether the verb at i only carries out what another word
// names, and that sends or creates something.
func (n toolName) carriesDeed(i int) bool {
	return n.tags[i]&carries != 0 && slices.ContainsFunc(n.tags, func(t tag) bool { return t&(creates|deed) != 0 })
}

// says makes a reading of the word at i. A verb that only carries out what
// another word names (process_refund) creates what that word creates.
func (n toolName) says(s sense, i int) reading {
	r := reading{sense: s, word: n.words[i], creates: n.tags[i]&creates != 0 || n.carriesDeed(i)}
	if i > 1 && (n.words[i-1] == "or" || n.words[i-1] == "and") {
		r.creates = r.creates || n.tags[i-2]&creates != 0
	}
	return r
}

// splitName splits at everything that is neither letter nor digit, between
// letters and digits, and inside camelCase and ABCWord, and drops numbers and
// version marks, which say nothing.
func splitName(name string) []string {
	var words []string
	runes := []rune(name)
	start := 0
	flush := func(end int) {
		if w := strings.ToLower(string(runes[start:end])); w != "" && w != "v" && !unicode.IsDigit(runes[start]) {
			words = append(words, w)
		}
		start = end
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush(i)
			start = i + 1
		case i > start && isWordBreak(runes, i):
			flush(i)
		}
	}
	flush(len(runes))
	return words
}

func isWordBreak(runes []rune, i int) bool {
	before, here := runes[i-1], runes[i]
	if unicode.IsDigit(before) != unicode.IsDigit(here) {
		return true
	}
	if !unicode.IsUpper(here) {
		return false
	}
	return !unicode.IsUpper(before) || (i+1 < len(runes) && unicode.IsLower(runes[i+1]))
}
