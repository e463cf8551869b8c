package shipped

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A Fact is a condition of a row on a state. Facts are a set of bits.
type Fact uint16

// The facts.
const (
	Fixed      Fact = 1 << iota // the fleet is fixed, else open
	Loose                       // the fleet is fixed and has room to spare, also at the highest load so far
	Devices                     // a dimension is one of devices
	Plain                       // there are no limits per machine and no rules
	Forecast                    // items are expected of an app
	Departures                  // items leave
	Again                       // an app has arrived in more than one request
	Batches                     // a request was for several items
	Mixed                       // machines differ in cost or capacity, by more than a twentieth
	Limited                     // nearly all items that are expected have a limit per machine
	allFacts   = 1<<iota - 1
)

const (
	// A fixed fleet is loose below a load, in the dimension that binds. declaredLoad leaves room for the peak of a day in addition to
	// the declared replicas. seenLoad counts once a tenth of the items have left: the highest load so far then is about that of a
	// day. givenLoad counts where whole requests arrive, none leave, and a forecast has the total. Online rules need up to a
	// fifth more than the volume, and a fleet that is tight needs every machine.
	declaredLoad, seenLoad, givenLoad = .6, .75, .8
	turnover                          = 10

	// leastDepartures and departureBits: one deleted pod, or one roll-out of a small workload,
	// does not prove that items leave; one item in 2⁶ does.
	leastDepartures = 32
	departureBits   = 6

	// mostLimited of mostLimitedOf parts of the expected volume are nearly all of it.
	mostLimited, mostLimitedOf = 9, 10

	// alike: the amounts that the system leaves on machines of one size differ a little.
	alike = .05

	// A largest machine is so many units of volume, and an app at most maxVolume of them.
	machineVolume = 1 << 20
	maxVolume     = 1 << 46
)

// Limits are the numbers behind the facts, as text.
func Limits() string {
	return fmt.Sprint(declaredLoad, seenLoad, givenLoad, turnover, leastDepartures, departureBits, mostLimited, mostLimitedOf, alike)
}

// facts follows a state. Every answer is a function of the state alone.
type facts struct {
	s        *binpack.State
	know     binpack.Knowledge
	always   Fact // as long as the state lives
	groups   int  // that were looked at
	limited  bool
	expected []float64 // the forecast that given was computed of
	given    bool
	every    bool      // nearly all of the forecast has a limit
	unit     []float64 // per dimension: machineVolume ÷ the capacity of the largest machine
	load     *load     // of a fixed fleet
}

func newFacts(s *binpack.State, know binpack.Knowledge) facts {
	inst := s.Instance()
	f := facts{s: s, know: know}
	if inst.Fleet == binpack.Fixed {
		f.always, f.load = Fixed, newLoad(s)
	}
	if slices.ContainsFunc(inst.Dimensions, func(d binpack.Dimension) bool { return d.Device }) {
		f.always |= Devices
	}
	if mixed(inst.Machines) {
		f.always |= Mixed
	}
	f.unit = make([]float64, len(inst.Dimensions))
	for d := range f.unit {
		most := int64(0)
		for i := range inst.Machines {
			most = max(most, inst.Machines[i].Capacity[d])
		}
		if most > 0 {
			f.unit[d] = machineVolume / float64(most)
		}
	}
	return f
}

func mixed(lines []binpack.MachineLine) bool {
	differ := func(a, b float64) bool { return math.Abs(a-b) > alike*max(a, b) }
	for i := range lines {
		first, m := &lines[0], &lines[i]
		if differ(first.Cost, m.Cost) {
			return true
		}
		for d := range m.Capacity {
			if differ(float64(first.Capacity[d]), float64(m.Capacity[d])) {
				return true
			}
		}
	}
	return false
}

// now are the facts that hold.
func (f *facts) now() Fact {
	facts, inst := f.always, f.s.Instance()
	for ; f.groups < len(inst.Groups); f.groups++ {
		f.limited = f.limited || inst.Groups[f.groups].Limit > 0
	}
	if !f.limited && len(inst.Rules) == 0 {
		facts |= Plain
	}
	known := f.forecast()
	if !same(f.expected, known) {
		f.expected = known
		f.given = slices.ContainsFunc(known, func(n float64) bool { return n >= 0 })
		f.every = f.given && f.everyLimited()
	}
	if f.given {
		facts |= Forecast
	}
	if f.every {
		facts |= Limited
	}
	if itemsLeave(f.s) {
		facts |= Departures
	}
	if f.s.RequestCount() > f.s.Came() {
		facts |= Again
	}
	if f.s.SeenTotal() > f.s.RequestCount() {
		facts |= Batches
	}
	if f.load != nil {
		if f.loose(facts) {
			facts |= Loose
		}
	}
	return facts
}

