package policy

import (
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Fixed-point scales. Sums that are kept up to date by adding and subtracting
// must not depend on the order in which that happened, so they are integers.
const (
	itemBits  = 10 // R_b, in 1/2¹⁰ items
	shareBits = 26 // c_b, in 1/2²⁶ machines
	ratioBits = 40 // the terms of the global factor
)

const (
	priorSD = .25 // ρ: standard deviation of the volume factor, before the first arrival
	// commonCV is that of a factor common to all apps. Without a clock it counts
	// where apps come in several requests; where each comes whole, what has come
	// shows the factor.
	commonCV = .1
	appCV    = .25 // c: least coefficient of variation of an app's count around its forecast
	// cvSteps is the number of steps, of √2 each, in which c follows the data.
	cvSteps = 6
	// clockSteps is the number of steps in which the weights of the global
	// factor follow the clock: between two of them an arrival changes one term.
	clockSteps = 256
	// minElapsed keeps the estimate "what came ÷ the elapsed share" finite.
	minElapsed = .02
	// repeatSteps is the number of steps of the share of repeated requests.
	repeatSteps = 8
)

// demand estimates from forecast, clock and arrivals what is still to come:
// per app (R_b, for the features) and in all (the fleet to open). It follows
// the state app by app; every sum is of integers, so that it equals the sum
// computed afresh.
type demand struct {
	s        *binpack.State
	know     binpack.Knowledge
	alpha    float64
	arrivals bool // R_b from arrivals by alpha instead of the rest of the forecast
	counts   bool // the rest of the forecast (K1) or of the total (K2) is followed
	fleet    bool // there is a target number of machines
	z, q     float64

	reference []float64 // per dimension: the largest capacity of a kind, in units
	share     [][]int64 // [dimension][app] demand ÷ reference, shareBits
	dominant  []int64   // [app] largest share, shareBits

	remaining []int64 // R_b, itemBits
	sumRC     int64   // Σ R_b·c_b, itemBits+shareBits
	rest      []int64 // of the forecast or the total, itemBits
	coming    []int64 // [dimension] Σ rest·share, itemBits+shareBits
	variance  float64 // Σ (rest·dominant)² in (2⁻¹⁰ machines)², whole numbers

	departed bool    // an item has left: what lives is counted instead of what came
	seen     []int64 // items that have come, per app
	arrived  []int64 // [dimension] their volume, itemBits+shareBits
	items    int64
	squares  int64 // Σ of squared request sizes
	// Σ of the requests' dominant shares, and of their squares, in 2⁻¹⁰ and 2⁻²⁰
	// machines.
	shares, shareSquares int64
	requests             int64
	apps                 int64 // that have come
	repeat               int64 // share of repeated requests, in repeatSteps

	forecast         []float64 // [dimension] Σ m_a·share_a, in machines
	step             int64     // of the clock
	num, den         int64     // Σ w_a·n_a/(t·m_a) and Σ w_a, ratioBits
	termNum, termDen []int64
	fit              forecastFit

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
		seen: make([]int64, n), arrived: make([]int64, dims), forecast: make([]float64, dims),
		termNum: make([]int64, n), termDen: make([]int64, n),
		target: make([]float64, dims), final: make([]float64, dims),
	}
	d.alpha, d.arrivals = params["alpha"]
	d.arrivals = d.arrivals || !know.Forecast() && know != binpack.K2
	d.z, d.fleet = params["z"]
	d.q = params["q"]
	d.fleet = d.fleet && inst.Fleet == binpack.Open && know != binpack.K0 &&
		(!know.Forecast() || anyGiven(s.Known.Expected)) &&
		(!know.Clock() || !anyGiven(s.Known.Lifetime)) // the clock says nothing of what stays
	for _, k := range s.Kinds() {
		for i, c := range k.Capacity {
			d.reference[i] = max(d.reference[i], float64(c))
		}
	}
	for i := range d.share {
		d.share[i] = make([]int64, n)
		for a := range inst.Apps {
			if d.reference[i] > 0 {
				d.share[i][a] = int64(math.Round(float64(inst.Apps[a].Demand[i]) / d.reference[i] * (1 << shareBits)))
			}
			d.dominant[a] = max(d.dominant[a], d.share[i][a])
		}
		if know.Forecast() {
			for a, m := range s.Known.Expected {
				d.forecast[i] += float64(max(0, m) * float64(d.share[i][a]) / (1 << shareBits))
			}
		}
	}
	return d
}

