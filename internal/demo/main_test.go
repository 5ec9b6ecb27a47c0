package demo

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built.folder != "" {
			_ = os.RemoveAll(built.folder)
		}
		os.Exit(code)
	}))
}

// built is the program, built for the first test that runs it.
var built struct {
	once   sync.Once
	folder string
	err    error
	said   []byte
}

func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "mcp-idem-demo-test-"); built.err == nil {
			built.said, built.err = exec.Command("go", "build", "-o", built.folder, "../../cmd/mcp-idem").CombinedOutput()
		}
	})
	require.NoError(t, built.err, "%s", built.said)
	return filepath.Join(built.folder, "mcp-idem")
}

// demoProcess is a demo, not yet started, whose files are in a folder of its own.
func demoProcess(t *testing.T, args ...string) (cmd *exec.Cmd, stdout *bytes.Buffer, folder string) {
	t.Helper()
	folder, stdout = t.TempDir(), &bytes.Buffer{}
	cmd = exec.CommandContext(t.Context(), program(t), append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+folder, "TMP="+folder)
	cmd.Stdout = stdout
	return cmd, stdout, folder
}

func requireEmpty(t *testing.T, folder string) {
	t.Helper()
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left, "files are left behind")
}
