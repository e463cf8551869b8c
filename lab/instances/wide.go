package instances

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// wideCapacity is the capacity of a machine of the kind wide in every dimension.
const wideCapacity = 10_000

// wide has many dimensions. Curves are like public traces of services: the use of two resources over
// a day, one dimension for each step.
var wide = generate.Kind{
	Name: "wide",
	Help: "many dimensions: curves of cpu and memory over a day, or items whose demands differ in every dimension",
	Params: []generate.Param{
		{Name: "n", Default: 2000, Min: 1, Max: 1e6, Integer: true, Help: "items"},
		{Name: "d", Default: 24, Min: 2, Max: 200, Integer: true, Help: "dimensions"},
		{Name: "shape", Words: []string{"curves", "vectors"}, Help: "curves: half of the dimensions are steps of cpu, half of memory, apps have limits; vectors: every item is an app, without limits"},
	},
	Make: func(seed uint64, p generate.Values) *trace.Trace {
		inst := &binpack.Instance{
			Types: []string{"host"}, Fleet: binpack.Open,
			Machines: []binpack.MachineLine{{Name: "host", Count: binpack.Unlimited, Cost: 1}},
		}
		for d := range int(p["d"]) {
			inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: fmt.Sprintf("d%03d", d), One: 1})
			inst.Machines[0].Capacity = append(inst.Machines[0].Capacity, wideCapacity)
		}
		t := &trace.Trace{Instance: inst, MeasureFrom: math.NaN()}
		var requests []trace.Request
		if apps, n := generate.Stream(seed, generate.StreamApps), int(p["n"]); p["shape"] == 0 {
			requests = curves(apps, generate.Stream(seed, generate.StreamRequests), inst, n)
		} else {
			requests = vectors(apps, inst, n)
		}
		generate.AddRequests(t, requests, nil)
		return t
	},
}

// curves adds apps with Pareto counts and draws n requests of an item each among them, in
// random order. The use of an app swings around its level with one peak a day; most peak near the
// hour that the instance has for all.
func curves(rng, order *rand.Rand, inst *binpack.Instance, n int) []trace.Request {
	dims, hour := len(inst.Dimensions), rng.Float64()
	memoryPerCPU := .7 + .6*rng.Float64()
	var requests []trace.Request
	for len(requests) < n {
		cpu := .03 * generate.Lognormal(rng, 1)
		levels := [2]float64{cpu, cpu * memoryPerCPU * generate.Lognormal(rng, .5)}
		swing, peak := .9*rng.Float64(), hour+.2*rng.NormFloat64()
		demand := make([]int64, dims)
		for d := range demand {
			at := 2 * float64(d) / float64(dims)
			level := levels[int(at)] * (1 + swing*math.Cos(2*math.Pi*(at-peak)))
			demand[d] = wideDemand(level * generate.Lognormal(rng, .2))
		}
		limit := 0
		if rng.Float64() < .4 {
			limit = 1 + rng.IntN(4)
		}
		a := int32(len(inst.Apps))
		generate.AddApp(inst, fmt.Sprintf("app-%05d", a), demand, limit, -1, -1)
		for range min(n-len(requests), int(min(200, 2/math.Pow(1-rng.Float64(), 1/1.2)))) {
			requests = append(requests, trace.Request{App: a, Count: 1})
		}
	}
	order.Shuffle(n, func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	return requests
}

// vectors draws n items. All dimensions of an instance have one range, and an item's demands share a
// part that is the instance's, between 0 and nearly 1.
func vectors(rng *rand.Rand, inst *binpack.Instance, n int) []trace.Request {
	low := .01 + .14*rng.Float64()
	width := .05 + .55*rng.Float64()
	common := rng.Float64()
	requests := make([]trace.Request, n)
	for i := range requests {
		size := rng.Float64()
		demand := make([]int64, len(inst.Dimensions))
		for d := range demand {
			demand[d] = wideDemand(low + width*(common*size+(1-common)*rng.Float64()))
		}
		generate.AddApp(inst, fmt.Sprintf("item-%05d", i), demand, 0, -1, -1)
		requests[i] = trace.Request{App: int32(i), Count: 1}
	}
	return requests
}

// wideDemand is a share of a machine in its units.
func wideDemand(share float64) int64 {
	return int64(math.Round(wideCapacity * min(1, max(.0001, share))))
}
