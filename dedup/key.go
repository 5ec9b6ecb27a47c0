package dedup

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Limits of a key, in characters (all of them ASCII, so also in bytes).
const (
	MinKeyBytes = 8
	MaxKeyBytes = 255
)

// ExampleKey is what errors and schemas show. As a key it is refused: it names
// nobody's intent.
const ExampleKey = "refund:order-4812:1"

// A Key is a caller's idempotency key that has passed ParseKey. The zero value
// is no key.
type Key struct{ text string }

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.text == "" }

// Hint is what may be shown of a key: at most its first four characters, and
// its length.
func (k Key) Hint() string {
	return fmt.Sprintf("%s… (%d)", k.text[:min(4, len(k.text))], len(k.text))
}

// A KeyReason says why a key is refused.
type KeyReason = Reason

// Why a key is refused.
const (
	KeyRequired  KeyReason = "key_required"
	KeyWeak      KeyReason = "key_weak"
	KeySensitive KeyReason = "key_sensitive"
	KeyInvalid   KeyReason = "key_invalid"
)

// A KeyError says why a text is no key. Its message does not hold the text.
type KeyError struct {
	Reason KeyReason
	Detail string
}

func (e *KeyError) Error() string { return e.Detail }

// ParseKey checks a caller's key for a call of tool. A key is 8 to 255
// characters of A-Z a-z 0-9 _ . : @ / + = -, it names one intent and holds
// nobody's card number. The error is a *KeyError.
func ParseKey(text, tool string) (Key, error) {
	if text == "" {
		return Key{}, &KeyError{KeyRequired, "this tool has side effects and needs an idempotency_key"}
	}
	if err := wellFormed(text); err != nil {
		return Key{}, err
	}
	if holdsCardNumber(text) {
		return Key{}, &KeyError{KeySensitive, "the key holds what looks like a payment card number, and keys are stored; use an order or invoice number"}
	}
	if why := weakness(text, tool); why != "" {
		return Key{}, &KeyError{KeyWeak, "the key " + why + ", so that other calls would use it too"}
	}
	return Key{text: text}, nil
}

func wellFormed(text string) error {
	for i, r := range text {
		if !isKeyRune(r) {
			shown := fmt.Sprintf("%q", r)
			if r == utf8.RuneError {
				shown = "a byte that is not UTF-8"
			}
			return &KeyError{KeyInvalid, fmt.Sprintf("the key holds %s at byte %d; letters, digits and _ . : @ / + = - are allowed", shown, i)}
		}
	}
	if len(text) < MinKeyBytes || len(text) > MaxKeyBytes {
		return &KeyError{KeyInvalid, fmt.Sprintf("the key has %d characters; %d to %d are allowed", len(text), MinKeyBytes, MaxKeyBytes)}
	}
	return nil
}

func isKeyRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.:@/+=-", r)
}

// placeholders are what examples and hurried models write in place of a key,
// less punctuation and trailing numbers.
var placeholders = map[string]bool{
	"idempotency": true, "idempotencykey": true, "idempotencytoken": true, "myidempotencykey": true, "youridempotencykey": true,
	"yourkey": true, "yourkeyhere": true, "yourkeyhereplease": true, "youruniquekey": true, "youruniquekeyhere": true,
	"mykey": true, "myuniquekey": true, "key": true, "thekey": true, "apikey": true, "somekey": true, "newkey": true, "defaultkey": true, "default": true,
	"unique": true, "uniquekey": true, "uniqueid": true, "uniqueidentifier": true, "auniquekey": true, "someuniquekey": true,
	"test": true, "testkey": true, "testing": true, "testtest": true, "testkeytest": true, "testidempotencykey": true,
	"retry": true, "retrykey": true, "attempt": true, "requestkey": true, "toolcall": true,
	"placeholder": true, "placeholderkey": true, "example": true, "examplekey": true, "sample": true, "samplekey": true, "dummy": true, "dummykey": true,
	"random": true, "randomkey": true, "randomstring": true, "randomuuid": true, "uuid": true, "uuidv": true, "guid": true, "string": true,
	"undefined": true, "nullnull": true, "changeme": true, "password": true, "foobar": true, "foobarbaz": true, "abcdefgh": true, "abcdef": true, "qwerty": true,
	"verbthingoccurrence": true, "insertkeyhere": true, "keygoeshere": true,
}

// things name a kind of thing. Alone or with one number they are placeholders too;
// with two they say which thing, and which occurrence.
var things = map[string]bool{
	"call": true, "callid": true, "message": true, "messageid": true, "operation": true, "operationid": true,
	"request": true, "requestid": true, "session": true, "sessionid": true, "transaction": true, "transactionid": true,
}

