package toolschema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

func canonical(t *testing.T, src string) string {
	t.Helper()
	out, err := appendCanonical(nil, []byte(src))
	require.NoError(t, err, src)
	return string(out)
}

func TestNumbersAreDigitsAndExponent(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", 19)
	for src, want := range map[string]string{
		"0": "0", "-0": "0", "0.000": "0", "-0.0e99": "0", "0e-5": "0",
		"1": "1", "1.0": "1", "1e0": "1", "10e-1": "1", "0.1E+1": "1", "1e-00": "1",
		"-12.50": "-125e-1", "1200": "12e2", "0.0012": "12e-4", "100e-2": "1",
		"9007199254740992": "9007199254740992", "9007199254740993": "9007199254740993",
		"1e100000000": "1e100000000", "10e99999999": "1e100000000",
		"1e999999999999999999":            "1e999999999999999999",
		"10e999999999999999999":           "1e1000000000000000000",
		"1e" + nines:                      "1e" + nines,
		"10e" + nines:                     "1e10000000000000000000",
		"0.1e" + nines:                    "1e9999999999999999998",
		"10e-" + nines:                    "1e-9999999999999999998",
		"0.1e-" + nines:                   "1e-10000000000000000000",
		"0.1e1" + strings.Repeat("0", 18): "1e999999999999999999",
		"0." + strings.Repeat("0", 24) + "1e" + nines: "1e9999999999999999974",
		"1" + strings.Repeat("0", 25) + "e-" + nines:  "1e-9999999999999999974",
		"10e000" + nines: "1e10000000000000000000",
	} {
		assert.Equal(t, want, canonical(t, src), src)
	}
}

func TestMembersAreSortedByUTF16CodeUnits(t *testing.T) {
	t.Parallel()
	// The sample of RFC 8785, 3.2.3.
	const src = `{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",` +
		`"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`
	assert.Equal(t, `{"\r":"Carriage Return","1":"One","`+"\u0080"+`":"Control","ö":"Latin Small Letter O With Diaeresis",`+
		`"€":"Euro Sign","😀":"Emoji: Grinning Face","`+"\ufb33"+`":"Hebrew Letter Dalet With Dagesh"}`, canonical(t, src))
	assert.Equal(t, `{"":1,"a":2,"aa":3,"b":{"x":5,"y":4}}`, canonical(t, ` { "b":{"y":4,"x":5}, "aa" : 3,"a":2,"":1 } `))
}

func TestStringsHaveTheFewestEscapes(t *testing.T) {
	t.Parallel()
	// The sample of RFC 8785, 3.2.2.2, and the two ways to write an emoji.
	assert.Equal(t, `["€$\u000f\nA'B\"\\\\\"/"]`, canonical(t, `["\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"]`))
	assert.Equal(t, `"😀\b\t\f\r"`, canonical(t, `"\uD83D\ude00\b\t\f\r"`))
	assert.Equal(t, canonical(t, `"😀"`), canonical(t, `"\ud83d\ude00"`))
}

func TestLoneSurrogatesStayDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, src := range []string{`"\ud800"`, `"\ud801"`, `"\udc00"`, `"\udc00\ud800"`, `"\ud800\ud800"`, `"\ud800x"`, `"\ufffd"`,
		`"\ud800\udc00"`, `"\ud800\\udc00"`, `{"\ud800":1,"\ud801":1}`, `{"\ud800":1,"\ud802":1}`} {
		form := canonical(t, src)
		assert.Empty(t, seen[form], src)
		seen[form] = src
	}
}

func TestWhatDiffersHasAnotherForm(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{`{"a":null}`, `{}`},
		{`[1,2]`, `[2,1]`},
		{`1`, `"1"`},
		{`9007199254740992`, `9007199254740993`},
		{`"a"`, `"A"`},
		{`"é"`, `"e\u0301"`}, // normalisation is not ours to do
		{`1e99999999999999999999`, `1e-99999999999999999999`},
		{`[[],[]]`, `[[[]]]`},
		{`{"a":{"b":1}}`, `{"a":{},"b":1}`},
		{`false`, `null`},
	} {
		assert.NotEqual(t, canonical(t, pair[0]), canonical(t, pair[1]), pair)
	}
}

func TestRepeatedNamesAreRefusedAtAnyDepth(t *testing.T) {
	t.Parallel()
	for _, src := range []string{`{"a":1,"a":1}`, `[{"x":{"a":1,"b":2,"\u0061":3}}]`, `{"\ud800":1,"\uD800":2}`} {
		_, err := appendCanonical(nil, []byte(src))
		var duplicate *rawjson.DuplicateError
		require.ErrorAs(t, err, &duplicate, src)
	}
}

func TestDepthIsBounded(t *testing.T) {
	t.Parallel()
	nested := func(n int) []byte { return []byte(strings.Repeat(`[`, n) + strings.Repeat(`]`, n)) }
	_, err := appendCanonical(nil, nested(MaxDepth+1)) // the outermost is at depth 0
	require.NoError(t, err)
	_, err = appendCanonical(nil, nested(MaxDepth+2))
	require.ErrorIs(t, err, errDepth)
}

func TestOnlyOneValueIsCanonical(t *testing.T) {
	t.Parallel()
	for _, src := range []string{``, `{`, `[1,`, `{"a"}`, `{"a":1,}`, `1 2`, `01`, `"\x"`, `nul`, `[1]]`} {
		_, err := appendCanonical(nil, []byte(src))
		require.Error(t, err, src)
	}
}
