package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, src string) *Value {
	t.Helper()
	v, err := Parse([]byte(src))
	require.NoError(t, err, src)
	return v
}

func TestParseFindsEveryValueWhereItStands(t *testing.T) {
	t.Parallel()
	const src = ` { "a" : [ 1.50 , {"\u0062":null} ] ,"c":"é\n", "c":true } `
	v := parse(t, src)
	assert.Equal(t, strings.TrimSpace(src), string(v.Raw()))
	assert.True(t, v.IsObject())
	assert.False(t, v.IsArray())
	a := v.Get("a")
	require.True(t, a.IsArray())
	assert.Equal(t, "1.50", string(a.Elements()[0].Raw()))
	assert.True(t, a.Elements()[1].Get("b").Is("null"))
	assert.True(t, v.Get("c").Is("true"), "the last of several")
	assert.Equal(t, byte('"'), src[v.Fields()[1].Start])
	name, repeated := v.Repeated()
	assert.True(t, repeated)
	assert.Equal(t, "c", name)
	text, ok := v.Fields()[1].Value.Text()
	assert.True(t, ok)
	assert.Equal(t, "é\n", text)
	count := 0
	for inner := range v.All() {
		assert.True(t, v.Holds(inner))
		assert.True(t, json.Valid(inner.Raw()))
		count++
	}
	assert.Equal(t, 7, count)
	assert.False(t, a.Holds(v))
	for inner := range v.All() {
		assert.Same(t, v, inner)
		break
	}
}

func TestWhatIsNotThereHasNothing(t *testing.T) {
	t.Parallel()
	var none *Value
	assert.Nil(t, none.Get("a").Get("b"))
	assert.Empty(t, none.Fields())
	assert.Empty(t, none.Elements())
	assert.False(t, none.IsObject() || none.IsArray() || none.Is("null"))
	_, ok := none.Text()
	assert.False(t, ok)
	_, ok = none.Texts()
	assert.False(t, ok)
	_, ok = none.Repeated()
	assert.False(t, ok)
	for range none.All() {
		t.Error("nothing is in it")
	}
}

func TestTextsAreStringsOnly(t *testing.T) {
	t.Parallel()
	list, ok := parse(t, `["a","\u0062"]`).Texts()
	assert.True(t, ok)
	assert.Equal(t, []string{"a", "b"}, list)
	for _, src := range []string{`["a",1]`, `{}`, `"a"`} {
		_, ok := parse(t, src).Texts()
		assert.False(t, ok, src)
	}
}

func TestParseToLeavesWhatIsDeeper(t *testing.T) {
	t.Parallel()
	v, err := ParseTo([]byte(`{"a":{"b":{"c":1}},"d":[[1]]}`), 2)
	require.NoError(t, err)
	assert.NotNil(t, v.Get("a").Get("b"))
	assert.Nil(t, v.Get("a").Get("b").Get("c"))
	assert.Equal(t, `{"c":1}`, string(v.Get("a").Get("b").Raw()))
	assert.Empty(t, v.Get("d").Elements()[0].Elements())
	_, err = ParseTo([]byte(`{"a":{"b":{"c":}}}`), 1)
	require.Error(t, err, "it is checked all the same")
}

func TestParseRefusesWhatIsNoValue(t *testing.T) {
	t.Parallel()
	for _, src := range []string{``, ` `, `{`, `[1`, `{"a"}`, `{"a":1,}`, `{} x`, `{"a":[}`, `"`, `{1:2}`, strings.Repeat("[", 1<<17)} {
		_, err := Parse([]byte(src))
		require.Error(t, err, src)
	}
}

func TestManyRepeatedNamesAreFound(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 2 * fewMembers {
		b.WriteString(`"` + strings.Repeat("n", i+1) + `":1,`)
	}
	_, ok := parse(t, "{"+strings.TrimSuffix(b.String(), ",")+"}").Repeated()
	assert.False(t, ok)
	name, ok := parse(t, "{"+b.String()+`"nnn":2}`).Repeated()
	assert.True(t, ok)
	assert.Equal(t, "nnn", name)
}

