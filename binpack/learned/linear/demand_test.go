package linear

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// demandInstance has one kind of machine of 10 cpu and 20 memory and apps of
// the given demands.
func demandInstance(fleet binpack.Fleet, demands ...[]int64) *binpack.Instance {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}},
		Types:      []string{""}, Fleet: fleet,
		Machines: []binpack.MachineLine{{Name: "m", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{10, 20}}},
	}
	if fleet == binpack.Fixed {
		inst.Machines[0].Count = 6
	}
	for a, need := range demands {
		inst.Groups = append(inst.Groups, binpack.Group{Name: fmt.Sprint("a", a)})
		inst.Apps = append(inst.Apps, binpack.App{Name: fmt.Sprint("a", a), Group: int32(a), Demand: need, Expected: -1, Lifetime: -1})
	}
	return inst
}

// fresh is the demand computed from the state alone.
func fresh(s *binpack.State, p *Policy) *demand {
	d := newDemand(s, p.know, p.params)
	d.reload()
	d.plan()
	return d
}

// sameDemand compares everything but the scratch memory.
func sameDemand(t *testing.T, want, got *demand, msg string) {
	t.Helper()
	type view struct {
		Remaining, Rest, Coming, Seen, Arrived []int64
		SumRC, Items, Squares, Requests, Apps  int64
		Variance                               float64
		Target, Final                          []float64
	}
	of := func(d *demand) view {
		return view{
			d.remaining, d.rest, d.coming, d.seen, d.arrived, d.sumRC, d.items, d.squares, d.requests, d.apps,
			d.variance, d.target, d.final,
		}
	}
	require.Equal(t, of(want), of(got), msg)
	if want.know == binpack.K1 {
		require.Equal(t, want.repeat, got.repeat, msg)
	}
	if want.fleet && (!want.know.Clock() || want.s.Departures() == 0) { // else nobody asks
		require.Equal(t, want.volume, got.volume, msg)
	}
}

// TestDemandFollows: after any arrivals, placements and removals the demand kept
// up to date equals the one computed from scratch.
func TestDemandFollows(t *testing.T) {
	for _, know := range []binpack.Knowledge{binpack.K0, binpack.K0Clock, binpack.K1, binpack.K1Clock, binpack.K2} {
		for seed := range uint64(24) {
			t.Run(fmt.Sprintf("%s/%d", know, seed), func(t *testing.T) { followDemand(t, know, seed) })
		}
	}
}

func followDemand(t *testing.T, know binpack.Knowledge, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, uint64(know)))
	fleet := binpack.Fleet(seed % 2)
	inst := demandInstance(fleet, []int64{3, 2}, []int64{1, 7}, []int64{4, 0}, []int64{0, 0}, []int64{2, 20}, []int64{11, 1})
	s := binpack.NewState(inst)
	p := everyFeature(t, know, seed%3 == 0 || !know.Forecast() && know != binpack.K2)
	if seed%4 < 2 {
		p.params["pace"] = .8
	}
	if know.Forecast() {
		s.Known.Expected = []float64{20, 3.7, -1, 5, 12, 0}
		if seed%5 == 4 {
			s.Known.Lifetime = []float64{-1, 30, -1, -1, -1, -1}
		}
	}
	if know == binpack.K2 {
		s.Known.Total = []int64{9, 4, 0, 12, 3, 1}
	}
	l := NewScorer(p, s)
	type stand struct{ app, m int32 }
	var on []stand
	var cand []int32
	const steps = 250
	for i := range steps {
		if know.Clock() {
			s.Known.Elapsed = float64(i) / (steps - 1)
		}
		for range rng.IntN(4) {
			a := rng.Int32N(int32(len(inst.Apps)))
			switch op := rng.IntN(5); {
			case op < 2:
				s.Arrive(a, 1+rng.Int32N(6))
			case op < 4:
				if cand = s.Feasible(a, cand[:0]); len(cand) > 0 {
					m := cand[rng.IntN(len(cand))]
					s.Place(binpack.Item{App: a}, m, nil)
					on = append(on, stand{a, m})
				}
			case len(on) > 0 && i > steps/3 && seed%4 > 0: // at first, and at times always, nothing leaves
				j := rng.IntN(len(on))
				s.Remove(on[j].app, on[j].m, nil)
				on[j] = on[len(on)-1]
				on = on[:len(on)-1]
			}
		}
		cand = s.Feasible(0, cand[:0])
		l.Score(binpack.Item{App: 0}, cand, make([]float64, len(cand)))
		sameDemand(t, fresh(s, p), l.d, fmt.Sprint("step ", i))
	}
}

