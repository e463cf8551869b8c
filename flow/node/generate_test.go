package node

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The committed objects and their bindings are what the compiler makes of the C files.
func TestGenerated(t *testing.T) {
	for _, tool := range []string{"clang-14", "llvm-strip-14"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not here: %v", tool, err)
		}
	}
	dir := t.TempDir()
	text, err := os.ReadFile("generate.go")
	require.NoError(t, err)
	lines := bytes.Split(text, []byte("//go:generate "))[1:]
	require.Len(t, lines, 2)
	for _, line := range lines {
		// The lines of generate.go, but the results go elsewhere.
		command := "export GOPACKAGE=node; " + string(bytes.Replace(bytes.TrimSpace(line), []byte("bpf2go "), []byte("bpf2go -output-dir "+dir+" "), 1))
		out, err := exec.CommandContext(t.Context(), "bash", "-c", command).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	for _, name := range []string{"observe_bpfel.o", "observe_bpfel.go", "order_bpfel.o", "order_bpfel.go"} {
		want, err := os.ReadFile(name)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s differs from what its C file gives: run go generate ./flow/node", name)
	}
}