// anyGiven reports whether a forecast column has a value at all.
func anyGiven(column []float64) bool {
	for _, m := range column {
		if m >= 0 {
			return true
		}
	}
	return false
}

// reload computes everything anew from the state.
func (d *demand) reload() {
	d.sumRC, d.items, d.squares, d.apps, d.variance = 0, 0, 0, 0, 0
	d.shares, d.shareSquares = 0, 0
	clear(d.remaining)
	clear(d.rest)
	clear(d.arrived)
	clear(d.coming)
	copy(d.seen, d.s.Seen())
	for a, n := range d.seen {
		d.items += n
		d.squares += d.s.SumSquares()[a]
		c := d.coarse(int32(a))
		d.shares += n * c
		d.shareSquares += d.s.SumSquares()[a] * c * c
		if n > 0 {
			d.apps++
		}
		for i := range d.arrived {
			d.arrived[i] += n << itemBits * d.share[i][a]
		}
	}
	d.departed = d.s.Departures() > 0
	d.requests = d.s.RequestCount()
	d.repeat = d.repeatStep()
	for a := range d.seen {
		d.setRemaining(int32(a))
	}
	d.reloadRatio()
}

// stale reports that following the state app by app is not enough: the first
// departure changes what is counted for every app.
func (d *demand) stale() bool { return d.departed != (d.s.Departures() > 0) }

// arrive follows the requests of one app that came since the last call. It
// reports whether the R_b of every app may have changed, not only this one's.
func (d *demand) arrive(a int32) (everything bool) {
	if d.seen[a] == 0 {
		d.apps++
	}
	n := d.s.Seen()[a] - d.seen[a]
	d.seen[a] += n
	d.items += n
	d.squares += n * n // one request since the last call
	c := d.coarse(a)
	d.shares += n * c
	d.shareSquares += n * n * c * c
	d.requests = d.s.RequestCount()
	for i := range d.arrived {
		d.arrived[i] += n << itemBits * d.share[i][a]
	}
	if d.know == binpack.K1 {
		if step := d.repeatStep(); step != d.repeat {
			d.repeat = step
			for b := range d.seen {
				d.setRemaining(int32(b))
			}
			return true
		}
	}
	d.setRemaining(a)
	if d.know == binpack.K1Clock {
		d.fit.set(a, n, d.expected(a), d.batch(a))
		if step := d.fit.step(d.elapsed()); step != d.fit.cvStep {
			d.fit.cvStep = step
			d.reloadTerms()
		}
		d.setTerm(a)
	}
	return false
}

// coarse is the dominant share of an item in 2⁻¹⁰ machines, at least one.
func (d *demand) coarse(a int32) int64 {
	return max(1, d.dominant[a]>>(shareBits-itemBits))
}

// repeatStep measures how often apps come again: 0 when every request so far
// was the first of its app; an app that has come is then taken to be complete.
func (d *demand) repeatStep() int64 {
	if d.requests == 0 {
		return 0
	}
	return (2*repeatSteps*(d.requests-d.apps) + d.requests) / (2 * d.requests)
}

// setRemaining computes R_a and the sums it is part of.
func (d *demand) setRemaining(a int32) {
	if d.counts {
		rest := d.restOf(a)
		for i := range d.coming {
			d.coming[i] += (rest - d.rest[a]) * d.share[i][a]
		}
		d.variance += d.square(rest, a) - d.square(d.rest[a], a)
		d.rest[a] = rest
	}
	r := d.rest[a]
	switch {
	case d.arrivals:
		r = int64(math.Round((float64(d.alpha*float64(d.s.Alive()[a])) + .5) * (1 << itemBits)))
	case d.know == binpack.K1Clock:
		r = int64(math.Round(max(0, d.expected(a)-float64(d.seen[a])) * (1 << itemBits)))
	}
	d.sumRC += (r - d.remaining[a]) * d.dominant[a]
	d.remaining[a] = r
}

