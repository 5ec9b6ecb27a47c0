//go:build unix

package upstream_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// subscribe asks for the changes of a resource, or for none any more.
func (r *rig) subscribe(s upstream.Session, method, uri string) {
	r.t.Helper()
	answer := r.ask(s, jsonrpc.Request([]byte("1"), method, fmt.Appendf(nil, `{"uri":%q}`, uri)))
	require.Equal(r.t, "{}", string(answer.Result))
}

func TestModernProcessIsListenedTo(t *testing.T) {
	t.Parallel()
	r := runAuto(t, nil, "--era", "modern", "--notify-list-changed", "--fault", `echo_raw:do=notify:notifications/resources/updated:{"uri":"note://1"}`)
	s := r.ready()
	m := next(t, r.notifications)
	assert.Equal(t, "notifications/tools/list_changed", m.Method)
	assert.NotContains(t, string(m.Params), "subscriptionId")
	assert.Equal(t, `{"toolsListChanged":true}`, wantedBy(t, r.received("subscriptions/listen")[0]))

	r.subscribe(s, "resources/subscribe", "note://1")
	assert.Equal(t, "notifications/tools/list_changed", next(t, r.notifications).Method, "the new subscription stands")
	listens := r.received("subscriptions/listen")
	require.Len(t, listens, 2)
	assert.Equal(t, `{"toolsListChanged":true,"resourceSubscriptions":["note://1"]}`, wantedBy(t, listens[1]))
	r.ask(s, toolCall("2", "echo_raw", `{}`))
	m = next(t, r.notifications)
	assert.Equal(t, "notifications/resources/updated", m.Method)
	assert.JSONEq(t, `{"uri":"note://1"}`, string(m.Params))
	cancelled := r.received("notifications/cancelled")
	require.Len(t, cancelled, 1, "the old one was given up")
	assert.Equal(t, `{"requestId":`+string(listens[0].ID)+`}`, string(cancelled[0].Params))

	r.subscribe(s, "resources/unsubscribe", "note://1")
	assert.Equal(t, "notifications/tools/list_changed", next(t, r.notifications).Method)
	r.ask(s, toolCall("3", "echo_raw", `{}`))
	r.subscribe(s, "resources/unsubscribe", "note://1")
	assert.Len(t, r.received("subscriptions/listen"), 3, "nothing has changed")
	assert.Empty(t, r.notifications)
	assert.Empty(t, r.strays, "the responses that end subscriptions are known")
	for _, never := range []string{"resources/subscribe", "resources/unsubscribe"} {
		assert.Empty(t, r.received(never))
	}
}

// wantedBy is what a subscriptions/listen asks for.
func wantedBy(t *testing.T, m jsonrpc.Message) string {
	t.Helper()
	params, err := rawjson.ParseObject(m.Params)
	require.NoError(t, err)
	wanted, _ := params.Get("notifications")
	return string(wanted)
}

func TestSubscriptionThatTheServerEndsIsOpenedAgain(t *testing.T) {
	t.Parallel()
	r := runAuto(t, nil, "--era", "modern")
	s := r.ready()
	r.ask(s, toolCall("1", "refund", `{}`))
	listens := r.received("subscriptions/listen")
	require.Len(t, listens, 1)
	require.NoError(t, s.Notify(jsonrpc.Notification("notifications/cancelled", fmt.Appendf(nil, `{"requestId":%s}`, listens[0].ID))))
	assert.Equal(t, "notifications/tools/list_changed", next(t, r.notifications).Method, "something may have been missed")
	assert.Len(t, r.received("subscriptions/listen"), 2)
	assert.Empty(t, r.strays)
}

func TestServerWithoutSubscriptionsIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	r := runAuto(t, nil, "--era", "modern", "--fault", "subscriptions/listen:do=error:-32601:x")
	s := r.ready()
	r.ask(s, toolCall("1", "refund", `{}`))
	r.ask(s, toolCall("2", "refund", `{}`))
	assert.Len(t, r.received("subscriptions/listen"), 1)
	assert.Empty(t, r.strays)
}
