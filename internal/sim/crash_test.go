package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/sqlite"
)

// traced is how many calls are traced.
const traced = 6

// straceOrSkip finds strace. Without it these tests are skipped, but not in CI.
func straceOrSkip(t *testing.T) string {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		require.NotEqual(t, "true", os.Getenv("CI"), "strace is needed here: apt-get install strace")
		t.Skip("strace is not installed")
	}
	return strace
}

// TestNoAcknowledgedClaimIsLostInAPowerCut traces a gateway, and looks at what a power
// cut could have left of its ledger: whatever was sent to the server is in it.
func TestNoAcknowledgedClaimIsLostInAPowerCut(t *testing.T) {
	s := newStage(t)
	strace, log := straceOrSkip(t), s.file("trace")
	before := s.madeLedger()
	cmd := s.command()
	cmd.Args = append(tracer(strace, log), cmd.Args...)
	cmd.Path = strace
	g, err := startStdio(cmd, io.Discard)
	require.NoError(t, err)
	t.Cleanup(g.kill)
	for key := range traced {
		_, err := g.client.call(t.Context(), arguments(key, usualAmount))
		require.NoError(t, err)
	}
	g.client.close() // which ends the gateway, and with it strace
	<-g.exited
	deeds := readDeeds(t, log)
	cuts, lost := s.cutPower(before.clone(), deeds)
	assert.GreaterOrEqual(t, cuts, 2*traced)
	assert.Empty(t, lost)

	_, lost = s.cutPower(before, withoutCommitSyncs(deeds, s.file("ledger.db")))
	assert.NotEmpty(t, lost, "without the sync of each commit")
}

// withoutCommitSyncs are the deeds of a program that leaves out what SQLite leaves out
// with synchronous=NORMAL: the log is synced only before it is moved into the file
// (https://sqlite.org/pragma.html#pragma_synchronous).
func withoutCommitSyncs(deeds []deed, file string) (kept []deed) {
	log := file + "-wal"
	for n, d := range deeds {
		if d.kind == syncs && d.path == log {
			next := slices.IndexFunc(deeds[n+1:], func(d deed) bool { return d.path == file || d.path == log })
			if next >= 0 && deeds[n+1+next].path == log {
				continue
			}
		}
		kept = append(kept, d)
	}
	return kept
}

// TestUnsyncedClaimsAreLostInAPowerCut shows that the test above can fail: the store
// that does not sync, which exists to be measured, loses claims.
func TestUnsyncedClaimsAreLostInAPowerCut(t *testing.T) {
	for unsynced, lose := range map[string]bool{"synced": false, "unsynced": true} {
		t.Run(unsynced, func(t *testing.T) {
			s := newStage(t)
			strace, log := straceOrSkip(t), s.file("trace")
			before := s.madeLedger()
			self, err := os.Executable()
			require.NoError(t, err)
			line := append(tracer(strace, log), self, claimsWord, s.file("ledger.db"), unsynced)
			require.NoError(t, command(line[0], line[1:]...).Run())
			cuts, lost := s.cutPower(before, readDeeds(t, log))
			assert.GreaterOrEqual(t, cuts, traced)
			assert.Equal(t, lose, len(lost) > 0, "%v", lost)
		})
	}
}

// claimsWord is the first argument by which the test binary knows that it is to claim
// in a ledger.
const claimsWord = "claims"

// claim claims keys and names each on standard output as soon as it has it.
func claim(ledger, how string) error {
	store, err := sqlite.Open(ledger, sqlite.Options{Unsynced: how == "unsynced"})
	if err != nil {
		return err
	}
	l, err := dedup.New(context.Background(), store, dedup.Options{})
	if err != nil {
		return err
	}
	for n := range traced {
		key, err := dedup.ParseKey(fmt.Sprintf("refund:order-%d:1", n), tool)
		if err != nil {
			return err
		}
		v, err := l.Begin(context.Background(), dedup.Request{
			Scope: dedup.Scope{Namespace: "sim", Upstream: "refunds", Account: "sim", Tool: tool}, Key: key, Window: time.Hour,
		})
		if err != nil {
			return err
		}
		if _, ok := v.(*dedup.Lease); !ok {
			return fmt.Errorf("order-%d: %T", n, v)
		}
		fmt.Printf("order-%d\n", n)
	}
	return nil // and the process ends as if it were killed
}