// restOf counts the forecast, or the known total, down. Where items depart,
// what counts is how many live at the same time.
func (d *demand) restOf(a int32) int64 {
	have := d.seen[a]
	if d.departed {
		have = d.s.Alive()[a]
	}
	switch {
	case d.know == binpack.K2 && d.s.Known.Total == nil:
		return 0
	case d.know == binpack.K2:
		return max(0, d.s.Known.Total[a]-have) << itemBits
	}
	m := max(0, d.expected(a))
	rest := int64(math.Round(max(0, m-float64(have)) * (1 << itemBits)))
	if d.seen[a] > 0 {
		rest = rest * d.repeat / repeatSteps
	}
	return rest
}

// expected is the forecast of an app, negative when there is none.
func (d *demand) expected(a int32) float64 {
	if d.s.Known.Expected == nil {
		return -1
	}
	return d.s.Known.Expected[a]
}

// square of an app's rest in 2⁻¹⁰ machines: a whole number, so that float sums
// of it are exact.
func (d *demand) square(rest int64, a int32) float64 {
	v := float64(rest * d.dominant[a] >> shareBits)
	return v * v
}

// clockStep is the step of the present time; the first when there is no clock.
func (d *demand) clockStep() int64 {
	return max(0, min(clockSteps-1, int64(d.s.Known.Elapsed*clockSteps)))
}

// elapsed is the share of the arrival period that is over, on the grid on which
// the weights of the global factor follow it.
func (d *demand) elapsed() float64 {
	return (float64(d.step) + .5) / clockSteps
}

// reloadRatio computes the global factor for the present clock step:
//
//	G = (ρ⁻² + Σ w_a·n_a/(t·m_a)) ÷ (ρ⁻² + Σ w_a), w_a = 1/(c² + (1−t)·b_a/(t·m_a))
//
// with n_a items come of m_a forecast and the batch factor b_a = (Σ B² + 6) ÷
// (Σ B + 3) over the app's requests of B items: the mean of the volume factor's
// posterior, when each app's count varies around its forecast and comes in
// bursts (precision-weighted, so that bursty apps count little). c follows the
// data, see [forecastFit].
func (d *demand) reloadRatio() {
	if d.know != binpack.K1Clock {
		return
	}
	d.step = d.clockStep()
	d.fit.reset(len(d.seen))
	for a, n := range d.seen {
		d.fit.set(int32(a), n, d.expected(int32(a)), d.batch(int32(a)))
	}
	d.fit.cvStep = d.fit.step(d.elapsed())
	d.reloadTerms()
}

// tick is reloadRatio at a new clock step: what the fit counts does not depend
// on the time.
func (d *demand) tick() {
	d.step = d.clockStep()
	d.fit.cvStep = d.fit.step(d.elapsed())
	d.reloadTerms()
}

func (d *demand) reloadTerms() {
	d.num, d.den = 0, 0
	w := d.weighting()
	for a := range d.seen {
		num, den := d.term(int32(a), w)
		d.num += num
		d.den += den
		d.termNum[a], d.termDen[a] = num, den
	}
}

// batch is b_a, the size of a request that an item of app a came in.
func (d *demand) batch(a int32) float64 {
	return (float64(d.s.SumSquares()[a]) + 6) / (float64(d.seen[a]) + 3)
}

// A weighting is what the terms of all apps have in common.
type weighting struct{ t, c2 float64 }

func (d *demand) weighting() weighting {
	c := d.fit.cv()
	return weighting{d.elapsed(), c * c}
}

