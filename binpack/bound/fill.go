package bound

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// A filler finds the most valuable permitted way to fill a machine of one kind: a
// knapsack problem in several dimensions with limits and rules, solved by branch
// and bound. The bound of a branch is the best worth of the remaining classes in
// one dimension, taken from tables that dynamic programming fills for each
// dimension that matters and for their mean. With one dimension and no rules the
// table holds the answer.
type filler struct {
	c        *cover
	kind     int
	capacity []int64
	tables   []table

	// Of one call, by place in the order of branching.
	class []int32
	price []int64
	count []int64 // of the present way
	free  []int64
	// Per group: how many groups on the machine exclude it; its items there.
	blocked, held []int64

	best  int64
	over  int64 // the most that an abandoned branch may be worth
	nodes int64
	limit int64 // of nodes
	// numbers of items tried, of all classes at all nodes
	numbers int64
	found   []way
}

// A way is the content of one full machine.
type way struct {
	class []int32
	count []int64
}

// A table is one dimension, in steps; a machine has size of them. Demands are rounded
// down, so any content that fits, fits here too.
type table struct {
	size   int
	weight []int32 // by class
	rows   []int64 // [place in order][size left]: the most that the rest is worth
	left   int
}

const (
	maxTables    = 3       // single dimensions, in addition to the mean
	tableCells   = 1 << 21 // cells of one table
	maxTableSize = 1 << 13 // steps of a single dimension
	meanSize     = 1 << 9  // steps of the mean
	fewestNodes  = 1 << 11 // nodes of a branch and bound
	nodeWork     = 40      // operations of a node
	mostNumbers  = 64      // counts of a class to be tried at a node, on average
	numberWork   = 10      // operations of such a count
	diveTries    = 256     // counts of a class to be tried by a dive
	priceOne     = 1 << 30 // the integer for a price of 1
)

func newFiller(c *cover, kind int) *filler {
	f := &filler{
		c: c, kind: kind, capacity: c.kinds[kind].capacity,
		blocked: make([]int64, len(c.groups)), held: make([]int64, len(c.groups)),
		free: make([]int64, len(c.kinds[kind].capacity)),
	}
	limit := max(64, min(maxTableSize, tableCells/(len(c.classes)+1)))
	dims := c.loads()
	for i, d := range dims {
		if i < maxTables {
			f.tables = append(f.tables, f.dimension(d, int64(limit)))
		}
	}
	if len(dims) > 1 {
		f.tables = append(f.tables, f.mean(int64(min(limit, meanSize))))
	}
	return f
}

// dimension is the table of one dimension, exact when it has at most limit
// steps.
func (f *filler) dimension(d int, limit int64) table {
	capacity, unit := f.capacity[d], int64(0)
	for i := range f.c.classes {
		if f.c.classes[i].on[f.kind] {
			unit = gcd(unit, f.c.classes[i].demand[d])
		}
	}
	t := table{weight: make([]int32, len(f.c.classes))}
	if unit == 0 {
		return t // no class needs any
	}
	size := capacity / unit
	exact := size <= limit
	if !exact {
		size = limit
	}
	t.size = int(size)
	for i := range f.c.classes {
		switch need := f.c.classes[i].demand[d]; {
		case !f.c.classes[i].on[f.kind]:
		case exact:
			t.weight[i] = int32(need / unit)
		default:
			t.weight[i] = int32(stepsFor(need, size, capacity))
		}
	}
	return t
}

// mean is the table of the mean over all dimensions.
func (f *filler) mean(size int64) table {
	t := table{size: int(size), weight: make([]int32, len(f.c.classes))}
	const finer = 16
	for i := range f.c.classes {
		if !f.c.classes[i].on[f.kind] {
			continue
		}
		sum := int64(0)
		for d, need := range f.c.classes[i].demand {
			if need > 0 {
				sum += stepsFor(need, finer*size, f.capacity[d])
			}
		}
		t.weight[i] = int32(sum / (finer * int64(len(f.capacity))))
	}
	return t
}

