package binpack_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A dice gives numbers in [0, n): a seeded generator, or the bytes of a fuzzer.
type dice interface{ IntN(n int) int }

func seeded(seed uint64) dice { return rand.New(rand.NewPCG(seed, 1)) }

// bytesDice reads numbers off a fuzzer's input, then zeros.
type bytesDice struct {
	data []byte
}

func (b *bytesDice) IntN(n int) int {
	if len(b.data) == 0 {
		return 0
	}
	x := int(b.data[0])
	b.data = b.data[1:]
	return x % n
}

// left reports whether input is left.
func (b *bytesDice) left() bool { return len(b.data) > 0 }

func oneOf[T any](d dice, values ...T) T { return values[d.IntN(len(values))] }

// randomInstance draws a small instance in which everything meets: one to five
// dimensions, some of them devices, types, groups of several apps, limits,
// spread, rules in one direction and in both, lines that are of one kind.
// devices says whether there may be device dimensions.
func randomInstance(d dice, devices bool) *binpack.Instance {
	inst := &binpack.Instance{Fleet: oneOf(d, binpack.Fixed, binpack.Open)}
	for i := range 1 + d.IntN(5) {
		dim := binpack.Dimension{Name: fmt.Sprint("d", i), One: 1}
		if devices && d.IntN(4) == 0 {
			dim.Device, dim.One, dim.Unit = true, 1000, "m"
		}
		inst.Dimensions = append(inst.Dimensions, dim)
	}
	for t := range 1 + d.IntN(3) {
		inst.Types = append(inst.Types, fmt.Sprint("t", t))
	}
	randomMachines(d, inst)
	for g := range 1 + d.IntN(6) {
		inst.Groups = append(inst.Groups, binpack.Group{
			Name: fmt.Sprint("g", g), Limit: oneOf[int32](d, 0, 0, 1, 2, 3), SpreadMin: oneOf[int32](d, 0, 0, 0, 1, 2, 4),
		})
	}
	for a := range 1 + d.IntN(10) {
		inst.Apps = append(inst.Apps, randomApp(d, inst, a))
	}
	for range d.IntN(9) {
		a, b := int32(d.IntN(len(inst.Groups))), int32(d.IntN(len(inst.Groups)))
		if a != b {
			inst.Rules = append(inst.Rules, binpack.Rule{A: a, B: b, Max: int32(d.IntN(3))})
		}
	}
	return inst
}

// randomMachines draws lines from few shapes, so that several are of one kind.
func randomMachines(d dice, inst *binpack.Instance) {
	shapes := make([][]int64, 1+d.IntN(2))
	for i := range shapes {
		for _, dim := range inst.Dimensions {
			if dim.Device {
				shapes[i] = append(shapes[i], int64(d.IntN(5))*dim.One)
			} else {
				shapes[i] = append(shapes[i], oneOf[int64](d, 12, 20, 9, 0, 30))
			}
		}
	}
	for line := range 1 + d.IntN(5) {
		count := 1 + d.IntN(4)
		if inst.Fleet == binpack.Open && d.IntN(2) == 0 {
			count = binpack.Unlimited
		}
		inst.Machines = append(inst.Machines, binpack.MachineLine{
			Name: fmt.Sprint("m", line), Type: int32(d.IntN(len(inst.Types))), Count: count,
			Cost: oneOf(d, 1.0, 1, 2), Capacity: oneOf(d, shapes...),
		})
	}
}

func randomApp(d dice, inst *binpack.Instance, a int) binpack.App {
	app := binpack.App{
		Name: fmt.Sprint("a", a), Group: int32(d.IntN(len(inst.Groups))), Expected: -1, Lifetime: -1,
	}
	if d.IntN(3) == 0 {
		for t := range inst.Types {
			if d.IntN(2) == 0 {
				app.Types = append(app.Types, int32(t))
			}
		}
	}
	for _, dim := range inst.Dimensions {
		need := oneOf[int64](d, 1, 2, 3, 5, 0, 7)
		if dim.Device {
			need = oneOf(d, 0, 250, 400, 500, 700, dim.One, 2*dim.One)
		}
		app.Demand = append(app.Demand, need)
	}
	return app
}

// place is where an item stands.
type place struct {
	app         int32
	line, index int32
	devices     []binpack.Device
}

// world is the dumb second implementation: a list of the items that stand
// somewhere, from which everything is computed again for every question.
type world struct {
	inst  *binpack.Instance
	items []place
}

type spot struct{ line, index int32 }

func (w *world) on(at spot) []place {
	var list []place
	for _, p := range w.items {
		if (spot{p.line, p.index}) == at {
			list = append(list, p)
		}
	}
	return list
}

// offered lists the candidates by position: all of a fixed fleet; of an open
// one those that hold an item and the first empty one of each kind.
func (w *world) offered() []spot {
	var list []spot
	var kinds []binpack.MachineLine // whose empty machine has been seen
	for line, ml := range w.inst.Machines {
		count := ml.Count
		if count == binpack.Unlimited {
			count = len(w.items) + 1 // one of them is empty
			for _, p := range w.items {
				count = max(count, int(p.index)+2)
			}
		}
		for index := range count {
			at := spot{int32(line), int32(index)}
			if w.inst.Fleet == binpack.Fixed || len(w.on(at)) > 0 {
				list = append(list, at)
			} else if !seen(kinds, ml) {
				kinds = append(kinds, ml)
				list = append(list, at)
			}
		}
	}
	return list
}

func seen(kinds []binpack.MachineLine, ml binpack.MachineLine) bool {
	for _, k := range kinds {
		if k.Type == ml.Type && k.Cost == ml.Cost && k.Zone == ml.Zone && fmt.Sprint(k.Capacity) == fmt.Sprint(ml.Capacity) {
			return true
		}
	}
	return false
}