// forecast is that of the state, as far as the policy may read it.
func (f *facts) forecast() []float64 {
	if !f.know.Forecast() {
		return nil
	}
	return f.s.Known.Expected
}

// loose compares the load of a fixed fleet, at the most items so far, with the limit that suits.
func (f *facts) loose(facts Fact) bool {
	most, below := max(f.s.Most(), f.s.AliveTotal()), 0.0 // reservations are alive
	switch {
	case facts&Forecast == 0: // nor does the load read one
		return false
	case f.s.Left() > 0 && turnover*f.s.Left() >= uint64(most):
		below = seenLoad
	case facts&Batches != 0 && facts&Departures == 0:
		below = givenLoad
	default:
		below = declaredLoad
	}
	return float64(f.load.highest())*float64(max(1, most)) < wholeFleet*below*float64(max(1, f.s.AliveTotal()))
}

// everyLimited adds up the expected items in the largest machines that they fill, over dimensions. The sums are
// of whole numbers: columns that grow and columns that are made again have the apps in different orders.
func (f *facts) everyLimited() bool {
	inst := f.s.Instance()
	var all, limited int64
	for a, n := range f.expected {
		if n <= 0 || a >= len(inst.Apps) {
			continue
		}
		share := 0.0
		for d, need := range inst.Apps[a].Demand {
			share = max(share, float64(float64(need)*f.unit[d]))
		}
		volume := int64(min(maxVolume, math.Round(float64(n*share))))
		all += volume
		if inst.Groups[inst.Apps[a].Group].Limit > 0 {
			limited += volume
		}
	}
	return all > 0 && mostLimitedOf*limited >= mostLimited*all
}

// same reports whether two forecasts are one slice: drivers replace it, and new apps, without
// expected items, are appended.
func same(a, b []float64) bool {
	return len(a) == 0 && len(b) == 0 || len(a) > 0 && len(b) > 0 && &a[0] == &b[0]
}

// itemsLeave compares departures with placements. These are rounded up to a power of two, so
// that a share near the limit changes the answer twice while the placements double, not
// with every item.
func itemsLeave(s *binpack.State) bool {
	n := s.Left()
	return n >= leastDepartures && n >= 1<<bits.Len64(s.Placements())>>departureBits
}

const (
	wholeFleet = 1 << 40 // a dimension of the whole fleet in the units of load
	maxShare   = 2 * wholeFleet
)

// load is, per dimension, the expected or living items ÷ the capacity of the fleet. Sums are
// of whole numbers, so that they do not depend on the order of the changes.
type load struct {
	s        *binpack.State
	unit     []float64 // per dimension: wholeFleet ÷ capacity
	seq      uint64
	changes  []binpack.Change
	expected []float64
	counted  []float64 // items, per app
	sum      []int64   // per dimension
}

func newLoad(s *binpack.State) *load {
	inst := s.Instance()
	l := &load{s: s, unit: make([]float64, len(inst.Dimensions)), sum: make([]int64, len(inst.Dimensions))}
	for d := range l.unit {
		capacity := 0.0
		for _, line := range inst.Machines {
			capacity += float64(float64(line.Count) * float64(line.Capacity[d]))
		}
		if capacity > 0 {
			l.unit[d] = wholeFleet / capacity
		}
	}
	return l
}

// highest is the load in the dimension that binds.
func (l *load) highest() int64 {
	changes, next, all := l.s.Changes(l.seq, l.changes[:0])
	l.changes, l.seq = changes, next
	if known := l.s.Known.Expected; all || !same(l.expected, known) {
		l.expected = known
		l.counted = l.counted[:0]
		clear(l.sum)
	} else {
		for _, c := range changes {
			if c.App >= 0 && int(c.App) < len(l.counted) {
				l.count(c.App)
			}
		}
	}
	for a := len(l.counted); a < len(l.s.Alive()); a++ {
		l.counted = append(l.counted, 0)
		l.count(int32(a))
	}
	return slices.Max(l.sum)
}

// count brings the share of an app up to date.
func (l *load) count(a int32) {
	n, was := float64(l.s.Alive()[a]), l.counted[a]
	if known := l.s.Known.Expected; int(a) < len(known) {
		n = max(n, known[a])
	}
	if n == was {
		return
	}
	l.counted[a] = n
	for d, need := range l.s.Instance().Apps[a].Demand {
		each := float64(need) * l.unit[d]
		l.sum[d] += int64(min(maxShare, n*each)) - int64(min(maxShare, was*each))
	}
}
