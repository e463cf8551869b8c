package bound

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

type coverBuilder struct {
	*cover
	inst    *binpack.Instance
	items   []int64
	opt     coverOptions
	apps    [][]int32
	groupOf []int32          // per group of the instance: its group here, -1 = no group
	known   map[string]int32 // class by key
}

// build makes a class of each app, but one class of apps that no solution can
// distinguish: a linear program has an optimum that treats them equally.
func (b *coverBuilder) build() {
	var exclusive [][]int32
	bound := make([]bool, len(b.inst.Groups)) // by a rule with max > 0
	present := func(a int32) bool { return b.items[a] > 0 }
	if b.opt.rules {
		exclusive = make([][]int32, len(b.inst.Groups))
		for _, r := range b.inst.Rules {
			if !slices.ContainsFunc(b.apps[r.A], present) || !slices.ContainsFunc(b.apps[r.B], present) {
				continue
			}
			if r.Max == 0 {
				exclusive[r.A], exclusive[r.B] = append(exclusive[r.A], r.B), append(exclusive[r.B], r.A)
			} else {
				bound[r.A], bound[r.B] = true, true
			}
		}
	}
	for g := range b.inst.Groups {
		b.groupOf[g] = -1
		var others []int32
		if b.opt.rules {
			slices.Sort(exclusive[g])
			others = slices.Compact(exclusive[g])
			exclusive[g] = others
		}
		b.addGroup(int32(g), others, bound[g])
	}
	for g, others := range exclusive {
		if b.groupOf[g] < 0 {
			continue
		}
		here := &b.groups[b.groupOf[g]]
		for _, o := range others {
			if at := b.groupOf[o]; at >= 0 {
				here.excludes = append(here.excludes, at)
			}
		}
	}
	for g := range b.groups {
		slices.Sort(b.groups[g].excludes)
		b.groups[g].excludes = slices.Compact(b.groups[g].excludes)
	}
	if !b.opt.rules {
		return
	}
	for _, r := range b.inst.Rules {
		x, y := b.groupOf[r.A], b.groupOf[r.B]
		if r.Max == 0 || x < 0 || y < 0 {
			continue
		}
		rule := coverRule{x, y, int64(r.Max)}
		b.groups[x].rules = append(b.groups[x].rules, rule)
		b.groups[y].rules = append(b.groups[y].rules, rule)
	}
}

// addGroup adds the classes of a group, or adds its app to an existing class.
func (b *coverBuilder) addGroup(g int32, excludes []int32, ruled bool) {
	var apps []int32
	for _, a := range b.apps[g] {
		if b.items[a] > 0 {
			apps = append(apps, a)
		}
	}
	limit := int64(b.inst.Groups[g].Limit)
	single := len(apps) == 1
	for _, a := range apps {
		class, binding, ok := b.classOf(a, limit)
		if !ok {
			continue
		}
		var key []byte
		if single && !ruled || limit == 0 && len(excludes) == 0 && !ruled {
			key = b.key(a, &class, excludes, binding && !b.opt.merge)
			if at, known := b.known[string(key)]; known {
				b.class[a] = at
				b.classes[at].items += class.items
				b.classes[at].most += class.most
				b.groupOf[g] = b.classes[at].group
				continue
			}
		}
		if b.groupOf[g] < 0 || key != nil {
			b.groupOf[g] = int32(len(b.groups))
			group := coverGroup{}
			if !single {
				group.limit = limit
			}
			b.groups = append(b.groups, group)
		}
		class.group = b.groupOf[g]
		if key != nil {
			b.known[string(key)] = int32(len(b.classes))
		}
		b.class[a] = int32(len(b.classes))
		b.classes = append(b.classes, class)
	}
}

// classOf returns the class of an app alone. binding reports whether its limit is
// below the number that fits on a machine. ok is false if no machine holds an item.
func (b *coverBuilder) classOf(a int32, limit int64) (class coverClass, binding, ok bool) {
	app := &b.inst.Apps[a]
	class = coverClass{items: b.items[a], on: make([]bool, len(b.kinds))}
	for _, d := range b.opt.dims {
		class.demand = append(class.demand, app.Demand[d])
	}
	most := int64(0)
	for k := range b.kinds {
		kind := &b.kinds[k]
		if app.Types != nil && !slices.ContainsFunc(kind.types, func(t int32) bool { return slices.Contains(app.Types, t) }) {
			continue
		}
		n := int64(math.MaxInt32)
		for d, need := range class.demand {
			if need > 0 {
				n = min(n, kind.capacity[d]/need)
			}
		}
		class.on[k] = n > 0
		most = max(most, n)
	}
	class.most = min(most, class.items)
	if b.opt.most != nil {
		class.most = min(most, b.opt.most[a])
	}
	if binding = limit > 0 && limit < class.most; binding {
		class.most = limit
	}
	return class, binding, most > 0
}

// key differs where a solution may treat classes differently. The number of items
// matters only where the limit is binding.
func (b *coverBuilder) key(a int32, class *coverClass, excludes []int32, binding bool) []byte {
	var key []byte
	for _, v := range class.demand {
		key = binary.AppendVarint(key, v)
	}
	for _, on := range class.on {
		if on {
			key = append(key, 1)
		} else {
			key = append(key, 0)
		}
	}
	if binding {
		key = binary.AppendVarint(append(key, 1), int64(b.inst.Groups[b.inst.Apps[a].Group].Limit))
		key = binary.AppendVarint(key, class.items)
	} else {
		key = append(key, 0)
	}
	for _, g := range excludes {
		key = binary.AppendVarint(key, int64(g))
	}
	return key
}
