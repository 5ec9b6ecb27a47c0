package toolschema

import "strings"

// A tag is what a word may mean in a tool's name. Verbs are sorted by how
// likely they are to be nouns, because that decides whether their position
// makes them govern the name.
type tag uint16

const (
	readVerb tag = 1 << iota // reads, and is never a noun: get
	readNoun                 // reads, or names a thing: search
	pureVerb                 // mutates, and is never a noun: create
	dualVerb                 // mutates, or names a thing: update
	nounVerb                 // names a thing, or mutates: order

	creates     // sends or creates: repeating it by accident is what people fear
	carries     // carries out what another word names: process_refund
	deed        // a noun that such a verb carries out: make_payment
	soft        // too mild to contradict a read-only annotation: open
	info        // a noun that a reading tool is named by: status
	preposition // its object is no verb: check_for_update

	anyVerb = readVerb | readNoun | pureVerb | dualVerb
)

var lexicon = makeLexicon(map[tag]string{
	readVerb: `analyse analyze are ascertain ask assess autocomplete browse calculate can cat classify compare
		describe detect determine diagnose discover echo elicit enumerate estimate examine explain explore extract
		fetch find forecast geocode get greet grep has hello identify inspect is learn lint locate lookup ls
		parse peek ping predict read recognise recognize recommend retrieve scrape see show suggest summarise
		summarize tail tokenize transcribe translate troubleshoot understand validate whoami`,
	readNoun: `aggregate audit blame check count diff filter glob list map monitor overview poll preview query
		research sample scan search view wait watch`,

	pureVerb | creates: `add append broadcast buy compose create createorupdate deliver dial donate emit enqueue
		enrol enroll fulfil fulfill insert mint notify pay prepend propose provision publish purchase react register
		reimburse reserve resend send spawn submit subscribe tweet`,
	pureVerb: `abort accept ack acknowledge activate adjust allocate alter amend approve assign associate attach
		authorise authorize ban begin bind bump cancel configure deactivate decline decrement delegate delete demote deny
		deprovision dequeue destroy detach disable disassociate disconnect dismiss downgrade drain drop enable eradicate
		erase escalate eval evaluate evict expire extend failover fill finalise finalize finish forget give goto grant
		hire impersonate increment ingest init initialise initialize install interact kick kill logout mark
		memorize migrate modify mutate navigate negotiate nominate overwrite populate press promote prune purge put
		quarantine reassign rebase reboot rebuild redeem redo reindex reject relocate remember remove rename renew reopen replace
		requeue reschedule restart restore revert revise revoke rewrite rollback rotate sell shutdown signout snooze
		stash suspend synchronise synchronize teardown terminate toggle truncate undo uninstall unset unstage upsert
		withdraw wipe write`,
	pureVerb | carries: `conduct execute exec initiate invoke launch make perform`,
	pureVerb | soft: `annotate authenticate combine compile convert emulate generate highlight render save
		synthesise synthesize transform`,

	dualVerb | creates: `bid charge clone deploy deposit dispatch fork forward invite post refund replay reply retweet
		share ship stake swap trade transfer trigger`,
	dualVerb: `apply archive backup block boot branch build change checkout claim clean clear click close commit connect
		control copy drag edit empty fix flag flush follow hold hover import join leave like load lock login
		merge mirror mount move mute override patch pause pin print push rate redirect release repair
		report reset resize resume retry review route scale schedule scroll seed set setup sign skip split star
		stop swipe switch sync tap train transition type unload update upgrade upload vote`,
	dualVerb | carries: `complete handle run start`,
	dualVerb | soft: `capture confirm download export focus hide manage open refresh resolve select simulate take track
		verify`,

	nounVerb | creates: `book booking call comment dm draft email feedback invitation mail message order request sms`,
	nounVerb | carries: `issue process`,
	nounVerb: `access alert batch bash code command design exchange format index label log note plan pull record return route
		shell store tag task test text trace`,

	deed: `deployment email invoice message notification payment payout purchase reservation sms transaction`,

	info: `availability capabilities config content contents count definitions details diagnostics docs documentation
		health help history id info information instructions limits log logs members metadata metrics names profile
		properties reflog replies schema size stats status structure summary tree types usage version versions`,

	preposition: `about as at by for from in of on per to via with`,
})

func makeLexicon(groups map[tag]string) map[string]tag {
	words := make(map[string]tag)
	for t, list := range groups {
		for _, w := range strings.Fields(list) {
			words[w] |= t
		}
	}
	return words
}

// meaning looks a word up. "un" and "re" before a mutating verb leave it one.
func meaning(word string) tag {
	if t, ok := lexicon[word]; ok {
		return t
	}
	const mutating = pureVerb | dualVerb
	if verb, ok := strings.CutPrefix(word, "un"); ok && lexicon[verb]&(mutating|nounVerb) != 0 {
		return pureVerb
	}
	if verb, ok := strings.CutPrefix(word, "re"); ok && lexicon[verb]&mutating != 0 {
		return lexicon[verb]
	}
	return 0
}
