package tune

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// TestScenarios: trainings see whole days that are led in, a few days in several draws, and no draw that judges.
func TestScenarios(t *testing.T) {
	for name, tc := range map[string]struct {
		traces         []*trace.Trace
		windows, built int // of which so many are built
	}{
		"one day":    {[]*trace.Trace{lasting(24)}, 8, 3},
		"two days":   {[]*trace.Trace{lasting(48)}, 8, 3},
		"three days": {[]*trace.Trace{lasting(72)}, 8, 0},
		"a week":     {[]*trace.Trace{lasting(168)}, 9, 0},
		"ten days":   {[]*trace.Trace{lasting(240)}, 10, 0},
	} {
		r := divided(t, 0, tc.traces...)
		got := r.scenarios()
		require.Len(t, got, tc.windows, name)
		for i, w := range got[tc.built:] {
			end := w.Events[len(w.Events)-1].Time
			require.GreaterOrEqual(t, end-w.Events[0].Time, day+20*hour, "%s: a day leads in", name)
			require.InDelta(t, day, end-w.MeasureFrom, 2*hour, "%s: a day counts", name)
			for _, other := range got[:tc.built+i] {
				require.NotEqual(t, other.Events, w.Events, "%s: another draw", name)
			}
		}
	}
	r := divided(t, 0, lasting(12))
	built := r.scenarios()
	require.Len(t, built, 8)
	require.Equal(t, day, built[0].MeasureFrom)
	r = divided(t, 0, lasting(24))
	for _, part := range [][]span{r.split.validate, r.split.test} {
		d := r.draws(part)
		for order := range d.count {
			judged := ledIn(r.traces, part, r.cfg.Seed, d.first+order, d.count)[0]
			for _, w := range r.scenarios() {
				require.NotEqual(t, judged.Events, w.Events)
			}
		}
	}
	fill := lasting(24)
	fill.Events = slices.DeleteFunc(fill.Events, func(e trace.Event) bool { return e.Kind == trace.Delete })
	require.Equal(t, []*trace.Trace{fill, fill}, divided(t, 0, fill, fill, fill, fill).scenarios())
}

// TestDeciding: a training begins with the file that decides under the policy in force, and under a rule with the one
// that decides under the installed policy.
func TestDeciding(t *testing.T) {
	r := divided(t, 0, wasteful(t))
	of := func(name string) *policy.Object {
		r.cfg.InForce, r.cfg.Target = name, Live
		o, err := r.deciding()
		require.NoError(t, err)
		return o
	}
	installed := of("learned")
	require.Equal(t, "linear", installed.Spec.Model)
	p, err := installed.Policy()
	require.NoError(t, err)
	own, err := judge(t.Context(), r.traces, r.split.validate, []*candidate{{policy: p}, must(r.inForce())}, draws{count: 1}, 1, 1)
	require.NoError(t, err)
	require.Equal(t, own[1], own[0], "it decides all")
	require.Equal(t, installed, of("bestfit"))

	mine := *installed
	mine.Metadata.Name, mine.Spec.Mode = "mine", policy.DefaultMode
	mine.Spec.Weights = slices.Clone(mine.Spec.Weights)
	mine.Spec.Weights[0]++
	path := t.TempDir() + "/mine.yaml"
	require.NoError(t, mine.Save(path))
	require.Equal(t, mine.Spec.Weights, of(path).Spec.Weights)
	list, err := r.methods()
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "linear K0 from mine", list[0].String())
	require.Equal(t, slices.Concat(mine.Spec.Features, slices.Sorted(maps.Keys(mine.Spec.Parameters))), list[0].features)
	r.cfg.Target, r.cfg.InForce = Offline, "learned"
	list, err = r.methods()
	require.NoError(t, err)
	require.Equal(t, method{model: "linear", knowledge: binpack.K1Clock}, list[1])
	r.cfg.Target = EKS
	list, err = r.methods()
	require.NoError(t, err)
	require.Equal(t, policy.RuleModel, list[0].model)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestNear: a training near a file is a candidate that the days judge, and the file that it writes names its start.
func TestNear(t *testing.T) {
	cfg := Config{Traces: []*trace.Trace{wasteful(t)}, Target: Live, InForce: "worstfit", Evaluations: 12, Seeds: 1, Seed: 1, Workers: 2, Name: "p"}
	out, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, "other draws of hours 0 to 24, 3 built days", out.Parts.Train)
	at := slices.IndexFunc(out.Validation, func(r Row) bool { return r.Kind == trained })
	require.Positive(t, at)
	require.Regexp(t, "^linear K0 from .*, seed 1$", out.Validation[at].Policy)
}
