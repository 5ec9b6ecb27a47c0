package dedup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	week      = 168 * time.Hour
	moment    = time.Millisecond
	thisForm  = "params.client_token"
	otherForm = "idempotency_key raw"
)

var (
	sameContent  = Digest{1}
	otherContent = Digest{2}
	thisArgs     = Digest{3}
	otherArgs    = Digest{4}
	firstID      = NewOperationID()
	secondID     = NewOperationID()
)

// asked is a request for an operation that has been claimed before.
func asked(change ...func(*Request)) Request {
	r := Request{Fingerprint: thisArgs, FingerprintVersion: 1, Class: "NON_RETRYABLE", Window: week}
	for _, c := range change {
		c(&r)
	}
	return r
}

// stands is an operation of the same content that was claimed an hour ago.
func stands(state State, change ...func(*Entry)) *Entry {
	e := Entry{
		ID: firstID, Content: sameContent, Fingerprint: thisArgs, FingerprintVersion: 1, Class: "NON_RETRYABLE",
		Downstream: thisForm, State: state, Row: 1, Attempt: 1, CreatedAt: noon.Add(-time.Hour), ClaimedAt: noon.Add(-time.Hour), Window: week,
	}
	if state != Running && state != AwaitingInput {
		e.SettledAt = noon.Add(-time.Minute)
	}
	for _, c := range change {
		c(&e)
	}
	return &e
}

func open(e *Entry)                       { e.OpenUntil = noon.Add(time.Hour) }
func isError(e *Entry)                    { e.IsError = true }
func rephrased(r *Request)                { r.Fingerprint = otherArgs }
func settledAt(at time.Time) func(*Entry) { return func(e *Entry) { e.SettledAt = at } }

func repeating(id OperationID) func(*Request) { return func(r *Request) { r.RepeatOf = id } }

func near(mode NearMode) func(*Request) {
	return func(r *Request) { r.Near = Near{mode, 10 * time.Minute} }
}

func runAgain(r *Request) { r.OnUnknown.RunAgain = true }

func resendWithin(d time.Duration) func(*Request) {
	return func(r *Request) { r.OnUnknown.ResendWithin, r.Downstream = d, thisForm }
}

func classed(class string, said bool) func(*Request) {
	return func(r *Request) { r.Class, r.ClassBySaid = class, said }
}

// A judged is a call, what stands around it, and what it is told.
type judged struct {
	request Request
	around  Surroundings
	want    ruling
}

func judgeAll(t *testing.T, cases map[string]judged) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.around.Now = noon
			assert.Equal(t, c.want, judge(c.request, sameContent, c.around))
		})
	}
}

var mayRun = ruling{evidence: Claimed}

func told(v Verdict) ruling { return ruling{verdict: v} }

func TestJudgeSameKey(t *testing.T) {
	t.Parallel()
	completed, failed := stands(Completed), stands(Completed, isError)
	running, waiting := stands(Running), stands(AwaitingInput)
	unknown, unknownOpen := stands(Unknown), stands(Unknown, open)
	newer := stands(Completed, func(e *Entry) { e.FingerprintVersion = 2 })
	judgeAll(t, map[string]judged{
		"a first call runs":                              {asked(), Surroundings{}, mayRun},
		"completed is replayed":                          {asked(), Surroundings{Same: completed}, told(Replay{*completed})},
		"an error is replayed":                           {asked(), Surroundings{Same: failed}, told(Replay{*failed})},
		"running is busy":                                {asked(), Surroundings{Same: running}, told(Busy{*running})},
		"awaiting input is asked":                        {asked(), Surroundings{Same: waiting}, told(Asked{*waiting})},
		"unknown and open is busy":                       {asked(), Surroundings{Same: unknownOpen}, told(Busy{*unknownOpen})},
		"unknown and open is busy for any class":         {asked(runAgain, resendWithin(week)), Surroundings{Same: unknownOpen}, told(Busy{*unknownOpen})},
		"unknown and closed is lost":                     {asked(), Surroundings{Same: unknown}, told(Lost{*unknown})},
		"released runs":                                  {asked(), Surroundings{Same: stands(Released)}, mayRun},
		"released runs with other arguments":             {asked(rephrased), Surroundings{Same: stands(Released)}, mayRun},
		"other arguments conflict when completed":        {asked(rephrased), Surroundings{Same: completed}, told(Conflict{*completed, ReasonKeyReused})},
		"other arguments conflict when running":          {asked(rephrased), Surroundings{Same: running}, told(Conflict{*running, ReasonKeyReused})},
		"other arguments conflict when unknown":          {asked(rephrased, runAgain), Surroundings{Same: unknown}, told(Conflict{*unknown, ReasonKeyReused})},
		"other arguments conflict when awaiting input":   {asked(rephrased), Surroundings{Same: waiting}, told(Conflict{*waiting, ReasonKeyReused})},
		"fingerprints of other versions do not compare":  {asked(rephrased), Surroundings{Same: newer}, told(Replay{*newer})},
		"the same key counts before elsewhere and twins": {asked(near(NearConfirm)), Surroundings{Same: completed, Elsewhere: running, Twins: []Entry{*running}}, told(Replay{*completed})},
	})
}

