package whatif

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// A Relaxed plan is one without a resource, rule or type.
type Relaxed struct {
	What    string  `json:"what"`
	LeftOut int     `json:"left_out"`
	Nodes   int     `json:"nodes"`
	Cost    float64 `json:"cost"`
	// Binds means that the answer is better without it: all fits, or the nodes cost less.
	Binds bool `json:"binds"`
}

// A relaxation removes something that may bind.
type relaxation struct {
	what string
	make func(*binpack.Instance)
	dim  int // whose devices are free too; -1 = no dimension
}

// resources are relaxations of dimensions that an app needs.
func resources(inst *binpack.Instance, apps func(app int32) bool) (all []relaxation) {
	for d, dim := range inst.Dimensions {
		if slices.ContainsFunc(byIndex(inst.Apps), func(a int32) bool { return apps(a) && inst.Apps[a].Demand[d] > 0 }) {
			all = append(all, relaxation{dim.Name, func(in *binpack.Instance) {
				for a := range in.Apps {
					in.Apps[a].Demand = slices.Clone(in.Apps[a].Demand)
					in.Apps[a].Demand[d] = 0
				}
			}, d})
		}
	}
	return all
}

func byIndex[T any](list []T) []int32 {
	out := make([]int32, len(list))
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// constraints are relaxations of the constraints on the groups of some apps.
func constraints(inst *binpack.Instance, apps func(app int32) bool) (all []relaxation) {
	groups, name := map[int32]bool{}, map[int32]string{}
	for a, app := range inst.Apps {
		name[app.Group] = cmp.Or(inst.Groups[app.Group].Name, name[app.Group], app.Name)
		groups[app.Group] = groups[app.Group] || apps(int32(a))
		if apps(int32(a)) && app.Types != nil {
			var types []string
			for _, t := range app.Types {
				types = append(types, inst.Types[t])
			}
			all = append(all, relaxation{fmt.Sprintf("%s: only types %s", app.Name, strings.Join(types, ", ")), func(in *binpack.Instance) { in.Apps[a].Types = nil }, -1})
		}
	}
	add := func(make func(*binpack.Instance), format string, args ...any) {
		all = append(all, relaxation{fmt.Sprintf(format, args...), make, -1})
	}
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		group := inst.Groups[g]
		if !groups[g] {
			continue
		}
		if group.Limit > 0 {
			add(func(in *binpack.Instance) { in.Groups[g].Limit = 0 }, "%s: at most %d on a node", name[g], group.Limit)
		}
		if group.SpreadMin > 1 {
			add(func(in *binpack.Instance) { in.Groups[g].SpreadMin = 0 }, "%s: first on %d nodes", name[g], group.SpreadMin)
		}
		if group.Zone.Limit > 0 {
			add(func(in *binpack.Instance) { in.Groups[g].Zone.Limit = 0 }, "%s: at most %d in a zone", name[g], group.Zone.Limit)
		}
		if group.Zone.SpreadMin > 1 {
			add(func(in *binpack.Instance) { in.Groups[g].Zone.SpreadMin = 0 }, "%s: first in %d zones", name[g], group.Zone.SpreadMin)
		}
		if group.Zone.Skew > 0 {
			add(func(in *binpack.Instance) { in.Groups[g].Zone.Skew = 0 }, "%s: zones differ by at most %d", name[g], group.Zone.Skew)
		}
	}
	for _, of := range []struct {
		scope string
		rules []binpack.Rule
		list  func(*binpack.Instance) *[]binpack.Rule
	}{
		{"node", inst.Rules, func(in *binpack.Instance) *[]binpack.Rule { return &in.Rules }},
		{"zone", inst.ZoneRules, func(in *binpack.Instance) *[]binpack.Rule { return &in.ZoneRules }},
	} {
		for _, r := range of.rules {
			if groups[r.A] || groups[r.B] {
				add(func(in *binpack.Instance) {
					*of.list(in) = slices.DeleteFunc(*of.list(in), func(other binpack.Rule) bool { return other == r })
				}, "beside %s at most %d of %s on a %s", name[r.A], r.Max, name[r.B], of.scope)
			}
		}
	}
	return all
}

