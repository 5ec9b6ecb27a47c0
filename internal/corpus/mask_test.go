package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMask(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", longText+1)
	masked := strings.Repeat("x", longText+1)
	short := strings.Repeat("a", longText)
	for name, test := range map[string]struct{ src, want string }{
		"prose loses its letters only":          {`{"tools":[{"description":"Get 3 Items, e.g. \"A1\".\n\tÉté"}]}`, `{"tools":[{"description":"Xxx 3 Xxxxx, x.x. \"X1\".\n\tXxx"}]}`},
		"white space of the JSON stays":         {" { \"tools\" : [\n\t{ \"title\" : \"Ab\" } ] } ", " { \"tools\" : [\n\t{ \"title\" : \"Xx\" } ] } "},
		"numbers stay":                          {`{"x":[1.0e2,9007199254740993,-0],"title":"A"}`, `{"x":[1.0e2,9007199254740993,-0],"title":"X"}`},
		"names stay":                            {`{"tools":[{"name":"` + long + `","title":"A"}]}`, `{"tools":[{"name":"` + long + `","title":"X"}]}`},
		"a property may be named like prose":    {`{"inputSchema":{"properties":{"title":{"type":"string","title":"Ti"},"description":{"enum":["Aa"]}}}}`, `{"inputSchema":{"properties":{"title":{"type":"string","title":"Xx"},"description":{"enum":["Aa"]}}}}`},
		"a property may be named like a kept":   {`{"inputSchema":{"properties":{"enum":{"description":"Ab"}}}}`, `{"inputSchema":{"properties":{"enum":{"description":"Xx"}}}}`},
		"enums, constants, patterns stay":       {`{"inputSchema":{"enum":["` + long + `"],"const":{"title":"` + long + `"},"pattern":"` + long + `"}}`, `{"inputSchema":{"enum":["` + long + `"],"const":{"title":"` + long + `"},"pattern":"` + long + `"}}`},
		"required and references stay":          {`{"inputSchema":{"required":["` + long + `"],"$ref":"#/$defs/` + long + `","dependencies":{"a":["` + long + `"]}}}`, `{"inputSchema":{"required":["` + long + `"],"$ref":"#/$defs/` + long + `","dependencies":{"a":["` + long + `"]}}}`},
		"hints stay, their title does not":      {`{"annotations":{"title":"Ab","readOnlyHint":true}}`, `{"annotations":{"title":"Xx","readOnlyHint":true}}`},
		"examples of any length are prose":      {`{"inputSchema":{"examples":["Ab",{"c":["De"]},5]}}`, `{"inputSchema":{"examples":["Xx",{"c":["Xx"]},5]}}`},
		"a short default stays":                 {`{"inputSchema":{"default":"` + short + `"}}`, `{"inputSchema":{"default":"` + short + `"}}`},
		"a long default is prose":               {`{"inputSchema":{"default":{"a":["` + long + `"]}}}`, `{"inputSchema":{"default":{"a":["` + masked + `"]}}}`},
		"long strings of extensions are prose":  {`{"_meta":{"x/y":"` + long + `","type":"object"},"x-doc":"` + long + `"}`, `{"_meta":{"x/y":"` + masked + `","type":"object"},"x-doc":"` + masked + `"}`},
		"schemas in schemas are found":          {`{"inputSchema":{"anyOf":[{"items":{"description":"Ab"}}],"$defs":{"default":{"title":"Cd"}}}}`, `{"inputSchema":{"anyOf":[{"items":{"description":"Xx"}}],"$defs":{"default":{"title":"Xx"}}}}`},
		"escaped letters are letters":           {`{"title":"\u00c9t\u00e9 \u2014 \/ \\n"}`, `{"title":"Xxx \u2014 \/ \\x"}`},
		"escaped pairs are one character":       {`{"title":"\ud83d\ude00 \ud835\udc00b \ud800a"}`, `{"title":"\ud83d\ude00 Xx \ud800x"}`},
		"letters without case are lower case":   {`{"title":"获取 3 項 😀"}`, `{"title":"xx 3 x 😀"}`},
		"an escaped name is the name it is":     {`{"\u0074itle":"Ab"}`, `{"\u0074itle":"Xx"}`},
		"members that stand twice are both met": {`{"title":"Ab","title":"Cd"}`, `{"title":"Xx","title":"Xx"}`},
		"no prose, no change":                   {`{"tools":[]}`, `{"tools":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := mask([]byte(test.src))
			require.NoError(t, err)
			assert.Equal(t, test.want, string(got))
			again, err := mask(got)
			require.NoError(t, err)
			assert.Equal(t, string(got), string(again), "masking twice is masking once")
		})
	}
}

func TestMaskRefusesWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	for _, src := range []string{``, `{`, `{"a"`, `{"a":[1`, `{"a":"b`, `{"title":"\u12"}`, `[1,]`} {
		_, err := mask([]byte(src))
		require.Error(t, err, src)
	}
}

func TestAMaskedStringKeepsItsLengthAndLosesItsLetters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		quoted, err := json.Marshal(map[string]string{"title": text})
		require.NoError(t, err)
		masked, err := mask(quoted)
		require.NoError(t, err)
		var got map[string]string
		require.NoError(t, json.Unmarshal(masked, &got))
		assert.True(t, alike(text, got["title"]), "%q became %q", text, got["title"])
		assert.NotRegexp(t, `[A-WYZa-wyz\p{Lo}]`, got["title"])
	})
}

// alike reports whether b is a with some of the letters in its strings masked.
func alike(a, b any) bool {
	switch a := a.(type) {
	case string:
		from, to := []rune(a), []rune(b.(string))
		return len(from) == len(to) && !slices.ContainsFunc(to, func(r rune) bool {
			was := from[0]
			from = from[1:]
			return r != was && r != 'x' && r != 'X'
		})
	case []any:
		return slices.EqualFunc(a, b.([]any), alike)
	case map[string]any:
		return maps.EqualFunc(a, b.(map[string]any), alike)
	}
	return a == b
}

func TestRealAnswersKeepAllButTheirProse(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("MCP_IDEM_CORPUS")
	if folder == "" {
		require.NotEqual(t, "true", os.Getenv("CI"), "MCP_IDEM_CORPUS is not set")
		t.Skip("MCP_IDEM_CORPUS names no folder of real answers")
	}
	files, err := filepath.Glob(filepath.Join(folder, "tools", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		masked, err := mask(src)
		require.NoError(t, err, file)
		var before, after map[string]any
		require.NoError(t, json.Unmarshal(src, &before))
		require.NoError(t, json.Unmarshal(masked, &after))
		assert.True(t, alike(before, after), file)
		for i, tool := range before["tools"].([]any) {
			assert.Equal(t, tool.(map[string]any)["name"], after["tools"].([]any)[i].(map[string]any)["name"], file)
		}
	}
}
