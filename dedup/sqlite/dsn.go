package sqlite

import (
	"net/url"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Bounds of SQLite's write-ahead log.
const (
	// checkpointPages is after how many pages in the log a commit moves them
	// into the file.
	checkpointPages = 1000
	// maxIdleLogBytes is how much of an emptied log is kept. A log that is
	// written over is cheaper to sync than one that grows.
	maxIdleLogBytes = 16 << 20
)

// A role is what a connection is for.
type role int

const (
	toCreate role = iota // look at a file of which nothing is known yet, and make the ledger
	toWrite
	toRead
	toExamine // read a file of which nothing is known, and leave it as it is
	toCopy    // likewise, and write another file
)

// dsn names the file and sets up every connection to it.
//
// synchronous is FULL, since NORMAL can forget a commit when power is lost
// (https://sqlite.org/pragma.html#pragma_synchronous), and a forgotten claim is
// an effect that happens twice. On macOS only F_FULLFSYNC reaches the disk.
func dsn(path string, r role, o Options) string {
	v := url.Values{}
	pragma := func(name, value string) { v.Add("_pragma", name+"("+value+")") }
	v.Set("_busy_timeout", strconv.FormatInt(o.BusyTimeout.Milliseconds(), 10))
	if v.Set("_synchronous", "FULL"); o.Unsynced {
		v.Set("_synchronous", "OFF")
	}
	v.Set("_foreign_keys", "on")
	v.Set("_dqs", "0")
	v.Set("_defensive", "1")
	switch r { // what is away is not made anew (https://sqlite.org/uri.html)
	case toWrite, toRead:
		v.Set("mode", "rw")
	case toExamine, toCopy:
		v.Set("mode", "ro")
	}
	switch r {
	case toCreate:
		v.Set("_auto_vacuum", "INCREMENTAL") // of effect only in a file that is still empty
	case toRead, toExamine:
		v.Set("_query_only", "on")
	case toWrite:
		v.Set("_journal_mode", "WAL")
	}
	pragma("wal_autocheckpoint", strconv.Itoa(checkpointPages))
	pragma("journal_size_limit", strconv.Itoa(maxIdleLogBytes))
	if runtime.GOOS == "darwin" {
		pragma("fullfsync", "on")
		pragma("checkpoint_fullfsync", "on")
	}
	return "file:" + escaped(path) + "?" + v.Encode()
}

// escaped writes a path as the path of a URI, in which SQLite decodes %HH, and
// expects a drive letter behind a slash (https://sqlite.org/uri.html).
func escaped(path string) string {
	path = filepath.ToSlash(path)
	if filepath.VolumeName(path) != "" && !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Path: path}).EscapedPath()
}