// stepsFor is need · size ÷ capacity, rounded down; need ≤ capacity. The product may
// pass 63 bits.
func stepsFor(need, size, capacity int64) int64 {
	hi, lo := bits.Mul64(uint64(need), uint64(size))
	q, _ := bits.Div64(hi, lo, uint64(capacity))
	return int64(q)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// solve finds ways to fill a machine that are worth much at prices by class. No way
// is worth more than the result; exact means that one is worth as much.
func (f *filler) solve(price []int64, nodes int64, work *int64) (worth int64, exact bool) {
	f.order(price)
	for t := range f.tables {
		*work -= f.tables[t].fill(f)
	}
	f.found = f.found[:0]
	copy(f.free, f.capacity)
	f.count = append(f.count[:0], make([]int64, len(f.class))...)
	f.best, f.over, f.nodes, f.numbers, f.limit = 0, 0, 0, 0, nodes
	f.dive(nil)
	f.branch(0, 0)
	*work -= max(f.nodes*nodeWork, f.numbers*numberWork)
	f.others(work)
	return max(f.best, f.over), f.over <= f.best
}

// order takes the classes that have a price, the worthiest for their size first.
func (f *filler) order(price []int64) {
	f.class, f.price = f.class[:0], f.price[:0]
	sizes := &f.tables[len(f.tables)-1]
	for i := range f.c.classes {
		if price[i] > 0 && f.c.classes[i].on[f.kind] {
			f.class = append(f.class, int32(i))
		}
	}
	density := func(i int32) float64 { return float64(price[i]) / (float64(sizes.weight[i]) + .5) }
	slices.SortStableFunc(f.class, func(a, b int32) int { return cmp.Compare(density(b), density(a)) })
	for _, i := range f.class {
		f.price = append(f.price, price[i])
	}
}

// fill computes the table from the last class to the first and returns the
// operations it took.
func (t *table) fill(f *filler) int64 {
	n, width := len(f.class), t.size+1
	t.left = t.size
	t.rows = slices.Grow(t.rows[:0], (n+1)*width)[:(n+1)*width]
	clear(t.rows[n*width:])
	work := int64(0)
	for j := n - 1; j >= 0; j-- {
		row, rest := t.rows[j*width:(j+1)*width], t.rows[(j+1)*width:(j+2)*width]
		i := f.class[j]
		price, weight, most := f.price[j], int(t.weight[i]), f.c.classes[i].most
		work += int64(width)
		if weight == 0 {
			for s, v := range rest {
				row[s] = v + most*price
			}
			continue
		}
		copy(row, rest)
		for a := 1; int64(a) <= most && a*weight < width; a++ {
			value := int64(a) * price
			to, from := row[a*weight:], rest[:width-a*weight]
			for s, v := range from {
				if v+value > to[s] {
					to[s] = v + value
				}
			}
			work += int64(len(from))
		}
	}
	return work
}

// rest bounds the worth of the classes from a place on for the free part of the
// present machine.
func (f *filler) rest(place int) int64 {
	least := int64(math.MaxInt64)
	for t := range f.tables {
		tab := &f.tables[t]
		least = min(least, tab.rows[place*(tab.size+1)+tab.left])
	}
	return least
}

// room returns how many items of the class at a place the machine still takes.
func (f *filler) room(place int) int64 {
	class := &f.c.classes[f.class[place]]
	g := class.group
	if f.blocked[g] > 0 {
		return 0
	}
	n := class.most
	for d, need := range class.demand {
		if need > 0 {
			n = min(n, f.free[d]/need)
		}
	}
	group := &f.c.groups[g]
	if group.limit > 0 {
		n = min(n, group.limit-f.held[g])
	}
	for _, r := range group.rules {
		if r.b == g && f.held[r.a] > 0 {
			n = min(n, r.max-f.held[g])
		}
		if r.a == g && f.held[r.b] > r.max {
			return 0
		}
	}
	return max(0, n)
}

// put adds n items of the class at a place, or takes -n away.
func (f *filler) put(place int, n int64) {
	i := f.class[place]
	class := &f.c.classes[i]
	for d, need := range class.demand {
		f.free[d] -= n * need
	}
	for t := range f.tables {
		f.tables[t].left -= int(n) * int(f.tables[t].weight[i])
	}
	f.count[place] += n
	before := f.held[class.group]
	f.held[class.group] += n
	if excluded := f.c.groups[class.group].excludes; before == 0 {
		for _, g := range excluded {
			f.blocked[g]++
		}
	} else if f.held[class.group] == 0 {
		for _, g := range excluded {
			f.blocked[g]--
		}
	}
}

// dive fills the machine from the first class on, each with the number that the
// tables like best, without those left out. Of very many that a machine has room
// for only some numbers are tried.
func (f *filler) dive(leftOut []bool) {
	value := int64(0)
	for place := range f.class {
		if leftOut != nil && leftOut[place] {
			continue
		}
		most := f.room(place)
		if most == 0 {
			continue
		}
		best, number := value+f.rest(place+1), int64(0)
		step := 1 + most/diveTries
		for n := int64(0); n < most; {
			more := min(step, most-n)
			f.put(place, more)
			n += more
			if v := value + n*f.price[place] + f.rest(place+1); v >= best {
				best, number = v, n
			}
		}
		f.put(place, number-most)
		value += number * f.price[place]
	}
	f.record(value, leftOut != nil)
	for place, n := range f.count {
		if n > 0 {
			f.put(place, -n)
		}
	}
}

// record keeps the present way if it is the best so far, or in any case.
func (f *filler) record(value int64, anyway bool) {
	if value <= f.best && !anyway {
		return
	}
	f.best = max(f.best, value)
	w := way{}
	for place, n := range f.count {
		if n > 0 {
			w.class, w.count = append(w.class, f.class[place]), append(w.count, n)
		}
	}
	f.found = append(f.found, w)
}

// branch tries all ways that continue the present one with classes from a place on.
func (f *filler) branch(place int, value int64) {
	for ; place < len(f.class); place++ {
		rest := f.rest(place)
		if value+rest <= f.best {
			return
		}
		if f.nodes >= f.limit {
			f.over = max(f.over, value+rest)
			return
		}
		f.nodes++
		most := f.room(place)
		if most == 0 {
			continue
		}
		f.put(place, most)
		for n := most; n > 0; n-- {
			if f.numbers++; f.numbers > mostNumbers*f.limit {
				f.over = max(f.over, value+rest)
				f.put(place, -n)
				return
			}
			with := value + n*f.price[place]
			f.record(with, false)
			f.branch(place+1, with)
			f.put(place, -1)
		}
	}
}

// others adds ways that use no class twice, after the best one: a linear program
// learns more from different ways.
func (f *filler) others(work *int64) {
	const ways = 12
	if len(f.found) == 0 {
		return
	}
	leftOut := make([]bool, len(f.class))
	place := make(map[int32]int, len(f.class))
	for p, i := range f.class {
		place[i] = p
	}
	last := f.found[len(f.found)-1]
	for range ways {
		for _, i := range last.class {
			leftOut[place[i]] = true
		}
		f.dive(leftOut)
		*work -= int64(len(f.class)) * nodeWork
		last = f.found[len(f.found)-1]
		if len(last.class) == 0 {
			f.found = f.found[:len(f.found)-1]
			return
		}
	}
}

// packing covers all classes of the kind by ways that a simple heuristic makes: first
// the class that still needs the most machines; on a tie the one with the larger
// item. A linear program that begins with them begins near its end.
func (f *filler) packing(work *int64) []way {
	left := make([]int64, len(f.c.classes))
	f.class, f.price = f.class[:0], f.price[:0]
	for i := range f.c.classes {
		if f.c.classes[i].on[f.kind] {
			f.class, left[i] = append(f.class, int32(i)), f.c.classes[i].items
		}
	}
	sizes := f.tables[len(f.tables)-1].weight
	copy(f.free, f.capacity)
	var out []way
	for range 2 * len(f.class) {
		slices.SortStableFunc(f.class, func(a, b int32) int {
			return cmp.Or(
				cmp.Compare(float64(left[b])/float64(f.c.classes[b].most), float64(left[a])/float64(f.c.classes[a].most)),
				cmp.Compare(sizes[b], sizes[a]),
			)
		})
		f.count = append(f.count[:0], make([]int64, len(f.class))...)
		w, times := way{}, int64(math.MaxInt64)
		for place, i := range f.class {
			if n := min(f.room(place), left[i]); n > 0 {
				f.put(place, n)
				w.class, w.count = append(w.class, i), append(w.count, n)
				times = min(times, left[i]/n)
			}
		}
		*work -= int64(len(f.class)) * nodeWork
		for place, n := range f.count {
			if n > 0 {
				f.put(place, -n)
				left[f.class[place]] -= n * times
			}
		}
		if len(w.class) == 0 {
			return out
		}
		out = append(out, w)
	}
	return out
}
