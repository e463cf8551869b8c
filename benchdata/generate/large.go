package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// The large kinds are a cluster's mix of apps: a few of many containers, many
// of few. They differ in the requests of a container and in the fleet.
var (
	large = Kind{
		Name:   "large",
		Help:   "400 apps, about 5,000 containers in about 3,000 requests over a day; machines of 96c/512Gi, cpu binds",
		Params: append(largeParams(), totalParam, departuresParam, singleParam),
		Make: func(seed uint64, p Values) *trace.Trace {
			return makeLarge(seed, p, largeMix, false)
		},
	}
	large2d = Kind{
		Name:   "large2d",
		Help:   "large with specs of 2 to 8Gi a core: memory binds too",
		Params: append(largeParams(), totalParam, departuresParam, singleParam),
		Make: func(seed uint64, p Values) *trace.Trace {
			return makeLarge(seed, p, large2dMix, false)
		},
	}
	large3d = Kind{
		Name:   "large3d",
		Help:   "large2d with 20 to 400Gi of disk per container on machines of 4Ti",
		Params: append(largeParams(), totalParam, departuresParam, singleParam),
		Make: func(seed uint64, p Values) *trace.Trace {
			return makeLarge(seed, p, large2dMix, true)
		},
	}
	fixed = Kind{
		Name: "fixed",
		Help: "large on a fixed fleet, a little above the volume bound: what does not fit is rejected",
		Params: append(largeParams(), totalParam, departuresParam, singleParam,
			Param{Name: "f", Default: 1.02, Min: .1, Max: 10, Help: "machines ÷ volume bound, rounded up"}),
		Make: func(seed uint64, p Values) *trace.Trace {
			t := makeLarge(seed, p, largeMix, false)
			least := bound.Volume(t.Instance, items(t)).Machines
			t.Instance.Fleet = binpack.Fixed
			// The tolerance keeps 1.1·250 at 275.
			t.Instance.Machines[0].Count = int(math.Ceil(p["f"]*float64(least) - 1e-9))
			return t
		},
	}
)

func largeParams() []Param {
	return append([]Param{
		{Name: "scale", Default: 1, Min: .05, Max: 50, Help: "volume: items, largest apps and largest requests ∝ scale, apps ∝ √scale"},
		{Name: "burst", Default: 40, Min: 1, Max: 1000, Help: "largest request of the 20 largest apps, at scale 1"},
	}, forecastParams()...)
}

// leastForecast is the least factor of a forecast that is given.
const leastForecast = .01

func forecastParams() []Param {
	return []Param{
		{Name: "forecast", Default: 1, Max: 100, Help: "factor on every expected count, at least .01; 0: no forecast"},
		{Name: "noise", Default: 0, Max: 3, Help: "error of the forecast: standard deviation of its logarithm, per app"},
	}
}

// expected is the forecast of a true count; negative = no forecast.
func (p Values) expected(count float64, rng *rand.Rand) float64 {
	n := count * p["forecast"] * Lognormal(rng, p["noise"])
	if p["forecast"] == 0 {
		return -1
	}
	return math.Round(n*100) / 100
}

var (
	largeMix = []spec{{1, 2, .06}, {2, 4, .08}, {4, 8, .55}, {8, 16, .27}, {16, 32, .04}}

	large2dMix = []spec{
		{1, 4, .05},
		{2, 8, .08},
		{4, 8, .28},
		{4, 16, .12},
		{4, 32, .14},
		{8, 16, .13},
		{8, 32, .08},
		{8, 64, .08},
		{16, 64, .04},
	}

	largeDisks  = []int64{20, 50, 100, 200, 400} // GiB
	largeLimits = []int{2, 2, 3, 4, 8}
)