func TestJudgeExpiry(t *testing.T) {
	t.Parallel()
	fresh := stands(Completed, settledAt(noon.Add(-week+moment)))
	old := stands(Completed, settledAt(noon.Add(-week)))
	older := stands(Completed, settledAt(noon.Add(-week-moment)))
	lost := stands(Unknown, settledAt(noon.Add(-52*week)))
	judgeAll(t, map[string]judged{
		"a moment before the window's end is replayed": {asked(), Surroundings{Same: fresh}, told(Replay{*fresh})},
		"the window's end is expired":                  {asked(), Surroundings{Same: old}, told(Expired{*old})},
		"a moment after it is expired":                 {asked(), Surroundings{Same: older}, told(Expired{*older})},
		"other arguments conflict after the window":    {asked(rephrased), Surroundings{Same: old}, told(Conflict{*old, ReasonKeyReused})},
		"unknown a year old is unknown":                {asked(), Surroundings{Same: lost}, told(Lost{*lost})},
	})
	assert.False(t, Entry{State: Unknown, SettledAt: noon.Add(-2 * week), Window: week}.Expired(noon), "only answers expire")
}

func TestJudgeUnknownByClass(t *testing.T) {
	t.Parallel()
	unknown := stands(Unknown)
	said := stands(Unknown, func(e *Entry) { e.Class = "SAFE_RETRY" })
	around := Surroundings{Same: unknown}
	again, resend := ruling{evidence: SafeToRepeat}, ruling{evidence: ResentWithKey}
	const edge = time.Hour + resendMargin // the operation is an hour old
	judgeAll(t, map[string]judged{
		"a tool that may run twice runs again":                 {asked(runAgain), around, again},
		"a key that the upstream honours is sent again":        {asked(resendWithin(24 * time.Hour)), around, resend},
		"running again counts before sending again":            {asked(runAgain, resendWithin(24*time.Hour)), around, again},
		"a moment before the upstream's window ends":           {asked(resendWithin(edge + moment)), around, resend},
		"when the upstream's window ends, less the margin":     {asked(resendWithin(edge)), around, told(Lost{*unknown})},
		"an upstream's window shorter than the margin is none": {asked(resendWithin(time.Minute)), around, told(Lost{*unknown})},
		"a class that loosened by itself does not loosen":      {asked(runAgain, classed("SAFE_RETRY", false)), around, told(Lost{*unknown})},
		"a class that a person loosened does":                  {asked(runAgain, classed("SAFE_RETRY", true)), around, again},
		"a person's word alone loosens nothing":                {asked(classed("SAFE_RETRY", true)), around, told(Lost{*unknown})},
		"the class of the claim holds":                         {asked(runAgain, classed("SAFE_RETRY", false)), Surroundings{Same: said}, again},
		"a class that was tightened by itself is tightened":    {asked(), Surroundings{Same: said}, told(Lost{*said})},
	})
}

func TestAClockThatWasSetBackOpensNoWindow(t *testing.T) {
	t.Parallel()
	e := stands(Unknown, func(e *Entry) { e.CreatedAt = noon.Add(time.Hour) })
	got := judge(asked(resendWithin(0)), sameContent, Surroundings{Now: noon, Same: e})
	assert.Equal(t, told(Lost{*e}), got)
}

