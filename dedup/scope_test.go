package dedup

import (
	"encoding/hex"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	testSecret = Secret([]byte("0123456789abcdef0123456789abcdef"))
	testScope  = Scope{Namespace: "ada", Upstream: "shop", Account: "/srv/shop", Tool: "refund"}
	testKey    = Key{text: "refund:order-4812:2"}
	testPrint  = Digest([]byte("the arguments' own fingerprint.."))
)

// The digests are how a ledger finds its operations again: other values here
// mean that every ledger in use forgets every key.
func TestDigestsStayAsLedgersKeepThem(t *testing.T) {
	t.Parallel()
	lookup := testSecret.lookup(testScope, testKey)
	loose := testSecret.loose(testScope, testKey)
	content := testSecret.content(testScope, testPrint)
	assert.Equal(t, "e9b96b0d26321c23a702787b55d20808ddc3f75f9dba3feeac50a8a928d8e3c6", hex.EncodeToString(lookup[:]))
	assert.Equal(t, "fe3944118e3adea9232a346691c9d0452154224d1d51c07e34cc130dd67c58d4", hex.EncodeToString(loose[:]))
	assert.Equal(t, "bd9f7788755c4f7363b64606a97c8123f0d89436ff360ef0abf596fa4b815e38", hex.EncodeToString(content[:]))
	assert.Equal(t, "eaa88ad7-7193-8351-a899-3f55a325225a", testSecret.downstreamKey(lookup))
}

func TestEveryPartOfADigestMatters(t *testing.T) {
	t.Parallel()
	namespace, upstream, account, tool := testScope, testScope, testScope, testScope
	namespace.Namespace, upstream.Upstream, account.Account, tool.Tool = "bob", "shop2", "", "refunds"
	other := Secret([]byte("another secret, also of 32 bytes"))
	key := Key{text: "refund:order-4812:3"}
	digest := Digest([]byte("other arguments' own fingerprint"))

	lookup := testSecret.lookup(testScope, testKey)
	for name, d := range map[string]Digest{
		"namespace": testSecret.lookup(namespace, testKey), "upstream": testSecret.lookup(upstream, testKey),
		"account": testSecret.lookup(account, testKey), "tool": testSecret.lookup(tool, testKey),
		"key": testSecret.lookup(testScope, key), "secret": other.lookup(testScope, testKey),
		"purpose": testSecret.loose(testScope, testKey),
	} {
		assert.NotEqual(t, lookup, d, "lookup: %s", name)
	}
	loose := testSecret.loose(testScope, testKey)
	for name, d := range map[string]Digest{
		"namespace": testSecret.loose(namespace, testKey), "tool": testSecret.loose(tool, testKey),
		"key": testSecret.loose(testScope, key), "secret": other.loose(testScope, testKey),
	} {
		assert.NotEqual(t, loose, d, "loose: %s", name)
	}
	assert.Equal(t, loose, testSecret.loose(upstream, testKey), "the loose digest finds a renamed upstream")
	assert.Equal(t, loose, testSecret.loose(account, testKey), "the loose digest finds another account")
	content := testSecret.content(testScope, testPrint)
	for name, d := range map[string]Digest{
		"namespace": testSecret.content(namespace, testPrint), "upstream": testSecret.content(upstream, testPrint),
		"account": testSecret.content(account, testPrint), "tool": testSecret.content(tool, testPrint),
		"fingerprint": testSecret.content(testScope, digest), "secret": other.content(testScope, testPrint),
	} {
		assert.NotEqual(t, content, d, "content: %s", name)
	}
}

func TestPartsOfADigestDoNotRunTogether(t *testing.T) {
	t.Parallel()
	seen := map[Digest]Scope{}
	for _, scope := range []Scope{
		{"ab", "c", "d", "e"}, {"a", "bc", "d", "e"}, {"a", "b", "cd", "e"}, {"a", "b", "c", "de"},
		{"abcde", "", "", ""}, {"", "abcde", "", ""}, {"", "", "abcde", ""}, {"", "", "", "abcde"},
		{"a\x00b", "c", "d", "e"}, {"a", "b\x00c", "d", "e"},
	} {
		d := testSecret.lookup(scope, testKey)
		assert.NotContains(t, seen, d, "%v reads as %v", scope, seen[d])
		seen[d] = scope
	}
	assert.NotEqual(t, testSecret.lookup(Scope{Tool: "a"}, Key{text: "bc"}), testSecret.lookup(Scope{Tool: "ab"}, Key{text: "c"}))
}

func TestDownstreamKeyIsAUUIDOfVersion8(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"refund:order-4812:2", "refund:order-4812:3", "a", "b", "c", "d", "e", "f"} {
		lookup := testSecret.lookup(testScope, Key{text: text})
		id, err := uuid.Parse(testSecret.downstreamKey(lookup))
		require.NoError(t, err)
		assert.Equal(t, uuid.Version(8), id.Version())
		assert.Equal(t, uuid.RFC4122, id.Variant())
		assert.Equal(t, id.String(), testSecret.downstreamKey(lookup), "the same for every attempt")
		assert.NotContains(t, hex.EncodeToString(lookup[:]), hex.EncodeToString(id[:4]), "it is not the lookup")
		assert.NotEqual(t, id.String(), Secret{}.downstreamKey(lookup), "without the secret nobody derives it")
	}
}

func TestOperationIDsReadBack(t *testing.T) {
	t.Parallel()
	id := NewOperationID()
	text := id.String()
	assert.Regexp(t, `^op_[0-9a-f]{12}7[0-9a-f]{19}$`, text)
	for _, good := range []string{text, operationPrefix + uuid.UUID(id).String()} {
		got, err := ParseOperationID(good)
		require.NoError(t, err)
		assert.Equal(t, id, got)
	}
	for _, bad := range []string{"", "op_", text[3:], "OP_" + text[3:], text[:20], text + "0", "op-" + text[3:], "op_" + uuid.Nil.String(), "op_refund:order-4812:2"} {
		got, err := ParseOperationID(bad)
		require.Error(t, err, bad)
		assert.True(t, got.IsZero())
	}
	assert.False(t, id.IsZero())
	assert.NotEqual(t, NewOperationID(), NewOperationID())
	assert.NotEqual(t, NewOwnerID().String(), NewOwnerID().String())
}
