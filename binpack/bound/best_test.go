package bound

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// exhaustive finds the fewest machines and the least cost of a placement of all
// items by trying every one, and reports whether there is one. It knows the
// constraints from their definitions alone.
func exhaustive(inst *binpack.Instance, items []int64) (machines int, cost float64, ok bool) {
	type machine struct {
		line   int
		used   []int64
		groups map[int32]int64
	}
	var todo []int32 // an app per item
	for a, n := range items {
		for range n {
			todo = append(todo, int32(a))
		}
	}
	var fleet []*machine
	machines, cost = math.MaxInt, math.Inf(1)
	fits := func(m *machine, a int32) bool {
		app := &inst.Apps[a]
		line := &inst.Machines[m.line]
		if app.Types != nil && !slices.Contains(app.Types, line.Type) {
			return false
		}
		for d, need := range app.Demand {
			if m.used[d]+need > line.Capacity[d] {
				return false
			}
		}
		count := func(g int32) int64 {
			n := m.groups[g]
			if g == app.Group {
				n++
			}
			return n
		}
		if k := int64(inst.Groups[app.Group].Limit); k > 0 && count(app.Group) > k {
			return false
		}
		for _, r := range inst.Rules {
			if count(r.A) > 0 && count(r.B) > int64(r.Max) {
				return false
			}
		}
		return true
	}
	spent := 0.0
	opened := make([]int, len(inst.Machines))
	var place func(i, from int)
	place = func(i, from int) {
		if len(fleet) >= machines && spent >= cost {
			return
		}
		if i == len(todo) {
			// Spread without departures: as many machines as it asks for.
			for g, group := range inst.Groups {
				n, on := int64(0), int64(0)
				for _, m := range fleet {
					if m.groups[int32(g)] > 0 {
						n, on = n+m.groups[int32(g)], on+1
					}
				}
				if on < min(n, int64(group.SpreadMin)) {
					return
				}
			}
			machines, cost = min(machines, len(fleet)), min(cost, spent)
			return
		}
		a := todo[i]
		put := func(at int) {
			m := fleet[at]
			for d, need := range inst.Apps[a].Demand {
				m.used[d] += need
			}
			m.groups[inst.Apps[a].Group]++
			next := 0
			if i+1 < len(todo) && todo[i+1] == a {
				next = at // items of an app are equal
			}
			place(i+1, next)
			m.groups[inst.Apps[a].Group]--
			for d, need := range inst.Apps[a].Demand {
				m.used[d] -= need
			}
		}
		for at := from; at < len(fleet); at++ {
			if fits(fleet[at], a) {
				put(at)
			}
		}
		for line := range inst.Machines {
			if n := inst.Machines[line].Count; n >= 0 && opened[line] == n {
				continue
			}
			m := &machine{line: line, used: make([]int64, len(inst.Dimensions)), groups: map[int32]int64{}}
			if !fits(m, a) {
				continue
			}
			fleet = append(fleet, m)
			opened[line]++
			spent += inst.Machines[line].Cost
			put(len(fleet) - 1)
			spent -= inst.Machines[line].Cost
			opened[line]--
			fleet = fleet[:len(fleet)-1]
		}
	}
	place(0, 0)
	return machines, cost, machines < math.MaxInt
}