func TestOnlyAKeyThatTheUpstreamKnowsIsSentAgain(t *testing.T) {
	t.Parallel()
	sent := func(form string) *Entry { return stands(Unknown, func(e *Entry) { e.Downstream = form }) }
	sends := func(form string) func(*Request) { return func(r *Request) { r.Downstream = form } }
	lost := func(form string) ruling { return told(Lost{*sent(form)}) }
	resend := resendWithin(24 * time.Hour)
	judgeAll(t, map[string]judged{
		"in the same form it is":                      {asked(resend), Surroundings{Same: sent(thisForm)}, ruling{evidence: ResentWithKey}},
		"in another form it is not":                   {asked(resend), Surroundings{Same: sent(otherForm)}, lost(otherForm)},
		"where none was sent, it is not":              {asked(resend), Surroundings{Same: sent("")}, lost("")},
		"where none would be sent, nothing is":        {asked(resend, sends("")), Surroundings{Same: sent(thisForm)}, lost(thisForm)},
		"no key and no key are not the same key":      {asked(resend, sends("")), Surroundings{Same: sent("")}, lost("")},
		"a person's word does not make it known":      {asked(resend, classed("DEDUPLICATE", true)), Surroundings{Same: sent("")}, lost("")},
		"the same form alone allows nothing":          {asked(sends(thisForm)), Surroundings{Same: sent(thisForm)}, lost(thisForm)},
		"a tool that may run twice needs none":        {asked(runAgain), Surroundings{Same: sent("")}, ruling{evidence: SafeToRepeat}},
		"a tool that may run twice may bring another": {asked(runAgain, sends(otherForm)), Surroundings{Same: sent(thisForm)}, ruling{evidence: SafeToRepeat}},
	})
}

func TestTheFormDownstreamIsThatOfAllAttemptsInDoubt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		evidence   Evidence
		was, sends string
		want       string
	}{
		"a first claim notes its form":            {Claimed, "", thisForm, thisForm},
		"a claim that begins anew notes its form": {Claimed, otherForm, thisForm, thisForm},
		"a claim that begins anew without a key":  {Claimed, otherForm, "", ""},
		"sending again keeps it":                  {ResentWithKey, thisForm, thisForm, thisForm},
		"running again alike keeps it":            {SafeToRepeat, thisForm, thisForm, thisForm},
		"running again in another form ends it":   {SafeToRepeat, thisForm, otherForm, ""},
		"running again without a key ends it":     {SafeToRepeat, thisForm, "", ""},
		"running again with a key begins none":    {SafeToRepeat, "", thisForm, ""},
	} {
		assert.Equal(t, c.want, downstream(Request{Downstream: c.sends}, Entry{Downstream: c.was}, c.evidence), name)
	}
}

func TestResendWindowCountsFromTheFirstClaim(t *testing.T) {
	t.Parallel()
	e := stands(Unknown, func(e *Entry) { e.CreatedAt, e.ClaimedAt = noon.Add(-25*time.Hour), noon.Add(-time.Minute) })
	got := judge(asked(resendWithin(24*time.Hour)), sameContent, Surroundings{Now: noon, Same: e})
	assert.Equal(t, told(Lost{*e}), got)
}

func TestJudgeElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere, released := stands(Completed), stands(Released)
	judgeAll(t, map[string]judged{
		"the key under another upstream is refused":         {asked(), Surroundings{Elsewhere: elsewhere}, told(Conflict{*elsewhere, ReasonScopeChanged})},
		"also when it was released here":                    {asked(), Surroundings{Same: released, Elsewhere: elsewhere}, told(Conflict{*elsewhere, ReasonScopeChanged})},
		"also when it says what it repeats":                 {asked(repeating(firstID)), Surroundings{Elsewhere: elsewhere, Repeated: elsewhere}, told(Conflict{*elsewhere, ReasonScopeChanged})},
		"elsewhere counts before operations of its content": {asked(near(NearConfirm)), Surroundings{Elsewhere: elsewhere, Twins: []Entry{*stands(Running)}}, told(Conflict{*elsewhere, ReasonScopeChanged})},
	})
}