// everyRule relaxes all limits, rules and types at once.
func everyRule() relaxation {
	return relaxation{"limits, rules and types", func(in *binpack.Instance) {
		in.Rules, in.ZoneRules = nil, nil
		for g := range in.Groups {
			in.Groups[g].Limit, in.Groups[g].SpreadMin, in.Groups[g].Zone = 0, 0, binpack.ZoneLimits{}
		}
		for a := range in.Apps {
			in.Apps[a].Types = nil
		}
	}, -1}
}

// without is a trace without the constraints that some relaxations remove.
func without(t *trace.Trace, all ...relaxation) *trace.Trace {
	s := newSite(t)
	for _, r := range all {
		r.make(s.t.Instance)
		for i := range s.t.Placed {
			p := &s.t.Placed[i]
			p.Devices = slices.DeleteFunc(slices.Clone(p.Devices), func(d trace.Device) bool { return int(d.Dimension) == r.dim })
		}
	}
	return s.t
}

// why relaxes one constraint after the other and reports the effect. Where items are left out and no
// single one lets all of them in, together is a set that does; nil = no such set.
func (o *Options) why(ctx context.Context, t *trace.Trace, p *compare.Plan) (all []Relaxed, together []string, err error) {
	left := leftOut(t, p)
	some := func(app int32) bool { return left[app] > 0 }
	every := func(int32) bool { return true }
	inst := t.Instance
	var list []relaxation
	if p.Unplaced > 0 {
		list = slices.Concat(resources(inst, some), constraints(inst, some))
	} else if list = resources(inst, every); len(constraints(inst, every)) > 0 {
		list = append(list, everyRule())
	}
	for _, r := range list {
		q, err := o.plan(ctx, without(t, r))
		if err != nil {
			return nil, nil, err
		}
		one := Relaxed{What: r.what, LeftOut: q.Unplaced, Nodes: q.Machines, Cost: q.Cost}
		if one.Binds = q.Unplaced == 0 && p.Unplaced > 0; p.Unplaced == 0 {
			one.Binds = q.Unplaced == 0 && q.Cost < p.Cost
		}
		all = append(all, one)
	}
	if p.Unplaced == 0 || slices.ContainsFunc(all, func(r Relaxed) bool { return r.Binds }) {
		return all, nil, nil
	}
	together, err = o.together(ctx, t, list, all)
	return all, together, err
}

// together adds relaxations, the one that leaves out least next, until all fits.
func (o *Options) together(ctx context.Context, t *trace.Trace, list []relaxation, alone []Relaxed) ([]string, error) {
	var taken []relaxation
	var names []string
	least := func(results []Relaxed) int {
		best := -1
		for i, r := range results {
			if !slices.Contains(names, r.What) && (best < 0 || r.LeftOut < results[best].LeftOut) {
				best = i
			}
		}
		return best
	}
	for results := alone; len(taken) < len(list); {
		at := least(results)
		taken, names = append(taken, list[at]), append(names, list[at].what)
		if results[at].LeftOut == 0 {
			return names, nil
		}
		results = slices.Clone(results)
		for i, r := range list {
			if slices.Contains(names, r.what) {
				continue
			}
			q, err := o.plan(ctx, without(t, append(slices.Clip(taken), r)...))
			if err != nil {
				return nil, err
			}
			results[i].LeftOut = q.Unplaced
		}
	}
	return nil, nil
}

// leftOut counts the items without a place, by app.
func leftOut(t *trace.Trace, p *compare.Plan) map[int32]int {
	index := map[string]int32{}
	for a, app := range t.Instance.Apps {
		index[app.Name] = int32(a)
	}
	left := map[int32]int{}
	for _, item := range p.Placements {
		if item.Kind == trace.Unplaced {
			left[index[item.App]]++
		}
	}
	return left
}
