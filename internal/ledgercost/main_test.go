package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the processes that it measures.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		exitOn(runChild(os.Args[1:]))
		return
	}
	os.Exit(m.Run())
}

func TestEveryFigureIsTaken(t *testing.T) {
	folder := t.TempDir()
	for _, l := range []ledger{{path: filepath.Join(folder, "new.db"), calls: 64}} {
		f, err := l.measure()
		require.NoError(t, err)
		for _, figure := range f {
			if figure.value >= 0 {
				assert.NotZero(t, figure.value, figure.name)
			}
		}
	}
	require.NoError(t, run(folder, 100, 64))
	assert.FileExists(t, filepath.Join(folder, "ledger-100.db"), "for the next run")
}
