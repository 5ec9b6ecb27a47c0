package toolschema

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var fuzzObjects = []string{
	`{}`, `{"a":1,"b":[1.50,-0,1e3],"c":{"z":null,"y":"\u00e9\ud83d\ude00"}}`, `{"n":9007199254740993,"m":0.1e-400}`,
	`{"\ufb33":1,"\ud83d\ude00":2,"\r":3}`, `{"s":"\ud800","t":"\\ud800"}`, `{"a":{"a":{"a":[[],{}]}}}`, `{"a":1,"a":2}`,
}

// FuzzCanonicalForm checks that the form is a fixed point, and that neither the
// order of members nor the spelling of strings and numbers changes it.
func FuzzCanonicalForm(f *testing.F) {
	for _, seed := range fuzzObjects {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		form, err := appendCanonical(nil, src)
		if err != nil {
			return
		}
		again, err := appendCanonical(nil, form)
		require.NoError(t, err)
		assert.Equal(t, string(form), string(again))

		dec := json.NewDecoder(bytes.NewReader(src))
		dec.UseNumber()
		var value any
		if !isPlain(src) || dec.Decode(&value) != nil {
			return
		}
		other, err := appendCanonical(nil, respell(value))
		require.NoError(t, err)
		assert.Equal(t, string(form), string(other))
	})
}

// isPlain excludes what encoding/json does not keep: lone surrogates and bytes
// that are no UTF-8.
func isPlain(src []byte) bool {
	return json.Valid(src) && bytes.Equal(bytes.ToValidUTF8(src, nil), src) && !bytes.Contains(bytes.ToLower(src), []byte(`\ud`))
}

// respell writes a value with its members backwards, all letters escaped and
// numbers in another notation.
func respell(value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		var members []string
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(v))) {
			members = append(members, string(respell(name))+" : "+string(respell(v[name])))
		}
		return []byte("{ " + strings.Join(members, " , ") + " }")
	case []any:
		var elements []string
		for _, e := range v {
			elements = append(elements, string(respell(e)))
		}
		return []byte("[\n" + strings.Join(elements, "\t,") + "]")
	case string:
		quoted, _ := json.Marshal(v)
		return bytes.ReplaceAll(quoted, []byte("a"), []byte(`\u0061`))
	case json.Number:
		return []byte(respellNumber(v.String()))
	}
	plain, _ := json.Marshal(value)
	return plain
}

// respellNumber moves the point one place to the left and the exponent up.
func respellNumber(number string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	power, ok := new(big.Int).SetString(exponent, 10)
	if !ok {
		power = new(big.Int) // there is no exponent
	}
	power.Add(power, big.NewInt(int64(len(whole))))
	return sign + "0." + whole + fraction + "00E" + power.String()
}

// ownKey is a tool that has a property KeyProperty of its own.
var ownKey = Tool{Natives: []NativeKey{{Path: []string{KeyProperty}, Shown: true}}, ownsKey: true}

// FuzzForward checks that what goes upstream carries nothing of ours, says the
// same, and is the very bytes that came where there was nothing to take out.
func FuzzForward(f *testing.F) {
	for _, arguments := range fuzzObjects {
		f.Add([]byte(`{"name":"t","arguments":` + arguments + `,"_meta":{"progressToken":1,"mcp-idem/key":"k"},"idempotencyKey":"k"}`))
		f.Add([]byte(` { "name":"t" , "arguments":` + arguments + ` , "_meta" : { "mcp-idem/run":"r" , "mcp-idem/step" : "s" } } `))
	}
	f.Add([]byte(`{"name":"t","arguments":{ "a":1 , "idempotency_key":"k" , "idempotency_repeat_of":null}}`))
	f.Add([]byte(`{"name":"t","arguments":{"idempotency_repeat_of":"o","idempotency_key":"k","z":1}}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		before, err := ParseCall(params)
		if err != nil {
			return
		}
		out := before.Forward(Tool{}, "", "")
		after, err := ParseCall(out)
		require.NoError(t, err)
		assert.Equal(t, KeyNone, after.Source)
		assert.Empty(t, after.RepeatOf)
		assert.Equal(t, before.Name, after.Name)
		assert.Equal(t, before.ProgressToken, after.ProgressToken)
		requireSameFingerprint(t, before, after)
		assert.Equal(t, string(out), string(after.Forward(Tool{}, "", "")), "nothing is left to take out")
		if !bytes.Contains(params, []byte("idem")) && !bytes.Contains(params, []byte(`\u`)) {
			assert.Equal(t, string(params), string(out))
		}

		native, err := ParseCall(before.Forward(ownKey, "", "derived"))
		require.NoError(t, err)
		assert.Equal(t, "derived", native.Key)
		assert.Equal(t, KeyModel, native.Source)
		requireSameFingerprint(t, before, native)
	})
}

func requireSameFingerprint(t *testing.T, a, b Call) {
	t.Helper()
	want, errWant := a.Fingerprint(Tool{})
	got, errGot := b.Fingerprint(Tool{})
	require.Equal(t, errWant == nil, errGot == nil)
	require.Equal(t, want, got)
}
