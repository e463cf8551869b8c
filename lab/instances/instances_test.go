package instances

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	gen "github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

func draw(t testing.TB, kind string, seed uint64, set map[string]string) *trace.Trace {
	t.Helper()
	got, err := gen.Generate(kind, seed, set)
	require.NoError(t, err)
	return got
}

// The instances do not change by accident: figures measured on them would no longer compare.
func TestPinned(t *testing.T) {
	for kind, want := range map[string]string{"weibull": "7f797ffe23b9d33f", "orlib": "e8c5f66b5fe1bbc0", "wide": "4266aa2311d0b6bc"} {
		tr := draw(t, kind, 1, map[string]string{"n": "50"})
		dir := filepath.Join(t.TempDir(), kind)
		require.NoError(t, tr.Write(dir))
		back, err := trace.Load(dir)
		require.NoError(t, err)
		assert.Equal(t, tr.Events, back.Events)
		assert.Equal(t, tr.Source, back.Source)
		sum := sha256.New()
		for _, name := range []string{"machines.csv", "apps.csv", "rules.csv", "events.csv"} {
			content, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			sum.Write(content)
		}
		assert.Equal(t, want, hex.EncodeToString(sum.Sum(nil))[:16], kind)
		assert.NotEqual(t, tr.Requests, draw(t, kind, 2, map[string]string{"n": "50"}).Requests)
	}
}

func TestErrors(t *testing.T) {
	_, err := gen.Generate("orlib", 1, map[string]string{"n": "1.5"})
	require.EqualError(t, err, "generate orlib: n=1.5 is not a whole number")
}

func TestOneDimensional(t *testing.T) {
	for _, tt := range []struct {
		kind      string
		n         int
		capacity  int64
		low, high int64
		bins      float64 // volume bound, mean
	}{
		{"weibull", 5000, 100, 1, 100, 2011}, // mean size 45·Γ(4/3) = 40.18
		{"orlib", 500, 150, 20, 100, 200.5},  // 60·500/150, rounded up
	} {
		bins := 0.
		for seed := range uint64(30) {
			tr := draw(t, tt.kind, seed, nil)
			inst := tr.Instance
			require.Len(t, tr.Requests, tt.n)
			require.Equal(t, []int64{tt.capacity}, inst.Machines[0].Capacity)
			for _, app := range inst.Apps {
				require.True(t, app.Demand[0] >= tt.low && app.Demand[0] <= tt.high)
				require.Equal(t, app.Name, fmt.Sprint(app.Demand[0]))
			}
			require.InDelta(t, tt.n-1, tr.Events[tt.n-1].Time, 0)
			bins += float64(bound.Volume(inst, items(tr)).Machines) / 30
		}
		assert.InEpsilon(t, tt.bins, bins, .015)
	}
}

// items counts the items of each app.
func items(tr *trace.Trace) []int64 {
	counts := make([]int64, len(tr.Instance.Apps))
	for _, r := range tr.Requests {
		counts[r.App] += int64(r.Count)
	}
	return counts
}
