package trace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// loading is the trace that Load finds in files.
func digests(t *testing.T, tr *trace.Trace) [2]string {
	t.Helper()
	instance, whole, err := tr.Digests()
	require.NoError(t, err)
	return [2]string{instance, whole}
}

func TestRoundTrip(t *testing.T) {
	for _, name := range []string{"small", "devices"} {
		t.Run(name, func(t *testing.T) {
			read, err := trace.Load(filepath.Join("testdata", name))
			require.NoError(t, err)
			dir := filepath.Join(t.TempDir(), "deep", name)
			require.NoError(t, read.Write(dir))
			again, err := trace.Load(dir)
			require.NoError(t, err)
			require.Equal(t, digests(t, read), digests(t, again))
			for _, f := range []string{"trace.yaml", "machines.csv", "apps.csv", "rules.csv", "placed.csv", "events.csv"} {
				b, err := os.ReadFile(filepath.Join(dir, f))
				require.NoError(t, err)
				t.Log(f + "\n" + string(b))
			}
		})
	}
}