// exampleUUIDs are the UUIDs that documentation shows.
var exampleUUIDs = map[string]bool{
	"00000000-0000-0000-0000-000000000000": true,
	"ffffffff-ffff-ffff-ffff-ffffffffffff": true,
	"550e8400-e29b-41d4-a716-446655440000": true,
	"123e4567-e89b-12d3-a456-426614174000": true,
	"123e4567-e89b-12d3-a456-426655440000": true,
	"f47ac10b-58cc-4372-a567-0e02b2c3d479": true,
	"6ba7b810-9dad-11d1-80b4-00c04fd430c8": true,
	"3fa85f64-5717-4562-b3fc-2c963f66afa6": true,
	"9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d": true,
	"11111111-1111-1111-1111-111111111111": true,
	"12345678-1234-1234-1234-123456789012": true,
	"12345678-1234-5678-1234-567812345678": true,
	"01234567-89ab-cdef-0123-456789abcdef": true,
	"919108f7-52d1-4320-9bac-f847db4148a8": true,
	"017f22e2-79b0-7cc3-98c4-dc0c0c07398f": true,
}

// weakness says why a key names nobody's intent, or nothing.
func weakness(text, tool string) string {
	lower := strings.ToLower(text)
	words := bare(lower)
	verb, _, _ := strings.Cut(strings.ReplaceAll(snake(tool), "-", "_"), "_")
	switch {
	case strings.Trim(text, "0123456789") == "":
		return "is only digits"
	case strings.Trim(text, text[:1]) == "":
		return "is one character repeated"
	case words == "":
		return "has no letter"
	case text == ExampleKey:
		return "is the documentation's example"
	case words == bare(strings.ToLower(tool)) && numbers(text) < 2:
		return "is the tool's own name"
	case words == bare(verb) && numbers(text) < 2:
		return "is the tool's verb with a number"
	case placeholders[words] || things[words] && numbers(text) < 2:
		return "is a placeholder"
	}
	if id, err := uuid.Parse(text); err == nil && exampleUUIDs[id.String()] {
		return "is a well-known example UUID"
	}
	return ""
}

// bare is what remains of a text without punctuation and without the digits at
// its end, so that "test-key-1" and "TEST_KEY_002" are one placeholder.
func bare(lower string) string {
	letters := strings.Map(func(r rune) rune {
		if strings.ContainsRune("_.:@/+=-", r) {
			return -1
		}
		return r
	}, lower)
	return strings.TrimRight(letters, "0123456789")
}

// numbers counts the runs of digits: a verb with two of them says which thing
// and which occurrence, as in refund:4812:1.
func numbers(text string) int {
	return len(strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' }))
}

// snake writes a camelCase name with underscores, in lower case.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// holdsCardNumber looks for a run of 13 to 19 digits, in one piece or in groups
// of four, that has a card issuer's prefix and a right check digit (ISO/IEC
// 7812-1).
func holdsCardNumber(text string) bool {
	if _, err := uuid.Parse(text); err == nil {
		return false
	}
	start := -1
	for i := 0; i <= len(text); i++ {
		if i < len(text) && (isDigit(text[i]) || text[i] == '-' && start >= 0 && i+1 < len(text) && isDigit(text[i+1])) {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 && isCardNumber(text[start:i]) {
			return true
		}
		start = -1
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isCardNumber looks at every row of neighbouring groups, since an order's number
// may stand before a card's.
func isCardNumber(run string) bool {
	groups := strings.Split(run, "-")
	for first := range groups {
		digits := ""
		for _, group := range groups[first:] {
			digits += group
			if len(digits) >= 13 && len(digits) <= 19 && issued(digits) && luhn(digits) {
				return true
			}
			if len(group) < 4 || len(group) > 6 {
				break // dates and serial numbers go on like this, not a card
			}
		}
	}
	return false
}

// issued reports whether a number of this length begins as one of the large
// issuers' do.
func issued(digits string) bool {
	n, two, four := len(digits), digits[:2], digits[:4]
	switch {
	case digits[0] == '4':
		return n == 13 || n == 16 || n == 19
	case two >= "51" && two <= "55", four >= "2221" && four <= "2720":
		return n == 16
	case two == "34" || two == "37":
		return n == 15
	case four == "6011" || two == "65" || four >= "6440" && four <= "6499":
		return n >= 16
	case four >= "3528" && four <= "3589":
		return n >= 16
	case two == "36" || two == "38" || two == "39" || two == "30":
		return n == 14
	case two == "62":
		return n >= 16
	}
	return false
}

func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}
