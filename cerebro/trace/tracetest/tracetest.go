// Package tracetest has traces for tests.
package tracetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Converted runs sigma-lab convert, which the product does not import, and returns the trace of a
// public set.
func Converted(tb testing.TB, args ...string) *trace.Trace {
	tb.Helper()
	module, err := exec.CommandContext(tb.Context(), "go", "env", "GOMOD").Output()
	require.NoError(tb, err)
	lab := filepath.Join(filepath.Dir(strings.TrimSpace(string(module))), "lab")
	folder := filepath.Join(tb.TempDir(), "trace")
	// The files that a test opens are part of the key of its cached result.
	sources, err := filepath.Glob(filepath.Join(lab, "convert", "*.go"))
	require.NoError(tb, err)
	require.NotEmpty(tb, sources)
	for _, path := range sources {
		_, err := os.ReadFile(path)
		require.NoError(tb, err)
	}
	run := append([]string{"run", "-C", lab, "./cmd/sigma-lab", "convert", "--quiet", "--out", folder}, args...)
	cmd := exec.CommandContext(tb.Context(), "go", run...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // not built again in the race detector
	out, err := cmd.CombinedOutput()
	require.NoError(tb, err, string(out))
	t, err := trace.Load(folder)
	require.NoError(tb, err)
	return t
}
