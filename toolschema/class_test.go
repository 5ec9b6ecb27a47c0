package toolschema

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseClassKnowsExactWordsOnly(t *testing.T) {
	t.Parallel()
	for _, c := range classes {
		got, err := ParseClass(string(c))
		require.NoError(t, err)
		assert.Equal(t, c, got)
	}
	for _, word := range []string{"", "read_only", "READ_ONLY ", "SAFE"} {
		_, err := ParseClass(word)
		require.ErrorContains(t, err, "READ_ONLY, UNGUARDED, SAFE_RETRY, DEDUPLICATE, REQUIRES_EFFECT_CHECK, NON_RETRYABLE")
	}
}

func TestOnlyTwoClassesNeedNoKey(t *testing.T) {
	t.Parallel()
	for _, c := range append(classes, "") {
		assert.Equal(t, c != ClassReadOnly && c != ClassUnguarded, c.Keyed(), c)
	}
}

func TestParseOverride(t *testing.T) {
	t.Parallel()
	o, err := ParseOverride("a=b*=SAFE_RETRY")
	require.NoError(t, err)
	assert.Equal(t, Override{Pattern: "a=b*", Class: ClassSafeRetry}, o)
	for s, want := range map[string]string{
		"":             "want GLOB=CLASS",
		"get_*":        "want GLOB=CLASS",
		"=READ_ONLY":   "the glob before = is empty",
		"get_*=RO":     `unknown class "RO"`,
		"[a=READ_ONLY": `bad glob "[a"`,
	} {
		_, err := ParseOverride(s)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "\n")
	}
}

func TestTheMostExactOverrideWins(t *testing.T) {
	t.Parallel()
	p := Policy{Overrides: []Override{
		{"pay", ClassUnguarded}, {"*", ClassReadOnly}, {"pay*", ClassDeduplicate}, {"pay_now", ClassSafeRetry}, {"p*", ClassRequiresEffectCheck},
	}}
	for name, want := range map[string]Class{
		"pay":     ClassUnguarded,           // exact, though globs stand later
		"pay_now": ClassSafeRetry,           // exact
		"payout":  ClassRequiresEffectCheck, // the later glob
		"get/all": ClassReadOnly,            // * crosses a slash
	} {
		assert.Equal(t, want, p.Classify(name, nil).Class, name)
	}
	assert.Equal(t, `override "p*"`, p.Classify("payout", nil).Rule)
}

func TestClassifyByAnnotationsAndName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fact, name, annotations string
		trusted                 bool
		class                   Class
		rule                    string
	}{
		{"a trusted hint decides", "frobnicate", `{"readOnlyHint":true}`, true, ClassReadOnly, "annotation readOnlyHint"},
		{"an untrusted one does not", "frobnicate", `{"readOnlyHint":true}`, false, ClassNonRetryable, "no annotation, no known verb"},
		{"a sending verb overrules it", "communication_email_send", `{"readOnlyHint":true}`, true, ClassNonRetryable, `verb "send" overrules readOnlyHint`},
		{"a mild verb does not", "open_nodes", `{"readOnlyHint":true}`, true, ClassReadOnly, "annotation readOnlyHint"},
		{"a denied hint beats a reading verb", "get_request", `{"readOnlyHint":false}`, true, ClassNonRetryable, "annotation readOnlyHint false"},
		{"idempotent and not read-only", "set_volume", `{"readOnlyHint":false,"idempotentHint":true}`, true, ClassSafeRetry, "annotation idempotentHint"},
		{"idempotent and silent on reading", "set_volume", `{"idempotentHint":true}`, true, ClassSafeRetry, "annotation idempotentHint"},
		{"creating is not idempotent", "vm_create", `{"idempotentHint":true}`, true, ClassNonRetryable, `verb "create" overrules idempotentHint`},
		{"nor is carrying out a transfer", "make_payment", `{"idempotentHint":true}`, true, ClassNonRetryable, `verb "make" overrules idempotentHint`},
		{"a hint that is no boolean is none", "get_x", `{"readOnlyHint":"false"}`, true, ClassReadOnly, `word "get"`},
		{"annotations that are no object are none", "get_x", `[true]`, true, ClassReadOnly, `word "get"`},
		{"no verb has side effects", "frobnicate", ``, true, ClassNonRetryable, "no annotation, no known verb"},
	} {
		t.Run(test.fact, func(t *testing.T) {
			t.Parallel()
			d := Policy{TrustAnnotations: test.trusted}.Classify(test.name, []byte(test.annotations))
			assert.Equal(t, test.class, d.Class)
			assert.Equal(t, test.rule, d.Rule)
		})
	}
}