func TestJudgeTwins(t *testing.T) {
	t.Parallel()
	completed, failed, running := stands(Completed), stands(Completed, isError), stands(Running)
	unknown, unknownOpen, waiting := stands(Unknown), stands(Unknown, open), stands(AwaitingInput)
	confirm := asked(near(NearConfirm))
	confirmed := asked(near(NearConfirm), repeating(firstID))
	around := func(twins ...*Entry) Surroundings {
		s := Surroundings{Repeated: completed}
		for _, twin := range twins {
			s.Twins = append(s.Twins, *twin)
		}
		return s
	}
	unresolved := func(e *Entry) ruling { return told(Duplicate{*e, ReasonNearDuplicateUnresolved}) }
	judgeAll(t, map[string]judged{
		"completed asks for confirmation":               {confirm, around(completed), told(Duplicate{*completed, ReasonNearDuplicate})},
		"an error asks for confirmation":                {confirm, around(failed), told(Duplicate{*failed, ReasonNearDuplicate})},
		"running stands in the way":                     {confirm, around(running), unresolved(running)},
		"unknown stands in the way":                     {confirm, around(unknown), unresolved(unknown)},
		"unknown and open stands in the way":            {confirm, around(unknownOpen), unresolved(unknownOpen)},
		"awaiting input stands in the way":              {confirm, around(waiting), unresolved(waiting)},
		"a confirmed repeat of completed runs":          {confirmed, around(completed), mayRun},
		"no confirmation helps against running":         {confirmed, around(running), unresolved(running)},
		"no confirmation helps against unknown":         {confirmed, around(unknown), unresolved(unknown)},
		"nor against running behind completed":          {confirmed, around(completed, running), unresolved(running)},
		"unconfirmed, the newest is told":               {confirm, around(completed, running), told(Duplicate{*completed, ReasonNearDuplicate})},
		"unknown before the window runs when confirmed": {confirmed, around(), mayRun},
		"nothing near runs":                             {confirm, around(), mayRun},
		"warn runs, and tells of it":                    {asked(near(NearWarn)), around(running, completed), ruling{evidence: Claimed, near: running}},
		"warn with nothing near tells of nothing":       {asked(near(NearWarn)), around(), mayRun},
		"off runs without a word":                       {asked(near(NearOff)), around(running, completed), mayRun},
		"a released key is judged by its twins too":     {confirm, Surroundings{Same: stands(Released), Twins: []Entry{*running}}, unresolved(running)},
	})
}

func TestJudgeRepeat(t *testing.T) {
	t.Parallel()
	completed := stands(Completed)
	changed := stands(Completed, func(e *Entry) { e.Content = otherContent })
	consumer := stands(Completed, func(e *Entry) { e.ID, e.RepeatOf = secondID, firstID })
	confirmed := asked(near(NearConfirm), repeating(firstID))
	refused := told(Duplicate{Reason: ReasonRepeatUnknown})
	twins := []Entry{*completed}
	judgeAll(t, map[string]judged{
		"the right one runs":                            {confirmed, Surroundings{Repeated: completed, Twins: twins}, mayRun},
		"one that does not exist is refused":            {confirmed, Surroundings{Twins: twins}, refused},
		"one of other content is refused":               {confirmed, Surroundings{Repeated: changed, Twins: twins}, refused},
		"one that was repeated already is refused":      {confirmed, Surroundings{Repeated: completed, RepeatedBy: consumer, Twins: twins}, told(Duplicate{*consumer, ReasonRepeatUnknown})},
		"given back, it runs":                           {confirmed, Surroundings{Repeated: completed, Twins: twins}, mayRun},
		"it is refused whatever the policy":             {asked(near(NearOff), repeating(firstID)), Surroundings{}, refused},
		"without a repeat, what was found is no matter": {asked(), Surroundings{Repeated: changed, RepeatedBy: consumer}, mayRun},
		"unknown past the window may be repeated":       {confirmed, Surroundings{Repeated: stands(Unknown)}, mayRun},
		"the operation's own key comes first":           {confirmed, Surroundings{Same: completed}, told(Replay{*completed})},
	})
}

// Whatever stands around it, a claim that judge allows is one that the table has:
// else claim panics.
func TestJudgeAllowsOnlyWhatTheTableHas(t *testing.T) {
	t.Parallel()
	for e := range everyEntry {
		for _, r := range []Request{asked(), asked(runAgain), asked(resendWithin(week)), asked(rephrased)} {
			e := *stands(e.State, func(s *Entry) { s.Row, s.Doubt, s.OpenUntil = e.Row, e.Doubt, e.OpenUntil })
			around := Surroundings{Now: noon, Same: &e}
			if e.State == 0 {
				around.Same = nil
			}
			got := judge(r, sameContent, around)
			if got.verdict != nil {
				continue
			}
			change, err := move(e, got.evidence, noon)
			require.NoError(t, err, describe(e, got.evidence))
			require.Equal(t, Running, change.Entry.State)
		}
	}
}

func TestOfAShortUpstreamsWindowHalfIsLeft(t *testing.T) {
	t.Parallel()
	for age, runs := range map[time.Duration]bool{4 * time.Minute: true, 6 * time.Minute: false} {
		e := stands(Unknown, func(e *Entry) { e.CreatedAt = noon.Add(-age) })
		got := judge(asked(resendWithin(10*time.Minute)), sameContent, Surroundings{Now: noon, Same: e})
		assert.Equal(t, runs, got.evidence == ResentWithKey, age.String())
	}
}