const (
	largeApps     = 400
	largeItems    = 4880 // mean at scale 1: 25,474 cpu ÷ 5.22, the mean of largeMix
	largeCap      = 200  // largest mean of an app
	largeExponent = -.8  // of the rank
	largeTop      = 20   // apps that arrive in bursts
	largeDegree   = 4    // mean number of apps that an app excludes

	// largeGeometric is the mean request of the other apps that gives about
	// 3,000 requests.
	largeGeometric = 1.12

	// largeShare of the machines of the volume bound is the most that one app,
	// or two that exclude each other, may need by their limits: beyond it the
	// volume bound would no longer be the limit of the reachable.
	largeShare = .8

	day = 86400. // seconds
)

// A population is the apps of a large instance, largest first, before any item
// of them has arrived.
type population struct {
	specs      []spec
	disks      []int64 // GiB, nil without disk
	limits     []int
	means      []float64 // containers
	exclusions []pair
	top        int // the first apps arrive in bursts
	burst      int // of at most this many
}

// newPopulation draws specs, limits and exclusions.
//
// Scale s shrinks the volume to s. Items per machine stay the same, so do the
// shares of the machines that the largest apps and the largest requests cover
// (cap 200·s, bursts 40·s). The number of apps is proportional to √s, and so is
// that of the apps that arrive in bursts. With all 400 most apps would be left
// with one container, where limits have no effect; with 400·s a machine with
// its 18 items, each excluding 4 apps, would be closed for most of the others.
// As measured, the shape barely depends on it: Best-Fit needs 14.2 % more than
// the volume bound at scale 1; at .2 it is 12.7 % with 400 apps, 14.5 % with √s
// and 12.9 % with 400·s (40 seeds, two orders each).
func newPopulation(seed uint64, p Values, mix []spec, disk bool) population {
	s := p["scale"]
	apps := int(math.Round(largeApps * math.Sqrt(s)))
	rng := Stream(seed, StreamApps)
	w := population{
		means: rankMeans(apps, largeItems*s, largeCap*s),
		top:   int(math.Round(largeTop * math.Sqrt(s))),
		burst: max(1, int(math.Round(p["burst"]*s))),
	}
	w.specs = drawSpecs(rng, mix, w.means)
	need := make([]float64, apps)
	for i, mean := range w.means {
		limit := 1
		if rng.Float64() >= .7 {
			limit = largeLimits[rng.IntN(len(largeLimits))]
		}
		w.limits = append(w.limits, limit)
		need[i] = mean / float64(limit)
	}
	machines := largeItems * s * meanCPU(mix) / machineCPU
	w.exclusions = excludePairs(rng, apps*largeDegree/2, need, largeShare*machines)
	for range apps {
		if disk {
			w.disks = append(w.disks, largeDisks[rng.IntN(len(largeDisks))])
		}
	}
	return w
}

// rankMeans are proportional to rank^-0.8, capped, with the given sum.
func rankMeans(n int, sum, most float64) []float64 {
	means := make([]float64, n)
	low, high := 0., 2*sum
	for range 60 {
		c := (low + high) / 2
		total := 0.
		for i := range means {
			means[i] = min(most, c*math.Pow(float64(i+1), largeExponent))
			total += means[i]
		}
		if total < sum {
			low = c
		} else {
			high = c
		}
	}
	return means
}

// drawSpecs draws a spec for every app, again and again until the mean volume
// is within 1 % of the mix's own. Without this the specs of the three largest
// apps would vary it by 5 %.
func drawSpecs(rng *rand.Rand, mix []spec, means []float64) []spec {
	specs := make([]spec, len(means))
	for {
		cpu, sum := 0., 0.
		for i, mean := range means {
			specs[i] = pick(rng, mix)
			cpu += mean * float64(specs[i].cpu)
			sum += mean
		}
		if math.Abs(cpu/(sum*meanCPU(mix))-1) <= .01 {
			return specs
		}
	}
}

func meanCPU(mix []spec) float64 {
	mean := 0.
	for _, s := range mix {
		mean += s.share * float64(s.cpu)
	}
	return mean
}

