package bound

import (
	"math"
	"math/bits"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A Bound is the least that any placement of all items needs.
type Bound struct {
	// Machines is the number of machines that hold an item: at the end
	// without deletes, at the peak with deletes.
	Machines int
	// Cost of these machines, at the same moment or at a peak of its own.
	Cost float64
	// MachineSeconds and CostSeconds are the time integrals of the two. They
	// are 0 without deletes, where items live for ever.
	MachineSeconds, CostSeconds float64
	// Method is the method that gave it: MethodVolume and so on. Where the figures
	// are from several, their names are joined by "+".
	Method string
	// Short means that the fleet cannot hold all items. Machines and Cost then count
	// every machine with some of the scarce dimension. They bound only placements that
	// leave items out.
	Short bool
	// Stopped means that the method was stopped: more work may give a higher bound.
	Stopped bool
}

// A Change is a number of items of one app that arrive or, when Count is
// negative, leave at a time.
type Change struct {
	Time  float64 // seconds
	App   int32   // index into Instance.Apps
	Count int32
}

// Volume bounds a placement of items[a] items of each app a, all at once, by
// the sum of their demands alone: limits, rules, types and whole devices are
// ignored.
//
// Machines: per dimension the machines of largest capacity, within their
// counts, until the demand is met; the most over dimensions. Cost: per
// dimension the cheapest cost per capacity first, the last machine in
// fractions; the most over dimensions, rounded up when all costs are integers.
func Volume(inst *binpack.Instance, items []int64) Bound {
	if len(items) != len(inst.Apps) {
		panic("bound: items must have one entry per app")
	}
	load := make([]wide, len(inst.Dimensions))
	for a, n := range items {
		add(load, inst.Apps[a].Demand, n)
	}
	b := newFleet(inst).bound(load)
	b.Method = MethodVolume
	return b
}

// VolumeOverTime is [Volume] for items that arrive and leave. Changes are in order
// of time; those of one instant count together, so that an item which leaves as
// another arrives does not add to it. Items that were there before the first event
// are changes at its time.
//
// With departures Machines and Cost are each at its own peak, and the integrals
// run from measureFrom (NaN or earlier: the first change) to the last change.
func VolumeOverTime(inst *binpack.Instance, changes []Change, measureFrom float64) Bound {
	if !departs(changes) {
		return Volume(inst, sumOf(inst, changes))
	}
	f := newFleet(inst)
	load := make([]wide, len(inst.Dimensions))
	peak := Bound{Method: MethodVolume}
	for i, c := range changes {
		add(load, inst.Apps[c.App].Demand, int64(c.Count))
		last := i == len(changes)-1
		if !last && changes[i+1].Time == c.Time {
			continue
		}
		now := f.bound(load)
		span := 0.0
		if !last {
			from := c.Time
			if measureFrom > from { // false for NaN
				from = measureFrom
			}
			span = max(0, changes[i+1].Time-from)
		}
		peak.pass(now, span)
	}
	return peak
}

// A fleet is an instance's machines as the bounds need them: per dimension,
// sorted, with running sums, so that a bound costs one search per dimension.
type fleet struct {
	integral bool // all costs are integers
	bySize   [][]step
	byCost   [][]step
}

// A step is a number of machines of equal capacity (and, by cost, equal cost),
// with the sums over all steps before it.
type step struct {
	capacity  uint64 // of one machine; > 0
	count     int    // unlimited: math.MaxInt
	cost      float64
	before    wide // capacity of the steps before
	machines  int  // of the steps before
	costSoFar float64
}

func newFleet(inst *binpack.Instance) *fleet {
	return newFleetOf(inst, len(inst.Dimensions), func(line, d int) int64 { return inst.Machines[line].Capacity[d] })
}

// newFleetOf is newFleet with capacities of other dimensions.
func newFleetOf(inst *binpack.Instance, dims int, capacity func(line, d int) int64) *fleet {
	f := &fleet{integral: integral(inst)}
	for d := range dims {
		steps := stepsOf(inst, func(line int) int64 { return capacity(line, d) })
		slices.SortStableFunc(steps, func(a, b step) int {
			switch {
			case a.capacity > b.capacity:
				return -1
			case a.capacity < b.capacity:
				return 1
			}
			return 0
		})
		f.bySize = append(f.bySize, runningSums(steps, false))
		slices.SortStableFunc(steps, f.cheaperFirst)
		f.byCost = append(f.byCost, runningSums(steps, true))
	}
	return f
}

// integral reports whether all costs are integers that sums keep exact.
func integral(inst *binpack.Instance) bool {
	return !slices.ContainsFunc(inst.Machines, func(m binpack.MachineLine) bool { return m.Cost != math.Trunc(m.Cost) || m.Cost > 1<<53 })
}

func stepsOf(inst *binpack.Instance, capacity func(line int) int64) []step {
	var steps []step
	for line, m := range inst.Machines {
		c := capacity(line)
		if c <= 0 || m.Count == 0 {
			continue
		}
		s := step{capacity: uint64(c), count: m.Count, cost: m.Cost}
		if m.Count == binpack.Unlimited {
			s.count = math.MaxInt
		}
		steps = append(steps, s)
	}
	return steps
}

// cheaperFirst compares costs per capacity, exactly when costs are integers,
// since a wrong order there could round up to one too many.
func (f *fleet) cheaperFirst(a, b step) int {
	if !f.integral {
		x, y := a.cost*float64(b.capacity), b.cost*float64(a.capacity)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	x, y := times(b.capacity, uint64(a.cost)), times(a.capacity, uint64(b.cost))
	return x.compare(y)
}

// runningSums merges equal neighbours and sums up. Nothing follows an unlimited
// step.
func runningSums(sorted []step, cost bool) []step {
	var out []step
	for _, s := range sorted {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if last.count == math.MaxInt {
				break
			}
			if last.capacity == s.capacity && (!cost || last.cost == s.cost) {
				if s.count == math.MaxInt {
					last.count = math.MaxInt
				} else {
					last.count += s.count
				}
				continue
			}
			s.before = last.before.plus(times(last.capacity, uint64(last.count)))
			s.machines = last.machines + last.count
			s.costSoFar = last.costSoFar + last.cost*float64(last.count)
		}
		out = append(out, s)
	}
	return out
}

// bound is the volume bound of a load, without Method.
func (f *fleet) bound(load []wide) Bound {
	var b Bound
	for d := range load {
		if load[d].hi == 0 && load[d].lo == 0 {
			continue
		}
		if n, short := machinesFor(f.bySize[d], load[d]); n > b.Machines || short {
			b.Machines = max(b.Machines, n)
			b.Short = b.Short || short
		}
		b.Cost = max(b.Cost, f.costFor(f.byCost[d], load[d]))
	}
	return b
}

// machinesFor returns the number of machines, in order of the steps, that hold a load.
func machinesFor(steps []step, load wide) (n int, short bool) {
	s, full, rest, ok := reach(steps, load)
	if !ok {
		return s.machines + s.count, true
	}
	if rest > 0 {
		full++
	}
	return s.machines + full, false
}

// costFor is the least cost of a load with the last machine in fractions. A
// load that does not fit costs the whole fleet.
func (f *fleet) costFor(steps []step, load wide) float64 {
	s, full, rest, ok := reach(steps, load)
	if !ok {
		return s.costSoFar + s.cost*float64(s.count)
	}
	cost := s.costSoFar + s.cost*float64(full)
	if !f.integral {
		return cost + s.cost*(float64(rest)/float64(s.capacity))
	}
	// Rounded up exactly: rest < capacity, so the quotient is below the cost.
	hi, lo := bits.Mul64(rest, uint64(s.cost))
	q, r := bits.Div64(hi, lo, s.capacity)
	if r > 0 {
		q++
	}
	return cost + float64(q)
}

// reach finds the step in which the load is met: so many full machines of it, and a
// rest of less than one machine. It reports false with the last step when all steps
// together are too small.
func reach(steps []step, load wide) (s step, full int, rest uint64, ok bool) {
	if len(steps) == 0 {
		return step{}, 0, 0, false
	}
	// The last step with before < load.
	i, _ := slices.BinarySearchFunc(steps, load, func(s step, load wide) int {
		if s.before.compare(load) < 0 {
			return -1
		}
		return 1
	})
	s = steps[i-1]
	need := load.minus(s.before)
	if need.hi >= s.capacity {
		return s, 0, 0, false // more than 2⁶⁴ machines
	}
	q, rest := bits.Div64(need.hi, need.lo, s.capacity)
	if q > uint64(s.count) || q == uint64(s.count) && rest > 0 {
		return s, 0, 0, false
	}
	return s, int(q), rest, true
}

// wide is an unsigned sum of up to 128 bits: single values reach 2⁵⁰ and counts may
// exceed 2³¹, so sums may pass 64 bits.
type wide struct{ hi, lo uint64 }

func times(a, b uint64) wide {
	hi, lo := bits.Mul64(a, b)
	return wide{hi, lo}
}

func (w wide) plus(v wide) wide {
	lo, carry := bits.Add64(w.lo, v.lo, 0)
	hi, _ := bits.Add64(w.hi, v.hi, carry)
	return wide{hi, lo}
}

func (w wide) minus(v wide) wide {
	lo, borrow := bits.Sub64(w.lo, v.lo, 0)
	hi, _ := bits.Sub64(w.hi, v.hi, borrow)
	return wide{hi, lo}
}

func (w wide) compare(v wide) int {
	switch {
	case w.hi < v.hi, w.hi == v.hi && w.lo < v.lo:
		return -1
	case w == v:
		return 0
	}
	return 1
}

// add adds n items of a demand to a load; n < 0 removes them.
func add(load []wide, demand []int64, n int64) {
	for d, v := range demand {
		if v == 0 {
			continue
		}
		if n >= 0 {
			load[d] = load[d].plus(times(uint64(v), uint64(n)))
			continue
		}
		out := times(uint64(v), uint64(-n))
		if load[d].compare(out) < 0 {
			panic("bound: more items leave than came")
		}
		load[d] = load[d].minus(out)
	}
}
