package instances

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// weibull and orlib are the one-dimensional families of the FunSearch paper
// (Romera-Paredes et al., Nature 625, 2024), with fresh items.
var (
	weibull = generate.Kind{
		Name:   "weibull",
		Help:   "item sizes 1…100 by a Weibull law (shape 3, scale 45) for bins of 100",
		Params: []generate.Param{{Name: "n", Default: 5000, Min: 1, Max: 1e6, Integer: true, Help: "items"}},
		Make: func(seed uint64, p generate.Values) *trace.Trace {
			return oneDimensional(seed, p, 100, "round-half-even(clip(45·(-ln(1-u))^(1/3), 1, 100))",
				func(rng *rand.Rand) int64 {
					x := 45 * math.Cbrt(-math.Log(1-rng.Float64()))
					return int64(math.RoundToEven(min(max(x, 1), 100)))
				})
		},
	}
	orlib = generate.Kind{
		Name:   "orlib",
		Help:   "item sizes uniform in 20…100 for bins of 150, as in the OR-Library's u500",
		Params: []generate.Param{{Name: "n", Default: 500, Min: 1, Max: 1e6, Integer: true, Help: "items"}},
		Make: func(seed uint64, p generate.Values) *trace.Trace {
			return oneDimensional(seed, p, 150, "uniform integers 20…100",
				func(rng *rand.Rand) int64 { return 20 + rng.Int64N(81) })
		},
	}
)

// oneDimensional draws n items. The time of an item is its index; its app, its size.
func oneDimensional(seed uint64, p generate.Values, capacity int64, method string, draw func(*rand.Rand) int64) *trace.Trace {
	rng := generate.Stream(seed, generate.StreamRequests)
	sizes := make([]int64, int(p["n"]))
	for i := range sizes {
		sizes[i] = draw(rng)
	}
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "size", One: 1}},
		Types:      []string{"bin"},
		Fleet:      binpack.Open,
		Machines: []binpack.MachineLine{{
			Name: "bin", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{capacity},
		}},
	}
	distinct := slices.Clone(sizes)
	slices.Sort(distinct)
	app := map[int64]int32{}
	for _, size := range slices.Compact(distinct) {
		app[size] = int32(len(inst.Apps))
		generate.AddApp(inst, strconv.FormatInt(size, 10), []int64{size}, 0, -1, -1)
	}
	t := &trace.Trace{Instance: inst, MeasureFrom: math.NaN(), Source: map[string]any{"method": method}}
	requests := make([]trace.Request, len(sizes))
	for i, size := range sizes {
		requests[i] = trace.Request{App: app[size], Count: 1}
	}
	generate.AddRequests(t, requests, nil)
	return t
}
