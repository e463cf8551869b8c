package bound

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A cover is the problem that the linear programs bound: classes of items to be
// covered by machines of several kinds, each filled in a way that is permitted.
// It is a relaxation of the placement: some dimensions and constraints may be
// missing, and every way that a placement fills a machine is a permitted one.
type cover struct {
	kinds   []coverKind
	classes []coverClass
	groups  []coverGroup
	class   []int32 // per app: its class, -1 = no class
}

// A coverKind is a number of equal machines.
type coverKind struct {
	types    []int32
	cost     float64
	count    int64 // negative: unlimited
	capacity []int64
}

// A coverClass is a number of items that are equal in all that matters here.
type coverClass struct {
	demand []int64
	items  int64
	most   int64 // on a machine
	group  int32
	on     []bool // per kind: whether one of its machines holds an item
}

// A coverGroup is a group with limits and rules. No machine holds items of a group
// and of one that it excludes.
type coverGroup struct {
	limit    int64 // items on a machine; 0 = the limits of the classes
	excludes []int32
	rules    []coverRule
}

// A coverRule allows at most max items of group b next to one of a.
type coverRule struct {
	a, b int32
	max  int64
}

// coverOptions select the parts of an instance for a cover.
type coverOptions struct {
	dims  []int // the dimensions that count
	rules bool  // whether rules count
	// Apps that differ only in their number are one class, even where a limit
	// separates them: a weaker relaxation with fewer rows.
	merge bool
	// most is the number of items of each app that may ever be on a machine;
	// nil: as many as there are. With it the counts of machines are left out,
	// and prices are a dual solution for any number of items up to most.
	most []int64
	// objective gives the cost of a machine.
	objective func(m *binpack.MachineLine) float64
}

const (
	maxCoverRows  = 800
	maxCoverKinds = 8
)

// newCover builds the relaxation, nil when there is nothing to cover.
func newCover(inst *binpack.Instance, items []int64, opt coverOptions) *cover {
	c := &cover{class: make([]int32, len(inst.Apps))}
	for a := range c.class {
		c.class[a] = -1
	}
	c.addKinds(inst, opt)
	b := coverBuilder{cover: c, inst: inst, items: items, opt: opt, apps: appsOf(inst), groupOf: make([]int32, len(inst.Groups)), known: map[string]int32{}}
	b.build()
	if len(c.classes) == 0 {
		return nil
	}
	return c
}

// addKinds makes a kind of equal machines. Where there are many kinds, as among nodes
// that all differ a little in memory, it joins similar ones.
func (c *cover) addKinds(inst *binpack.Instance, opt coverOptions) {
	typed := slices.ContainsFunc(inst.Apps, func(a binpack.App) bool { return a.Types != nil })
	known := map[string]int{}
	var key []byte
	for i := range inst.Machines {
		m := &inst.Machines[i]
		if m.Count == 0 {
			continue
		}
		k := coverKind{cost: opt.objective(m), count: int64(m.Count), types: []int32{0}}
		if opt.most != nil {
			k.count = -1
		}
		if typed {
			k.types[0] = m.Type
		}
		key = binary.BigEndian.AppendUint32(key[:0], uint32(k.types[0]))
		for _, d := range opt.dims {
			k.capacity = append(k.capacity, m.Capacity[d])
			key = binary.BigEndian.AppendUint64(key, uint64(m.Capacity[d]))
		}
		key = binary.BigEndian.AppendUint64(key, math.Float64bits(k.cost))
		if at, ok := known[string(key)]; ok {
			c.kinds[at].join(&k)
			continue
		}
		known[string(key)] = len(c.kinds)
		c.kinds = append(c.kinds, k)
	}
	if len(c.kinds) > maxCoverKinds {
		c.coarsen()
	}
}

// join makes one kind of two: a content that fits on a machine of either kind fits
// on one of the new kind, at no higher cost.
func (k *coverKind) join(o *coverKind) {
	k.cost = min(k.cost, o.cost)
	if k.count < 0 || o.count < 0 {
		k.count = -1
	} else {
		k.count += o.count
	}
	for d, c := range o.capacity {
		k.capacity[d] = max(k.capacity[d], c)
	}
	for _, t := range o.types {
		if !slices.Contains(k.types, t) {
			k.types = append(k.types, t)
		}
	}
}

