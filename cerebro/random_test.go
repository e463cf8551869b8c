package cerebro_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// levels are all levels of knowledge.
var levels = []binpack.Knowledge{binpack.K0, binpack.K0Clock, binpack.K1, binpack.K1Clock, binpack.K2}

// linear is a policy with all features at a level, but for press, which takes the place of slot.
func linear(t testing.TB, know binpack.Knowledge) binpack.Policy {
	t.Helper()
	object := policy.Object{
		APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: "all"},
		Spec: policy.Spec{
			FeatureVersion: policy.FeatureVersion, Model: "linear", Knowledge: know.String(),
			Features:   slices.DeleteFunc(policy.ModelOf("linear").FeatureNames(), func(name string) bool { return name == "press" }),
			Weights:    []float64{-.31, .17, -.2, .3, -.05, .11, -.8, .5, .13, .07, -.9, .4, .2, -.1, .3, .4, .25, .15, -.12, .06},
			Parameters: map[string]float64{"eta": 1.7, "z": -.1, "q": 1.2},
		},
	}
	if !know.Forecast() && know != binpack.K2 {
		object.Spec.Parameters["alpha"] = 1.1
	}
	p, err := object.Policy()
	require.NoError(t, err)
	return p
}

type named struct {
	name string
	binpack.Policy
}

// policies are all built-in ones, the linear one at each level, and one for devices.
func policies(t testing.TB) []named {
	t.Helper()
	var list []named
	for _, name := range rule.Names() {
		p, err := rule.ByName(name, rule.Options{Seed: 4})
		require.NoError(t, err)
		list = append(list, named{name, p})
	}
	for _, know := range levels {
		list = append(list, named{"linear-" + know.String(), linear(t, know)})
	}
	for _, know := range []binpack.Knowledge{binpack.K0, binpack.K1} {
		list = append(list, named{"devices-" + know.String(), devices(t, know)})
	}
	return list
}

// devices is a policy with all features of the model devices at a level.
func devices(t testing.TB, know binpack.Knowledge) binpack.Policy {
	t.Helper()
	object := policy.Object{
		APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: "all"},
		Spec: policy.Spec{
			FeatureVersion: policy.FeatureVersion, Model: "devices", Knowledge: know.String(),
			Features: policy.ModelOf("devices").FeatureNames(),
		},
	}
	for i := range object.Spec.Features {
		object.Spec.Weights = append(object.Spec.Weights, float64(7*i%11)/10-.5)
	}
	p, err := object.Policy()
	require.NoError(t, err)
	return p
}

func oneOf[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// randomTrace draws a small trace in which everything meets: several
// dimensions, some of them devices, types, groups of several apps, limits,
// spread, rules, initial items without devices, deletes, forecasts.
func randomTrace(rng *rand.Rand, devices bool) *trace.Trace {
	inst := &binpack.Instance{Fleet: oneOf(rng, binpack.Fixed, binpack.Open), Types: []string{"x", "y"}}
	for d := range 1 + rng.IntN(3) {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: fmt.Sprint("d", d), One: 1})
	}
	if devices {
		for d := range 1 + rng.IntN(2) {
			inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: fmt.Sprint("gpu", d), Unit: "m", One: 1000, Device: true})
		}
	}
	for line := range 1 + rng.IntN(4) {
		ml := binpack.MachineLine{
			Name: fmt.Sprint("m", line), Type: int32(rng.IntN(2)), Count: 1 + rng.IntN(4), Cost: oneOf(rng, 1, 1, 2.5),
		}
		if inst.Fleet == binpack.Open && rng.IntN(2) == 0 {
			ml.Count = binpack.Unlimited
		}
		for _, dim := range inst.Dimensions {
			if dim.Device {
				ml.Capacity = append(ml.Capacity, int64(rng.IntN(5))*dim.One)
			} else {
				ml.Capacity = append(ml.Capacity, oneOf[int64](rng, 12, 20, 9))
			}
		}
		inst.Machines = append(inst.Machines, ml)
	}
	for a := range 2 + rng.IntN(8) {
		app := binpack.App{Name: fmt.Sprint("a", a), Expected: oneOf(rng, -1, 0, 2.5, 7), Lifetime: oneOf[float64](rng, -1, 10)}
		if a == 0 || rng.IntN(4) > 0 { // else it joins a group
			inst.Groups = append(inst.Groups, binpack.Group{
				Name: app.Name, Limit: oneOf[int32](rng, 0, 0, 1, 2, 3), SpreadMin: oneOf[int32](rng, 0, 0, 0, 2, 4),
			})
			app.Group = int32(len(inst.Groups) - 1)
		} else {
			app.Group = int32(rng.IntN(len(inst.Groups)))
		}
		if rng.IntN(4) == 0 {
			app.Types = []int32{inst.Machines[rng.IntN(len(inst.Machines))].Type}
		}
		for _, dim := range inst.Dimensions {
			if dim.Device {
				app.Demand = append(app.Demand, oneOf(rng, 0, 0, 250, 400, 500, 700, dim.One, 2*dim.One))
			} else {
				app.Demand = append(app.Demand, oneOf[int64](rng, 1, 2, 3, 5, 0, 7))
			}
		}
		inst.Apps = append(inst.Apps, app)
	}
	for range rng.IntN(7) {
		a, b := int32(rng.IntN(len(inst.Groups))), int32(rng.IntN(len(inst.Groups)))
		if a != b && !slices.ContainsFunc(inst.Rules, func(r binpack.Rule) bool { return r.A == a && r.B == b }) {
			inst.Rules = append(inst.Rules, binpack.Rule{A: a, B: b, Max: int32(rng.IntN(3))})
		}
	}
	t := &trace.Trace{Name: "random", Instance: inst, MeasureFrom: oneOf(rng, math.NaN(), 5)}
	randomEvents(rng, t)
	return t
}

