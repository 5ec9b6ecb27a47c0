package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the lines that testdata/wire expects anew")

// TestWire runs testdata/wire: each file is a dialogue of a client and a server
// through the gateway, byte for byte. Its README says how to read them.
func TestWire(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "wire", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			d := parseDialogue(t, archive)
			w := startWire(t, d.flags)
			if d.tools != nil {
				w.handshake(d.tools)
			}
			for i := range d.lines {
				w.speak(&d.lines[i])
			}
			w.finish()
			if *update {
				require.NoError(t, os.WriteFile(file, txtar.Format(d.archive()), 0o600))
			}
		})
	}
}

// A dialogue is the content of a file.
type dialogue struct {
	comment []byte
	flags   []string // of wrap
	tools   []byte   // that the server offers; nil: the dialogue has its own handshake
	lines   []dialogueLine
	source  *txtar.Archive
}

// A dialogueLine is one message, a comment, or an event.
type dialogueLine struct {
	number int
	who    string // client>, client<, upstream>, upstream<, or upstream; empty for a comment
	text   string
}

func parseDialogue(t *testing.T, archive *txtar.Archive) dialogue {
	d := dialogue{comment: archive.Comment, source: archive}
	for _, f := range archive.Files {
		switch f.Name {
		case "flags":
			d.flags = strings.Fields(string(f.Data))
		case "tools":
			d.tools = bytes.ReplaceAll(bytes.TrimSpace(f.Data), []byte("\n"), nil)
		case "wire":
			for i, line := range strings.Split(strings.TrimSuffix(string(f.Data), "\n"), "\n") {
				d.lines = append(d.lines, parseLine(t, i+1, line))
			}
		default:
			t.Fatalf("there is no use for a file %q", f.Name)
		}
	}
	require.NotEmpty(t, d.lines, "a file has a dialogue")
	return d
}

func parseLine(t *testing.T, number int, line string) dialogueLine {
	if line == "" || strings.HasPrefix(line, "#") {
		return dialogueLine{number: number, text: line}
	}
	who, text, ok := strings.Cut(line, " ")
	require.True(t, ok, "line %d: %q", number, line)
	return dialogueLine{number: number, who: who, text: text}
}

// archive is the file as it would have to be for the test to pass.
func (d dialogue) archive() *txtar.Archive {
	var lines strings.Builder
	for _, l := range d.lines {
		fmt.Fprintln(&lines, strings.TrimPrefix(l.who+" "+l.text, " "))
	}
	for i, f := range d.source.Files {
		if f.Name == "wire" {
			d.source.Files[i].Data = []byte(lines.String())
		}
	}
	return d.source
}

// handshake gets the introductions out of the way, so that a dialogue can begin
// with what it is about. The gateway's next id towards the server is 3.
func (w *wire) handshake(tools []byte) {
	for _, line := range []string{
		`client> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}}`,
		`upstream< {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}}`,
		`upstream> {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"wire","version":"1"}}}`,
		`client< ANYTHING`,
		`client> {"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`upstream< {"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`upstream< {"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		`upstream> {"jsonrpc":"2.0","id":2,"result":{"tools":` + string(tools) + `}}`,
		// The list is asked for so that it has been read before the dialogue begins.
		`client> {"jsonrpc":"2.0","id":0,"method":"tools/list"}`,
		`client< ANYTHING`,
	} {
		l := parseLine(w.t, 0, line)
		w.speak(&l)
	}
}

// speak makes one line of the dialogue happen.
func (w *wire) speak(l *dialogueLine) {
	w.t.Helper()
	switch l.who {
	case "":
	case "client>":
		_, err := fmt.Fprintln(w.client, w.restore(l.text))
		require.NoError(w.t, err, "line %d", l.number)
	case "upstream>":
		_, err := fmt.Fprintln(w.upstream(), w.restore(l.text))
		require.NoError(w.t, err, "line %d", l.number)
	case "client<":
		w.expect(l, w.fromGateway)
	case "upstream<":
		w.upstream()
		w.expect(l, w.fromServerEnd)
	case "upstream":
		require.Equal(w.t, "dies", l.text, "line %d", l.number)
		w.die()
	default:
		w.t.Fatalf("line %d: nobody is called %q", l.number, l.who)
	}
}

// expect reads one line and compares it, or with -update writes it down.
func (w *wire) expect(l *dialogueLine, lines <-chan string) {
	w.t.Helper()
	got := w.normalise(w.next(lines, l.number))
	if *update {
		if l.text != "ANYTHING" {
			l.text = got
		}
		return
	}
	if l.text != "ANYTHING" {
		require.Equal(w.t, l.text, got, "line %d", l.number)
	}
}

// command is the gateway before a server whose two ends are ours.
func (w *wire) command(flags []string, address string) *exec.Cmd {
	program, err := exec.LookPath("mcp-idem")
	require.NoError(w.t, err)
	folder := w.t.TempDir()
	args := append([]string{"wrap", "--ledger", filepath.Join(folder, "ledger.db"), "--name", "wire", "--log-level", "error", "--era", "legacy"}, flags...)
	cmd := exec.Command(program, append(args, "socketed", address)...)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "XDG_STATE_HOME="+folder) // it knows no server
	return cmd
}
