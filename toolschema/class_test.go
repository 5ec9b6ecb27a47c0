package toolschema

import (
	"testing"
	"time"

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
		{Pattern: "pay", Class: ClassUnguarded}, {Pattern: "*", Class: ClassReadOnly}, {Pattern: "pay*", Class: ClassDeduplicate},
		{Pattern: "pay_now", Class: ClassSafeRetry}, {Pattern: "p*", Class: ClassRequiresEffectCheck},
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

func TestAVerbBehindAConjunctionCounts(t *testing.T) {
	t.Parallel()
	for name, keyed := range map[string]bool{
		"get_or_create": true, "find_text_and_replace": true, "find_time_and_book": true, "fetch_and_store": true, "transcribeAndEmail": true,
		"list_orders_and_payments": false, "search_and_rescue_sites": false, "read_terms_and_conditions": false,
	} {
		assert.Equal(t, keyed, Policy{}.Classify(name, nil).Class.Keyed(), name)
	}
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
		{"so does one that keeps something", "browser_pdf_save", `{"readOnlyHint":true}`, true, ClassNonRetryable, `verb "save" overrules readOnlyHint`},
		{"and one that hands something out", "export", `{"readOnlyHint":true}`, true, ClassNonRetryable, `verb "export" overrules readOnlyHint`},
		{"and a mild one that carries out a payment", "confirm_payment", `{"readOnlyHint":true}`, true, ClassNonRetryable, `verb "confirm" overrules readOnlyHint`},
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
		"get_update":                    {reads, "get", false},
		"telegram_get_update":           {reads, "get", false},
		"order_get":                     {reads, "get", false},
		"post_id":                       {unclear, "post", true},
		"post_status":                   {unclear, "post", true},
		"comment_list":                  {reads, "list", false},
		"transfer_list":                 {unclear, "transfer", false},
		"pull_request_read":             {reads, "read", false},
		"read_mark":                     {unclear, "mark", false},
		"mark_all_notifications_read":   {mutates, "mark", false},
		"set_read":                      {unclear, "set", false},
		"vm_disk_import_get":            {reads, "get", false},
		"istio_update_config_read":      {reads, "read", false},
		"docs_read":                     {reads, "read", false},
		"getURLInfo":                    {reads, "get", false},
		"user_batchGetId":               {reads, "get", false},
		"list_deploy_keys":              {reads, "list", false},
		"list_remove_member":            {unclear, "remove", false},
		"search_create":                 {unclear, "create", true},
		"check_for_update":              {reads, "check", false},
		"email_list_members":            {unclear, "email", true},
		"pods_log":                      {reads, "log", false},
		"user_info":                     {reads, "info", false},
		"order_info":                    {unclear, "order", true},
		"get_or_create_user":            {mutates, "create", true},
		"resources_create_or_update":    {mutates, "update", true},
		"find-and-replace":              {mutates, "replace", false},
		"azure_compute_disk_create":     {mutates, "create", true},
		"lark_v1_message_create":        {mutates, "create", true},
		"slack.post/message":            {mutates, "post", true},
		"transfer_cancel":               {mutates, "cancel", false},
		"processRefund":                 {mutates, "refund", true},
		"initiate_payment":              {mutates, "initiate", true},
		"unstar_repository":             {mutates, "unstar", false},
		"resubmit_job":                  {mutates, "resubmit", true},
		"run_query":                     {unclear, "run", false},
		"save_draft":                    {mutates, "save", false},
		"open_nodes":                    {unclear, "open", false},
		"capture_payment":               {mutates, "capture", true},
		"capture_view":                  {unclear, "capture", false},
		"take_screenshot":               {reads, "screenshot", false},
		"take_note":                     {unclear, "take", false},
		"set_screenshot":                {unclear, "set", false},
		"show":                          {reads, "show", false},
		"git_show":                      {reads, "show", false},
		"show_dialog":                   {unclear, "show", false},
		"update_show":                   {unclear, "update", false},
		"update_estimate":               {unclear, "update", false},
		"preview_create_invoice":        {reads, "preview", false},
		"preview_branch_create":         {unclear, "create", true},
		"preview_start":                 {unclear, "start", false},
		"deploy_preview":                {unclear, "deploy", false},
		"read_post":                     {reads, "read", false},
		"read_reset":                    {unclear, "reset", false},
		"set_as_read":                   {mutates, "set", false},
		"delete_by_id":                  {mutates, "delete", false},
		"credits_reverse_payment_by_id": {mutates, "reverse", false},
		"search_by_id_delete":           {unclear, "delete", false},
		"move_to_list":                  {mutates, "move", false},
		"linkedInCreatePost":            {mutates, "create", true},
		"services_reader":               {reads, "reader", false},
		"deploy_services_reader":        {unclear, "deploy", true},
		"HTTPServerRestart":             {mutates, "restart", false},
		"123":                           {unclear, "", false},
		"":                              {unclear, "", false},
		"add_comment_to_review (beta)":  {mutates, "add", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, reading{want.sense, want.word, want.creates}, readName(name))
		})
	}
}

