package gateway

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcp-idem/mcp-idem/upstream"
)

// A rule that counts more says nothing about what it leaves out.
func TestEachSettingOfAToolCountsByItself(t *testing.T) {
	t.Parallel()
	yes, pattern := true, []*regexp.Regexp{regexp.MustCompile("of the glob")}
	known := append(make([]*regexp.Regexp, 0, 2), regexp.MustCompile("known"))
	o := Options{
		CallTimeout: time.Minute, UpstreamWindow: time.Hour,
		Judgement: upstream.Judgement{AmbiguousTexts: known, RefusalTexts: known, NothingHappened: known, HarmlessTexts: known},
	}
	everything := ToolRule{
		Pattern: "re*", CallTimeout: 2 * time.Minute, UpstreamWindow: 2 * time.Hour, OnCancel: OnCancelForward, StrictCodes: &yes,
		AmbiguousTexts: pattern, RefusalTexts: pattern, NothingHappened: pattern,
	}
	both := []*regexp.Regexp{known[0], pattern[0]}
	said := toolSettings{
		callTimeout: 2 * time.Minute, upstreamWindow: 2 * time.Hour, onCancel: OnCancelForward,
		judgement: upstream.Judgement{StrictCodes: true, AmbiguousTexts: both, RefusalTexts: both, NothingHappened: both, HarmlessTexts: known},
	}
	unsaid := toolSettings{callTimeout: time.Minute, upstreamWindow: time.Hour, onCancel: OnCancelDetach, judgement: o.Judgement}

	assert.Equal(t, unsaid, o.settingsOf("refund"))
	o.Tools = []ToolRule{everything, {Pattern: "refund"}, {Pattern: "*"}}
	assert.Equal(t, said, o.settingsOf("refund"))
	assert.Equal(t, unsaid, o.settingsOf("transfer"))
	assert.Equal(t, known, o.Judgement.AmbiguousTexts, "nothing is added for the other tools")
	assert.Nil(t, known[:2][1], "nor behind the end of the list")

	o.Tools = []ToolRule{{Pattern: "refund", CallTimeout: 3 * time.Minute}, {Pattern: "refund", UpstreamWindow: 3 * time.Hour}, everything}
	mixed := said
	mixed.callTimeout, mixed.upstreamWindow = 3*time.Minute, 3*time.Hour
	assert.Equal(t, mixed, o.settingsOf("refund"))
}