// noisyMeans are the means of this one instance: lognormal with a coefficient
// of variation of .2 per app, times a volume factor U[.9, 1.1] of all.
func (w population) noisyMeans(rng *rand.Rand) []float64 {
	sigma := math.Sqrt(math.Log(1 + .2*.2))
	factor := .9 + .2*rng.Float64()
	out := make([]float64, len(w.means))
	for i, mean := range w.means {
		out[i] = mean * factor * Lognormal(rng, sigma)
	}
	return out
}

// instance is the population as apps with their forecast. lifetimes may be nil.
func (w population) instance(rng *rand.Rand, p Values, lifetimes []float64) *binpack.Instance {
	inst := cluster(w.disks != nil)
	for i, s := range w.specs {
		demand := []int64{s.cpu, s.memory * gib}
		if w.disks != nil {
			demand = append(demand, w.disks[i]*gib)
		}
		expected := p.expected(w.means[i], rng)
		lifetime := -1.
		if lifetimes != nil {
			lifetime = math.Round(lifetimes[i])
		}
		AddApp(inst, fmt.Sprintf("a%03d", i), demand, w.limits[i], expected, lifetime)
	}
	addExclusions(inst, w.exclusions)
	return inst
}

// requestSize draws the items of the next request of app i.
func (w population) requestSize(rng *rand.Rand, i int, geometric float64) int {
	if i < w.top {
		return 1 + rng.IntN(w.burst)
	}
	// 1 + the failures before a success of probability 1/mean.
	return 1 + int(math.Log(1-rng.Float64())/math.Log(1-1/geometric))
}

func makeLarge(seed uint64, p Values, mix []spec, disk bool) *trace.Trace {
	w := newPopulation(seed, p, mix, disk)
	inst := w.instance(Stream(seed, streamForecast), p, nil)
	counts := make([]int64, len(w.means))
	for i, mean := range w.noisyMeans(Stream(seed, streamCounts)) {
		counts[i] = max(1, int64(math.Round(mean)))
	}
	clip(inst, counts)
	knowTotal(inst, counts, p)

	rng := Stream(seed, StreamRequests)
	var requests []trace.Request
	for i, left := range counts {
		for left > 0 {
			n := min(left, int64(w.requestSize(rng, i, largeGeometric)))
			requests = append(requests, trace.Request{App: int32(i), Count: int32(n)})
			left -= n
		}
	}
	rng.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	times := make([]float64, len(requests))
	for i := range times {
		times[i] = milliseconds(day * rng.Float64())
	}
	slices.Sort(times)

	t := &trace.Trace{Instance: inst, MeasureFrom: math.NaN(), Source: map[string]any{
		"method": "app means ∝ rank^-0.8; expected is the mean before noise and volume factor",
	}}
	arrivals := make([]arrival, len(requests))
	for i, r := range requests {
		arrivals[i] = newArrival(times[i], r.App, int(r.Count))
	}
	if p["departures"] > 0 {
		arrivals = rollOuts(Stream(seed, streamLifetimes), arrivals, len(inst.Apps), p["departures"])
	}
	if p["single"] == 1 {
		arrivals = singles(arrivals)
	}
	addArrivals(t, arrivals, math.Inf(1))
	return t
}

// clip cuts the counts so that no limit needs more than largeShare of the
// machines of the volume bound. It takes a few containers of the largest apps.
func clip(inst *binpack.Instance, counts []int64) {
	for {
		machines := int64(largeShare * float64(bound.Volume(inst, counts).Machines))
		clipped := false
		for i := range counts {
			most := max(1, machines*int64(inst.Groups[i].Limit))
			if counts[i] > most {
				counts[i], clipped = most, true
			}
		}
		if !clipped {
			return
		}
	}
}

// items are the containers per app that a trace leaves at its end.
func items(t *trace.Trace) []int64 {
	n := make([]int64, len(t.Instance.Apps))
	for _, e := range t.Events {
		count := int64(e.Count)
		if e.Kind == trace.Delete {
			count = -count
		}
		n[t.Requests[e.Request].App] += count
	}
	return n
}