// items arrive, and some of them are placed.
func arrive(s *binpack.State, app int32, count, placed int) {
	s.Arrive(app, int32(count))
	for range placed {
		m := s.Feasible(app, nil)[0]
		s.Place(binpack.Item{App: app}, m, nil)
	}
}

// TestDemandByHand works the formulas out on two apps: a takes .3 of a machine
// (cpu 3 of 10, memory 2 of 20), b .35 (cpu 1, memory 7).
func TestDemandByHand(t *testing.T) {
	const tolerance = 1e-6 // shares have 26 bits
	setup := func(know binpack.Knowledge, params map[string]float64) (*binpack.State, *demand) {
		s := binpack.NewState(demandInstance(binpack.Open, []int64{3, 2}, []int64{1, 7}))
		if know.Clock() {
			s.Known.Elapsed = 0
		}
		if know.Forecast() {
			s.Known.Expected = []float64{10, 4.5}
		}
		if know == binpack.K2 {
			s.Known.Total = []int64{12, 4}
		}
		return s, newDemand(s, know, params)
	}
	remaining := func(d *demand) []float64 {
		return []float64{float64(d.remaining[0]) / (1 << itemBits), float64(d.remaining[1]) / (1 << itemBits)}
	}
	sumRC := func(d *demand) float64 { return float64(d.sumRC) / (1 << (itemBits + shareBits)) }

	t.Run("K0 counts arrivals", func(t *testing.T) {
		s, d := setup(binpack.K0, map[string]float64{"alpha": 1.5, "z": 0})
		arrive(s, 0, 5, 4)
		d.reload()
		d.plan()
		// 1.5·4 + ½ and 1.5·0 + ½; 6.5·.3 + .5·.35 machines; no fleet to open.
		assert.InDeltaSlice(t, []float64{6.5, .5}, remaining(d), tolerance)
		assert.InDelta(t, 6.5*.3+.5*.35, sumRC(d), tolerance)
		assert.False(t, d.fleet)
		more, left := d.open()
		assert.Equal(t, []any{false, int64(0)}, []any{more, left})
	})

	t.Run("K1 counts the forecast down", func(t *testing.T) {
		s, d := setup(binpack.K1, map[string]float64{"z": .5, "q": 2})
		d.reload()
		d.plan()
		assert.InDeltaSlice(t, []float64{10, 4.5}, remaining(d), tolerance)
		// Nothing has come: repeat share 0, so only each app's own error counts.
		// cpu 10·.3 + 4.5·.1 = 3.45, memory 10·.1 + 4.5·.35 = 2.575;
		// sd = .25·√((10·.3)² + (4.5·.35)²) machines; target (1 + .2·.5)·(V − 2·sd).
		sd := .25 * math.Hypot(3, 4.5*.35)
		assert.InDeltaSlice(t, []float64{1.1 * 3.45, 1.1 * 2.575}, d.final, .002)
		assert.InDeltaSlice(t, []float64{1.1 * (3.45 - 2*sd), 1.1 * (2.575 - 2*sd)}, d.target, .002)

		arrive(s, 0, 4, 3)
		d.reload()
		d.plan()
		// One request, of a first app: it is taken to be complete. Arrived: cpu 1.2,
		// memory .4. V = 1.2 + .45 and .4 + 1.575; sd = .25·1.575.
		assert.InDeltaSlice(t, []float64{0, 4.5}, remaining(d), tolerance)
		assert.InDelta(t, 4.5*.35, sumRC(d), tolerance)
		sd = .25 * 4.5 * .35
		assert.InDeltaSlice(t, []float64{1.1 * 1.65, 1.1 * 1.975}, d.final, .002)
		assert.InDeltaSlice(t, []float64{1.1 * 1.2, 1.1 * (1.975 - 2*sd)}, d.target, .002, "not under what has come")

		arrive(s, 0, 2, 2)
		d.reload()
		d.plan()
		// Two requests, one a repetition: ½, so 4 of the forecast's 10 − 6 come with
		// weight ½. V: cpu 1.8 + .6 + .45 = 2.85, memory .6 + .2 + 1.575 = 2.375. sd:
		// own errors .25·√((2·.3)² + 1.575²) beside the common .1·½·coming.
		assert.Equal(t, int64(repeatSteps/2), d.repeat)
		assert.InDeltaSlice(t, []float64{2, 4.5}, remaining(d), tolerance)
		assert.InDeltaSlice(t, []float64{1.1 * 2.85, 1.1 * 2.375}, d.final, .002)
		sdOf := func(coming float64) float64 { return math.Hypot(.25*math.Hypot(2*.3, 1.575), .1*.5*coming) }
		assert.InDelta(t, 1.1*max(2.85-2*sdOf(1.05), 1.8), d.target[0], .002)
		assert.InDelta(t, 1.1*(2.375-2*sdOf(1.775)), d.target[1], .002)

		more, left := d.open() // machines in use: 3 + 2 of a fit on two
		assert.Equal(t, 2, s.Active())
		assert.Equal(t, []any{true, int64(2)}, []any{more, left}, "2 in use, 2.2 wanted by now and 3.135 in the end")
	})

	t.Run("more than forecast", func(t *testing.T) {
		s, d := setup(binpack.K1, nil)
		arrive(s, 1, 9, 0)
		arrive(s, 1, 9, 0)
		d.reload()
		assert.InDeltaSlice(t, []float64{10, 0}, remaining(d), tolerance)
	})

	t.Run("departures", func(t *testing.T) {
		s, d := setup(binpack.K1, map[string]float64{"z": 0})
		arrive(s, 0, 4, 4)
		arrive(s, 0, 1, 1)
		s.Remove(0, 0, nil)
		d.reload()
		d.plan()
		// 4 live, 10 expected to live at a time; repeat ½. V = living 1.2 + 3·.3 + .45.
		assert.InDeltaSlice(t, []float64{3, 4.5}, remaining(d), tolerance)
		assert.InDelta(t, 1.2+.9+.45, d.final[0], .002)
	})

	t.Run("K2 counts the total down", func(t *testing.T) {
		s, d := setup(binpack.K2, map[string]float64{"z": -1, "q": 2})
		arrive(s, 0, 5, 5)
		arrive(s, 1, 1, 0)
		d.reload()
		d.plan()
		assert.InDeltaSlice(t, []float64{7, 3}, remaining(d), tolerance)
		// cpu 12·.3 + 4·.1 = 4, memory 12·.1 + 4·.35 = 2.6, known for sure, ·.8.
		assert.InDeltaSlice(t, []float64{3.2, 2.08}, d.target, .001)
		assert.InDeltaSlice(t, []float64{3.2, 2.08}, d.final, .001)
	})

	t.Run("K0+clock", func(t *testing.T) {
		s, d := setup(binpack.K0Clock, map[string]float64{"alpha": 1, "z": 0, "q": .5})
		arrive(s, 0, 4, 0)
		arrive(s, 1, 3, 0)
		s.Known.Elapsed = .25
		d.reload()
		d.plan()
		// What came ÷ the elapsed share: cpu 1.5/.25 = 6, memory 1.45/.25 = 5.8;
		// sd = √(.75·(16 + 9)/8²), 8 = items + 1.
		sd := math.Sqrt(.75 * 25 / 64)
		assert.InDeltaSlice(t, []float64{6, 5.8}, d.final, .001)
		assert.InDeltaSlice(t, []float64{6 * (1 - .5*sd), 5.8 * (1 - .5*sd)}, d.target, .001)
		s.Known.Elapsed = 0 // taken as .02
		d.plan()
		assert.InDelta(t, 1.5/.02, d.final[0], .01)
		s.Known.Elapsed = 1 // all has come
		d.plan()
		assert.InDeltaSlice(t, []float64{1.5, 1.45}, d.target, .001)
	})

	t.Run("K1+clock", func(t *testing.T) {
		s, d := setup(binpack.K1Clock, map[string]float64{"z": 0, "q": .5})
		arrive(s, 0, 6, 0)
		arrive(s, 0, 2, 0)
		s.Known.Elapsed = .5
		d.reload()
		d.plan()
		assert.InDeltaSlice(t, []float64{2, 4.5}, remaining(d), tolerance)
		// Of the 10 items of a (class 8 … 16) 8 have come in requests of 6 and 2, of
		// the 4.5 of b (4 … 8) none. r = 8/14.5; scatter (8 − 10·r)² + (4.5·r)² = 12.3.
		// A request brings (40 + 3·5)/(8 + 3) = 5 items of a, 15/3 = 5 of b: half of
		// chance is ½·½·r·(50 + 22.5) = 10.
		r := 8 / 14.5
		around, own := (8-10*r)*(8-10*r)+4.5*4.5*r*r, (100+4.5*4.5)*r*r
		c2 := max(.0625, (around-.5*.5*r*5*14.5)/own)
		assert.InDelta(t, c2, d.volume.scatter(.5), tolerance)
		// Dominant shares: F = 3 and 1.575 machines, X = 2.4 and 0; a request brings
		// u = (40·.09 + p·1.5)/(2.4 + p) of a, 1.5 of b, p = 3·4.575/14.5.
		fa, fb, x := 3., 4.5*.35, 2.4
		p := 3 * (fa + fb) / 14.5
		ua, ub := (3.6+p*1.5)/(x+p), 1.5
		common := .0025 + (c2-.0625)*(c2-.0625)
		va, vb := c2*fa*fa+common*fa*fa, c2*fb*fb+common*fb*fb
		cross := (c2 - .0625) * (c2 - .0625) * fa * fb
		wa, wb := fa*fa/(va+cross+ua*fa), fb*fb/(vb+cross+ub*fb) // (1−t)/t = 1
		factor := .0625 - .0625*(fa*fa+fb*fb)/(fa+fb)/(fa+fb)
		g := (1 + factor*wa*x/(.5*fa)) / (1 + factor*(wa+wb))
		ka := g * g * va / (.5*g*g*va + .5*ua*g*fa)
		kb := g * g * vb / (.5*g*g*vb + .5*ub*g*fb)
		whole := g*fa + ka*(x-.5*g*fa) + g*fb*(1-.5*kb)
		spread := g*g*va*(1-.5*ka) + g*g*vb*(1-.5*kb)
		lever := fa*(1-.5*ka) + fb*(1-.5*kb)
		sd := math.Sqrt(spread+lever*lever*factor/(1+factor*(wa+wb))) / whole
		cpu := g*3 + ka*(2.4-.5*g*3) + g*.45*(1-.5*kb)
		memory := g*1 + ka*(.8-.5*g*1) + g*1.575*(1-.5*kb)
		const close = .01 // shares of 2⁻¹⁰
		assert.InDeltaSlice(t, []float64{cpu, memory}, d.final, close)
		require.Less(t, .8, memory*(1-.5*sd))
		assert.InDeltaSlice(t, []float64{max(cpu*(1-.5*sd), 2.4), memory * (1 - .5*sd)}, d.target, close)
		s.Known.Elapsed = 1 // all has come
		d.plan()
		assert.InDeltaSlice(t, []float64{2.4, .8}, d.final, .01)
	})

	t.Run("an exact total", func(t *testing.T) {
		for _, know := range []binpack.Knowledge{binpack.K1, binpack.K1Clock} {
			s, d := setup(know, map[string]float64{"z": 0, "q": 2, "rho": 0})
			arrive(s, 0, 6, 0)
			if know.Clock() {
				s.Known.Elapsed = .5
			}
			d.reload()
			d.plan()
			assert.InDeltaSlice(t, []float64{3.45, 2.575}, d.final, 1e-5)
			assert.InDeltaSlice(t, []float64{3.45, 2.575}, d.target, 1e-5)
		}
	})

	t.Run("an app without forecast comes at the pace so far", func(t *testing.T) {
		s, _ := setup(binpack.K1Clock, nil)
		s.Known.Expected = []float64{-1, 0}
		d := newDemand(s, binpack.K1Clock, map[string]float64{"z": 0})
		arrive(s, 0, 4, 0)
		s.Known.Elapsed = .25
		d.reload()
		d.plan()
		assert.InDeltaSlice(t, []float64{4.8, 1.6}, d.final, .001)
	})

	t.Run("alpha and beta", func(t *testing.T) {
		s, d := setup(binpack.K1Clock, map[string]float64{"alpha": .5, "beta": 2})
		arrive(s, 0, 6, 5)
		d.reload()
		assert.InDeltaSlice(t, []float64{.5*5 + .5 + 2*4, .5 + 2*4.5}, remaining(d), tolerance)
	})

	t.Run("where items depart the clock says nothing", func(t *testing.T) {
		s, d := setup(binpack.K1Clock, map[string]float64{"z": 0})
		arrive(s, 0, 2, 2)
		s.Remove(0, 0, nil)
		d.reload()
		d.plan()
		assert.Equal(t, [][]float64{{0, 0}, {0, 0}}, [][]float64{d.target, d.final})
	})
}