func TestTheGoverningVerbOfAName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		sense   sense
		word    string
		creates bool
	}{
		"get_update":                   {reads, "get", false},
		"telegram_get_update":          {reads, "get", false},
		"order_get":                    {reads, "get", false},
		"post_id":                      {unclear, "post", true},
		"post_status":                  {unclear, "post", true},
		"comment_list":                 {reads, "list", false},
		"transfer_list":                {unclear, "transfer", false},
		"pull_request_read":            {reads, "read", false},
		"read_mark":                    {unclear, "mark", false},
		"mark_all_notifications_read":  {mutates, "mark", false},
		"set_read":                     {unclear, "set", false},
		"vm_disk_import_get":           {reads, "get", false},
		"istio_update_config_read":     {reads, "read", false},
		"docs_read":                    {reads, "read", false},
		"getURLInfo":                   {reads, "get", false},
		"user_batchGetId":              {reads, "get", false},
		"list_deploy_keys":             {reads, "list", false},
		"list_remove_member":           {unclear, "remove", false},
		"search_create":                {unclear, "create", true},
		"check_for_update":             {reads, "check", false},
		"email_list_members":           {unclear, "email", true},
		"pods_log":                     {reads, "log", false},
		"user_info":                    {reads, "info", false},
		"order_info":                   {unclear, "order", true},
		"get_or_create_user":           {mutates, "create", true},
		"resources_create_or_update":   {mutates, "update", true},
		"find-and-replace":             {mutates, "replace", false},
		"azure_compute_disk_create":    {mutates, "create", true},
		"lark_v1_message_create":       {mutates, "create", true},
		"slack.post/message":           {mutates, "post", true},
		"transfer_cancel":              {mutates, "cancel", false},
		"processRefund":                {mutates, "refund", true},
		"initiate_payment":             {mutates, "initiate", true},
		"unstar_repository":            {mutates, "unstar", false},
		"resubmit_job":                 {mutates, "resubmit", true},
		"run_query":                    {unclear, "run", false},
		"save_draft":                   {unclear, "save", false},
		"HTTPServerRestart":            {mutates, "restart", false},
		"123":                          {unclear, "", false},
		"":                             {unclear, "", false},
		"add_comment_to_review (beta)": {mutates, "add", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, reading{want.sense, want.word, want.creates}, readName(name))
		})
	}
}

func TestNearDuplicatesOfSendingToolsAreConfirmed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]NearDuplicate{
		"send_email": NearDuplicateConfirm, "create_issue": NearDuplicateConfirm, "frobnicate": NearDuplicateOff,
		"click": NearDuplicateOff, "delete_comment": NearDuplicateOff, "cancel_order": NearDuplicateOff, "write_file": NearDuplicateOff,
	} {
		assert.Equal(t, want, Policy{}.Classify(name, nil).NearDuplicate, name)
	}
	readOnly := Policy{Overrides: []Override{{"*", ClassReadOnly}}}
	assert.Equal(t, NearDuplicateOff, readOnly.Classify("send_email", nil).NearDuplicate)
}

func TestSplitName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"appTable_v1-list.x/y z": {"app", "table", "list", "x", "y", "z"},
		"parseHTTPReply2JSON":    {"parse", "http", "reply", "json"},
		"ÄnderungSenden":         {"änderung", "senden"},
		"__":                     nil,
	} {
		assert.Equal(t, want, splitName(name), name)
	}
}