func (d *demand) setTerm(a int32) {
	num, den := d.term(a, d.weighting())
	d.num += num - d.termNum[a]
	d.den += den - d.termDen[a]
	d.termNum[a], d.termDen[a] = num, den
}

// term is w_a·n_a/(t·m_a) and w_a, in ratioBits; 0 without a forecast.
func (d *demand) term(a int32, at weighting) (num, den int64) {
	m := d.expected(a)
	if m <= 0 {
		return 0, 0
	}
	w := 1 / (at.c2 + (1-at.t)*d.batch(a)/(at.t*m))
	return int64(w * float64(d.seen[a]) / (at.t * m) * (1 << ratioBits)), int64(w * (1 << ratioBits))
}

// forecastFit measures how far the apps' counts are from their forecasts, by
// the method of moments:
//
//	c² = (Σ (n_a − r·m_a)² − (1−t)·r·Σ b_a·m_a) ÷ Σ (r·m_a)², r = Σ n_a ÷ Σ m_a
//
// over the apps with a forecast: their scatter around the common ratio, less
// what the random arrival of batches alone explains.
type forecastFit struct {
	cvStep         int64
	items, squares int64   // Σ n_a, Σ n_a²
	mass           int64   // Σ m_a, itemBits
	cross          int64   // Σ n_a·m_a, itemBits
	massSquares    float64 // Σ m_a² in 2⁻²⁰, whole numbers
	batchMass      int64   // Σ b_a·m_a, itemBits
	batches        []int64 // [app] b_a·m_a, itemBits; 0 = not counted yet
	seen           []int64 // [app] n_a
}

func (f *forecastFit) reset(apps int) {
	if f.seen == nil {
		f.seen, f.batches = make([]int64, apps), make([]int64, apps)
	}
	clear(f.seen)
	clear(f.batches)
	*f = forecastFit{seen: f.seen, batches: f.batches}
}

// set brings an app up to date, of which more items came than were counted.
func (f *forecastFit) set(a int32, more int64, m, batch float64) {
	if m <= 0 {
		return
	}
	fixed := int64(math.Round(m * (1 << itemBits)))
	if f.batches[a] == 0 {
		f.mass += fixed
		f.massSquares += float64(fixed) * float64(fixed)
	}
	have := f.seen[a]
	f.seen[a] += more
	f.squares += f.seen[a]*f.seen[a] - have*have
	f.items += more
	f.cross += more * fixed
	now := 1 + int64(m*batch*(1<<itemBits))
	f.batchMass += now - f.batches[a]
	f.batches[a] = now
}

// step is that of c at an elapsed share.
func (f *forecastFit) step(t float64) int64 {
	if f.items == 0 || f.mass == 0 {
		return 0
	}
	const unit = 1 << itemBits
	r := float64(f.items) * unit / float64(f.mass)
	scatter := float64(f.squares) - 2*r*float64(f.cross)/unit + r*r*f.massSquares/(unit*unit)
	chance := (1 - t) * r * float64(f.batchMass) / unit
	c2 := (scatter - chance) * (unit * unit) / (r * r * f.massSquares)
	return cvStepOf(c2)
}

// cvStepOf is round(log₂(c² ÷ appCV²)) within 0 … cvSteps, by the thresholds at
// which the logarithm passes a half: it is asked at every arrival.
func cvStepOf(c2 float64) int64 {
	for step, least := range cvLeast {
		if !(c2 >= least) { // NaN, too, is the first step
			return int64(step)
		}
	}
	return cvSteps
}

// cvLeast[i] is the smallest c² of step i+1.
var cvLeast = leastOfSteps()

func leastOfSteps() (least [cvSteps]float64) {
	for i := range least {
		// The bits of positive floats are ordered as they are: bisection finds the
		// very first one.
		low, high := math.Float64bits(appCV*appCV), math.Float64bits(appCV*appCV*(2<<cvSteps))
		for low+1 < high {
			mid := (low + high) / 2
			if math.Round(math.Log2(math.Float64frombits(mid)/(appCV*appCV))) > float64(i) {
				high = mid
			} else {
				low = mid
			}
		}
		least[i] = math.Float64frombits(high)
	}
	return least
}

