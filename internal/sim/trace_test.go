package main

import (
	"bufio"
	"encoding/hex"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A deed is what a traced process did to a file.
type deed struct {
	kind deedKind
	path string
	data []byte // of a write
	at   int64  // where a write begins, or how long the file is then
}

type deedKind int

const (
	writes deedKind = iota
	syncs           // is over: what was written before is on disk
	truncates
	removes
)

// tracer is the command that records deeds in a file.
func tracer(strace, log string) []string {
	return []string{
		strace, "-f", "-y", "-xx", "-qq", "-s", "1000000", "-e", "signal=none",
		"-e", "trace=write,pwrite64,fsync,fdatasync,ftruncate,unlink,unlinkat", "-o", log,
	}
}

var (
	callOf    = regexp.MustCompile(`^(\d+) +(\w+)\((?:(?:\d+|AT_FDCWD)<([^>]*)>)?(.*)$`)
	resumedOf = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>.*= 0`)
	textOf    = regexp.MustCompile(`"((?:\\x[0-9a-f]{2})*)"`)
	numbersOf = regexp.MustCompile(`, (\d+)`)
)

// readDeeds reads what strace has recorded, in the order of the file: a write counts
// from its beginning, a sync from its end.
func readDeeds(t *testing.T, log string) (deeds []deed) {
	t.Helper()
	file, err := os.Open(log)
	require.NoError(t, err)
	defer file.Close()
	syncing := map[string]string{} // paths, by the thread that has not ended
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		if m := resumedOf.FindStringSubmatch(line); m != nil {
			if path, ok := syncing[m[1]]; ok {
				deeds = append(deeds, deed{kind: syncs, path: path})
				delete(syncing, m[1])
			}
			continue
		}
		m := callOf.FindStringSubmatch(line)
		if m == nil {
			continue // the end of something else
		}
		thread, name, path, rest := m[1], m[2], unhexed(t, m[3]), m[4]
		if strings.HasSuffix(name, "sync") {
			if strings.HasSuffix(rest, "<unfinished ...>") {
				syncing[thread] = path
			} else {
				deeds = append(deeds, deed{kind: syncs, path: path})
			}
			continue
		}
		deeds = append(deeds, deedOf(t, name, path, rest))
	}
	require.NoError(t, lines.Err())
	return deeds
}

func deedOf(t *testing.T, name, path, rest string) deed {
	t.Helper()
	text := textOf.FindStringSubmatch(rest)
	numbers := numbersOf.FindAllStringSubmatch(textOf.ReplaceAllString(rest, ""), -1)
	last := func() int64 {
		n, err := strconv.ParseInt(numbers[len(numbers)-1][1], 10, 64)
		require.NoError(t, err, rest)
		return n
	}
	switch name {
	case "write":
		return deed{kind: writes, path: path, data: []byte(unhexed(t, text[1])), at: -1}
	case "pwrite64":
		return deed{kind: writes, path: path, data: []byte(unhexed(t, text[1])), at: last()}
	case "ftruncate":
		return deed{kind: truncates, path: path, at: last()}
	case "unlink", "unlinkat":
		return deed{kind: removes, path: unhexed(t, text[1])}
	}
	require.Fail(t, "a call that is not understood", "%s of %s", name, path)
	return deed{}
}

// unhexed is a text that strace wrote as \x61\x62.
func unhexed(t *testing.T, text string) string {
	t.Helper()
	plain, err := hex.DecodeString(strings.ReplaceAll(text, `\x`, ""))
	require.NoError(t, err, text)
	return string(plain)
}
