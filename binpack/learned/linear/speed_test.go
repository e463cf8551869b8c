//go:build unix

package linear

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace/tracetest"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// TestSpeed writes the tables of docs/performance.md; see hack/bench.sh. Rates
// are placements per CPU-second of the process: the clock on the wall of a
// shared machine says little. What is compared runs in turns.
func TestSpeed(t *testing.T) {
	path := os.Getenv("SIGMA_BENCH")
	if path == "" {
		t.Skip("SIGMA_BENCH, the file to write the tables to, is not set; see `make bench`")
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Close()) }()
	before := cputime.Process()
	speedAgainstTwins(t, out)
	speedAtWidth(t, out)
	speedBySize(t, out)
	speedOfChurn(t, out)
	fmt.Fprintf(out, "\nAll of this took %.0f CPU-seconds.\n", cputime.Process()-before)
}

// plainBestFit is Best Fit without any cleverness: a loop over the columns of
// the same state for every item, limits and rules by scanning what stands on a
// machine. It caches nothing and allocates nothing.
type plainBestFit struct {
	s    *binpack.State
	most []int32 // [group] items that the item's group tolerates beside it; all unless stamped
	into []int32 // [group] items of the item's group that this group tolerates
	out  [][]binpack.Rule
	in   [][]binpack.Rule
}

func newPlainBestFit(s *binpack.State) *plainBestFit {
	n := len(s.Instance().Groups)
	p := &plainBestFit{
		s: s, most: make([]int32, n), into: make([]int32, n),
		out: make([][]binpack.Rule, n), in: make([][]binpack.Rule, n),
	}
	for g := range n {
		p.most[g], p.into[g] = math.MaxInt32, math.MaxInt32
	}
	for _, r := range s.Instance().Rules {
		p.out[r.A], p.in[r.B] = append(p.out[r.A], r), append(p.in[r.B], r)
	}
	return p
}

func (p *plainBestFit) choose(item binpack.Item) int32 {
	s := p.s
	app := &s.Instance().Apps[item.App]
	limit := s.Instance().Groups[app.Group].Limit
	for _, r := range p.out[app.Group] {
		p.most[r.B] = min(p.most[r.B], r.Max)
	}
	for _, r := range p.in[app.Group] {
		p.into[r.A] = min(p.into[r.A], r.Max)
	}
	best, least := int32(-1), math.Inf(1)
	offered := s.Offered()
machines:
	for m := range int32(s.Size()) {
		if offered[m/64]>>(m%64)&1 == 0 {
			continue
		}
		for d, need := range app.Demand {
			if need > s.Free(d)[m] {
				continue machines
			}
		}
		if !p.allowed(app.Group, limit, m) {
			continue
		}
		left, capacity := 0.0, s.Capacity(m)
		for d, need := range app.Demand {
			left += float64(s.Free(d)[m]-need) / float64(max(1, capacity[d]))
		}
		if s.Instance().Fleet == binpack.Open && len(s.Kinds()) > 1 && s.Items(m) == 0 {
			left = math.MaxFloat64 // in the order of machines.csv
		}
		if left < least || left == least && s.Before(m, best) {
			best, least = m, left
		}
	}
	for _, r := range p.out[app.Group] {
		p.most[r.B] = math.MaxInt32
	}
	for _, r := range p.in[app.Group] {
		p.into[r.A] = math.MaxInt32
	}
	return best
}

func (p *plainBestFit) allowed(group, limit, m int32) bool {
	own, most := int32(0), int32(math.MaxInt32)
	for _, e := range p.s.Contents(m) {
		if p.most[e.Group] < math.MaxInt32 && p.s.Count(e.Group, m) > p.most[e.Group] {
			return false
		}
		most = min(most, p.into[e.Group])
		if e.Group == group {
			own += e.Count
		}
	}
	return own < most && (limit == 0 || own < limit)
}

// A race is a policy and its twin on the same trace.
type race struct {
	name          string
	fast, twin    *treadmill
	from          int // event at which the timed part begins
	items         int // of the timed part
	twinItems     int // the twin does the first of them
	rounds, times int // times: the fast one repeats its part
}

