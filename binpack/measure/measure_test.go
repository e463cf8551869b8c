package measure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A fleetCase places items of apps on machines: put[m] lists the apps of the
// items that go to machine m.
type fleetCase struct {
	name       string
	fleet      binpack.Fleet
	devices    []bool    // per dimension; nil = none
	capacities [][]int64 // one line and one machine each
	demands    [][]int64 // one app and one group each
	groups     []int32   // per app; nil = one each
	put        [][]int32
	mix        []int64

	rate                              []float64
	fragment, balance, spread, square float64
}

func (c fleetCase) state() *binpack.State {
	inst := &binpack.Instance{Types: []string{"any"}, Fleet: c.fleet}
	for d := range c.capacities[0] {
		dim := binpack.Dimension{Name: fmt.Sprint("d", d), One: 1}
		if c.devices != nil && c.devices[d] {
			dim.Device, dim.One = true, 1000
		}
		inst.Dimensions = append(inst.Dimensions, dim)
	}
	for i, capacity := range c.capacities {
		// Costs differ, so that every line of an open fleet is on offer.
		inst.Machines = append(inst.Machines, binpack.MachineLine{
			Name: fmt.Sprint("m", i), Count: 1, Cost: float64(i + 1), Capacity: capacity,
		})
	}
	for i, demand := range c.demands {
		group := int32(i)
		if c.groups != nil {
			group = c.groups[i]
		}
		inst.Groups = append(inst.Groups, binpack.Group{Name: fmt.Sprint("g", i)})
		inst.Apps = append(inst.Apps, binpack.App{Name: fmt.Sprint("a", i), Group: group, Demand: demand})
	}
	s := binpack.NewState(inst)
	for m, apps := range c.put {
		for _, app := range apps {
			s.Place(binpack.Item{App: app}, int32(m), nil)
		}
	}
	return s
}

