package linear

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Fixed-point scales. Sums that are updated by adding and subtracting must not
// depend on the order of the updates, so they are integers.
const (
	itemBits  = 10 // R_b, in 1/2¹⁰ items
	shareBits = 26 // c_b, in 1/2²⁶ machines
)

const (
	// commonCV is the coefficient of variation of a factor common to all apps. Without
	// a clock it counts where apps arrive in several requests; where each arrives
	// whole, the arrivals show the factor.
	commonCV = .1
	// maxItems and maxMachines cap the forecast of an app and of all apps together,
	// maxShare caps the need of an item, so that no sum overflows.
	maxItems    = 1 << 24
	maxMachines = 1 << 24
	maxShare    = 1 << (shareBits + 4)
	// repeatSteps is the number of steps of the share of repeated requests.
	repeatSteps = 8
)

// demand estimates the future demand from forecast, clock and arrivals: per app
// (R_b, for the features) and in all (the fleet to open). It follows the state app
// by app; every sum is of integers, so that it equals the sum computed from
// scratch.
type demand struct {
	s        *binpack.State
	know     binpack.Knowledge
	alpha    float64
	beta     float64
	arrivals bool // R_b from arrivals by alpha instead of the rest of the forecast
	counts   bool // the rest of the forecast (K1) or of the total (K2) is followed
	fleet    bool // there is a target number of machines
	z, q     float64
	rho      float64 // ρ: standard deviation of the volume factor, before the first arrival
	total    bool    // the forecast's total counts without a clock, too

	limits *limitBound // nil = not needed

	reference []float64 // per dimension: the largest capacity of a kind, in units
	share     [][]int64 // [dimension][app] demand ÷ reference, shareBits
	dominant  []int64   // [app] largest share, shareBits

	remaining []int64 // R_b, itemBits
	sumRC     int64   // Σ R_b·c_b, itemBits+shareBits
	rest      []int64 // of the forecast or the total, itemBits
	coming    []int64 // [dimension] Σ rest·share, itemBits+shareBits
	variance  float64 // Σ (rest·dominant)² in (2⁻¹⁰ machines)², whole numbers

	departed bool    // an item has left: living items are counted instead of arrived ones
	seen     []int64 // items that have arrived, per app
	// sumSquares are the squared sizes of their requests, per app.
	sumSquares []int64
	arrived    []int64 // [dimension] their volume, itemBits+shareBits
	items      int64
	squares    int64 // Σ of squared request sizes
	requests   int64
	apps       int64 // that have arrived
	repeat     int64 // share of repeated requests, in repeatSteps

	alive    []int64 // items on machines, per app
	standing []int64 // [dimension] their volume, itemBits+shareBits

	forecast []float64 // [dimension] Σ m_a·share_a, in machines
	each     float64   // cap of the forecast of each app, in 2⁻²⁶ machines
	heaviest float64   // the largest forecast, likewise
	volume   *volume   // with forecast and clock, or pace
	pace     float64   // how many times the error of the estimate counts

	target []float64 // [dimension] reference machines wanted by now
	final  []float64 // [dimension] reference machines wanted in the end
}

func newDemand(s *binpack.State, know binpack.Knowledge, params map[string]float64) *demand {
	inst := s.Instance()
	n, dims := len(inst.Apps), len(inst.Dimensions)
	d := &demand{
		s: s, know: know,
		counts:    know == binpack.K1 || know == binpack.K2,
		reference: make([]float64, dims), share: make([][]int64, dims), dominant: make([]int64, n),
		remaining: make([]int64, n), rest: make([]int64, n), coming: make([]int64, dims),
		seen: make([]int64, n), sumSquares: make([]int64, n), arrived: make([]int64, dims), forecast: make([]float64, dims),
		alive: make([]int64, n), standing: make([]int64, dims),
		target: make([]float64, dims), final: make([]float64, dims),
	}
	d.alpha, d.arrivals = params["alpha"]
	d.arrivals = d.arrivals || !know.Forecast() && know != binpack.K2
	d.beta = params["beta"]
	d.z, d.fleet = params["z"]
	d.q = params["q"]
	if d.rho, d.total = params["rho"]; !d.total {
		d.rho = priorSD
	}
	d.fleet = d.fleet && inst.Fleet == binpack.Open && know != binpack.K0 &&
		(!know.Forecast() || anyGiven(s.Known.Expected)) &&
		(!know.Clock() || !anyGiven(s.Known.Lifetime)) // the clock does not determine which items stay
	for _, k := range s.Kinds() {
		for i, c := range k.Capacity {
			d.reference[i] = max(d.reference[i], float64(c))
		}
	}
	for i := range d.share {
		d.share[i] = make([]int64, n)
		for a := range inst.Apps {
			d.setShare(int32(a), i)
		}
	}
	if !d.fleet { // the sums by dimension are not needed
		d.coming, d.arrived, d.standing, d.target, d.final = nil, nil, nil, nil, nil
	}
	d.each = capOfEach(n)
	if know.Forecast() {
		for i := range d.forecast {
			for a := range inst.Apps {
				d.forecast[i] += float64(max(0, d.expected(int32(a))) * float64(d.share[i][a]) / (1 << shareBits))
			}
		}
		for a, m := range s.Known.Expected {
			d.heaviest = max(d.heaviest, m*float64(max(1, d.dominant[a])))
		}
	}
	var paced bool
	d.pace, paced = params["pace"]
	if know == binpack.K1Clock || know == binpack.K1 && paced && d.fleet {
		d.volume = newVolume(d, d.rho)
	}
	return d
}

