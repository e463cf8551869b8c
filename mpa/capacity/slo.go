package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// An SLO is a promised percentile of latency, in seconds.
type SLO struct{ Percentile, Latency float64 }

// A Size of a pod: cores, bytes, and its cost in any unit; no Memory = no bound by memory.
// Share is the part of the memory that requests may use; 0 = .85. Min and Max bound the
// limit; 0 = no bound. The bound by Memory takes precedence over Min.
type Size struct {
	Cores, Memory, Cost, Share float64
	Min, Max                   int
}

// Spread of cpu and wait of single requests, as coefficients of variation. Windows do not
// show it: that of an exponential distribution is assumed.
const spreadOfRequests = 1

const (
	// serveSeconds of arrivals are simulated for one rate.
	serveSeconds = 900
	// Headroom is the share of the highest rate within the SLO that a pod is given: for
	// noise and for the time that new pods take.
	Headroom = .85
	// leastUse is the share of its throughput that a pod has to be worth. Below it so few requests are simulated that
	// their percentile is chance: a promise that a request alone does not keep would pass.
	leastUse = 1. / 64
	// serveSeed begins the arrivals. Each rate has the same ones, scaled.
	serveSeed = 22
)

// ForSLO returns the limit of a pod of a size, the rate of requests that it takes within
// the SLO with headroom, and the mean number inside at that rate. Arrivals are Poisson;
// the highest rate is found by bisection with the simulator of mpa/loadsim on the measured
// demand, wait and contention. It fails if those are unknown or if even a request alone is
// too late.
func ForSLO(c *Capacity, slo SLO, size Size) (limit int, rate, inside float64, err error) {
	switch {
	case !(c.Demand.Value > 0) || !(c.Cores > 0):
		return 0, 0, 0, errors.New("the demand is not known: the cpu of the windows is missing, or its quota")
	case !(slo.Percentile > 0 && slo.Percentile < 100 && slo.Latency > 0):
		return 0, 0, 0, fmt.Errorf("slo: percentile %v, latency %v s: want 0 to 100, and more than 0", slo.Percentile, slo.Latency)
	case !(size.Cores > 0) || size.Memory < 0:
		return 0, 0, 0, fmt.Errorf("size: %v cores, %v bytes: want more than 0, and 0 or more", size.Cores, size.Memory)
	}
	m := c.Network()
	m.Cores = size.Cores
	limit, _ = m.Peak(mostLimit, goodShare)
	if size.Max > 0 {
		limit = min(limit, size.Max)
	}
	limit = max(limit, size.Min)
	if each := c.MemoryPerRequest.High; each > 0 && size.Memory > 0 {
		share := size.Share
		share = cmp.Or(share, memoryShare)
		limit = int(min(float64(limit), share*size.Memory/each))
	}
	if limit < 1 {
		return 0, 0, 0, fmt.Errorf("size: %.4g bytes hold no request of %.4g", size.Memory, c.MemoryPerRequest.High)
	}
	most := m.Throughput(limit)
	low, high := 0.0, most
	for range 12 {
		try := (low + high) / 2
		if at, l := serve(&m, limit, try, slo.Percentile); at <= slo.Latency {
			low, inside = try, l
		} else {
			high = try
		}
	}
	if low < leastUse*most {
		return limit, 0, 0, fmt.Errorf("slo: even few requests take longer than %v s", slo.Latency)
	}
	return limit, Headroom * low, Headroom * inside, nil
}

// serve simulates a rate on one pod and returns the percentile of latency and the mean
// number inside. Contention makes the demand larger by the mean number inside, which it
// changes: a few rounds find both.
func serve(m *Network, limit int, rate, percentile float64) (latency, inside float64) {
	demand := m.Demand
	for range 4 {
		service := loadsim.Service{
			Segments: []loadsim.Segment{{CPU: loadsim.Dist{Mean: demand, CV: spreadOfRequests}, Wait: loadsim.Dist{Mean: m.Wait, CV: spreadOfRequests}}},
			Workers:  limit, Queue: -1, Parallelism: max(1, math.Ceil(m.Cores)),
		}
		if err := service.Prepare(); err != nil {
			return math.Inf(1), 0 // a demand that no pod can serve
		}
		e := loadsim.New(&service, serveSeed, func(float64) (float64, float64) { return rate, math.Inf(1) })
		pod := service.NewPod(m.Cores)
		e.Open(&pod)
		e.Run(serveSeconds)
		late := e.Counters().Arrived - e.Counters().Served
		latency = e.All.WithLost(percentile, late)
		inside = min(float64(limit), rate*e.All.Mean())
		next := m.demandAt(inside)
		if m.Contention == 0 || math.Abs(next/demand-1) < .01 {
			break
		}
		demand = next
	}
	return latency, inside
}

// A Sized is the load that a pod of a size serves within an SLO.
type Sized struct {
	Size   Size
	Limit  int
	Rate   float64 // requests a second
	Inside float64
	Cost   float64 // of a request a second: cost ÷ rate; +Inf = the size cannot keep the SLO
}

// Best returns the load that each size serves within the SLO, sorted by cost of a request;
// equal ones keep the order of sizes.
func Best(c *Capacity, slo SLO, sizes []Size) ([]Sized, error) {
	var list []Sized
	for i, size := range sizes {
		if !(size.Cost > 0) {
			return nil, fmt.Errorf("sizes[%d]: cost %v, want more than 0", i, size.Cost)
		}
		s := Sized{Size: size, Cost: math.Inf(1)}
		limit, rate, inside, err := ForSLO(c, slo, size)
		if err == nil {
			s.Limit, s.Rate, s.Inside, s.Cost = limit, rate, inside, size.Cost/rate
		}
		list = append(list, s)
	}
	if !slices.ContainsFunc(list, func(s Sized) bool { return s.Rate > 0 }) {
		return list, errors.New("no size keeps the slo")
	}
	slices.SortStableFunc(list, func(a, b Sized) int {
		switch {
		case a.Cost < b.Cost:
			return -1
		case a.Cost > b.Cost:
			return 1
		}
		return 0
	})
	return list, nil
}