// cv is c.
func (f *forecastFit) cv() float64 { return appCV * math.Exp2(float64(f.cvStep)/2) }

// plan computes how many machines, per dimension, should be open by now and in
// the end: F(t) = (1 + .2·z)·max(V·(1 − q·sd), min(V arrived, V)). The lower
// quantile matters: what was opened too early cannot be taken back.
func (d *demand) plan() {
	if !d.fleet {
		return
	}
	if d.know.Clock() && d.s.Departures() > 0 { // what came is not what stays
		clear(d.target)
		clear(d.final)
		return
	}
	if d.know == binpack.K1Clock && d.clockStep() != d.step {
		d.tick()
	}
	factor, factorSD := d.clockFactor()
	sd := factorSD
	for i := range d.target {
		arrived := machinesOf(d.arrived[i])
		v := 0.0
		switch d.know {
		case binpack.K0Clock:
			v = arrived / max(d.s.Known.Elapsed, minElapsed)
		case binpack.K1Clock:
			v, sd = d.combine(factor*d.forecast[i], factorSD, arrived)
		default:
			v = arrived + machinesOf(d.coming[i])
			if d.s.Departures() > 0 {
				v = d.living(i) + machinesOf(d.coming[i])
			}
			if v > 0 && d.know == binpack.K1 {
				coming := machinesOf(d.coming[i]) * float64(d.repeat) / repeatSteps
				sd = min(1, math.Hypot(appCV*math.Sqrt(d.variance)/(1<<itemBits), commonCV*coming)/v)
			}
		}
		d.final[i] = (1 + .2*d.z) * v
		d.target[i] = (1 + .2*d.z) * max(v*(1-d.q*sd), min(arrived, v))
	}
}

func (d *demand) living(dimension int) float64 {
	sum := int64(0)
	for a, n := range d.s.Alive() {
		sum += n << itemBits * d.share[dimension][a]
	}
	return machinesOf(sum)
}

// clockFactor gives G and its standard deviation; without a forecast the
// standard deviation of "what came ÷ elapsed".
func (d *demand) clockFactor() (factor, sd float64) {
	switch d.know {
	case binpack.K1Clock:
		const prior = 1 / (priorSD * priorSD)
		num, den := float64(d.num)/(1<<ratioBits), float64(d.den)/(1<<ratioBits)
		return (prior + num) / (prior + den), 1 / math.Sqrt(prior+den)
	case binpack.K0Clock:
		n := float64(d.items) + 1
		return 1, math.Sqrt(min(1, (1-max(0, d.s.Known.Elapsed))*float64(d.squares)/n/n))
	default:
		return 1, 0
	}
}

// combine weighs the forecast's volume, in machines, against what came ÷ the
// elapsed share, by their precision. The relative variance of the latter is
// (1−t)·Σ(B·c)² ÷ (Σ B·c)² over the requests of B items of dominant share c. A
// forecast whose apps scatter widely also has a biased factor: the mean of n ÷
// m exceeds 1 by about c² where m is noise.
func (d *demand) combine(byForecast, sd, arrived float64) (v, combined float64) {
	bias := d.fit.cv()*d.fit.cv() - appCV*appCV
	p := 1 / (float64(sd*sd) + float64(bias*bias))
	if d.shares == 0 {
		return byForecast, 1 / math.Sqrt(p)
	}
	t := max(0, d.s.Known.Elapsed)
	q := 1 / ((1-t)*float64(d.shareSquares)/float64(d.shares)/float64(d.shares) + 1e-9)
	return (p*byForecast + q*arrived/max(t, minElapsed)) / (p + q), 1 / math.Sqrt(p+q)
}

func machinesOf(v int64) float64 { return float64(v) / (1 << (itemBits + shareBits)) }

// open reports whether an empty machine is a candidate like any other, and how
// many reference machines are still to be opened in the end.
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
