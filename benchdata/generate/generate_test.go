package generate

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
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
	case "weibull", "orlib":
		return map[string]string{"n": "50"}
	}
	return map[string]string{"scale": ".1"}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		kind string
		set  map[string]string
		want string
	}{
		{"huge", nil, `generate: unknown kind "huge"; there are small, large, large2d, large3d, fixed, churn, weibull, orlib`},
		{"small", map[string]string{"scale": "1"}, `generate small: unknown parameter "scale"; there are sigma, total`},
		{"small", map[string]string{"total": "1"}, `generate small: total="1": want unknown or known`},
		{"fixed", map[string]string{"f": "x"}, `generate fixed: f="x" is not a number`},
		{"large", map[string]string{"scale": "0"}, `generate large: scale=0 is not within 0.05 and 50`},
		{"large", map[string]string{"scale": "NaN"}, `generate large: scale=NaN is not within 0.05 and 50`},
		{"orlib", map[string]string{"n": "1.5"}, `generate orlib: n=1.5 is not a whole number`},
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
		"small":   "fed169e0d2edb5f9",
		"large":   "9c57cbb3d0d22deb",
		"large2d": "62acfbe3930099ec",
		"large3d": "f02e7ae42eded1af",
		"fixed":   "9cef840170f7024f",
		"churn":   "7ff6a7882f4621cc",
		"weibull": "7f797ffe23b9d33f",
		"orlib":   "e8c5f66b5fe1bbc0",
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

// The forecast's parameters change expected and nothing else.
func TestForecastHasItsOwnStream(t *testing.T) {
	for kind, set := range map[string]map[string]string{
		"small": {"sigma": ".7"},
		"large": {"forecast": "1.3", "noise": ".7"},
		"churn": {"forecast": "1.3", "noise": ".7"},
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

func TestSmall(t *testing.T) {
	const seeds = 200
	var containers, limited, big int
	errors, squares := 0., 0.
	for seed := range uint64(seeds) {
		tr := generate(t, "small", seed, nil)
		inst := tr.Instance
		n := items(tr)
		require.Len(t, inst.Apps, 30)
		require.Len(t, tr.Requests, 30, "a request is a whole app")
		require.Len(t, inst.Rules, 40, "20 pairs, both ways")
		require.Equal(t, bound.Bound{Machines: 15, Cost: 15, Method: "volume"}, bound.Volume(inst, n))
		require.Equal(t, 15, tr.Source["optimal"])
		cpu, bigs := int64(0), 0
		need := make([]int64, 30)
		for i, app := range inst.Apps {
			cpu += n[i] * app.Demand[0]
			require.Equal(t, 2*app.Demand[0]*gib, app.Demand[1])
			require.True(t, n[i] >= 1 && n[i] <= 15)
			limit := int64(inst.Groups[i].Limit)
			need[i] = (n[i] + limit - 1) / limit
			if n[i] > 10 {
				bigs++
				require.True(t, n[i] >= 12 && limit == 1)
			}
			if limit == 1 {
				limited++
			}
			containers += int(n[i])
			require.True(t, app.Expected >= 1 && app.Expected == math.Trunc(app.Expected))
			if n[i] > 10 { // rounding is small there
				x := math.Log(app.Expected / float64(n[i]))
				errors, squares, big = errors+x, squares+x*x, big+1
			}
		}
		require.Equal(t, int64(1360), cpu)
		require.Equal(t, 8, bigs)
		require.True(t, slices.IsSortedFunc(inst.Rules, func(a, b binpack.Rule) int {
			return int(a.A-b.A)*100 + int(a.B-b.B)
		}))
		for _, r := range inst.Rules {
			require.Contains(t, inst.Rules, binpack.Rule{A: r.B, B: r.A})
			require.LessOrEqual(t, need[r.A]+need[r.B], int64(15))
		}
	}
	mean := errors / float64(big)
	assert.InDelta(t, -.02, mean, .015)
	assert.InDelta(t, .2, math.Sqrt(squares/float64(big)-mean*mean), .02)
	// .8 of the 22 others and all 8 big ones
	assert.InDelta(t, (22*.8+8)/30, float64(limited)/(30*seeds), .02)
	t.Logf("%d instances: %.1f containers, %.1f %% of the apps limited to 1", seeds,
		float64(containers)/seeds, 100*float64(limited)/(30*seeds))
}

// An independent look at the packings that make 15 the optimum.
func TestSmallIsPlanted(t *testing.T) {
	rng, packing := stream(1, streamApps), stream(1, streamPacking)
	tried, packed := 0, 0
	for range 300 {
		apps := drawSmall(rng)
		if !adjust(rng, apps) {
			continue
		}
		need := make([]float64, smallApps)
		for i, a := range apps {
			need[i] = float64(a.need())
		}
		pairs := excludePairs(rng, smallExclusions, need, smallMachines)
		on := packSmall(packing, apps, pairs)
		tried++
		if on == nil {
			continue
		}
		packed++
		var cpu, memory [smallMachines]int64
		count := map[[2]int]int{} // app and machine
		for i, machines := range on {
			require.Len(t, machines, apps[i].items)
			for _, m := range machines {
				cpu[m] += apps[i].spec.cpu
				memory[m] += apps[i].spec.memory
				count[[2]int{i, m}]++
				require.LessOrEqual(t, count[[2]int{i, m}], apps[i].limit)
			}
		}
		for m := range cpu {
			require.True(t, cpu[m] <= 96 && memory[m] <= 512)
			for _, p := range pairs {
				require.False(t, count[[2]int{p.a, m}] > 0 && count[[2]int{p.b, m}] > 0)
			}
		}
	}
	t.Logf("packed %d of %d drawn", packed, tried)
	assert.Greater(t, packed, tried/2, "rejection would make the kept instances special")
	// An app that cannot fit is not packed.
	apps := make([]smallApp, smallApps)
	for i := range apps {
		apps[i] = smallApp{spec: smallMix[0], limit: 1, items: 1}
	}
	apps[0].items = 16
	assert.Nil(t, packSmall(packing, apps, nil))
}

func TestLarge(t *testing.T) {
	for _, tt := range []struct {
		kind, scale         string
		seeds               int
		apps                int
		items, requests     float64
		cpu                 float64
		machines, tolerance float64
	}{
		{"large", "1", 40, 400, 4880, 3000, 25474, 265, .05},
		{"large", ".5", 40, 283, 2440, 1550, 12737, 133, .06},
		{"large", ".2", 60, 179, 976, 700, 5095, 54, .06},
		{"large2d", "1", 20, 400, 4880, 3000, 26010, 271, .06},
		{"large3d", "1", 20, 400, 4880, 3000, 26010, 271, .06},
	} {
		t.Run(tt.kind+" "+tt.scale, func(t *testing.T) {
			var sumItems, sumRequests, cpu, machines, limit, pairs float64
			least, most := math.Inf(1), 0.
			for seed := range uint64(tt.seeds) {
				tr := generate(t, tt.kind, seed, map[string]string{"scale": tt.scale})
				inst := tr.Instance
				require.Len(t, inst.Apps, tt.apps)
				require.Len(t, inst.Rules, 4*tt.apps, "mean degree 4: 2 pairs an app, both ways")
				n := items(tr)
				c := 0.
				for a := range inst.Apps {
					require.GreaterOrEqual(t, n[a], int64(1))
					sumItems += float64(n[a])
					c += float64(n[a] * inst.Apps[a].Demand[0])
				}
				cpu += c
				least, most = min(least, c), max(most, c)
				sumRequests += float64(len(tr.Requests))
				v := bound.Volume(inst, n).Machines
				machines += float64(v)
				share := float64(bound.Limit(inst, n).Machines) / float64(v)
				limit = max(limit, share)
				require.LessOrEqual(t, share, largeShare)
				for _, r := range inst.Rules {
					both := need(inst, n, r.A) + need(inst, n, r.B)
					pairs = max(pairs, float64(both)/float64(v))
				}
				times := make([]float64, len(tr.Events))
				for i, e := range tr.Events {
					times[i] = e.Time
				}
				require.True(t, slices.IsSorted(times) && times[0] >= 0 && times[len(times)-1] <= day)
			}
			k := float64(tt.seeds)
			t.Logf("%d seeds: containers %.0f, requests %.0f, cpu %.0f (%.0f…%.0f), volume bound %.1f, limits at most %.2f and exclusions %.2f of it",
				tt.seeds, sumItems/k, sumRequests/k, cpu/k, least, most, machines/k, limit, pairs)
			assert.InEpsilon(t, tt.items, sumItems/k, tt.tolerance)
			assert.InEpsilon(t, tt.requests, sumRequests/k, tt.tolerance)
			assert.InEpsilon(t, tt.cpu, cpu/k, tt.tolerance)
			assert.InEpsilon(t, tt.machines, machines/k, tt.tolerance)
			assert.LessOrEqual(t, pairs, 1., "two apps that exclude each other fit the volume bound")
		})
	}
}

// need is how many machines the limit of an app asks for.
func need(inst *binpack.Instance, n []int64, app int32) int64 {
	limit := int64(inst.Groups[app].Limit)
	return (n[app] + limit - 1) / limit
}

func TestLargeMeans(t *testing.T) {
	means := rankMeans(400, 4880, 200)
	sum := 0.
	for _, m := range means {
		sum += m
	}
	assert.InDelta(t, 4880, sum, 1e-6)
	assert.InDelta(t, 200, means[0], 0)
	assert.InDelta(t, math.Pow(2, -.8), means[199]/means[99], 1e-9)
	assert.InDelta(t, 5.22, meanCPU(largeMix), 1e-12)
	for _, mix := range [][]spec{smallMix, largeMix, large2dMix} {
		share := 0.
		for _, s := range mix {
			share += s.share
		}
		assert.InDelta(t, 1, share, 1e-12)
	}
}

func TestLargeRequests(t *testing.T) {
	tr := generate(t, "large", 5, nil)
	top, others, n := int32(0), int32(0), int32(0)
	for _, r := range tr.Requests {
		if r.App < largeTop {
			top = max(top, r.Count)
		} else {
			others, n = others+r.Count, n+1
		}
	}
	assert.True(t, top > 35 && top <= 40, top)
	assert.InDelta(t, 1.12, float64(others)/float64(n), .02)
	w := population{top: 1, burst: 40}
	sum := 0
	rng := stream(1, streamRequests)
	for range 100000 {
		sum += w.requestSize(rng, 1, 1.6)
	}
	assert.InDelta(t, 1.6, float64(sum)/100000, .02)
}

func TestFixed(t *testing.T) {
	open := generate(t, "large", 4, nil)
	v := bound.Volume(open.Instance, items(open)).Machines
	for _, f := range []float64{.98, 1, 1.02} {
		tr := generate(t, "fixed", 4, map[string]string{"f": fmt.Sprint(f)})
		assert.Equal(t, binpack.Fixed, tr.Instance.Fleet)
		assert.InDelta(t, f*float64(v), float64(tr.Instance.Machines[0].Count)-.5, .5)
		assert.Equal(t, open.Requests, tr.Requests)
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
			tr := generate(t, tt.kind, seed, nil)
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
		t.Logf("%s: volume bound %.1f", tt.kind, bins)
		assert.InEpsilon(t, tt.bins, bins, .015)
	}
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
