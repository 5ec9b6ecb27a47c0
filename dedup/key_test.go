package dedup_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// refusal is why a text is no key for a tool; empty where it is one.
func refusal(t *testing.T, text, tool string) dedup.Reason {
	t.Helper()
	key, err := dedup.ParseKey(text, tool)
	if err == nil {
		assert.False(t, key.IsZero())
		return ""
	}
	assert.True(t, key.IsZero(), "a refused text makes no key")
	var refused *dedup.KeyError
	require.ErrorAs(t, err, &refused)
	if len(text) > len("idempotency_key") {
		assert.NotContains(t, err.Error(), text, "errors are logged, keys are not")
	}
	return refused.Reason
}

func TestKeyIsWellFormed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("abc4-", 51) // 255 characters
	for name, c := range map[string]struct {
		text string
		want dedup.Reason
	}{
		"no text is no key":               {"", dedup.KeyRequired},
		"7 characters are too few":        {"order-4", dedup.KeyInvalid},
		"8 characters are enough":         {"order-48", ""},
		"255 characters are kept":         {long, ""},
		"256 characters are too many":     {long + "x", dedup.KeyInvalid},
		"every allowed mark is allowed":   {"aZ09_.:@/+=-", ""},
		"a space is refused":              {"refund order 4812", dedup.KeyInvalid},
		"a space at the end is refused":   {"refund:order-4812 ", dedup.KeyInvalid},
		"a line break is refused":         {"refund:order-4812\n", dedup.KeyInvalid},
		"NUL is refused":                  {"refund\x00order-4812", dedup.KeyInvalid},
		"an emoji is refused":             {"refund:order-4812:💸", dedup.KeyInvalid},
		"a letter with accent is refused": {"renvoi:facturé-4812", dedup.KeyInvalid},
		"a look-alike digit is refused":   {"refund:order-٤٨١٢:1", dedup.KeyInvalid},
		"broken UTF-8 is refused":         {"refund:order-\xff\xfe", dedup.KeyInvalid},
		"the replacement rune is refused": {"refund:order-\ufffd", dedup.KeyInvalid},
		"a quote is refused":              {`refund:"order-4812"`, dedup.KeyInvalid},
		"the comma is refused":            {"refund,order,4812", dedup.KeyInvalid},
		"next to the ranges: [":           {"refund:order-[12]", dedup.KeyInvalid},
		"next to the ranges: {":           {"refund:order-{12}", dedup.KeyInvalid},
		"next to the ranges: backtick":    {"refund:order-`12`", dedup.KeyInvalid},
		"next to the ranges: ;":           {"refund;order;4812", dedup.KeyInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, refusal(t, c.text, "refund"))
		})
	}
}

func TestKeyErrorsSayWhereAndHowMuch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"order 4812":     {`' '`, "byte 5"},
		"order-\xff4812": {"not UTF-8", "byte 6"},
		"order-4":        {"7 characters", "8 to 255"},
	} {
		_, err := dedup.ParseKey(text, "refund")
		for _, part := range want {
			require.ErrorContains(t, err, part)
		}
	}
}

func TestWeakKeysAreRefused(t *testing.T) {
	t.Parallel()
	for tool, texts := range map[string][]string{
		"create_refund": {
			"12345678", "00000000000000001", "aaaaaaaa", "--------", "-.-.-.-.-", "1-2-3-4-5", "2026-08-01",
			"create_refund", "create-refund", "CreateRefund", "create_refund_1", "create-refund-0007", "createRefund2",
			"create-1", "create-0001", "CREATE_01", "create:0001", dedup.ExampleKey,
			"idempotency", "idempotency_key", "Idempotency-Key", "idempotency-key-1", "your-key-here", "YOUR_KEY_HERE", "your-unique-key",
			"test-key-1", "test_key_002", "testtest", "testing-123", "unique-key", "unique-id-1", "retry-0001", "retry-1-2", "attempt-2",
			"placeholder", "placeholder-1", "example-key", "sample-key-3", "dummy-key", "random-uuid", "random-string", "request-1", "request-id-12",
			"undefined", "null-null", "changeme", "password", "password123", "foobar-1", "abcdefgh", "abcdef12", "qwerty12",
			"verb:thing:occurrence", "default-key", "some-key", "operation-1", "transaction-1", "tool-call-1", "session-id",
			"00000000-0000-0000-0000-000000000000", "00000000000000000000000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
			"550e8400-e29b-41d4-a716-446655440000", "550E8400-E29B-41D4-A716-446655440000", "550e8400e29b41d4a716446655440000",
			"123e4567-e89b-12d3-a456-426614174000", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
			"9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "3fa85f64-5717-4562-b3fc-2c963f66afa6", "12345678-1234-5678-1234-567812345678",
		},
		"sendEmail":       {"sendemail", "send-email-1", "send_email", "send-0001", "SENDEMAIL-3"},
		"transfer":        {"transfer", "transfer-1", "transfer_0099"},
		"publish-article": {"publish-1", "publish-article-12"},
	} {
		for _, text := range texts {
			assert.Equal(t, dedup.KeyWeak, refusal(t, text, tool), "%s as key of %s", text, tool)
		}
	}
}