// setShare computes an app's share in a dimension.
func (d *demand) setShare(a int32, i int) {
	if d.reference[i] > 0 {
		need := float64(d.s.Instance().Apps[a].Demand[i])
		d.share[i][a] = int64(min(maxShare, math.Round(need/d.reference[i]*(1<<shareBits))))
	}
	d.dominant[a] = max(d.dominant[a], d.share[i][a])
}

// capOfEach is the cap of each app's forecast where there are n.
func capOfEach(n int) float64 { return float64(maxMachines << shareBits / int64(max(1, n))) }

// most is the cap of an app's forecast, in items.
func (d *demand) most(a int32) float64 { return min(maxItems, d.each/float64(max(1, d.dominant[a]))) }

// anyGiven reports whether a forecast column has a value at all.
func anyGiven(column []float64) bool {
	return slices.ContainsFunc(column, func(m float64) bool { return m >= 0 })
}

// reload computes everything from the state.
func (d *demand) reload() {
	d.sumRC, d.items, d.squares, d.apps, d.variance = 0, 0, 0, 0, 0
	clear(d.remaining)
	clear(d.rest)
	clear(d.arrived)
	clear(d.coming)
	clear(d.alive)
	clear(d.standing)
	if d.limits != nil {
		d.limits.clear()
	}
	copy(d.seen, d.s.Seen())
	copy(d.sumSquares, d.s.SumSquares())
	for a, n := range d.seen {
		d.items += n
		d.squares += d.s.SumSquares()[a]
		if n > 0 {
			d.apps++
		}
		for i := range d.arrived {
			d.arrived[i] += n << itemBits * d.share[i][a]
		}
	}
	d.departed = d.s.Left() > 0
	d.requests = d.s.RequestCount()
	d.repeat = d.repeatStep()
	for a := range d.seen {
		d.setRemaining(int32(a))
	}
	if d.volume != nil {
		d.volume.reset()
		for a, n := range d.seen {
			d.volume.add(d, int32(a), n, d.s.SumSquares()[a])
		}
	}
}

// stale reports whether following the state app by app is not enough: the first
// departure changes the counted items of every app.
func (d *demand) stale() bool { return d.departed != (d.s.Left() > 0) }

// arrive follows the requests that arrived since the last call, of these apps. It
// reports whether the R_b of every app may have changed, not only theirs.
func (d *demand) arrive(apps []int32) (everything bool) {
	for _, a := range apps {
		d.count(a)
	}
	d.requests = d.s.RequestCount()
	if d.know == binpack.K1 {
		if step := d.repeatStep(); step != d.repeat {
			d.repeat = step
			for b := range d.seen {
				d.setRemaining(int32(b))
			}
			return true
		}
	}
	for _, a := range apps {
		d.setRemaining(a)
	}
	return false
}

// count adds the new arrivals of an app.
func (d *demand) count(a int32) {
	if d.seen[a] == 0 {
		d.apps++
	}
	n, squares := d.s.Seen()[a]-d.seen[a], d.s.SumSquares()[a]-d.sumSquares[a]
	d.seen[a] += n
	d.sumSquares[a] += squares
	d.items += n
	d.squares += squares
	for i := range d.arrived {
		d.arrived[i] += n << itemBits * d.share[i][a]
	}
	if d.volume != nil {
		d.volume.add(d, a, n, squares)
	}
}

// coarse is the dominant share of an item in 2⁻¹⁰ machines, at least one.
func (d *demand) coarse(a int32) int64 {
	return max(1, d.dominant[a]>>(shareBits-itemBits))
}

// repeatStep measures how often apps arrive again. It is 0 if every request so far
// was the first of its app; an app that has arrived then counts as complete.
func (d *demand) repeatStep() int64 {
	if d.requests == 0 {
		return 0
	}
	return (2*repeatSteps*(d.requests-d.apps) + d.requests) / (2 * d.requests)
}