func TestClassifyByNameAlone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fact  string
		class Class
		rules map[string]string
	}{
		{"many words for reading", ClassReadOnly, map[string]string{
			"get_user": `word "get"`, "fetch_user": `word "fetch"`, "retrieve_user": `word "retrieve"`, "find_user": `word "find"`,
			"look_up_user": `word "look-up"`, "describe_user": `word "describe"`, "inspect_user": `word "inspect"`,
			"search_users": `word "search"`, "list_users": `word "list"`, "browse_users": `word "browse"`, "count_users": `word "count"`,
			"compare_users": `word "compare"`, "validate_user": `word "validate"`, "whois": `word "whois"`,
		}},
		{"many words for sending", ClassNonRetryable, map[string]string{
			"send_message": `verb "send"`, "post_message": `verb "post"`, "publish_message": `verb "publish"`, "dispatch_message": `verb "dispatch"`,
			"deliver_message": `verb "deliver"`, "broadcast_message": `verb "broadcast"`, "emit_message": `verb "emit"`, "forward_message": `verb "forward"`,
			"announce_release": `verb "announce"`, "remind_user": `verb "remind"`,
		}},
		{"many words for moving money", ClassNonRetryable, map[string]string{
			"pay_bill": `verb "pay"`, "place_order": `verb "place-order"`, "purchase_item": `verb "purchase"`, "sell_shares": `verb "sell"`,
			"withdraw_funds": `verb "withdraw"`, "remit_funds": `verb "remit"`, "settle_invoice": `verb "settle"`, "top_up_account": `verb "top-up"`,
			"credit_account": `verb "credit"`, "void_invoice": `verb "void"`,
		}},
		{"many words for taking away", ClassNonRetryable, map[string]string{
			"delete_file": `verb "delete"`, "remove_file": `verb "remove"`, "erase_file": `verb "erase"`, "drop_table": `verb "drop"`,
			"purge_queue": `verb "purge"`, "wipe_disk": `verb "wipe"`, "trash_file": `verb "trash"`, "discard_draft": `verb "discard"`, "rm": `verb "rm"`,
		}},
		{"many words for changing", ClassNonRetryable, map[string]string{
			"update_user": `verb "update"`, "edit_user": `verb "edit"`, "modify_user": `verb "modify"`, "alter_user": `verb "alter"`,
			"amend_order": `verb "amend"`, "link_issue": `verb "link"`, "unlink_issue": `verb "unlink"`, "freeze_card": `verb "freeze"`,
			"unfreeze_card": `verb "unfreeze"`, "watch_card": `verb "watch"`, "git_fetch": `verb "git-fetch"`, "turn_on_light": `verb "turn-on"`,
		}},
		{"a reading verb anywhere, in any spelling", ClassReadOnly, map[string]string{
			"users.list": `word "list"`, "listUsers": `word "list"`, "ListUsers": `word "list"`, "list-users": `word "list"`, "users/list": `word "list"`,
			"crm_users_list_v2": `word "list"`, "crm.users.get": `word "get"`, "HTTPGet": `word "get"`, "getS3Object": `word "get"`,
		}},
		{"a mutating verb anywhere, in any spelling", ClassNonRetryable, map[string]string{
			"users.create": `verb "create"`, "createUser": `verb "create"`, "CreateUser": `verb "create"`, "create-user": `verb "create"`,
			"users/create": `verb "create"`, "crm_users_create_v2": `verb "create"`, "S3PutObject": `verb "put"`, "APIDeleteKey": `verb "delete"`,
		}},
		{"words that only look like verbs", ClassReadOnly, map[string]string{
			"get_update": `word "get"`, "list_purchases": `word "list"`, "purchase_order_get": `word "get"`, "list_restore_points": `word "list"`,
			"list_add_ons": `word "list"`, "listAddOnExtensions": `word "list"`, "merge_request_list": `word "list"`, "load_balancer_list": `word "list"`,
			"docker_compose_ps": `word "ps"`, "search_react_docs": `word "search"`, "get_checkout": `word "get"`,
		}},
		{"words that may be verbs", ClassNonRetryable, map[string]string{
			"post_id": `verb "post"`, "read_mark": `verb "mark"`, "order_info": `verb "order"`, "set_read": `verb "set"`, "request_quote": `verb "request"`,
		}},
		{"nouns alone that name what is given", ClassReadOnly, map[string]string{
			"board_insights": `word "insights"`, "stock_quote": `word "quote"`, "nodes_top": `word "top"`, "screenshot": `word "screenshot"`,
		}},
		{"nouns alone that do not", ClassNonRetryable, map[string]string{
			"browser_tabs": "no annotation, no known verb", "insights": "no annotation, no known verb", "pull_request": "no annotation, no known verb",
		}},
		{"words of no known language", ClassNonRetryable, map[string]string{
			"enviar_mensaje": "no annotation, no known verb", "获取用户": "no annotation, no known verb", "getguidance": "no annotation, no known verb",
			"🚀": "no annotation, no known verb",
		}},
	} {
		t.Run(test.fact, func(t *testing.T) {
			t.Parallel()
			for name, rule := range test.rules {
				d := Policy{}.Classify(name, nil)
				assert.Equal(t, test.class, d.Class, name)
				assert.Equal(t, rule, d.Rule, name)
			}
		})
	}
}

