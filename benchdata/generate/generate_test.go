package generate

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

func generate(t testing.TB, kind string, seed uint64, set map[string]string) *trace.Trace {
	t.Helper()
	got, err := Generate(kind, seed, set)
	require.NoError(t, err)
	return got
}

// tiny keeps the tests of every kind fast.
func tiny(kind string) map[string]string {
	switch kind {
	case "small":
		return nil
	case "kubernetes":
		return map[string]string{"nodes": "20", "days": ".5", "fleet": "fixed"}
	}
	return map[string]string{"scale": ".1"}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		kind string
		set  map[string]string
		want string
	}{
		{"huge", nil, `generate: unknown kind "huge"; there are small, large, large2d, large3d, fixed, churn, kubernetes`},
		{"small", map[string]string{"scale": "1"}, `generate small: unknown parameter "scale"; there are sigma, fleet, total`},
		{"small", map[string]string{"total": "1"}, `generate small: total="1": want unknown or known`},
		{"fixed", map[string]string{"f": "x"}, `generate fixed: f="x" is not a number`},
		{"large", map[string]string{"scale": "0"}, `generate large: scale=0 is not within 0.05 and 50`},
		{"large", map[string]string{"scale": "NaN"}, `generate large: scale=NaN is not within 0.05 and 50`},
		{"kubernetes", map[string]string{"f": "1.1"}, `generate kubernetes: f is for fleet=fixed`},
		{"kubernetes", map[string]string{"fleet": "two"}, `generate kubernetes: fleet="two": want one or open or fixed`},
		{"kubernetes", map[string]string{"nodes": "5001"}, `generate kubernetes: nodes=5001 is not within 0 and 5000`},
		{"large", map[string]string{"departures": "1.5"}, `generate large: departures=1.5 is not within 0 and 1`},
		{"large", map[string]string{"forecast": "0", "total": "known"}, `generate large: total=known scales a forecast, and forecast=0 is none`},
		{"large", map[string]string{"forecast": ".0001", "total": "known"}, `generate large: forecast=0.0001: want 0, which is none, or .01 to 100`},
		{"kubernetes", map[string]string{"forecast": ".009"}, `generate kubernetes: forecast=0.009: want 0, which is none, or .01 to 100`},
		{"kubernetes", map[string]string{"nodes": "1.5"}, `generate kubernetes: nodes=1.5 is not a whole number`},
	}
	for _, tt := range tests {
		_, err := Generate(tt.kind, 1, tt.set)
		assert.EqualError(t, err, tt.want)
	}
}

// Every kind survives a way through files, with the same seed giving the same
// bytes and another seed other requests.
func TestKinds(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			a := generate(t, k.Name, 7, tiny(k.Name))
			dir := filepath.Join(t.TempDir(), "trace")
			require.NoError(t, a.Write(dir))
			back, err := trace.Load(dir)
			require.NoError(t, err)
			assert.Equal(t, digest(t, a), digest(t, back))
			assert.Equal(t, a.Source, back.Source)
			assert.Equal(t, back.Events, a.Events)
			assert.Equal(t, "generated", a.Source["origin"])
			assert.Equal(t, 7, a.Source["seed"])
			assert.Equal(t, digest(t, a), digest(t, generate(t, k.Name, 7, tiny(k.Name))))
			assert.NotEqual(t, a.Requests, generate(t, k.Name, 8, tiny(k.Name)).Requests)
			for _, q := range k.Params {
				assert.True(t, q.Min <= q.Default && q.Default <= q.Max, q.Name)
			}
		})
	}
}

func digest(t testing.TB, tr *trace.Trace) string {
	t.Helper()
	_, whole, err := tr.Digests()
	require.NoError(t, err)
	return whole
}

