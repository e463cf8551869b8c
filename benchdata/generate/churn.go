package generate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// churn is a cluster whose containers start and end. It starts empty; the
// second half of the time is measured.
var churn = Kind{
	Name: "churn",
	Help: "large2d's apps over four days with departures and a daily swing; the second half is measured",
	Params: append(largeParams(),
		Param{Name: "days", Default: 4, Min: .1, Max: 60, Help: "length; time integrals start half-way"}),
	Make: makeChurn,
}

const (
	churnLifetime  = .5 * day // mean over apps
	churnAppSigma  = 1.       // of the logarithm of an app's mean lifetime
	churnItemSigma = .5       // of the logarithm of an item's lifetime
	churnGeometric = 1.6      // mean request of apps that do not arrive in bursts
	churnSwing     = .3       // of the arrival rate over a day
)

// An arrival is a request and when its items leave.
type arrival struct {
	time    float64
	app     int32
	deletes []float64 // one per item, earliest first
}

// makeChurn lets the requests of every app arrive as a Poisson process whose
// rate is mean containers ÷ (mean lifetime · mean request), so that in the
// steady state as many containers live as large2d has (Little's law). The rate
// swings by ±30 % over a day (thinning, Lewis and Shedler, 1979). Items have
// lifetimes of their own; the highest-numbered leave first.
func makeChurn(seed uint64, p Values) *trace.Trace {
	w := newPopulation(seed, p, large2dMix, false)
	living := w.noisyMeans(Stream(seed, streamCounts))
	life := Stream(seed, streamLifetimes)
	lifetimes := make([]float64, len(living))
	for i := range lifetimes {
		lifetimes[i] = churnLifetime * Lognormal(life, churnAppSigma)
	}
	end := p["days"] * day
	rng := Stream(seed, StreamRequests)
	var arrivals []arrival
	for i := range living {
		size := churnGeometric
		if i < w.top {
			size = float64(1+w.burst) / 2
		}
		rate := living[i] / (lifetimes[i] * size)
		for _, at := range thinned(rng, rate, end) {
			a := arrival{time: at, app: int32(i)}
			for range w.requestSize(rng, i, churnGeometric) {
				// A millisecond at least: an item leaves after its arrival.
				leaves := milliseconds(at + max(.001, lifetimes[i]*Lognormal(life, churnItemSigma)))
				a.deletes = append(a.deletes, leaves)
			}
			slices.Sort(a.deletes)
			arrivals = append(arrivals, a)
		}
	}
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return cmp.Compare(a.time, b.time) })

	t := &trace.Trace{
		Instance:    w.instance(Stream(seed, streamForecast), p, lifetimes),
		MeasureFrom: end / 2,
		Source: map[string]any{
			"method": "large2d's apps as mean numbers alive; Poisson arrivals with a daily swing, lognormal lifetimes",
		},
	}
	addArrivals(t, arrivals, end)
	return t
}

// thinned draws the times of a Poisson process until end whose rate swings
// daily around the given mean.
func thinned(rng *rand.Rand, rate, end float64) []float64 {
	var times []float64
	for at := 0.; ; {
		at += rng.ExpFloat64() / (rate * (1 + churnSwing))
		if at >= end {
			return times
		}
		now := 1 + churnSwing*math.Sin(2*math.Pi*at/day)
		if rng.Float64()*(1+churnSwing) < now {
			times = append(times, milliseconds(at))
		}
	}
}

// addArrivals adds the creates and the deletes until end, in order of time; at
// equal times deletes are first.
func addArrivals(t *trace.Trace, arrivals []arrival, end float64) {
	var requests []trace.Request
	var times []float64
	var deletes []trace.Event
	for i, a := range arrivals {
		requests = append(requests, trace.Request{App: a.app, Count: int32(len(a.deletes))})
		times = append(times, a.time)
		for _, at := range a.deletes {
			if at < end { // never for one that stays
				deletes = append(deletes, trace.Event{Time: at, Kind: trace.Delete, Request: int32(i), Count: 1})
			}
		}
	}
	AddRequests(t, requests, times)
	t.Events = append(t.Events, deletes...)
	slices.SortStableFunc(t.Events, func(a, b trace.Event) int {
		if c := cmp.Compare(a.Time, b.Time); c != 0 {
			return c
		}
		return cmp.Compare(b.Kind, a.Kind)
	})
}
