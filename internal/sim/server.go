package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/mcp-idem/mcp-idem/internal/filelock"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// serverWord is the first argument by which this program knows that it is to be the
// scripted server. The second is the folder of the living, the rest are its flags.
const serverWord = "server"

// serve is the scripted server, which holds a lock while it lives. A gateway that is
// killed leaves its server behind, and it may still act on what it has read: a person
// who looks for an effect waits for the end of who could yet have it.
func serve(args []string) int {
	lock, err := beAlive(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer runtime.KeepAlive(lock)
	return upstreamtest.Run(args[1:])
}

// beAlive puts a file into the folder that is locked until the process ends, and was
// from the moment at which it was there.
func beAlive(folder string) (*os.File, error) {
	f, err := os.CreateTemp(folder, "starting-")
	if err != nil {
		return nil, err
	}
	if err := filelock.Lock(f); err != nil {
		return nil, err
	}
	return f, os.Rename(f.Name(), f.Name()+alive)
}

const alive = ".alive"

// living are the servers that live, by their files.
func living(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"+alive))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		held, err := filelock.Held(f)
		_ = f.Close() // nothing was written
		if err != nil {
			return nil, err
		}
		if held {
			found = append(found, file)
		}
	}
	return found, nil
}

// anyOf reports whether one of the servers lives still.
func anyOf(servers, living []string) bool {
	return slices.ContainsFunc(servers, func(s string) bool { return slices.Contains(living, s) })
}