func randomEvents(rng *rand.Rand, t *trace.Trace) {
	var left []int32
	now := 0.0
	for range 60 {
		now += oneOf(rng, 0, .5, 1.25)
		if q := rng.IntN(len(left) + 1); q < len(left) && rng.IntN(2) == 0 && left[q] > 0 {
			n := 1 + rng.Int32N(left[q])
			left[q] -= n
			t.Events = append(t.Events, trace.Event{Time: now, Kind: trace.Delete, Request: int32(q), Count: n})
			continue
		}
		count := 1 + rng.Int32N(5)
		t.Events = append(t.Events, trace.Event{Time: now, Request: int32(len(t.Requests)), Count: count})
		t.Requests = append(t.Requests, trace.Request{Name: fmt.Sprint("r", len(t.Requests)), App: rng.Int32N(int32(len(t.Instance.Apps))), Count: count})
		left = append(left, count)
	}
}

// viaFiles is the trace as read back from files, and where they are.
func viaFiles(t testing.TB, tr *trace.Trace) (back *trace.Trace, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "trace")
	require.NoError(t, tr.Write(dir))
	back, err := trace.Load(dir)
	require.NoError(t, err)
	return back, dir
}

func itemsOf(tr *trace.Trace) int {
	n := 0
	for _, q := range tr.Requests[tr.Initial:] {
		n += int(q.Count)
	}
	return n
}

// TestAllPolicies replays random and generated traces under every policy: no
// constraint is broken, every item is accounted for. A second checker, of
// another author and in another language, reads the written placements.
func TestAllPolicies(t *testing.T) {
	judge := newJudge(t)
	traces := map[string]*trace.Trace{}
	for seed := range uint64(12) {
		traces[fmt.Sprint("random-", seed)] = randomTrace(rand.New(rand.NewPCG(seed, 9)), seed%3 == 2)
	}
	for kind, set := range map[string]map[string]string{
		"small": nil, "large": {"scale": ".05"}, "large2d": {"scale": ".05"}, "large3d": {"scale": ".05"},
		"fixed": {"scale": ".05", "f": ".95"}, "churn": {"scale": ".05", "days": "1"},
	} {
		tr, err := generate.Generate(kind, 3, set)
		require.NoError(t, err)
		traces[kind] = tr
	}
	for name, tr := range traces {
		t.Run(name, func(t *testing.T) {
			tr, dir := viaFiles(t, tr)
			r := cerebro.NewReplayer(tr)
			for i, p := range policies(t) {
				opt := cerebro.Options{Check: true, Retry: i%2 == 1}
				file := filepath.Join(t.TempDir(), "placements.csv")
				run := write(t, r, p, opt, file)
				assert.Zero(t, run.Violations, p.name)
				assert.Empty(t, run.Fallbacks, p.name)
				assert.Equal(t, itemsOf(tr), run.Placed+run.Unplaced, p.name)
				if i%9 == len(name)%9 { // python is slow
					judge(t, dir, file, run)
				}
			}
		})
	}
}