func speedAgainstTwins(t *testing.T, out io.Writer) {
	traces := benchTraces(t)
	var races []race
	bestFit := func(s *binpack.State) binpack.Scorer { return rule.BestFit{}.Scorer(s) }
	for _, machines := range []int{300, 5000} {
		tr := traces[machines]
		twin := newTreadmill(tr, binpack.K0, bestFit)
		twin.plain = newPlainBestFit(twin.s).choose
		races = append(races, race{
			fmt.Sprintf("bestfit, %d machines", machines), newTreadmill(tr, binpack.K0, bestFit), twin,
			len(tr.Events) / 2, len(tr.Events) / 4, len(tr.Events) / 4, 7, 40,
		})
	}
	for _, machines := range []int{300, 5000} {
		tr, p := traces[machines], benchLinear(t, binpack.K1)
		twin := newTreadmill(tr, binpack.K1, p.Scorer)
		slow := onlyScores{newTwin(p, twin.s)}
		twin.plain = func(item binpack.Item) int32 {
			m, err := twin.s.Choose(slow, item)
			if err != nil {
				return -1
			}
			return m
		}
		races = append(races, race{
			fmt.Sprintf("linear K1, %d machines", machines), newTreadmill(tr, binpack.K1, p.Scorer), twin,
			len(tr.Events) / 2, len(tr.Events) / 4, 150_000 / machines, 5, 3,
		})
	}
	if data := os.Getenv("SIGMA_DATA"); data != "" {
		tr := tracetest.Converted(t, "tianchi", filepath.Join(data, "tianchi2018-common"), filepath.Join(data, "tianchi2018-prelim-b"), "--large-first", "--empty")
		twin := newTreadmill(tr, binpack.K0, bestFit)
		twin.plain = newPlainBestFit(twin.s).choose
		n := len(tr.Events)
		races = append(races, race{"bestfit, tianchi-prelim-b (200 dimensions, all of it)", newTreadmill(tr, binpack.K0, bestFit), twin, 0, n, n, 3, 1})
	}
	fmt.Fprintln(out, "\n| | machines in use | placements/CPU-s | allocations per placement | twin's | ratio (least … most) |\n|---|---:|---:|---:|---:|---:|")
	for _, r := range races {
		r.run(t, out)
	}
}

func (r *race) run(t *testing.T, out io.Writer) {
	t.Helper()
	var fast, twin, ratio []float64
	var mallocs uint64
	for range r.rounds {
		f := r.rate(t, r.fast, r.items, r.times, &mallocs)
		w := r.rate(t, r.twin, r.twinItems, 1, new(uint64))
		fast, twin, ratio = append(fast, f), append(twin, w), append(ratio, f/w)
	}
	slices.Sort(ratio)
	fmt.Fprintf(out, "| %s | %d | %s | %d | %s | **%.1f** (%.1f … %.1f) |\n", r.name, r.fast.most, thousands(median(fast)),
		mallocs/uint64(r.items*r.times), thousands(median(twin)), median(ratio), ratio[0], ratio[len(ratio)-1])
}

// rate is placements per CPU-second over the timed part. Both sides must choose
// the same machines; the last round's mallocs are counted.
func (r *race) rate(t *testing.T, on *treadmill, items, times int, mallocs *uint64) float64 {
	t.Helper()
	*mallocs = 0
	seconds := 0.0
	var before, after runtime.MemStats
	for range times {
		on.rewind(r.from)
		runtime.ReadMemStats(&before)
		start := cputime.Process()
		for range items {
			on.next()
		}
		seconds += cputime.Process() - start
		runtime.ReadMemStats(&after)
		*mallocs += after.Mallocs - before.Mallocs
	}
	return float64(items*times) / seconds
}

// A field is a fixed fleet in its steady state: every step one random item
// leaves and one of a random app comes.
type field struct {
	s      *binpack.State
	scorer binpack.Scorer
	rng    *rand.Rand
	app    []int32 // of the items that stand
	where  []int32
	serial uint64
}

