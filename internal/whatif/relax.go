package whatif

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan"
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
	// Cut: the search had a part of the steps, and did not find whether it binds.
	Cut bool `json:"cut,omitempty"`
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

// An attempt is the best plan that is known without some constraints.
type attempt struct {
	t       *trace.Trace // without them
	p       *compare.Plan
	of      *trace.Trace // p is a plan of this one without them
	settled bool         // no search makes it better
	never   bool         // no search makes it bind
	cut     bool         // its search was cut before it found whether they bind
}

// attempts constructs a plan of a trace without each relaxation, beside those that are taken: around the answer, if that leaves items
// out, so that it is no worse. A search of those that may bind, and then one of the others, share the steps of one search of the answer.
func (o *Options) attempts(ctx context.Context, t *trace.Trace, best attempt, taken, list []relaxation) ([]attempt, error) {
	answer, base, err := best.p, t, error(nil)
	if answer.Unplaced > 0 {
		if base, err = around(best.of, answer); err != nil {
			return nil, err
		}
	}
	all := make([]attempt, len(list))
	for i, r := range list {
		if o.Progress != nil {
			o.Progress(i, len(list))
		}
		a, of := &all[i], append(slices.Clip(taken), r)
		a.t, a.of = without(t, of...), base
		if a.p, a.settled, err = o.quick(ctx, without(base, of...), 0); err != nil {
			return nil, err
		}
		if a.never = a.p.Bound.Cost >= answer.Cost; answer.Unplaced > 0 {
			a.settled, a.never = a.p.Unplaced > 0 && a.p.Unplaced == noRoom(a.t), tooLittle(a.t)
		}
		if worse(a.p, answer) < 0 {
			a.p, a.of = answer, best.of
		}
	}
	for _, never := range []bool{false, true} {
		var open []*attempt
		for i := range all {
			if a := &all[i]; !a.settled && a.never == never {
				open = append(open, a)
			}
		}
		part := o.Plan
		part.Steps = max(1, cmp.Or(part.Steps, plan.DefaultSteps)/max(1, len(open)))
		for _, a := range open {
			q, err := compare.NewPlan(ctx, a.t, part)
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return nil, err
			}
			if worse(q, a.p) > 0 {
				a.p, a.of = q, t
			}
			a.cut = len(open) > 1 && !never && !q.Proven && !binds(a.p, answer)
		}
	}
	return all, nil
}

// around is a trace in which the items of a plan are on its machines, and the others arrive.
func around(t *trace.Trace, p *compare.Plan) (*trace.Trace, error) {
	full, err := stand(t, p)
	if err != nil {
		return nil, err
	}
	s, left := newSite(full), leftOut(t, p)
	for _, app := range slices.Sorted(maps.Keys(left)) {
		s.arrive(app, int64(left[app]))
	}
	return s.t, nil
}

// binds reports whether a plan without a constraint is better than the answer: all fits, or the nodes cost less.
func binds(p, answer *compare.Plan) bool {
	return p.Unplaced == 0 && (answer.Unplaced > 0 || p.Cost < answer.Cost)
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
	alone, err := o.attempts(ctx, t, attempt{p: p, of: t}, nil, list)
	if err != nil {
		return nil, nil, err
	}
	for i, a := range alone {
		all = append(all, Relaxed{list[i].what, a.p.Unplaced, a.p.Machines, a.p.Cost, binds(a.p, p), a.cut})
	}
	if p.Unplaced == 0 || slices.ContainsFunc(all, func(r Relaxed) bool { return r.Binds }) {
		return all, nil, nil
	}
	together, err = o.together(ctx, t, list, alone)
	return all, together, err
}

// together adds relaxations, the one that leaves out least next, until all fits.
func (o *Options) together(ctx context.Context, t *trace.Trace, list []relaxation, results []attempt) (names []string, err error) {
	var taken []relaxation
	list = slices.Clone(list)
	for len(list) > 0 {
		at := 0
		for i, a := range results {
			if a.p.Unplaced < results[at].p.Unplaced {
				at = i
			}
		}
		best := results[at]
		taken, names = append(taken, list[at]), append(names, list[at].what)
		if best.p.Unplaced == 0 {
			return names, nil
		}
		list = slices.Delete(list, at, at+1)
		if results, err = o.attempts(ctx, t, best, taken, list); err != nil {
			return nil, err
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