// setRemaining computes R_a and the sums it is part of.
func (d *demand) setRemaining(a int32) {
	if n := d.s.Alive()[a]; n != d.alive[a] {
		for i := range d.standing {
			d.standing[i] += (n - d.alive[a]) << itemBits * d.share[i][a]
		}
		if d.limits != nil {
			d.limits.add(d.s, d.s.Instance().Apps[a].Group, n-d.alive[a])
		}
		d.alive[a] = n
	}
	if d.counts {
		rest := d.restOf(a)
		for i := range d.coming {
			d.coming[i] += (rest - d.rest[a]) * d.share[i][a]
		}
		d.variance += d.square(rest, a) - d.square(d.rest[a], a)
		d.rest[a] = rest
	}
	r := d.rest[a]
	if d.know == binpack.K1Clock {
		r = int64(math.Round(max(0, d.expected(a)-float64(d.seen[a])) * (1 << itemBits)))
	}
	if d.arrivals {
		r = int64(math.Round((float64(d.alpha*float64(d.s.Alive()[a]))+.5)*(1<<itemBits) + float64(d.beta*float64(r))))
	}
	d.sumRC += (r - d.remaining[a]) * d.dominant[a]
	d.remaining[a] = r
}

// restOf returns the remainder of the forecast, or of the known total, that has yet
// to arrive. Where items depart, the number alive at the same time counts.
func (d *demand) restOf(a int32) int64 {
	have := d.seen[a]
	if d.departed {
		have = d.s.Alive()[a]
	}
	switch {
	case d.know == binpack.K2 && d.s.Known.Total == nil:
		return 0
	case d.know == binpack.K2:
		return int64(max(0, min(d.most(a), float64(d.s.Known.Total[a]))-float64(have))) << itemBits
	}
	m := max(0, d.expected(a))
	rest := int64(math.Round(max(0, m-float64(have)) * (1 << itemBits)))
	if d.seen[a] > 0 {
		rest = rest * d.repeat / repeatSteps
	}
	return rest
}

// expected is the capped forecast of an app, negative without one.
func (d *demand) expected(a int32) float64 {
	if d.s.Known.Expected == nil {
		return -1
	}
	return min(d.most(a), d.s.Known.Expected[a])
}

// square of an app's rest in 2⁻¹⁰ machines: a whole number, so that float sums
// of it are exact.
func (d *demand) square(rest int64, a int32) float64 {
	v := float64(rest * d.dominant[a] >> shareBits)
	return v * v
}

// plan computes how many machines, per dimension, should be open by now and in
// the end: F(t) = (1 + .2·z)·max(V·(1 − q·sd), min(V arrived, V)). The lower
// quantile matters, since a machine opened too early stays open.
func (d *demand) plan() {
	if !d.fleet {
		return
	}
	paced := d.paced()
	if (paced || d.know.Clock()) && d.s.Left() > 0 { // arrived items do not all stay
		clear(d.target)
		clear(d.final)
		return
	}
	sd := 0.0
	switch d.know {
	case binpack.K0Clock:
		n := float64(d.items) + 1
		sd = math.Sqrt(min(1, (1-max(0, d.s.Known.Elapsed))*float64(d.squares)/n/n))
	case binpack.K1Clock:
		t := d.s.Known.Elapsed
		sd = d.volume.estimate(t, max(min(1, t), minElapsed), d.final)
	case binpack.K1:
		if paced {
			t, sdShare := d.volume.pace()
			sd = min(1, d.pace*math.Hypot(d.volume.estimate(t, 1, d.final), sdShare))
		}
	default:
	}
	for i := range d.target {
		arrived := machinesOf(d.arrived[i])
		v := 0.0
		switch {
		case d.know == binpack.K0Clock:
			v = arrived / max(d.s.Known.Elapsed, minElapsed)
		case paced, d.know == binpack.K1Clock:
			v = d.final[i]
		default:
			v = arrived + machinesOf(d.coming[i])
			if d.s.Left() > 0 {
				v = d.living(i) + machinesOf(d.coming[i])
			}
			if v > 0 && d.know == binpack.K1 {
				coming := machinesOf(d.coming[i]) * float64(d.repeat) / repeatSteps
				sd = min(1, math.Hypot(appCV*math.Sqrt(d.variance)/(1<<itemBits), commonCV*coming)/v)
				if d.total {
					v, sd = weigh(d.forecast[i], d.rho, v, sd)
				}
			}
		}
		d.final[i] = (1 + .2*d.z) * v
		d.target[i] = (1 + .2*d.z) * max(v*(1-d.q*sd), min(arrived, v))
	}
}

// paced reports whether the elapsed share is estimated. Where apps arrive whole, each that
// has arrived is complete, which is more informative.
func (d *demand) paced() bool { return d.volume != nil && d.know == binpack.K1 && d.repeat > 0 }

func (d *demand) living(dimension int) float64 { return machinesOf(d.standing[dimension]) }

func machinesOf(v int64) float64 { return float64(v) / (1 << (itemBits + shareBits)) }

// open reports whether an empty machine is a candidate like any other, and returns
// the number of reference machines that remain to be opened.
func (d *demand) open() (more bool, left int64) {
	for i := range d.target {
		have := 0.0
		for k, n := range d.s.Held() {
			have += float64(float64(n) * float64(d.s.Kinds()[k].Capacity[i]))
		}
		if d.reference[i] == 0 {
			continue
		}
		have /= d.reference[i]
		more = more || have < d.target[i]-1e-9
		left = max(left, int64(math.Ceil(d.final[i]-have-1e-9)))
	}
	return more, left
}
