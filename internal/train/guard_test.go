package train

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/swarm"
)

// gpuTrace is two machines of two GPUs to which two shares of .5 come, then an
// item of two GPUs and one of cpu alone.
func gpuTrace() *trace.Trace {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "gpu", Unit: "m", One: 1000, Device: true}},
		Types:      []string{""},
		Machines:   []binpack.MachineLine{{Name: "m", Count: 2, Cost: 1, Capacity: []int64{10, 2000}}},
	}
	t := &trace.Trace{Name: "gpu", Instance: inst}
	for a, demand := range [][]int64{{1, 500}, {2, 2000}, {8, 0}} {
		inst.Groups = append(inst.Groups, binpack.Group{})
		inst.Apps = append(inst.Apps, binpack.App{Group: int32(a), Demand: demand, Expected: -1, Lifetime: -1})
	}
	for i, app := range []int32{0, 0, 1, 2} {
		t.Requests = append(t.Requests, trace.Request{App: app, Count: 1})
		t.Events = append(t.Events, trace.Event{Time: float64(i), Kind: trace.Create, Request: int32(i), Count: 1})
	}
	return t
}

// TestGuard: a policy that spreads shares leaves the item of two GPUs out, which
// is all of its class; Best-Fit leaves out nothing. So the guard charges its price.
func TestGuard(t *testing.T) {
	objective := func(guard float64, weight float64) float64 {
		cfg := Config{
			Traces: []*trace.Trace{gpuTrace()}, Model: "devices", Features: []string{"cpu@shared"},
			Evaluations: 1, Risk: 0, Guard: guard,
		}
		require.NoError(t, cfg.complete())
		sp, err := newSpace(&cfg)
		require.NoError(t, err)
		e, err := newEvaluator(t.Context(), &cfg, sp)
		require.NoError(t, err)
		v, _, err := e.objective(context.Background(), swarm.Task{X: []float64{weight}})
		require.NoError(t, err)
		return v
	}
	require.InDelta(t, 0, objective(0, -1), 1e-9, "shares stand together: all fit")
	require.InDelta(t, 0, objective(7, -1), 1e-9)
	free := objective(0, 1)
	require.Positive(t, free)
	require.InDelta(t, free+7, objective(7, 1), 1e-9)
}

// TestGuardClasses: no device, a share, 1, 2 and 3, 4 to 7, 8 and more.
func TestGuardClasses(t *testing.T) {
	tr := gpuTrace()
	tr.Instance.Apps = nil
	for _, gpu := range []int64{0, 100, 1000, 2000, 3000, 4000, 7000, 8000, 999, 0} {
		tr.Instance.Apps = append(tr.Instance.Apps, binpack.App{Demand: []int64{1, gpu}})
	}
	tr.Requests = []trace.Request{{App: 1, Count: 3}, {App: 8, Count: 2}, {App: 0, Count: 1}}
	class, items := classesOf(tr)
	require.Equal(t, []int{0, 1, 2, 3, 3, 4, 4, 5, 1, 0}, class)
	require.Equal(t, []float64{1, 5, 0, 0, 0, 0}, items)
}

// TestGuardReference: the policy that it compares with decides, and what is
// wrong with it is an error.
func TestGuardReference(t *testing.T) {
	cfg := smallConfig(1, 1)
	cfg.Evaluations, cfg.Guard, cfg.Reference = 1, 1, "bestfitt"
	_, err := Run(context.Background(), cfg)
	require.ErrorContains(t, err, `unknown policy "bestfitt"`)
	cfg.Guard = -1
	_, err = Run(context.Background(), cfg)
	require.ErrorContains(t, err, "guard -1: want at least 0")
	cfg.Guard, cfg.Reference = 2, "worstfit"
	object, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	require.Equal(t, 2.0, object.Spec.Provenance["guard"])
	require.Equal(t, "worstfit", object.Spec.Provenance["reference"])
}
