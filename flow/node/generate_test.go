package node

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The committed object and its bindings are what the compiler makes of observe.c.
func TestGenerated(t *testing.T) {
	for _, tool := range []string{"clang-14", "llvm-strip-14"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not here: %v", tool, err)
		}
	}
	dir := t.TempDir()
	text, err := os.ReadFile("generate.go")
	require.NoError(t, err)
	_, line, found := bytes.Cut(text, []byte("//go:generate "))
	require.True(t, found)
	// The line of generate.go, but the results go elsewhere.
	command := "export GOPACKAGE=node; " + string(bytes.Replace(bytes.TrimSpace(line), []byte("bpf2go "), []byte("bpf2go -output-dir "+dir+" "), 1))
	out, err := exec.CommandContext(t.Context(), "bash", "-c", command).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range []string{"observe_bpfel.o", "observe_bpfel.go"} {
		want, err := os.ReadFile(name)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s differs from what observe.c gives: run go generate ./flow/node", name)
	}
}
