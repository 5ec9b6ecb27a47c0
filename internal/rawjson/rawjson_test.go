package rawjson_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

func TestEditsKeepEveryOtherByte(t *testing.T) {
	t.Parallel()
	const src = ` { "a" : 9007199254740993 , "<b>":"\u003c" ,"c":[1.0, 1e2] } `
	o, err := rawjson.ParseObject([]byte(src))
	require.NoError(t, err)

	for name, test := range map[string]struct {
		got  []byte
		want string
	}{
		"replace":        {o.Set("a", []byte("null")), ` { "a" : null , "<b>":"\u003c" ,"c":[1.0, 1e2] } `},
		"append":         {o.Set("d", []byte("1")), ` { "a" : 9007199254740993 , "<b>":"\u003c" ,"c":[1.0, 1e2] ,"d":1} `},
		"without first":  {o.Without("a"), ` { "<b>":"\u003c" ,"c":[1.0, 1e2] } `},
		"without middle": {o.Without("<b>"), ` { "a" : 9007199254740993 ,"c":[1.0, 1e2] } `},
		"without last":   {o.Without("c"), ` { "a" : 9007199254740993 , "<b>":"\u003c" } `},
		"without two":    {o.Without("a", "<b>"), ` { "c":[1.0, 1e2] } `},
		"without tail":   {o.Without("c", "<b>"), ` { "a" : 9007199254740993 } `},
		"without all":    {o.Without("a", "<b>", "c"), ` {  } `},
		"without none":   {o.Without("x"), src},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, string(test.got))
		})
	}
}

func TestEmptyObjectTakesAMemberWithoutAComma(t *testing.T) {
	t.Parallel()
	o, err := rawjson.ParseObject([]byte(`{ }`))
	require.NoError(t, err)
	assert.Equal(t, `{ "a":1}`, string(o.Set("a", []byte("1"))))
}

func TestNotOneObject(t *testing.T) {
	t.Parallel()
	for _, src := range []string{``, ` `, `{`, `{"a"}`, `{"a":1,}`, `{"a":1}{}`, `{"a":1} x`, `{"a":1]`} {
		_, err := rawjson.ParseObject([]byte(src))
		require.Error(t, err, src)
		require.NotErrorIs(t, err, rawjson.ErrNotObject, src)
	}
	for _, src := range []string{`[]`, `"{}"`, `1`, `null`} {
		_, err := rawjson.ParseObject([]byte(src))
		require.ErrorIs(t, err, rawjson.ErrNotObject, src)
	}
	_, err := rawjson.ParseObject([]byte(`{"a":1,"\u0061":2}`))
	var duplicate *rawjson.DuplicateError
	require.ErrorAs(t, err, &duplicate)
	assert.Equal(t, "a", duplicate.Name)
}

func TestNestedOdditiesAreHandedOn(t *testing.T) {
	t.Parallel()
	const src = `{"a":{"x":1,"x":2},"b":"\ud800"}`
	o, err := rawjson.ParseObject([]byte(src))
	require.NoError(t, err)
	assert.Equal(t, `{"b":"\ud800"}`, string(o.Without("a")))
}

func TestArray(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{`[]`: `[9]`, ` [ 1 , {"]":"]"} ] `: ` [ 1 , {"]":"]"} ,9] `} {
		got, err := rawjson.AppendElement([]byte(src), []byte("9"))
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
	_, err := rawjson.AppendElement([]byte(`{}`), nil)
	require.ErrorIs(t, err, rawjson.ErrNotArray)
	elements, err := rawjson.ParseArray([]byte(`[1, "two", [3]]`))
	require.NoError(t, err)
	require.Len(t, elements, 3)
	assert.Equal(t, `"two"`, string(elements[1]))
}

func TestStrings(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `"\u00e9\n\nmore"`, string(rawjson.Extend([]byte(`"\u00e9"`), "more")))
	assert.Equal(t, `"more"`, string(rawjson.Extend([]byte(`""`), "more")))
	assert.Equal(t, `"<&>\"\u0000é"`, string(rawjson.Quote("<&>\"\x00é")))
	text, ok := rawjson.Unquote([]byte(`"\u00e9"`))
	assert.True(t, ok)
	assert.Equal(t, "é", text)
	_, ok = rawjson.Unquote([]byte(`1`))
	assert.False(t, ok)
}

func TestManyMembers(t *testing.T) {
	t.Parallel()
	const many = 50_000
	var src strings.Builder
	src.WriteString(`{"m0":0`)
	for i := 1; i < many; i++ {
		fmt.Fprintf(&src, `,"m%d":%d`, i, i)
	}
	o, err := rawjson.ParseObject([]byte(src.String() + `}`))
	require.NoError(t, err)
	require.Len(t, o.Members(), many)
	value, ok := o.Get("m49999")
	assert.True(t, ok)
	assert.Equal(t, "49999", string(value))
	_, ok = o.Get("m50000")
	assert.False(t, ok)
	again, err := rawjson.ParseObject(o.Set("m17", []byte(`"x"`)))
	require.NoError(t, err)
	text, _ := again.String("m17")
	assert.Equal(t, "x", text)
	_, err = rawjson.ParseObject([]byte(src.String() + `,"m20":1}`))
	require.ErrorAs(t, err, new(*rawjson.DuplicateError))
}