func TestEditsChangeWhatTheyNameAndNothingElse(t *testing.T) {
	t.Parallel()
	const src = `{ "a":1 , "b" : [ 1 , 2,3 ] ,"c":{}, "d":[] }`
	for name, c := range map[string]struct {
		edit func(v *Value, e *Edits)
		want string
	}{
		"nothing":                      {func(*Value, *Edits) {}, src},
		"a value":                      {func(v *Value, e *Edits) { e.Replace(v.Get("a").Start, v.Get("a").End, []byte("9")) }, `{ "a":9 , "b" : [ 1 , 2,3 ] ,"c":{}, "d":[] }`},
		"a member more":                {func(v *Value, e *Edits) { e.Append(v, []byte(`"x":1`)) }, `{ "a":1 , "b" : [ 1 , 2,3 ] ,"c":{}, "d":[] ,"x":1}`},
		"two members more":             {func(v *Value, e *Edits) { e.Append(v.Get("c"), []byte(`"x":1`)); e.Append(v.Get("c"), []byte(`"y":2`)) }, `{ "a":1 , "b" : [ 1 , 2,3 ] ,"c":{"x":1,"y":2}, "d":[] }`},
		"an element first":             {func(v *Value, e *Edits) { e.Prepend(v.Get("b"), []byte("0")) }, `{ "a":1 , "b" : [0, 1 , 2,3 ] ,"c":{}, "d":[] }`},
		"the only element":             {func(v *Value, e *Edits) { e.Prepend(v.Get("d"), []byte("0")) }, `{ "a":1 , "b" : [ 1 , 2,3 ] ,"c":{}, "d":[0] }`},
		"less members":                 {func(v *Value, e *Edits) { e.RemoveMembers(v, "b", "d", "none") }, `{ "a":1 ,"c":{} }`},
		"all members":                  {func(v *Value, e *Edits) { e.RemoveMembers(v, "a", "b", "c", "d"); e.Append(v, []byte(`"x":1`)) }, `{  "x":1}`},
		"the first":                    {func(v *Value, e *Edits) { e.RemoveElements(v.Get("b"), 0, 1) }, `{ "a":1 , "b" : [ 3 ] ,"c":{}, "d":[] }`},
		"the last, and one before all": {func(v *Value, e *Edits) { e.RemoveElements(v.Get("b"), 2); e.Prepend(v.Get("b"), []byte("0")) }, `{ "a":1 , "b" : [0, 1 , 2 ] ,"c":{}, "d":[] }`},
		"all elements, and a new one":  {func(v *Value, e *Edits) { e.RemoveElements(v.Get("b"), 0, 1, 2); e.Prepend(v.Get("b"), []byte("0")) }, `{ "a":1 , "b" : [0  ] ,"c":{}, "d":[] }`},
		"around a value": {func(v *Value, e *Edits) {
			at := v.Get("c")
			e.Replace(at.Start, at.End, []byte("7"))
			e.Insert(at.Start, []byte("["))
			e.Insert(at.End, []byte("]"))
		}, `{ "a":1 , "b" : [ 1 , 2,3 ] ,"c":[7], "d":[] }`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := parse(t, src)
			var e Edits
			c.edit(v, &e)
			got := string(e.Apply(v))
			if name == "all members" || name == "all elements, and a new one" { // of the space between nothing is promised
				c.want, got = strings.ReplaceAll(c.want, " ", ""), strings.ReplaceAll(got, " ", "")
			}
			assert.Equal(t, c.want, got)
			assert.Equal(t, name == "nothing", e.Empty())
			assert.True(t, json.Valid([]byte(got)), got)
		})
	}
}

func TestEditsOfAPartAreMadeInThePart(t *testing.T) {
	t.Parallel()
	v := parse(t, `{"a":{"b":1},"c":2}`)
	var e, more Edits
	e.Append(v.Get("a"), []byte(`"x":1`))
	more.Append(v, []byte(`"y":1`))
	e.Add(more)
	assert.Equal(t, `{"b":1,"x":1}`, string(e.Apply(v.Get("a"))))
	assert.Equal(t, `{"a":{"b":1,"x":1},"c":2,"y":1}`, string(e.Apply(v)))
	assert.True(t, e.Within(v.Get("a")))
	assert.False(t, e.Within(v.Get("a").Get("b")))
	assert.False(t, e.Within(v.Get("c")))
}

// FuzzParse checks that the tree and the object view agree, and that edits of
// nothing change nothing.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,{"b":null}],"c":"é"}`, ` [ 1 ] `, `{"a":1,"a":2}`, `{"\ud800":"\ud800"}`, `1e400`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		v, err := Parse(src)
		o, errObject := ParseObject(src)
		if err != nil {
			require.Error(t, errObject)
			return
		}
		assert.Equal(t, string(bytes.TrimSpace(src)), string(v.Raw()))
		if _, repeated := v.Repeated(); errObject != nil {
			assert.True(t, repeated || !v.IsObject())
			return
		}
		require.Len(t, v.Fields(), len(o.Members()))
		for i, m := range o.Members() {
			assert.Equal(t, m.Name, v.Fields()[i].Name)
			assert.Equal(t, string(m.Value), string(v.Fields()[i].Value.Raw()))
		}
		var e Edits
		assert.Equal(t, string(v.Raw()), string(e.Apply(v)))
		if len(o.Members()) > 0 {
			e.RemoveMembers(v, o.Members()[0].Name)
			after, err := ParseObject(e.Apply(v))
			require.NoError(t, err)
			assert.Len(t, after.Members(), len(o.Members())-1)
		}
	})
}