var fleetCases = []fleetCase{{
	name:       "empty cluster",
	fleet:      binpack.Fixed,
	capacities: [][]int64{{4, 8}, {4, 8}},
	demands:    [][]int64{{1, 1}},
	mix:        []int64{3},
	rate:       []float64{0, 0},
}, {
	// Placed (6, 4); the fixed fleet has (12, 24): 6/12, 4/24. Active m0 with
	// free (1, 5) and m1 with free (1, 7). Demand 2·3 + 1·4 = 10 of cpu and 2 +
	// 4 = 6 of memory: 10/12 > 6/24, so cpu is scarcest. Free cpu is 2. An a0
	// (3, 1) fits nowhere (2 lost), an a1 (1, 1) everywhere (0 lost): mean with 2
	// and 4 items (2·1 + 4·0)/6.
	// Utilisation of cpu .75 and .75: deviation 0; of memory 3/8 and 1/8: mean
	// 1/4, deviation 1/8. Balance 1/16.
	// Group 0: 2 machines for 1 + … = a0 on m1 only (1/1); a1 three items on m0 (1/3).
	// Squares: (1/4)² twice, (5/8)², (7/8)²: (1/16 + 1/16 + 25/64 + 49/64)/4 = 82/256.
	name:       "fixed",
	fleet:      binpack.Fixed,
	capacities: [][]int64{{4, 8}, {4, 8}, {4, 8}},
	demands:    [][]int64{{3, 1}, {1, 1}},
	put:        [][]int32{{1, 1, 1}, {0}},
	mix:        []int64{2, 4},
	rate:       []float64{6.0 / 12, 4.0 / 24},
	fragment:   2.0 / 6,
	balance:    1.0 / 16,
	spread:     (1 + 1.0/3) / 2,
	square:     82.0 / 256,
}, {
	// The same with an open fleet: machines that hold an item have (8, 16).
	name:       "open",
	fleet:      binpack.Open,
	capacities: [][]int64{{4, 8}, {4, 8}, {4, 8}},
	demands:    [][]int64{{3, 1}, {1, 1}},
	put:        [][]int32{{1, 1, 1}, {0}},
	mix:        []int64{2, 4},
	rate:       []float64{6.0 / 8, 4.0 / 16},
	fragment:   2.0 / 6,
	balance:    1.0 / 16,
	spread:     (1 + 1.0/3) / 2,
	square:     82.0 / 256,
}, {
	// Memory of m0 is full, so its 3 free cpu are lost to every item; of m1's 2
	// free cpu none is lost to (1, 1) and all to (4, 1). Lost: (1·3 + 1·5)/2 of 5.
	// cpu: 1/4 and 2/4 used, deviation 1/8. Memory: 1 and 1/4, deviation 3/8.
	// Squares: (3/4)² + (2/4)² + 0² + (3/4)² = 22/16, ÷ 4.
	name:       "a full dimension",
	fleet:      binpack.Fixed,
	capacities: [][]int64{{4, 4}, {4, 4}},
	demands:    [][]int64{{1, 1}, {4, 1}, {1, 4}, {2, 1}},
	put:        [][]int32{{2}, {3}},
	mix:        []int64{1, 1, 0, 0},
	rate:       []float64{3.0 / 8, 5.0 / 8},
	fragment:   4.0 / 5,
	balance:    (1.0/8 + 3.0/8) / 2,
	spread:     1,
	square:     22.0 / 64,
}, {
	// No machine has the second dimension, though a0 asks for it: it is none's
	// scarcest and in no mean; a0 fits nowhere.
	name:       "dimension without capacity",
	fleet:      binpack.Fixed,
	capacities: [][]int64{{4, 0}, {4, 0}},
	demands:    [][]int64{{1, 5}, {1, 0}},
	put:        [][]int32{{1}, {1, 1, 1}},
	mix:        []int64{1, 3},
	rate:       []float64{4.0 / 8, 0},
	fragment:   1.0 / 4,
	balance:    1.0 / 4,
	spread:     2.0 / 4,
	square:     (9.0/16 + 1.0/16) / 2,
}, {
	// m1 alone has the second dimension: utilisation there 1/2, deviation 0.
	// Demand 3 of 8 against 1 of 2: the second is scarcest, 1 is free, and a1
	// fits m1 (free (3, 1)).
	name:       "dimension on one machine",
	fleet:      binpack.Fixed,
	capacities: [][]int64{{4, 0}, {4, 2}},
	demands:    [][]int64{{2, 0}, {1, 1}},
	put:        [][]int32{{0}, {1}},
	mix:        []int64{1, 1},
	rate:       []float64{3.0 / 8, 1.0 / 2},
	fragment:   0,
	balance:    (1.0 / 8) / 2,
	spread:     1,
	square:     (1.0/4 + 9.0/16 + 1.0/4) / 3,
}, {
	// Two apps of one group: 3 items on 2 machines.
	name:       "group of two apps",
	fleet:      binpack.Fixed,
	capacities: [][]int64{{2}, {2}},
	demands:    [][]int64{{1}, {1}},
	groups:     []int32{0, 0},
	put:        [][]int32{{0, 1}, {1}},
	mix:        []int64{1, 2},
	rate:       []float64{3.0 / 4},
	balance:    1.0 / 4,
	spread:     2.0 / 3,
	square:     (1.0 / 4) / 2,
}, {
	name:       "full",
	fleet:      binpack.Open,
	capacities: [][]int64{{2}, {2}},
	demands:    [][]int64{{2}},
	put:        [][]int32{{0}, {0}},
	mix:        []int64{2},
	rate:       []float64{1},
	spread:     1,
}, {
	// Two devices of size 1000. On m0 shares of 600 stand on both, so 800 are
	// free, in pieces of 400: a whole device (a1) does not fit, nor does 600
	// (a0), though 800 ≥ 600; 300 (a2) does. Lost (800 + 800 + 0)/3 of 800.
	name:       "devices in pieces",
	fleet:      binpack.Fixed,
	devices:    []bool{true},
	capacities: [][]int64{{2000}},
	demands:    [][]int64{{600}, {1000}, {300}},
	put:        [][]int32{{0, 0}},
	mix:        []int64{1, 1, 1},
	rate:       []float64{0.6},
	fragment:   2.0 / 3,
	spread:     1.0 / 2,
	square:     0.16,
}, {
	// Four devices of size 1000. Three hold 600, so 2200 are free, but only one
	// device entirely: two whole ones (a1) do not fit, 600 (a0) does.
	name:       "two whole devices",
	fleet:      binpack.Fixed,
	devices:    []bool{true},
	capacities: [][]int64{{4000}},
	demands:    [][]int64{{600}, {2000}},
	put:        [][]int32{{0, 0, 0}},
	mix:        []int64{1, 1},
	rate:       []float64{0.45},
	fragment:   1.0 / 2,
	spread:     1.0 / 3,
	square:     0.3025,
}, {
	// Single amounts at the limit: two machines of 2⁵⁰, one full, one at half.
	name:       "large amounts",
	fleet:      binpack.Fixed,
	capacities: [][]int64{{binpack.MaxValue}, {binpack.MaxValue}},
	demands:    [][]int64{{binpack.MaxValue}, {binpack.MaxValue / 2}},
	put:        [][]int32{{0}, {1}},
	mix:        []int64{1 << 40, 3 << 40},
	rate:       []float64{0.75},
	fragment:   1.0 / 4,
	balance:    1.0 / 4,
	spread:     1,
	square:     1.0 / 8,
}, {
	name:       "empty mix",
	fleet:      binpack.Fixed,
	capacities: [][]int64{{4}},
	demands:    [][]int64{{1}},
	put:        [][]int32{{0}},
	mix:        []int64{0},
	rate:       []float64{1.0 / 4},
	spread:     1,
	square:     9.0 / 16,
}}