// The standard instances do not change by accident: figures measured on them
// would no longer compare. The sums leave out trace.yaml, whose texts may.
func TestPinned(t *testing.T) {
	pinned := map[string]string{
		"small":      "fed169e0d2edb5f9",
		"large":      "9c57cbb3d0d22deb",
		"large2d":    "62acfbe3930099ec",
		"large3d":    "f02e7ae42eded1af",
		"fixed":      "9cef840170f7024f",
		"churn":      "7ff6a7882f4621cc",
		"kubernetes": "c6abca0df3c21991",
	}
	got := map[string]string{}
	for _, k := range Kinds() {
		dir := filepath.Join(t.TempDir(), k.Name)
		require.NoError(t, generate(t, k.Name, 1, tiny(k.Name)).Write(dir))
		sum := sha256.New()
		for _, name := range []string{"machines.csv", "apps.csv", "rules.csv", "events.csv"} {
			content, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			sum.Write(content)
		}
		got[k.Name] = fmt.Sprintf("%x", sum.Sum(nil)[:8])
	}
	assert.Equal(t, pinned, got)
}

// A fixed fleet changes the machines and nothing else.
func TestSmallFixed(t *testing.T) {
	open, fixed := generate(t, "small", 3, nil), generate(t, "small", 3, map[string]string{"fleet": "fixed"})
	assert.Equal(t, binpack.Fixed, fixed.Instance.Fleet)
	assert.Equal(t, 15, fixed.Instance.Machines[0].Count)
	assert.Equal(t, open.Instance.Apps, fixed.Instance.Apps)
	assert.Equal(t, open.Events, fixed.Events)
}

// The forecast's parameters change expected and nothing else.
func TestForecastHasItsOwnStream(t *testing.T) {
	for kind, set := range map[string]map[string]string{
		"small": {"sigma": ".7"},
		"large": {"forecast": "1.3", "noise": ".7"},
		"churn": {"forecast": "1.3", "noise": ".7"},

		"kubernetes": {"forecast": "1.3", "noise": ".7"},
	} {
		plain, other := tiny(kind), map[string]string{}
		maps.Copy(other, plain)
		maps.Copy(other, set)
		a, b := generate(t, kind, 3, plain), generate(t, kind, 3, other)
		assert.Equal(t, a.Events, b.Events, kind)
		assert.Equal(t, a.Requests, b.Requests, kind)
		assert.NotEqual(t, a.Instance.Apps, b.Instance.Apps, kind)
		for i := range a.Instance.Apps {
			b.Instance.Apps[i].Expected = a.Instance.Apps[i].Expected
		}
		assert.Equal(t, a.Instance, b.Instance, kind)
	}
}

// With the total known the forecast asks for the true cpu, and says so in the
// source; shares among the apps stay.
func TestTotalKnown(t *testing.T) {
	for _, kind := range []string{"small", "large", "large2d", "fixed"} {
		set := tiny(kind)
		a := generate(t, kind, 5, set)
		set = maps.Clone(set)
		if set == nil {
			set = map[string]string{}
		}
		set["total"] = "known"
		b := generate(t, kind, 5, set)
		assert.Equal(t, a.Requests, b.Requests, kind)
		want, got := 0., 0.
		for _, r := range b.Requests {
			want += float64(r.Count) * float64(b.Instance.Apps[r.App].Demand[0])
		}
		for i, app := range b.Instance.Apps {
			got += app.Expected * float64(app.Demand[0])
			ratio := app.Expected / a.Instance.Apps[i].Expected
			assert.InDelta(t, b.Instance.Apps[0].Expected/a.Instance.Apps[0].Expected, ratio, 1e-9, kind)
		}
		assert.InDelta(t, want, got, 1e-6, kind)
		assert.Equal(t, "known", b.Source["parameters"].(map[string]any)["total"], kind)
		assert.NotContains(t, a.Source["parameters"], "total", kind)
		dir := filepath.Join(t.TempDir(), "trace")
		require.NoError(t, b.Write(dir))
		back, err := trace.Load(dir)
		require.NoError(t, err)
		assert.Equal(t, digest(t, b), digest(t, back), kind)
	}
}

