package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheBundledListIsSound(t *testing.T) {
	t.Parallel()
	servers, err := parseServers(bundled)
	require.NoError(t, err)
	sets := map[string]int{}
	for _, s := range servers {
		sets[s.Set]++
	}
	assert.Len(t, sets, 2)
	assert.Positive(t, sets["corpus"])
	assert.GreaterOrEqual(t, sets["fresh"], 25)
}

func TestAnEntryThatMakesNoSenseIsAnError(t *testing.T) {
	t.Parallel()
	const good = `{"name":"a","package":"@x/y@1.2.3-rc.1+b","bin":"y"}`
	_, err := parseServers([]byte("[" + good + "]"))
	require.NoError(t, err)
	for list, says := range map[string]string{
		`[` + good + `,` + good + `]`: `two servers are named "a"`,
		`[` + good + `] []`:           `something stands behind the list`,
		`{}`:                          `cannot unmarshal object`,
		`[{"nmae":"a"}]`:              `unknown field "nmae"`,
		`[{"name":"../a","package":"x@1.2.3","bin":"y"}]`:                    `server 1, "../a": the name may have`,
		`[{"name":"a","package":"x","bin":"y"}]`:                             `package "x" must have the form NAME@1.2.3`,
		`[{"name":"a","package":"x@latest","bin":"y"}]`:                      `with an exact version`,
		`[{"name":"a","package":"x@^1.2.3","bin":"y"}]`:                      `with an exact version`,
		`[{"name":"a","package":"x@1.2","bin":"y"}]`:                         `with an exact version`,
		`[{"name":"a","package":"--x@1.2.3 y","bin":"y"}]`:                   `with an exact version`,
		`[{"name":"a","package":"-x@1.2.3","bin":"y"}]`:                      `with an exact version`,
		`[{"name":"a","package":"x@1.2.3"}]`:                                 `one of bin and script`,
		`[{"name":"a","package":"x@1.2.3","bin":"y","script":"z"}]`:          `one of bin and script`,
		`[{"name":"a","package":"x@1.2.3","bin":"../y"}]`:                    `bin "../y" must be a name`,
		`[{"name":"a","package":"x@1.2.3","script":"../y"}]`:                 `script "../y" must be a path in the package`,
		`[{"name":"a","package":"x@1.2.3","bin":"y","files":{"/etc/x":""}}]`: `file "/etc/x" must be a path in the home`,
		`[{"name":"a","package":"x@1.2.3","bin":"y","rebuild":["-g"]}]`:      `rebuild "-g" must be a package`,
	} {
		_, err := parseServers([]byte(list))
		require.ErrorContains(t, err, says, list)
	}
}

func TestChosenServersKeepTheOrderOfTheList(t *testing.T) {
	t.Parallel()
	all := []server{{Name: "a", Set: "x"}, {Name: "b", Set: "y"}, {Name: "c", Set: "x"}}
	for _, test := range []struct {
		set, only, want string
	}{
		{"", "", "a b c"}, {"x", "", "a c"}, {"", "c,a", "a c"}, {"x", "c", "c"}, {"", "a,a", "a"},
	} {
		var only []string
		if test.only != "" {
			only = strings.Split(test.only, ",")
		}
		chosen, err := choose(all, test.set, only)
		require.NoError(t, err)
		assert.Equal(t, test.want, strings.Join(names(chosen, ""), " "), fmt.Sprint(test))
	}
	_, err := choose(all, "x", []string{"b"})
	require.EqualError(t, err, `--only: no server "b"; there are a, c`)
}

func TestAServerGetsItsOwnHomeAndNothingOfOurs(t *testing.T) {
	t.Setenv("SECRET", "of the person")
	p := places{home: filepath.Join(t.TempDir(), "home"), temporary: "/tmp/own", modules: filepath.Join(t.TempDir(), "modules")}
	listed := server{
		Args: []string{"--db={home}/db", "x"}, Env: map[string]string{"TOKEN": "dummy", "KEYS": "{home}/k"},
		Files: map[string]string{"deep/er/k": `{"in":"{home}"}`},
	}
	p.temporary = filepath.Join(t.TempDir(), "tmp")
	s := listed.at(p.home)
	assert.Equal(t, []string{"--db=" + p.home + "/db", "x"}, s.Args)
	assert.Equal(t, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "TMPDIR=" + p.temporary, "KEYS=" + p.home + "/k", "TOKEN=dummy"}, s.environment(p))
	assert.Equal(t, "{home}/k", listed.Env["KEYS"], "the list itself is not changed")
	require.NoError(t, p.prepare(s.Files))
	text, err := os.ReadFile(filepath.Join(p.home, "deep", "er", "k"))
	require.NoError(t, err)
	assert.Equal(t, `{"in":"`+p.home+`"}`, string(text))
}
