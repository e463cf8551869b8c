package generate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Single pods come and go when the items of the requests do, in the same order.
func TestSingle(t *testing.T) {
	type step struct {
		time float64
		kind trace.Kind
		app  int32
	}
	steps := func(tr *trace.Trace) (out []step) {
		for _, e := range tr.Events {
			for range e.Count {
				out = append(out, step{e.Time, e.Kind, tr.Requests[e.Request].App})
			}
		}
		return out
	}
	for _, kind := range []string{"large", "large2d", "large3d", "fixed"} {
		for _, departures := range []string{"0", ".5"} {
			whole := generate(t, kind, 3, map[string]string{"scale": ".2", "departures": departures})
			require.NotContains(t, whole.Source["parameters"], "single", kind)
			tr := generate(t, kind, 3, map[string]string{"scale": ".2", "departures": departures, "single": "1"})
			assert.Equal(t, 1, tr.Source["parameters"].(map[string]any)["single"])
			assert.Equal(t, whole.Instance, tr.Instance)
			assert.Greater(t, len(tr.Requests), len(whole.Requests))
			for _, r := range tr.Requests {
				require.EqualValues(t, 1, r.Count)
			}
			assert.Equal(t, steps(whole), steps(tr), "%s departures %s", kind, departures)
		}
	}
}