func TestForecastFactorAndNoise(t *testing.T) {
	a := generate(t, "large", 3, nil)
	b := generate(t, "large", 3, map[string]string{"forecast": "1.3"})
	c := generate(t, "large", 3, map[string]string{"noise": ".5"})
	var logs, squares float64
	for i, app := range a.Instance.Apps {
		assert.InDelta(t, 1.3, b.Instance.Apps[i].Expected/app.Expected, .01)
		x := math.Log(c.Instance.Apps[i].Expected / app.Expected)
		logs, squares = logs+x, squares+x*x
	}
	n := float64(len(a.Instance.Apps))
	assert.InDelta(t, -.125, logs/n, .08) // −.5²/2
	assert.InDelta(t, .5, math.Sqrt(squares/n-logs/n*logs/n), .06)
}

// Without a forecast the requests are the same, and nothing is expected.
func TestNoForecast(t *testing.T) {
	for _, kind := range []string{"large", "kubernetes"} {
		some, none := tiny(kind), tiny(kind)
		none["forecast"] = "0"
		a, b := generate(t, kind, 3, some), generate(t, kind, 3, none)
		assert.Equal(t, a.Events, b.Events, kind)
		for i, app := range b.Instance.Apps {
			assert.Positive(t, a.Instance.Apps[i].Expected, kind)
			assert.InDelta(t, -1, app.Expected, 0, kind)
		}
	}
}

func TestChurn(t *testing.T) {
	const seeds = 3
	var ratio, peak, mean, daytime, night float64
	for seed := range uint64(seeds) {
		tr := generate(t, "churn", seed, nil)
		require.InDelta(t, 172800, tr.MeasureFrom, 0)
		inst := tr.Instance
		var changes []bound.Change
		left := make([]int32, len(tr.Requests))
		created := make([]float64, len(tr.Requests))
		living := make([]float64, len(inst.Apps)) // item-seconds in the measured half
		until := 4. * day
		last := trace.Event{Kind: trace.Delete}
		for _, e := range tr.Events {
			r := tr.Requests[e.Request]
			require.True(t, last.Time < e.Time || last.Time == e.Time && last.Kind >= e.Kind, "deletes first")
			last = e
			span := until - max(e.Time, tr.MeasureFrom)
			if e.Kind == trace.Create {
				left[e.Request], created[e.Request] = r.Count, e.Time
				living[r.App] += float64(r.Count) * span
				changes = append(changes, bound.Change{Time: e.Time, App: r.App, Count: r.Count})
				if math.Sin(2*math.Pi*e.Time/day) > 0 {
					daytime++
				} else {
					night++
				}
				continue
			}
			require.Equal(t, int32(1), e.Count)
			require.Greater(t, e.Time, created[e.Request])
			left[e.Request]--
			require.GreaterOrEqual(t, left[e.Request], int32(0))
			living[r.App] -= span
			changes = append(changes, bound.Change{Time: e.Time, App: r.App, Count: -1})
		}
		sum, want := 0., 0.
		for a := range living {
			sum += living[a] / (until - tr.MeasureFrom)
			want += inst.Apps[a].Expected
		}
		b := bound.VolumeOverTime(inst, changes, tr.MeasureFrom)
		ratio += sum / want / seeds
		peak += float64(b.Machines) / seeds
		mean += b.MachineSeconds / (last.Time - tr.MeasureFrom) / seeds
		t.Logf("seed %d: %d requests, %d events", seed, len(tr.Requests), len(tr.Events))
	}
	t.Logf("%d seeds: living ÷ expected %.3f, volume bound %.1f in the mean and %.1f at the peak", seeds, ratio, mean, peak)
	assert.InDelta(t, 1, ratio, .12)
	// ∫ of 1 ± .3·sin over half a day: (1 + .6/π) ÷ (1 − .6/π)
	assert.InDelta(t, (1+.6/math.Pi)/(1-.6/math.Pi), daytime/night, .06)
}

func BenchmarkSmall(b *testing.B) {
	b.ReportAllocs()
	for seed := uint64(0); b.Loop(); seed++ {
		generate(b, "small", seed, nil)
	}
}

func ExampleGenerate() {
	t, err := Generate("small", 1, nil)
	if err != nil {
		panic(err)
	}
	volume := bound.Volume(t.Instance, items(t))
	fmt.Println(len(t.Instance.Apps), "apps,", volume.Machines, "machines at least,", t.Source["optimal"], "suffice")
	// Output: 30 apps, 15 machines at least, 15 suffice
}
