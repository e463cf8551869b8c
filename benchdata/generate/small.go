package generate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// small is the article's small case, rebuilt: 30 apps with exactly 1,360 cpu,
// for which a packing into 15 machines of 96 cpu was found. Since 1,360 cpu
// need at least 14.2 machines, 15 is the optimum.
var small = Kind{
	Name: "small",
	Help: "30 apps, whole-app requests, 1,360 cpu; the optimum is 15 machines of 96c/512Gi",
	Params: []Param{
		{Name: "sigma", Default: .2, Max: 3, Help: "error of the forecast: standard deviation of its logarithm, per app"},
		{Name: "fleet", Words: []string{"open", "fixed"}, Unstated: true, Help: "fixed: the 15 machines are all there are"},
		totalParam,
	},
	Make: makeSmall,
}

const (
	smallApps       = 30
	smallBig        = 8  // of these, of 12…15 items and limit 1
	smallMachines   = 15 // planted
	smallCPU        = 1360
	smallExclusions = 20
)

var smallMix = []spec{{4, 8, .50}, {8, 16, .40}, {2, 4, .05}, {16, 32, .05}}

type smallApp struct {
	spec         spec
	limit, items int
}

// need is the number of machines that the limit needs.
func (a smallApp) need() int { return (a.items + a.limit - 1) / a.limit }

func makeSmall(seed uint64, p Values) *trace.Trace {
	apps, pairs := plantSmall(Stream(seed, StreamApps), Stream(seed, streamPacking))
	inst := cluster(false)
	if p["fleet"] == 1 {
		inst.Fleet, inst.Machines[0].Count = binpack.Fixed, smallMachines
	}
	forecast := Stream(seed, streamForecast)
	counts := make([]int64, len(apps))
	for i, a := range apps {
		counts[i] = int64(a.items)
		expected := max(1, math.Round(float64(a.items)*Lognormal(forecast, p["sigma"])))
		AddApp(inst, fmt.Sprintf("a%02d", i), []int64{a.spec.cpu, a.spec.memory * gib}, a.limit, expected, -1)
	}
	knowTotal(inst, counts, p)
	addExclusions(inst, pairs)
	t := &trace.Trace{Instance: inst, MeasureFrom: math.NaN(), Source: map[string]any{
		"optimal": smallMachines,
		"method":  "kept because a packing into 15 machines was constructed; optimal by that packing and the volume bound",
	}}
	var requests []trace.Request
	for _, i := range Stream(seed, StreamRequests).Perm(smallApps) {
		requests = append(requests, trace.Request{App: int32(i), Count: int32(apps[i].items)})
	}
	AddRequests(t, requests, indices(smallApps))
	return t
}

// plantSmall draws instances until one has a packing.
func plantSmall(rng, packing *rand.Rand) ([]smallApp, []pair) {
	for {
		apps := drawSmall(rng)
		if !adjust(rng, apps) {
			continue
		}
		need := make([]float64, smallApps)
		for i, a := range apps {
			need[i] = float64(a.need())
		}
		pairs := excludePairs(rng, smallExclusions, need, smallMachines)
		if len(pairs) == smallExclusions && packSmall(packing, apps, pairs) != nil {
			return apps, pairs
		}
	}
}

// drawSmall draws the apps, in an order that does not depend on their size.
func drawSmall(rng *rand.Rand) []smallApp {
	apps := make([]smallApp, smallApps)
	order := rng.Perm(smallApps)
	for i, at := range order {
		a := smallApp{spec: pick(rng, smallMix), limit: 1}
		if i < smallBig {
			a.items = 12 + rng.IntN(4)
		} else {
			a.items = 1 + rng.IntN(10)
			if rng.Float64() >= .8 {
				a.limit = 2 + rng.IntN(2)
			}
		}
		apps[at] = a
	}
	return apps
}

// adjust adds and removes single items of the apps that are not big until the
// total is exact. It reports false when that does not happen soon.
func adjust(rng *rand.Rand, apps []smallApp) bool {
	total := int64(0)
	for _, a := range apps {
		total += a.spec.cpu * int64(a.items)
	}
	for range 1000 {
		if total == smallCPU {
			return true
		}
		a := &apps[rng.IntN(smallApps)]
		switch {
		case a.items > 10: // big
		case total < smallCPU && a.items < 10:
			a.items++
			total += a.spec.cpu
		case total > smallCPU && a.items > 1:
			a.items--
			total -= a.spec.cpu
		}
	}
	return false
}

// packSmall looks for a packing into 15 machines and returns the machine of
// every item, app by app, or nil. It places the apps one by one, each item on
// the machine with most free cpu (ties at random), and when an app does not fit
// starts again with that app earlier ("squeaky wheel", Joslin and Clements,
// 1999). Memory never binds: all specs have 2Gi per core, machines 5.3.
func packSmall(rng *rand.Rand, apps []smallApp, pairs []pair) [][]int {
	var excluded [smallApps]uint32 // bit sets of apps
	for _, p := range pairs {
		excluded[p.a] |= 1 << p.b
		excluded[p.b] |= 1 << p.a
	}
	var priority [smallApps]float64
	for i, a := range apps {
		priority[i] = float64(a.need()) + float64(a.spec.cpu)/4
	}
	order := make([]int, smallApps)
	for i := range order {
		order[i] = i
	}
	for range smallStarts {
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(priority[b], priority[a]) })
		p := smallPacking{on: make([][]int, smallApps)}
		for m := range p.free {
			p.free[m] = machineCPU
		}
		failed := -1
		for _, i := range order {
			if !p.place(rng, i, apps[i], excluded[i]) {
				failed = i
				break
			}
		}
		if failed < 0 {
			return p.on
		}
		priority[failed] += 2 + 2*rng.Float64()
	}
	return nil
}

const smallStarts = 60

type smallPacking struct {
	free [smallMachines]int64
	held [smallMachines]uint32 // bit set of apps
	on   [][]int               // machines of each app's items
}

func (p *smallPacking) place(rng *rand.Rand, app int, a smallApp, excluded uint32) bool {
	var count [smallMachines]int
	for range a.items {
		best, ties := -1, 0
		for m, free := range p.free {
			if free < a.spec.cpu || count[m] == a.limit || p.held[m]&excluded != 0 {
				continue
			}
			switch {
			case best < 0 || free > p.free[best]:
				best, ties = m, 1
			case free == p.free[best]:
				if ties++; rng.IntN(ties) == 0 {
					best = m
				}
			}
		}
		if best < 0 {
			return false
		}
		p.free[best] -= a.spec.cpu
		p.held[best] |= 1 << app
		count[best]++
		p.on[app] = append(p.on[app], best)
	}
	return true
}