// coarsen joins the neighbours that differ least, in order of type, capacity and
// cost, until few kinds are left.
func (c *cover) coarsen() {
	slices.SortStableFunc(c.kinds, func(a, b coverKind) int {
		return cmp.Or(cmp.Compare(a.types[0], b.types[0]), slices.Compare(a.capacity, b.capacity), cmp.Compare(a.cost, b.cost))
	})
	apart := func(i int) float64 {
		a, b := &c.kinds[i], &c.kinds[i+1]
		d := 0.0
		if a.types[0] != b.types[0] {
			d = 1
		}
		for j := range a.capacity {
			d += difference(float64(a.capacity[j]), float64(b.capacity[j]))
		}
		return d + difference(a.cost, b.cost)
	}
	gaps := make([]float64, len(c.kinds)-1)
	for i := range gaps {
		gaps[i] = apart(i)
	}
	for len(c.kinds) > maxCoverKinds {
		i := slices.Index(gaps, slices.Min(gaps))
		c.kinds[i].join(&c.kinds[i+1])
		c.kinds, gaps = slices.Delete(c.kinds, i+1, i+2), slices.Delete(gaps, i, i+1)
		for _, j := range []int{i - 1, i} {
			if j >= 0 && j < len(gaps) {
				gaps[j] = apart(j)
			}
		}
	}
}

// difference is the relative difference, 0 of equals.
func difference(a, b float64) float64 {
	if a == b {
		return 0
	}
	return math.Abs(a-b) / math.Max(a, b)
}

// bound returns the bound that any prices of at least 0 give, when no way to fill a
// machine of kind k is worth more than worth[k]: prices y scaled by t and the excess
// of limited kinds are a solution of the dual program, of value
// t·Σ items·y − Σ count·max(0, t·worth − cost). The best t is taken. Without limited
// kinds that is Farley's bound. It is not ok when prices
// prove that the machines hold less than all items.
func (c *cover) bound(price, worth []int64) (value, scale *big.Rat, ok bool) {
	total := new(big.Int)
	for i := range c.classes {
		total.Add(total, new(big.Int).Mul(big.NewInt(c.classes[i].items), big.NewInt(price[i])))
	}
	var steps []*big.Rat // values of t at which the slope changes
	var last *big.Rat    // the largest permitted
	capacity := new(big.Int)
	for k := range c.kinds {
		if worth[k] == 0 {
			continue
		}
		kind := &c.kinds[k]
		t := new(big.Rat).SetFloat64(kind.cost)
		t.Quo(t, new(big.Rat).SetInt64(worth[k]))
		steps = append(steps, t)
		if kind.count < 0 {
			if last == nil || t.Cmp(last) < 0 {
				last = t
			}
		} else {
			capacity.Add(capacity, new(big.Int).Mul(big.NewInt(kind.count), big.NewInt(worth[k])))
		}
	}
	if last == nil && total.Cmp(capacity) > 0 {
		return nil, nil, false
	}
	value, scale = new(big.Rat), new(big.Rat)
	for _, t := range steps {
		if last != nil && t.Cmp(last) > 0 {
			continue
		}
		v := new(big.Rat).SetInt(total)
		v.Mul(v, t)
		for k := range c.kinds {
			kind := &c.kinds[k]
			if kind.count < 0 || worth[k] == 0 {
				continue
			}
			over := new(big.Rat).SetInt64(worth[k])
			over.Mul(over, t)
			over.Sub(over, new(big.Rat).SetFloat64(kind.cost))
			if over.Sign() > 0 {
				v.Sub(v, over.Mul(over, new(big.Rat).SetInt64(kind.count)))
			}
		}
		if v.Cmp(value) > 0 {
			value, scale = v, t
		}
	}
	return value, scale, true
}

// ceil is the least integer that is not below a non-negative number.
func ceil(v *big.Rat) *big.Int {
	q, r := new(big.Int).QuoRem(v.Num(), v.Denom(), new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

// below is the largest float64 that is not above a number.
func below(v *big.Rat) float64 {
	f, exact := v.Float64()
	if !exact && new(big.Rat).SetFloat64(f).Cmp(v) > 0 {
		f = math.Nextafter(f, math.Inf(-1))
	}
	return f
}

// loads returns the demand ÷ the capacity of the largest machine, per dimension
// of the cover, largest first.
func (c *cover) loads() []int {
	sum := make([]float64, len(c.kinds[0].capacity))
	for d := range sum {
		most := int64(0)
		for k := range c.kinds {
			most = max(most, c.kinds[k].capacity[d])
		}
		for i := range c.classes {
			if most > 0 {
				sum[d] += float64(c.classes[i].demand[d]) / float64(most) * float64(c.classes[i].items)
			}
		}
	}
	order := make([]int, len(sum))
	for d := range order {
		order[d] = d
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sum[b], sum[a]) })
	return order
}