// newField fills machines of 96 cores to 85 % with items of 400 apps, a limit
// each and 800 pairs that exclude each other. In each dimension but the first an
// app needs 1 to 5 units for each core, of 512.
func newField(t *testing.T, machines, dims int, p binpack.Policy) *field {
	t.Helper()
	const apps, exclusions = 400, 800
	rng := rand.New(rand.NewPCG(uint64(machines), uint64(dims)))
	capacity := []int64{96}
	inst := &binpack.Instance{Types: []string{"node"}, Fleet: binpack.Fixed}
	for d := range dims {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: fmt.Sprintf("d.%03d", d), One: 1})
		if d > 0 {
			capacity = append(capacity, 512)
		}
	}
	inst.Machines = []binpack.MachineLine{{Name: "node", Count: machines, Cost: 1, Capacity: capacity}}
	for a := range int32(apps) {
		cores := []int64{1, 2, 4, 4, 4, 4, 4, 8, 8, 16}[rng.IntN(10)]
		demand := []int64{cores}
		for range dims - 1 {
			demand = append(demand, cores*int64(1+rng.IntN(5)))
		}
		inst.Groups = append(inst.Groups, binpack.Group{Name: fmt.Sprint("app-", a), Limit: []int32{1, 1, 2, 4}[rng.IntN(4)]})
		inst.Apps = append(inst.Apps, binpack.App{Name: fmt.Sprint("app-", a), Group: a, Demand: demand, Expected: -1, Lifetime: -1})
	}
	for range exclusions {
		if a, b := int32(rng.IntN(apps)), int32(rng.IntN(apps)); a != b {
			inst.Rules = append(inst.Rules, binpack.Rule{A: a, B: b}, binpack.Rule{A: b, B: a})
		}
	}
	f := &field{s: binpack.NewState(inst), rng: rng}
	for m := range int32(machines) {
		for range 200 {
			a := int32(rng.IntN(apps))
			if f.s.Free(0)[m]-inst.Apps[a].Demand[0] >= 14 && f.s.Fits(a, m) {
				f.s.Arrive(a, 1)
				f.place(a, m)
			}
		}
	}
	f.s.Known.Expected = make([]float64, apps)
	for a, n := range f.s.Alive() {
		f.s.Known.Expected[a] = float64(n)
	}
	f.scorer = p.Scorer(f.s)
	return f
}

func (f *field) place(a, m int32) {
	f.s.Place(binpack.Item{App: a, Serial: f.serial}, m, nil)
	f.serial++
	f.app, f.where = append(f.app, a), append(f.where, m)
}

func (f *field) step() {
	at, last := f.rng.IntN(len(f.app)), len(f.app)-1
	f.s.Remove(f.app[at], f.where[at], nil)
	f.app[at], f.where[at] = f.app[last], f.where[last]
	f.app, f.where = f.app[:last], f.where[:last]
	a := int32(f.rng.IntN(len(f.s.Instance().Apps)))
	f.s.Arrive(a, 1)
	if m, err := f.s.Choose(f.scorer, binpack.Item{App: a, Serial: f.serial}); err == nil {
		f.place(a, m)
	}
}

// cost is microseconds of CPU per step, over at least so many CPU-seconds.
func (f *field) cost(t *testing.T, seconds float64) float64 {
	t.Helper()
	start, n := cputime.Process(), 0
	for {
		for range 50 {
			f.step()
		}
		n += 50
		if used := cputime.Process() - start; used > seconds {
			return used / float64(n) * 1e6
		}
	}
}

