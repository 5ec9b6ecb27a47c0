package demo

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDemo_LeavesNothingBehindWhenInterrupted(t *testing.T) {
	t.Parallel()
	for _, run := range []string{"straight", "protected"} {
		t.Run("in the "+run+" run", func(t *testing.T) {
			t.Parallel()
			cmd, stdout, folder := demoProcess(t, "--calls", "200")
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())

			lines := bufio.NewScanner(stderr)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), run+":") {
			}
			require.NotEmpty(t, processesIn(t, folder), "the demo's processes can be found")
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			said := ""
			for lines.Scan() {
				said = lines.Text()
			}
			var exit *exec.ExitError
			require.ErrorAs(t, cmd.Wait(), &exit)
			assert.Equal(t, 1, exit.ExitCode())
			assert.Equal(t, "mcp-idem: "+ErrInterrupted.Error(), said)
			assert.NotContains(t, stdout.String(), "effects", "there is no table of half an experiment")
			requireEmpty(t, folder)
			require.Eventually(t, func() bool { return len(processesIn(t, folder)) == 0 }, 5*time.Second, 5*time.Millisecond)
		})
	}
}

// processesIn returns the processes whose environment names the folder.
func processesIn(t *testing.T, folder string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			continue // ESRCH: it ended while it was read
		}
		if bytes.Contains(environ, []byte("TMPDIR="+folder+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