func TestMeasures(t *testing.T) {
	for _, c := range fleetCases {
		t.Run(c.name, func(t *testing.T) {
			s := c.state()
			rate := AllocationRate(s)
			for d, want := range c.rate {
				near(t, fmt.Sprint("allocation rate of dimension ", d), rate[d], want)
			}
			near(t, "fragment", Fragment(s, c.mix), c.fragment)
			near(t, "balance", Balance(s), c.balance)
			near(t, "spread", Spread(s), c.spread)
			near(t, "mean squared free", MeanSquaredFree(s), c.square)
		})
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) < 1e-12) { // also true for NaN
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestScarcest(t *testing.T) {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu"}, {Name: "memory"}},
		Machines: []binpack.MachineLine{
			{Count: 1000, Capacity: []int64{1, 1000}},
			{Count: binpack.Unlimited, Capacity: []int64{96, 192}},
		},
		Apps: []binpack.App{{Demand: []int64{1, 1}}, {Demand: []int64{1, 3}}},
	}
	for _, c := range []struct {
		mix  []int64
		want int
	}{
		{[]int64{0, 0}, -1},
		{[]int64{1, 0}, 0}, // 1/96 > 1/192: the limited line does not count
		{[]int64{0, 1}, 1}, // 1/96 < 3/192
		{[]int64{1, 1}, 0}, // 2/96 = 4/192: the first of equals
	} {
		if got := Scarcest(inst, c.mix); got != c.want {
			t.Errorf("Scarcest(%v) = %d, want %d", c.mix, got, c.want)
		}
	}
}

// randomState is a fleet with devices in its last dimension. Needs are below
// most; machines have at least 100.
func randomState(rng *rand.Rand, machines, apps, dims int, most int64) (*binpack.State, []int64) {
	inst := &binpack.Instance{Types: []string{"any"}, Fleet: binpack.Fixed}
	for d := range dims {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: fmt.Sprint("d", d), One: 1})
	}
	inst.Dimensions[dims-1].Device, inst.Dimensions[dims-1].One = true, 100
	for range machines {
		capacity := make([]int64, dims)
		for d := range capacity {
			capacity[d] = 100 * (1 + rng.Int64N(6))
		}
		inst.Machines = append(inst.Machines, binpack.MachineLine{Count: 1, Capacity: capacity})
	}
	mix := make([]int64, apps)
	for a := range apps {
		need := make([]int64, dims)
		for d := range need {
			need[d] = rng.Int64N(most)
		}
		need[dims-1] = []int64{0, 0, 30, 50, 100, 200}[rng.IntN(6)]
		inst.Groups = append(inst.Groups, binpack.Group{})
		inst.Apps = append(inst.Apps, binpack.App{Group: int32(a), Demand: need})
		mix[a] = rng.Int64N(5)
	}
	s := binpack.NewState(inst)
	for range 3 * machines {
		app, m := int32(rng.IntN(apps)), int32(rng.IntN(machines))
		if s.Fits(app, m) {
			s.Place(binpack.Item{App: app}, m, nil)
		}
	}
	return s, mix
}