// feasible lists the candidates that take one more item of an app.
func (w *world) feasible(app int32) []spot {
	var list []spot
	for _, at := range w.offered() {
		if w.takes(app, at) {
			list = append(list, at)
		}
	}
	return list
}

// takes is the definition of feasibility, clause by clause.
func (w *world) takes(app int32, at spot) bool {
	a, ml, here := &w.inst.Apps[app], &w.inst.Machines[at.line], w.on(at)
	if a.Types != nil {
		allowed := false
		for _, t := range a.Types {
			allowed = allowed || t == ml.Type
		}
		if !allowed {
			return false
		}
	}
	for d, need := range a.Demand {
		for _, p := range here {
			need += w.inst.Apps[p.app].Demand[d]
		}
		if need > ml.Capacity[d] {
			return false
		}
	}
	return w.takesDevices(app, at) && w.allows(a.Group, here) && w.spreads(a.Group, here) && w.whyZone(a, ml.Zone) == binpack.Reason{}
}

func (w *world) takesDevices(app int32, at spot) bool {
	for d, dim := range w.inst.Dimensions {
		need := w.inst.Apps[app].Demand[d]
		if !dim.Device || need == 0 {
			continue
		}
		fit := int64(0)
		for _, free := range w.free(at, d) {
			if free >= min(need, dim.One) {
				fit++
			}
		}
		if fit < max(1, need/dim.One) {
			return false
		}
	}
	return true
}

// free is the free share of each device of a dimension.
func (w *world) free(at spot, d int) []int64 {
	one := w.inst.Dimensions[d].One
	shares := make([]int64, w.inst.Machines[at.line].Capacity[d]/one)
	for i := range shares {
		shares[i] = one
		for _, p := range w.on(at) {
			for _, dev := range p.devices {
				if int(dev.Dimension) == d && int(dev.Index) == i {
					shares[i] -= min(one, w.inst.Apps[p.app].Demand[d])
				}
			}
		}
	}
	return shares
}

// allows looks at the limit and the rules with the item added.
func (w *world) allows(group int32, here []place) bool {
	count := map[int32]int32{group: 1}
	for _, p := range here {
		count[w.inst.Apps[p.app].Group]++
	}
	if limit := w.inst.Groups[group].Limit; limit > 0 && count[group] > limit {
		return false
	}
	for _, r := range w.inst.Rules {
		if (r.A == group || r.B == group) && count[r.A] > 0 && count[r.B] > r.Max {
			return false
		}
	}
	return true
}

func (w *world) spreads(group int32, here []place) bool {
	living, machines, joins := int32(1), map[spot]bool{}, false
	for _, p := range w.items {
		if w.inst.Apps[p.app].Group == group {
			living++
			machines[spot{p.line, p.index}] = true
		}
	}
	for _, p := range here {
		joins = joins || w.inst.Apps[p.app].Group == group
	}
	return !joins || int32(len(machines)) >= min(w.inst.Groups[group].SpreadMin, living)
}

// largeLike is an instance much like `large` of the standard ones, on a fixed
// fleet: 400 apps, about 5,000 items, limits, exclusions of mean degree 4,
// machines of 96 cpu and 512Gi. The second result is the items in order.
func largeLike(machines int, seed uint64) (*binpack.Instance, []binpack.Item) {
	const apps, exclusions = 400, 800
	rng := rand.New(rand.NewPCG(seed, 0))
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}},
		Types:      []string{"node"},
		Fleet:      binpack.Fixed,
		Machines:   []binpack.MachineLine{{Name: "node", Count: machines, Cost: 1, Capacity: []int64{96, 512}}},
	}
	var requests [][]int32
	for a := range int32(apps) {
		cores := pick(rng, []float64{.06, .08, .55, .27, .04}, []int64{1, 2, 4, 8, 16})
		limit := int32(1)
		if rng.Float64() > .7 {
			limit = []int32{2, 2, 3, 4, 8}[rng.IntN(5)]
		}
		inst.Groups = append(inst.Groups, binpack.Group{Name: fmt.Sprint("app-", a), Limit: limit})
		inst.Apps = append(inst.Apps, binpack.App{
			Name: fmt.Sprint("app-", a), Group: a, Demand: []int64{cores, 2 * cores}, Expected: -1, Lifetime: -1,
		})
		// 445 · rank^-0.8, capped at 200, adds up to about 5,000.
		for left := int(min(200, 445*math.Pow(float64(a+1), -.8))) + 1; left > 0; {
			size := 1
			if a < 20 {
				size = 1 + rng.IntN(40)
			} else {
				for rng.IntN(2) == 0 {
					size++
				}
			}
			size = min(size, left)
			left -= size
			request := make([]int32, size)
			for i := range request {
				request[i] = a
			}
			requests = append(requests, request)
		}
	}
	for range exclusions {
		a, b := int32(rng.IntN(apps)), int32(rng.IntN(apps))
		if a != b {
			inst.Rules = append(inst.Rules, binpack.Rule{A: a, B: b}, binpack.Rule{A: b, B: a})
		}
	}
	rng.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	var items []binpack.Item
	for _, request := range requests {
		for _, a := range request {
			items = append(items, binpack.Item{App: a, Serial: uint64(len(items))})
		}
	}
	return inst, items
}

func pick(rng *rand.Rand, share []float64, values []int64) int64 {
	x := rng.Float64()
	for i, s := range share {
		if x -= s; x < 0 {
			return values[i]
		}
	}
	return values[len(values)-1]
}
