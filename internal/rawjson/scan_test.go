package rawjson

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzScannerAgreesWithTheDecoder holds what is found against what the decoder reads,
// token by token.
func FuzzScannerAgreesWithTheDecoder(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,{"b":null}],"c":"é"}`, ` [ 1 , -2.5e+3 , true ] `, `{"":"","\\":"\\\"","a\"b":"\\\\"}`, `{"\ud800":"\ud800"}`,
		"\"\xff\"", `{"a" : {} , "b":[ ]}`, `[[[]],[{}]]`, `"\\"`, `[0]x`, `{"a":1,}`, `{"a" "b"}`, ``, ` `, `nul`, `[`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		dec := jsontext.NewDecoder(bytes.NewBuffer(bytes.Clone(src)), lenient...)
		_, err := dec.ReadValue()
		if err == nil {
			err = end(dec)
		}
		v, found := Parse(src)
		require.Equal(t, err == nil, found == nil, "the decoder says %v, and the scanner %v", err, found)
		if err == nil {
			agree(t, jsontext.NewDecoder(bytes.NewBuffer(src), lenient...), v)
		}
	})
}

// agree reads the value that comes next, and what is in it.
func agree(t *testing.T, dec *jsontext.Decoder, v *Value) {
	t.Helper()
	require.Equal(t, dec.PeekKind(), v.Kind)
	if !v.IsObject() && !v.IsArray() {
		raw, err := dec.ReadValue()
		require.NoError(t, err)
		assert.Equal(t, string(raw), string(v.Raw()))
		return
	}
	_, err := dec.ReadToken()
	require.NoError(t, err)
	assert.Equal(t, dec.InputOffset()-1, int64(v.Start))
	for _, f := range v.Fields() {
		name, err := dec.ReadToken()
		require.NoError(t, err)
		assert.Equal(t, name.String(), f.Name)
		agree(t, dec, f.Value)
	}
	for _, e := range v.Elements() {
		agree(t, dec, e)
	}
	closing, err := dec.ReadToken()
	require.NoError(t, err)
	assert.Contains(t, "}]", closing.String())
	assert.Equal(t, dec.InputOffset(), int64(v.End))
}

func TestAnObjectThatWasChangedIsReadAsIfParsedAnew(t *testing.T) {
	t.Parallel()
	many := []byte(`{"m0":0}`)
	for _, name := range []string{"m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9", "m10", "m11", "m12", "m13", "m14", "m15", "m16", "m17"} {
		o, err := ParseObject(many)
		require.NoError(t, err)
		many = o.Set(name, []byte(`1`))
	}
	for _, src := range []string{`{}`, ` { } `, `{"a":1}`, `{ "a" : 1 , "b" : [2] , "c":3 }`, string(many)} {
		o, err := ParseObject([]byte(src))
		require.NoError(t, err)
		for _, change := range []Member{{"b", []byte(`"longer than before"`)}, {"a", []byte(`{}`)}, {"new", []byte(`null`)}, {"m3", []byte(`33`)}} {
			before := string(o.Raw())
			changed := o.With(change.Name, change.Value)
			again, err := ParseObject(changed.Raw())
			require.NoError(t, err)
			assert.Equal(t, again, changed)
			assert.Equal(t, before, string(o.Raw()), "the object itself stays")
			o = changed
		}
	}
}