// write replays in file order and writes the placements.
func write(t *testing.T, r *cerebro.Replayer, p binpack.Policy, opt cerebro.Options, path string) cerebro.Run {
	t.Helper()
	tr := r.Trace()
	file, err := trace.CreatePlacements(path)
	require.NoError(t, err)
	defer file.Close()
	opt.Record = func(d cerebro.Decision) {
		q := tr.Requests[d.Request]
		placement := trace.Placement{
			Time: d.Time, Request: q.Name, Item: int(d.Item), App: tr.Instance.Apps[q.App].Name, Kind: d.Kind.String(),
		}
		if d.Machine >= 0 {
			placement.Machine = tr.MachineName(r.State().Position(d.Machine))
			placement.Devices = trace.FormatDevices(tr.Instance, d.Devices)
		}
		require.NoError(t, file.Write(placement))
	}
	run, err := r.Run(p, opt)
	require.NoError(t, err)
	require.NoError(t, file.Commit())
	return run
}

// newJudge is the independent checker tools/check.py beside the public data;
// without it nothing is judged, and the test says so. With SIGMA_DATA set it
// must be there.
func newJudge(t *testing.T) func(t *testing.T, dir, placements string, run cerebro.Run) {
	t.Helper()
	data := os.Getenv("SIGMA_DATA")
	if data == "" {
		data = filepath.Join("..", "..", "shared", "data")
	}
	script, err := filepath.Abs(filepath.Join(data, "..", "tools", "check.py"))
	require.NoError(t, err)
	_, err = os.Stat(script)
	python, lookErr := exec.LookPath("python3")
	if err = errors.Join(err, lookErr); err != nil {
		t.Logf("without the second checker: %v", err)
		return func(*testing.T, string, string, cerebro.Run) {}
	}
	return func(t *testing.T, dir, placements string, run cerebro.Run) {
		t.Helper()
		out, err := exec.Command(python, script, dir, placements).CombinedOutput()
		require.NoError(t, err, "%s", out)
		want := fmt.Sprintf("machines=%d peak=%d placed=%d unplaced=%d ", run.Machines, run.PeakMachines, run.Placed, run.Unplaced)
		require.True(t, bytes.HasPrefix(out, []byte(want)), "%s\nwant %s", out, want)
		require.Contains(t, string(out), "violations=0")
	}
}

// TestNothingLeaks: one replayer, used for policies and orders in turn, gives
// what a fresh one gives.
func TestNothingLeaks(t *testing.T) {
	traces := []*trace.Trace{
		randomTrace(rand.New(rand.NewPCG(1, 1)), false), randomTrace(rand.New(rand.NewPCG(2, 1)), true),
		tableTrace(t, "fleet: open\n", openMachines, tableEvents),
	}
	churn, err := generate.Generate("churn", 5, map[string]string{"scale": ".05", "days": ".5"})
	require.NoError(t, err)
	for i, tr := range append(traces, churn) {
		shared := cerebro.NewReplayer(tr)
		for round := range 2 {
			for j, p := range policies(t) {
				opt := cerebro.Options{Order: (j + round) % 3, Seed: uint64(j % 2), Retry: (j+round)%2 == 0, Samples: j % 4, Check: j%3 == 0}
				got, gotLines := replay(t, shared, p, opt)
				want, wantLines := replay(t, cerebro.NewReplayer(tr), p, opt)
				require.Equal(t, want, got, "trace %d, %s", i, p.name)
				require.Equal(t, wantLines, gotLines)
			}
		}
	}
}

// TestDevicesAreFreed: after everything is deleted the fleet is as it was.
func TestDevicesAreFreed(t *testing.T) {
	devices := 0
	for seed := range uint64(40) {
		tr := randomTrace(rand.New(rand.NewPCG(seed, 7)), true)
		left := map[int32]int32{}
		for _, e := range tr.Events {
			if e.Kind == trace.Create {
				left[e.Request] = e.Count
			} else {
				left[e.Request] -= e.Count
			}
		}
		last := tr.Events[len(tr.Events)-1].Time
		for q := range int32(len(tr.Requests)) {
			if left[q] > 0 {
				tr.Events = append(tr.Events, trace.Event{Time: last + 1, Kind: trace.Delete, Request: q, Count: left[q]})
			}
		}
		r := cerebro.NewReplayer(tr)
		run, err := r.Run(lowest, cerebro.Options{Check: true, Record: func(d cerebro.Decision) {
			if d.Kind == cerebro.Place {
				devices += len(d.Devices)
			}
		}})
		require.NoError(t, err)
		require.Zero(t, run.Violations)
		require.Zero(t, run.Machines)
		s := r.State()
		for m := range int32(s.Size()) {
			for d, dim := range tr.Instance.Dimensions {
				require.Equal(t, s.Capacity(m)[d], s.Free(d)[m])
				if dim.Device {
					for _, share := range s.Devices(m, d) {
						require.Equal(t, dim.One, share)
					}
				}
			}
		}
	}
	require.Greater(t, devices, 500)
}
