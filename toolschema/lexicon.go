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
	soft        // too mild to contradict a read-only annotation, or to be believed as reading: open, show
	obtains     // gets what its object names, or acts on it: take_screenshot, take_note
	foresees    // its object may be an act that does not happen: preview_create_invoice
	info        // a noun that a reading tool is named by: status
	output      // such a noun, but an object to mutating verbs as any other: insights
	preposition // its object is no verb: check_for_update

	anyVerb = readVerb | readNoun | pureVerb | dualVerb
)

// thing is the meaning of words that stand for a thing whatever they look like.
const thing tag = 0

// lexicon holds the known words. A hyphen joins two words that mean something
// else together than they do apart: add-on is no adding.
var lexicon = makeLexicon(map[tag]string{
	readVerb: `analyse analyze are ascertain ask assess autocomplete calculate can classify compare correlate
		decode describe detect determine diagnose elicit enumerate examine explain fetch find geocode get grep has
		identify infer inspect introspect is listen locate ls measure nslookup observe obtain parse peek ping predict
		ps read recognise recognize recommend rerank retrieve see suggest summarise summarize think tokenize
		traceroute transcribe translate traverse troubleshoot understand validate whoami whois`,
	readNoun: `aggregate audit blame browse cat check count diff discover echo estimate explore extract filter forecast
		glob greet head hello learn lint list lookup look-up map monitor outline overview poll query rank recall
		research sample scan scrape search tail view wait`,
	readNoun | foresees: `dry-run preview what-if`,
	readNoun | output:   `screenshot`,
	readNoun | soft:     `show`,

	pureVerb | creates: `add announce append borrow broadcast buy create createorupdate deliver dial disburse donate
		emit enqueue enrol enroll fulfil fulfill insert instantiate lend mint notify pay place-bet place-bid
		place-call place-order place-trade prepend propose provision publish raise redeem register reimburse remind
		remit renew reserve resend sell send settle sign-up signup spawn submit subscribe top-up topup tweet withdraw`,
	pureVerb: `abort accept ack acknowledge acquire activate adjust allocate alter amend approve assign associate attach
		authorise authorize backfill ban begin bind bisect bump calibrate cancel cherry-pick chmod chown clean-up
		cleanup configure consume cordon cp deactivate decline decrement delegate delete demote deny deprovision
		dequeue deregister destroy detach disable disarm disassociate discard disconnect dismiss downgrade downvote
		drain drop eject elevate enable endorse enforce eradicate erase escalate evaluate evict expel expire extend
		fill fill-in fill-out finalise finalize finish forget freeze git-fetch give goto hibernate hire impersonate
		increment init initialise initialize inject install interact invalidate isolate kick kill liquidate
		log-out logout mark memorize migrate mkdir modify mutate mv navigate negotiate nominate nullify offboard
		onboard opt-in opt-out overwrite populate postpone power-off power-on prioritise prioritize promote prune
		purge put quarantine reassign rearrange reboot rebuild recover redact redo reindex reject relinquish relocate
		remediate remember remove rename reopen reorder replace requeue reschedule restart retire retract revert
		revise revive revoke rewind rewrite rm rmdir roll-back roll-out rotate save shut-down shutdown sign-off
		sign-out signout snooze spin-down spin-up squash suppress suspend synchronise synchronize tear-down teardown
		terminate throttle toggle truncate tune turn-off turn-on undo uninstall unset unstage unzip upsert upvote
		vacuum void wipe write`,
	pureVerb | carries: `conduct execute exec initiate invoke make perform`,
	pureVerb | soft: `annotate authenticate combine compile compress convert crop decompress decrypt embed emulate
		encode encrypt generate optimise optimize prepare render synthesise synthesize transcode transform triage
		upscale watermark`,

	dualVerb | creates: `airdrop bid charge check-in checkin clone compose deploy deposit dispatch duplicate follow-up
		fork forward invite nudge poke post produce purchase react refund replay reply retweet rsvp share ship stake
		swap trade transfer trigger`,
	dualVerb: `apply archive back-up backup block bookmark boot branch build burn change check-out checkout claim clean
		clear click close commit connect control copy dispute drag edit empty eval export failover favorite
		favourite fix flag flush follow grant hide highlight hold hover import ingest join leave like link load
		lock log-in login merge mirror mount move mute override patch pause pick pin press print push rate rebase
		redirect release repair report reset resize restore resume retry reverse review rollback rollout route scale
		schedule scroll seed select set set-up setup sign sign-in skip split star stash stop swipe switch sync tap
		touch train transition trash type unload update upgrade upload vote`,
	dualVerb | carries:        `complete handle launch run start`,
	dualVerb | soft:           `download focus manage open refresh simulate track verify watch`,
	dualVerb | soft | carries: `confirm`,
	dualVerb | soft | obtains: `collect gather grab resolve take`,

	dualVerb | soft | obtains | carries: `capture`,

	nounVerb | creates: `bill book booking call comment credit debit dm draft email feedback fund invitation mail
		message new order request sms`,
	nounVerb | carries: `issue process`,
	nounVerb: `access alert batch bash code command design exchange format index label log note plan pull record return route
		shell store style tag task test text trace`,

	deed: `deployment email invoice message notification payment payout purchase reservation sms transaction`,

	info: `availability capabilities config content contents count definitions details diagnostics docs documentation
		health help history id info information instructions limits log logs members metadata metrics names profile
		properties reader reflog replies schema size stats status structure summary tree types usage version versions
		viewer`,
	output: `analytics analyzer balance balances changelog checker errors examples explorer faq fees finder guide
		guidelines hints indexes indices insights inspector kpis leaderboard manual pricing prices quotas quote
		quotes rankings readme stat statistics summarizer timeline tips top trends uptime warnings weather`,

	preposition: `about as at by for from in of on per to via with`,

	thing: `add-on add-ons change-log linked-in load-balancer load-balancers merge-request merge-requests open-api open-graph
		plug-in plug-ins pull-request pull-requests read-me route-table route-tables share-point`,
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