// tiny is a random instance with everything that bounds know of, small enough
// for an exhaustive search.
func tiny(rng *rand.Rand) (*binpack.Instance, []int64) {
	dims := 1 + rng.IntN(3)
	unit, more := int64(1), int64(0)
	if rng.IntN(4) == 0 {
		unit, more = 1<<40, 3 // beyond tables, but for the first digits
	}
	even := rng.IntN(3) == 0 // all dimensions are filled equally
	vector := func(low, high int64) []int64 {
		v := make([]int64, dims)
		for d := range v {
			v[d] = (low+rng.Int64N(high-low+1))*unit + rng.Int64N(more/2+1)
			if low > 0 {
				v[d] = v[d]/unit*unit + more // a machine
			}
			if even {
				v[d] = v[0]
			}
		}
		return v
	}
	inst := &binpack.Instance{Fleet: binpack.Open, Types: []string{"x", "y"}}
	for range dims {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: fmt.Sprint("d", len(inst.Dimensions)), One: 1})
	}
	costs := []float64{1, 1, 2, 3, 2.5}
	for i := range 1 + rng.IntN(3) {
		m := binpack.MachineLine{Type: int32(rng.IntN(2)), Count: binpack.Unlimited, Cost: 1, Capacity: vector(6, 12)}
		if rng.IntN(3) == 0 {
			m.Count = 1 + rng.IntN(3)
		}
		if i > 0 {
			m.Cost = costs[rng.IntN(len(costs))]
		}
		inst.Machines = append(inst.Machines, m)
	}
	var items []int64
	left := 4 + rng.IntN(4)
	for left > 0 {
		g := len(inst.Groups)
		if g == 0 || rng.IntN(5) > 0 {
			group := binpack.Group{Limit: int32(max(0, rng.IntN(5)-2))}
			if rng.IntN(5) == 0 {
				group.SpreadMin = int32(rng.IntN(4))
			}
			inst.Groups = append(inst.Groups, group)
		} else {
			g = rng.IntN(g)
		}
		app := binpack.App{Group: int32(g), Demand: vector(0, 7)}
		if n := len(inst.Apps); n > 0 && rng.IntN(3) == 0 {
			app.Demand = inst.Apps[rng.IntN(n)].Demand
		}
		if rng.IntN(8) == 0 {
			app.Types = []int32{int32(rng.IntN(2))}
		}
		n := 1 + rng.IntN(min(left, 3))
		inst.Apps, items, left = append(inst.Apps, app), append(items, int64(n)), left-n
	}
	for range rng.IntN(5) {
		if a, b := rng.IntN(len(inst.Groups)), rng.IntN(len(inst.Groups)); a != b {
			inst.Rules = append(inst.Rules, binpack.Rule{A: int32(a), B: int32(b), Max: int32(max(0, rng.IntN(4)-2))})
		}
	}
	return inst, items
}

// No bound is above the optimum, and none of the linear program's is below
// another of the same relaxation.
func TestBestAgainstExhaustiveSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	solved, tight, above, infeasible := 0, 0, 0, 0
	for range 1200 {
		inst, items := tiny(rng)
		machines, cost, ok := exhaustive(inst, items)
		b := Best(t.Context(), inst, items, Options{Work: 1 << 28})
		if !ok {
			infeasible++
			continue
		}
		solved++
		require.False(t, b.Short, "%+v %v", inst, items)
		by := map[string]Bound{}
		for _, e := range b.Each {
			require.LessOrEqual(t, e.Machines, machines, "%s of %+v %v", e.Method, inst, items)
			require.LessOrEqual(t, e.Cost, cost, "%s of %+v %v", e.Method, inst, items)
			require.False(t, e.Stopped, e.Method)
			by[e.Method] = e
		}
		if b.Machines == machines && b.Cost == cost {
			tight++
		}
		all, ok := by[MethodColumns]
		if !ok {
			require.True(t, len(inst.Dimensions) == 1 && len(inst.Rules) == 0)
			continue
		}
		for _, e := range b.Each {
			if strings.HasPrefix(e.Method, MethodColumns+":") || e.Method == MethodVolume && inst.Machines[0].Cost == 1 && uniformCost(inst) {
				require.LessOrEqual(t, e.Machines, all.Machines, "%s of %+v %v", e.Method, inst, items)
				require.LessOrEqual(t, e.Cost, all.Cost+1e-9, "%s of %+v %v", e.Method, inst, items)
			}
		}
		if all.Machines > max(b.Each[0].Machines, b.Each[1].Machines, b.Each[2].Machines) {
			above++
		}
	}
	t.Logf("%d solved, %d infeasible; bound = optimum on %d; the linear program beats the cheap ones on %d", solved, infeasible, tight, above)
	require.Greater(t, solved, 900)
	require.Greater(t, tight, solved*3/4)
	require.Greater(t, above, 30)
}