// madeLedger makes a ledger, and returns its files.
func (s *stage) madeLedger() images {
	s.t.Helper()
	store, err := sqlite.Open(s.file("ledger.db"), sqlite.Options{})
	require.NoError(s.t, err)
	require.NoError(s.t, store.Close())
	made, err := os.ReadFile(s.file("ledger.db"))
	require.NoError(s.t, err)
	return images{s.file("ledger.db"): {durable: made}}
}

// images are the files of a ledger, by their paths.
type images map[string]*image

// clone is a copy of files to which nothing has been done yet.
func (f images) clone() images {
	other := images{}
	for path, one := range f {
		other[path] = &image{durable: bytes.Clone(one.durable)}
	}
	return other
}

// An image is a file, as far as it is on disk for certain, and what was done to it
// since.
type image struct {
	durable []byte
	pending []deed
}

// apply does to a content what a deed did to the file.
func apply(content []byte, d deed) []byte {
	if end := d.at + int64(len(d.data)); d.kind == writes {
		if missing := end - int64(len(content)); missing > 0 {
			content = append(content, make([]byte, missing)...)
		}
		copy(content[d.at:end], d.data)
		return content
	}
	return slices.Clip(append(content, make([]byte, max(0, d.at-int64(len(content))))...)[:d.at])
}

var orderOf = regexp.MustCompile(`order-\d+`)

// cutPower cuts the power at each sync, just before it is over, and whenever one more
// claim has been acknowledged, which is when its order is told to anybody: once so
// that all is lost that was not synced, and once so that each write is lost or not. It
// returns how often that was, and where claims were lost.
func (s *stage) cutPower(files images, deeds []deed) (cuts int, lost []string) {
	s.t.Helper()
	acknowledged, random := map[string]bool{}, rand.New(rand.NewPCG(1, 1))
	for n, d := range deeds {
		ours := strings.HasPrefix(d.path, s.file("ledger.db")) && !strings.HasSuffix(d.path, "-shm") && !strings.Contains(d.path, "-owners")
		known := len(acknowledged)
		if !ours {
			for _, order := range orderOf.FindAll(d.data, -1) {
				acknowledged[string(order)] = true
			}
		}
		if len(acknowledged) > known || ours && d.kind == syncs {
			for _, some := range []bool{false, true} {
				cuts++
				if left := s.operations(files, func() bool { return some && random.IntN(2) == 0 }); left < len(acknowledged) {
					lost = append(lost, fmt.Sprintf("deed %d: of %d acknowledged %d are left (some writes kept: %t)", n, len(acknowledged), left, some))
				}
			}
		}
		if ours {
			files.do(s.t, d)
		}
	}
	require.Len(s.t, acknowledged, traced, "acknowledged")
	return cuts, lost
}

// do notes a deed.
func (f images) do(t *testing.T, d deed) {
	t.Helper()
	if d.kind == removes {
		delete(f, d.path)
		return
	}
	one := f[d.path]
	if one == nil {
		one = &image{}
		f[d.path] = one
	}
	if d.kind == syncs {
		for _, p := range one.pending {
			one.durable = apply(one.durable, p)
		}
		one.pending = nil
		return
	}
	require.GreaterOrEqual(t, d.at, int64(0), "a write to %s of which the place is not known", d.path)
	one.pending = append(one.pending, d)
}

// operations is how many operations a ledger holds that a power cut has left, with
// those of the writes that were not synced which keep says.
func (s *stage) operations(files images, keep func() bool) int {
	s.t.Helper()
	folder := s.t.TempDir()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		content := bytes.Clone(files[path].durable)
		for _, p := range files[path].pending {
			if keep() {
				content = apply(content, p)
			}
		}
		require.NoError(s.t, os.WriteFile(filepath.Join(folder, filepath.Base(path)), content, 0o600))
	}
	store, err := sqlite.Open(filepath.Join(folder, "ledger.db"), sqlite.Options{})
	require.NoError(s.t, err)
	defer func() { require.NoError(s.t, store.Close()) }()
	n := 0
	for _, err := range store.List(context.Background(), dedup.Filter{}) {
		require.NoError(s.t, err)
		n++
	}
	return n
}