// slowFragment asks the state itself about every pair: without limits, rules
// and types a machine that fits is one with room.
func slowFragment(s *binpack.State, mix []int64) float64 {
	d := Scarcest(s.Instance(), mix)
	lost, all := 0.0, 0.0
	for a, n := range mix {
		for m := range int32(s.Size()) {
			if s.Items(m) == 0 {
				continue
			}
			free := float64(n) * float64(s.Free(d)[m])
			all += free
			if !s.Fits(int32(a), m) {
				lost += free
			}
		}
	}
	return lost / all
}

func TestFragmentAgreesWithSlow(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s, mix := randomState(rng, 2+rng.IntN(150), 1+rng.IntN(60), 1+rng.IntN(4), 150)
		if s.Active() == 0 || Scarcest(s.Instance(), mix) < 0 {
			continue
		}
		near(t, fmt.Sprint("fragment of seed ", seed), Fragment(s, mix), slowFragment(s, mix))
	}
}

// Renaming machines and splitting an app in two of equal demand change nothing.
func TestFragmentSplitApp(t *testing.T) {
	c := fleetCases[1]
	c.demands = append(c.demands, c.demands[0])
	c.mix = []int64{1, 4, 1}
	near(t, "fragment", Fragment(c.state(), c.mix), fleetCases[1].fragment)
}

// Scaling demand and capacity by the same factor changes no measure.
func TestScale(t *testing.T) {
	for _, c := range fleetCases {
		if c.devices != nil || c.name == "large amounts" {
			continue
		}
		s := c.state()
		scaled := c
		scaled.capacities, scaled.demands = times(c.capacities, 7), times(c.demands, 7)
		big := scaled.state()
		near(t, c.name+" fragment", Fragment(big, c.mix), Fragment(s, c.mix))
		near(t, c.name+" balance", Balance(big), Balance(s))
		near(t, c.name+" mean squared free", MeanSquaredFree(big), MeanSquaredFree(s))
	}
}

func times(rows [][]int64, k int64) [][]int64 {
	var out [][]int64
	for _, row := range rows {
		scaled := make([]int64, len(row))
		for i, v := range row {
			scaled[i] = k * v
		}
		out = append(out, scaled)
	}
	return out
}

func TestWide(t *testing.T) {
	var sum, part wide
	for range 1 << 10 {
		sum.addTimes(binpack.MaxValue, 1<<20)
		part.addTimes(binpack.MaxValue, 1<<18)
	}
	if sum.float() != math.Ldexp(1, 80) {
		t.Errorf("sum = %v, want 2^80", sum.float())
	}
	near(t, "share", share(part, sum), 0.25)
	near(t, "share of nothing", share(part, wide{}), 0)
}

func ExampleAllocationRate() {
	s := binpack.NewState(&binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}},
		Types:      []string{"any"},
		Fleet:      binpack.Open,
		Machines:   []binpack.MachineLine{{Name: "m", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{8, 32}}},
		Groups:     []binpack.Group{{Name: "web"}},
		Apps:       []binpack.App{{Name: "web", Demand: []int64{2, 4}}},
	})
	for range 3 {
		s.Place(binpack.Item{}, 0, nil)
	}
	fmt.Println(AllocationRate(s))
	// Output: [0.75 0.375]
}

// The large size is that of the Tianchi set: 98 points in time for cpu and for
// memory make some 200 dimensions.
func BenchmarkFragment(b *testing.B) {
	for _, size := range []struct{ machines, apps, dims int }{{300, 400, 2}, {6000, 9338, 200}} {
		b.Run(fmt.Sprintf("machines=%d/apps=%d/dims=%d", size.machines, size.apps, size.dims), func(b *testing.B) {
			s, mix := randomState(rand.New(rand.NewPCG(1, 1)), size.machines, size.apps, size.dims, 40)
			b.ReportAllocs()
			for b.Loop() {
				if f := Fragment(s, mix); f <= 0 || f >= 1 {
					b.Fatal(f)
				}
			}
		})
	}
}