// Short is a proof as well.
func TestShortIsInfeasible(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	short, infeasible := 0, 0
	for range 400 {
		inst, items := tiny(rng)
		for i := range inst.Machines {
			inst.Machines[i].Count = 1
		}
		_, _, ok := exhaustive(inst, items)
		b := Best(context.Background(), inst, items, Options{Work: 1 << 28})
		if b.Short {
			short++
			require.False(t, ok, "%+v %v", inst, items)
		}
		if !ok {
			infeasible++
		}
	}
	t.Logf("%d infeasible, of which %d proven", infeasible, short)
	require.Greater(t, short, 100)
}

// However little work there is, what is found is a bound.
func TestStoppedAnywhere(t *testing.T) {
	inst, items := packtest.Large()
	whole := Best(t.Context(), inst, items, Options{Work: DefaultWork})
	for _, work := range []int64{1, 1e3, 1e5, 1e6, 1e7, 1e8} {
		b := Best(t.Context(), inst, items, Options{Work: work})
		for i, e := range b.Each {
			require.LessOrEqual(t, e.Machines, whole.Machines)
			require.Equal(t, whole.Each[i].Method, e.Method)
		}
		require.Equal(t, b, Best(t.Context(), inst, items, Options{Work: work}), "the same again")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, Best(t.Context(), inst, items, Options{}), Best(ended, inst, items, Options{Work: DefaultWork}))
}

func BenchmarkBest(b *testing.B) {
	bench := func(name string, dims []int, rules bool) {
		b.Run(name, func(b *testing.B) {
			inst, items := packtest.Large()
			b.ReportAllocs()
			var found Bound
			for b.Loop() {
				found, _ = columns(b.Context(), inst, items, dims, rules, Options{Work: DefaultWork})
			}
			require.False(b, found.Stopped)
			b.ReportMetric(float64(found.Machines), "machines")
		})
	}
	bench("apps=400/dims=1", []int{0}, false)
	bench("apps=400/dims=2/rules", []int{0, 1}, true)
	b.Run("apps=400/cheap", func(b *testing.B) {
		inst, items := packtest.Large()
		b.ReportAllocs()
		for b.Loop() {
			Best(b.Context(), inst, items, Options{})
		}
	})
}

func ExampleBest() {
	// Six items of 5 on machines of 12, and ten of 3 of an app with limit 1: volume
	// alone asks for five machines.
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(binpack.Unlimited, 1, 12)}, []int64{5}, []int64{3})
	inst.Groups[1].Limit = 1
	inst.Rules = []binpack.Rule{{A: 0, B: 1}, {A: 1, B: 0}}
	for _, b := range Best(context.Background(), inst, []int64{6, 10}, Options{Work: DefaultWork}).Each {
		fmt.Println(b.Method, b.Machines)
	}
	// Output:
	// volume 5
	// limit 10
	// clique 13
	// gilmore-gomory: 10
	// gilmore-gomory 13
}

// A bound by several methods names them all.
func TestName(t *testing.T) {
	b := Bounds{Bound: Bound{Machines: 1, Method: "a"}, Each: []Bound{{Machines: 1, Method: "a"}}}
	b.add(Bound{Machines: 1, Method: "b"})
	assert.Equal(t, "a", b.Method, "the cheapest of equals")
	b.add(Bound{Machines: 2, Method: "c"})
	assert.Equal(t, "c", b.Method)
	b.add(Bound{Cost: 2, Method: "d"})
	assert.Equal(t, "c+d", b.Method)
	assert.Equal(t, Bound{Machines: 2, Cost: 2, Method: "c+d"}, b.Bound)
}