func speedBySize(t *testing.T, out io.Writer) {
	linear, err := New(packtest.Shipped(t, "kubernetes-k0"))
	require.NoError(t, err)
	policies := []struct {
		name string
		p    binpack.Policy
	}{{"bestfit", rule.BestFit{}}, {"linear (kubernetes-k0)", linear}}

	table := func(what string, sizes []int, newField func(size int, p binpack.Policy) *field) {
		fmt.Fprintf(out, "\n| %s |", what)
		for _, n := range sizes {
			fmt.Fprintf(out, " %s |", thousands(float64(n)))
		}
		fmt.Fprint(out, " exponents |\n|---|")
		for range sizes {
			fmt.Fprint(out, "---:|")
		}
		fmt.Fprintln(out, "---|")
		for _, pol := range policies {
			costs := make([]float64, len(sizes))
			for i, n := range sizes {
				f := newField(n, pol.p)
				f.cost(t, .2) // caches fill
				three := []float64{f.cost(t, .4), f.cost(t, .4), f.cost(t, .4)}
				costs[i] = median(three)
			}
			printCosts(out, pol.name, sizes, costs)
		}
	}
	fmt.Fprintln(out, "\nPlacements per CPU-second in the steady state, each with the departure before it. An exponent is that of the cost per placement between neighbouring columns.")
	table("machines (2 dimensions)", []int{100, 1000, 10_000, 100_000}, func(n int, p binpack.Policy) *field { return newField(t, n, 2, p) })
	table("dimensions (1,000 machines)", []int{1, 2, 8, 200}, func(n int, p binpack.Policy) *field { return newField(t, 1000, n, p) })

	items := []int{10_000, 100_000, 1_000_000}
	fmt.Fprintf(out, "\n| items (1,000 machines) | 10,000 | 100,000 | 1,000,000 | exponents |\n|---|---:|---:|---:|---|\n")
	for _, pol := range policies {
		f := newField(t, 1000, 2, pol.p)
		f.cost(t, .2)
		var costs []float64
		done, start := 0, cputime.Process()
		for _, n := range items {
			for ; done < n; done++ {
				f.step()
			}
			costs = append(costs, (cputime.Process()-start)/float64(n)*1e6)
		}
		printCosts(out, pol.name, items, costs)
	}
}

func printCosts(out io.Writer, name string, sizes []int, costs []float64) {
	fmt.Fprintf(out, "| %s |", name)
	for _, c := range costs {
		fmt.Fprintf(out, " %s |", thousands(1e6/c))
	}
	for i := 1; i < len(sizes); i++ {
		fmt.Fprintf(out, " %.2f", math.Log(costs[i]/costs[i-1])/math.Log(float64(sizes[i])/float64(sizes[i-1])))
	}
	fmt.Fprintln(out, " |")
}

// speedOfChurn replays a million items that come and go on 10,000 machines, all
// that a replay does included.
func speedOfChurn(t *testing.T, out io.Writer) {
	set := map[string]string{"scale": "30", "days": ".95"}
	tr, err := generate.Generate("churn", 1, set)
	require.NoError(t, err)
	linear, err := New(packtest.Shipped(t, "kubernetes-k0"))
	require.NoError(t, err)
	fmt.Fprintf(out, "\n| `churn --seed 1 --set scale=%s --set days=%s` | items placed | most machines in use | CPU-seconds |\n|---|---:|---:|---:|\n", set["scale"], set["days"])
	for _, pol := range []struct {
		name string
		p    binpack.Policy
	}{{"bestfit", rule.BestFit{}}, {"linear (kubernetes-k0)", linear}} {
		r := cerebro.NewReplayer(tr)
		start := cputime.Process()
		run, err := r.Run(pol.p, cerebro.Options{})
		require.NoError(t, err)
		fmt.Fprintf(out, "| %s | %s | %s | %.1f |\n", pol.name, thousands(float64(run.Placed)), thousands(float64(run.PeakMachines)), cputime.Process()-start)
	}
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// thousands writes a number with commas.
func thousands(v float64) string {
	s := fmt.Sprint(int64(math.Round(v)))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// TestPlainBestFit: the twin decides as Best Fit does.
func TestPlainBestFit(t *testing.T) {
	for _, kind := range []string{"large2d", "fixed"} {
		tr, err := generate.Generate(kind, 3, map[string]string{"scale": ".2"})
		require.NoError(t, err)
		addRules(tr.Instance)
		run := newTreadmill(tr, binpack.K0, func(s *binpack.State) binpack.Scorer { return rule.BestFit{}.Scorer(s) })
		twin := newPlainBestFit(run.s)
		run.plain = func(item binpack.Item) int32 {
			m := twin.choose(item)
			want, err := run.s.Choose(run.scorer, item)
			if err != nil {
				want = -1
			}
			require.Equal(t, want, m)
			return m
		}
		for range 800 {
			run.next()
		}
	}
}
