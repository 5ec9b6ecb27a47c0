package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// watchEvery is how often the configuration is looked at. Looking beats being told:
// editors and orchestrators put files in place in ways of their own.
const watchEvery = time.Second

// watch calls changed whenever the text of the file is another, or on SIGHUP, until
// ctx ends.
func (s *serveSettings) watch(ctx context.Context, changed func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last := s.textOf()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			last = s.textOf()
			changed()
		case <-tick.C:
			// A file that is away is about to be put in place.
			if now := s.textOf(); now != nil && !bytes.Equal(now, last) {
				last = now
				changed()
			}
		}
	}
}

// textOf is a digest of the file's text, nil where it cannot be read.
func (s *serveSettings) textOf() []byte {
	text, err := os.ReadFile(s.file)
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(text)
	return sum[:]
}