func TestNearDuplicatesOfSendingToolsAreConfirmed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]NearDuplicate{
		"send_email": NearDuplicateConfirm, "create_issue": NearDuplicateConfirm, "frobnicate": NearDuplicateOff,
		"redeem_voucher": NearDuplicateConfirm, "place_bet": NearDuplicateConfirm, "sign_up_user": NearDuplicateConfirm, "new_order": NearDuplicateConfirm,
		"duplicate_page": NearDuplicateConfirm, "confirm_payment": NearDuplicateConfirm, "capture_order": NearDuplicateConfirm,
		"debit_account": NearDuplicateConfirm, "resettle_invoice": NearDuplicateConfirm,
		"capture_view": NearDuplicateOff, "void_invoice": NearDuplicateOff, "freeze_card": NearDuplicateOff, "link_issue": NearDuplicateOff,
		"click": NearDuplicateOff, "delete_comment": NearDuplicateOff, "cancel_order": NearDuplicateOff, "write_file": NearDuplicateOff,
	} {
		assert.Equal(t, want, Policy{}.Classify(name, nil).NearDuplicate, name)
	}
	readOnly := Policy{Overrides: []Override{{Pattern: "*", Class: ClassReadOnly}}}
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

func TestPatternsThatNameNoToolAreTold(t *testing.T) {
	t.Parallel()
	p := Policy{
		Overrides: []Override{{Pattern: "get_*"}, {Pattern: "zzz"}, {Pattern: "zzz", Window: time.Hour}, {Pattern: "[a]"}},
		Natives:   []NativeRule{{Pattern: "qqq*"}, {Pattern: "*"}},
	}
	assert.Equal(t, []string{"zzz", "qqq*"}, p.Unmatched([]string{"get_x", "a"}))
	assert.Empty(t, Policy{}.Unmatched(nil))
}

func TestOfTwoClassesTheStricterAllowsLess(t *testing.T) {
	t.Parallel()
	for i, class := range classes {
		for _, stricter := range classes[i+1:] {
			a, b := Tool{Decision: Decision{Class: class}}, Tool{Decision: Decision{Class: stricter}}
			assert.Equal(t, stricter, Stricter(a, b).Class)
			assert.Equal(t, stricter, Stricter(b, a).Class)
		}
	}
}