func TestGoodKeysPass(t *testing.T) {
	t.Parallel()
	for tool, texts := range map[string][]string{
		"create_refund": {
			"refund:order-4812:2", "refund:4812:1", "transaction:4812:1", "message:2026:7", "create:4812:1", "create_refund:4812:1", "create-refund-invoice-7",
			"order-4812-refund", "order-2026-08-01-7", "invoice/2026/0017", "ada@example.org/4812", "inv+17=refund", "abcdefg-h-order",
			"2026-08-01T12:30:00Z", "run-7f3a/step-2", "REFUND:ORDER-4812:1",
			"9f1c2a44-6d0e-4b7a-8a51-3f0b6b6f3e21", "0193c5a1-f2e4-7b3c-9d8e-7f6a5b4c3d2e", "0193c5a1f2e47b3c9d8e7f6a5b4c3d2e",
			"01JD9YQ8Z4M7T2V5X6B3C1N0KR", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
			"cus_NffrFeUfNV2Hib", "V1StGXR8_Z5jdHi6B-myT", "C02q8Yw5ZVnXw==",
		},
		"transfer": {"transfer:4812:1", "transfer-rent-august", "create-1"},
		"":         {"refund:order-4812:2"},
	} {
		for _, text := range texts {
			assert.Empty(t, refusal(t, text, tool), "%s as key of %s", text, tool)
		}
	}
}

// cards are the issuers' and processors' published test numbers.
var cards = []string{
	"4111111111111111", "4242424242424242", "4012888888881881", "4222222222222", "4000000000000000006", // Visa
	"5555555555554444", "5105105105105100", "5200828282828210", "2223003122003222", "2720992593319364", // Mastercard
	"378282246310005", "371449635398431", "341111111111111", // American Express
	"6011111111111117", "6011000990139424", "6500000000000002", "6445644564456445", // Discover
	"3530111333300000", "3566002020360505", // JCB
	"30569309025904", "38520000023237", "36227206271667", // Diners Club
	"6200000000000005", "6205500000000000004", // UnionPay
}

func TestCardNumbersAreRefused(t *testing.T) {
	t.Parallel()
	for _, card := range cards {
		grouped := card[:4] + "-" + card[4:8] + "-" + card[8:12] + "-" + card[12:]
		for _, text := range []string{card, "refund:" + card + ":1", "card" + card + "x", grouped, "pay/" + grouped, "order-4812-" + grouped, "4812-" + card, "7-" + grouped} {
			assert.Equal(t, dedup.KeySensitive, refusal(t, text, "refund"), text)
		}
	}
	for _, amex := range []string{"3782-822463-10005", "refund:3714-496353-98431", "refund:3056-930902-5904"} {
		assert.Equal(t, dedup.KeySensitive, refusal(t, amex, "refund"), amex)
	}
}

func TestNumbersThatAreNoCardsPass(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"wrong check digit":                 "invoice:4111111111111112",
		"wrong check digit, grouped":        "invoice:4111-1111-1111-1112",
		"two digits swapped":                "invoice:5555555555554445",
		"no issuer's prefix":                "invoice:9111111111111110",
		"below Mastercard's prefixes":       "invoice:5018000000000009",
		"above Mastercard's prefixes":       "invoice:5600000000000003",
		"below Mastercard's second range":   "invoice:2220000000000000",
		"above Mastercard's second range":   "invoice:2721000000000004",
		"below JCB's range":                 "invoice:3527000000000008",
		"above JCB's range":                 "invoice:3590000000000000",
		"below Discover's range":            "invoice:6439000000000008",
		"12 digits are too few":             "invoice:411111111117",
		"20 digits are too many":            "invoice:41111111111111111115",
		"Visa has 13, 16 or 19 digits":      "invoice:411111111111116",
		"Mastercard has 16 digits":          "invoice:555555555555558",
		"American Express has 15 digits":    "invoice:3782822463100003",
		"JCB has 16 digits and more":        "invoice:353011133330001",
		"Discover has 16 digits and more":   "invoice:601111111111116",
		"UnionPay has 16 digits and more":   "invoice:620000000000000",
		"Diners Club has 14 digits":         "invoice:3056930902597",
		"a time in milliseconds":            "invoice:1785542398123",
		"a date and time in one":            "invoice:20260801235958",
		"an order number":                   "invoice:order-48120001",
		"a date with hyphens and a number":  "invoice-2026-08-01-4812-0001",
		"groups too small for a card":       "invoice-41-11-11-11-11-11-11-11",
		"groups of one":                     "invoice-4-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1",
		"a phone number":                    "phone:+4915112345679",
		"digits on both sides of a letter":  "invoice:41111111x11111111",
		"two hyphens end a number":          "invoice:4111-1111--1111-1111",
		"a UUID whose digits look like one": "1b4e28ba-2fa1-41d2-4111-111111111111",
	} {
		assert.Empty(t, refusal(t, text, "refund"), "%s: %s", name, text)
	}
}

func TestKeyHint(t *testing.T) {
	t.Parallel()
	key, err := dedup.ParseKey("refund:order-4812:2", "refund")
	require.NoError(t, err)
	assert.Equal(t, "refu… (19)", key.Hint())
	assert.Equal(t, "… (0)", dedup.Key{}.Hint())
	assert.True(t, dedup.Key{}.IsZero())
}

func FuzzParseKey(f *testing.F) {
	for _, text := range append(cards, "refund:order-4812:2", "a\x00bcdefgh", "💸💸💸", "550e8400-e29b-41d4-a716-446655440000", "--------") {
		f.Add(text, "create_refund")
	}
	f.Add("ÀÀÀÀÀÀÀÀ", "\xff_")
	f.Fuzz(func(t *testing.T, text, tool string) {
		key, err := dedup.ParseKey(text, tool)
		var refused *dedup.KeyError
		if err != nil {
			if !errors.As(err, &refused) || refused.Reason == "" || !key.IsZero() {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if want := fmt.Sprintf("%s… (%d)", text[:4], len(text)); key.Hint() != want {
			t.Fatalf("the hint of %q is %q", text, key.Hint())
		}
		if len(text) < dedup.MinKeyBytes || len(text) > dedup.MaxKeyBytes || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("%q became a key", text)
		}
	})
}
