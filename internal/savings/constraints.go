package savings

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/shellword"
)

// A relaxation removes constraints of one kind: all of them, or those of one group of apps.
type relaxation struct {
	kind, what string
	relax      func(*present, *binpack.Instance) // may change both
}

// The kinds of constraints, as pods state them.
const (
	antiAffinity = "anti-affinity"
	spread       = "spread"
	allowed      = "node restrictions" // selectors, affinity, taints, operating systems, spot, zones of volumes
	rules        = "placement rules"
	stays        = "pods that must not move"
)

// mostAlone are the groups of apps whose constraints are relaxed alone, of each kind that costs something.
const mostAlone = 3

// constraints prices each kind of constraint: the plan without it against the plan with it. Where not even the
// bound without it is lower than the plan, it costs nothing, and is not planned.
func (b *builder) constraints(ctx context.Context) error {
	if len(b.p.t.Placed) == 0 || len(b.p.given.Instance.Machines) == 0 {
		return nil
	}
	base := b.level
	if len(b.model.Events) > 0 && b.monthly(b.least.cost) < base {
		p, err := b.plan(ctx, b.model)
		if err != nil {
			return err
		}
		if p.Unplaced == 0 {
			base, b.tight = min(base, b.monthly(p.Cost)), p
		}
	}
	for _, kind := range b.kinds() {
		whole, err := b.without(ctx, kind, base)
		if err != nil {
			return err
		}
		if whole == nil {
			continue
		}
		b.bill.Constraint = append(b.bill.Constraint, *whole)
		if b.bill.pods > mostPlanned {
			continue
		}
		for _, one := range b.alone(kind.kind) {
			c, err := b.without(ctx, one, base)
			if err != nil {
				return err
			}
			if c != nil {
				b.bill.Constraint = append(b.bill.Constraint, *c)
			}
		}
	}
	slices.SortStableFunc(b.bill.Constraint, func(x, y ConstraintCost) int { return cmp.Compare(y.Money, x.Money) })
	return nil
}

// Freed describes a plan without a constraint by its name.
func Freed(what string) string {
	if strings.HasPrefix(what, podsThat) {
		return "moving " + what
	}
	return "without " + what
}

const podsThat = "pods "

// stayers names the pods that stay for a reason.
func stayers(why string) string { return podsThat + which(why) }

// named are all relaxations: of kinds, and of groups of apps.
func (b *builder) named() (all []relaxation) {
	for _, kind := range b.kinds() {
		all = append(append(all, kind), b.alone(kind.kind)...)
	}
	return all
}

// relaxed is the model without some constraints.
func (b *builder) relaxed(r relaxation) *trace.Trace {
	own, inst := *b.p, *b.p.t.Instance
	running := *b.p.t
	inst.Apps, inst.Groups, inst.Rules, inst.ZoneRules = slices.Clone(inst.Apps), slices.Clone(inst.Groups), slices.Clone(inst.Rules), slices.Clone(inst.ZoneRules)
	own.t, running.Instance, own.fixed = &running, &inst, maps.Clone(b.p.fixed)
	r.relax(&own, &inst)
	return own.loose(0)
}

// without plans the present without some constraints; nil = they cost nothing. base is the cost with them.
func (b *builder) without(ctx context.Context, r relaxation, base Cents) (*ConstraintCost, error) {
	t := b.relaxed(r)
	low := leastOf(ctx, t, 0)
	most := base - b.monthly(low.cost)
	if most <= 0 || len(t.Events) == 0 {
		return nil, nil //nolint:nilnil // it costs nothing
	}
	p, err := b.plan(ctx, t)
	if err != nil || p.Unplaced > 0 || b.monthly(p.Cost) >= base {
		return nil, err
	}
	c := &ConstraintCost{Kind: r.kind, What: r.what, Nodes: int(b.nodes) - p.Machines, Money: base - b.monthly(p.Cost), Bound: most}
	if b.tight != nil {
		c.Command = fmt.Sprintf("sigma plan --trace %s --present --without %s --starts 1 --steps %d%s", b.trace(), shellword.Quote(r.what), b.planSteps(), b.seed())
		c.Prints = aMonth(b.tight.Cost - p.Cost)
	}
	return c, nil
}

// kinds are the relaxations of whole kinds that the trace has.
func (b *builder) kinds() (all []relaxation) {
	inst := b.p.t.Instance
	has := func(group func(*binpack.Group) bool) bool {
		return slices.ContainsFunc(inst.Groups, func(g binpack.Group) bool { return group(&g) })
	}
	every := func(int32) bool { return true }
	if has(func(g *binpack.Group) bool { return g.Limit > 0 || g.Zone.Limit > 0 }) {
		all = append(all, relaxation{antiAffinity, "anti-affinity of all pods", limitsOf(every)})
	}
	if has(func(g *binpack.Group) bool { return g.SpreadMin > 1 || g.Zone.SpreadMin > 1 || g.Zone.Skew > 0 }) {
		all = append(all, relaxation{spread, "spread of all pods", spreadOf(every)})
	}
	if len(inst.Rules)+len(inst.ZoneRules) > 0 {
		all = append(all, relaxation{rules, "rules between pods", func(_ *present, in *binpack.Instance) { in.Rules, in.ZoneRules = nil, nil }})
	}
	if slices.ContainsFunc(inst.Apps, func(a binpack.App) bool { return a.Types != nil }) {
		all = append(all, relaxation{allowed, allowed, typesOf(every)})
	}
	count := map[string]int{}
	for _, at := range b.p.t.Placed {
		if why := b.p.fixed[b.p.t.Requests[at.Request].Name]; why != "" {
			count[stayers(why)] += int(at.Count)
		}
	}
	for _, what := range slices.SortedFunc(maps.Keys(count), func(x, y string) int {
		return cmp.Or(cmp.Compare(count[y], count[x]), cmp.Compare(x, y))
	})[:min(mostAlone, len(count))] {
		all = append(all, relaxation{stays, what, func(p *present, _ *binpack.Instance) {
			maps.DeleteFunc(p.fixed, func(_, why string) bool { return stayers(why) == what })
		}})
	}
	return all
}

// alone are relaxations of a kind for one group of apps: those with most items.
func (b *builder) alone(kind string) (all []relaxation) {
	of := map[string]func(func(int32) bool) func(*present, *binpack.Instance){antiAffinity: limitsOf, spread: spreadOf, allowed: typesOf}[kind]
	if of == nil {
		return nil
	}
	inst := b.p.t.Instance
	items := make([]int, len(inst.Groups))
	for _, at := range b.p.t.Placed {
		items[inst.Apps[b.p.t.Requests[at.Request].App].Group] += int(at.Count)
	}
	bound := map[string]func(g int32) bool{
		antiAffinity: func(g int32) bool { return inst.Groups[g].Limit > 0 || inst.Groups[g].Zone.Limit > 0 },
		spread: func(g int32) bool {
			return inst.Groups[g].SpreadMin > 1 || inst.Groups[g].Zone.SpreadMin > 1 || inst.Groups[g].Zone.Skew > 0
		},
		allowed: func(g int32) bool {
			return slices.ContainsFunc(inst.Apps, func(a binpack.App) bool { return a.Group == g && a.Types != nil })
		},
	}[kind]
	var groups []int32
	for g := range inst.Groups {
		if items[g] > 0 && bound(int32(g)) {
			groups = append(groups, int32(g))
		}
	}
	slices.SortStableFunc(groups, func(x, y int32) int { return items[y] - items[x] })
	for _, g := range groups[:min(mostAlone, len(groups))] {
		all = append(all, relaxation{kind, kind + " of " + workloadOf(groupName(inst, g)), of(func(other int32) bool { return other == g })})
	}
	return all
}

func groupName(inst *binpack.Instance, g int32) string {
	if name := inst.Groups[g].Name; name != "" {
		return name
	}
	for i := range inst.Apps {
		if inst.Apps[i].Group == g {
			return inst.Apps[i].Name
		}
	}
	return ""
}

func limitsOf(groups func(int32) bool) func(*present, *binpack.Instance) {
	return func(_ *present, in *binpack.Instance) {
		for g := range in.Groups {
			if groups(int32(g)) {
				in.Groups[g].Limit, in.Groups[g].Zone.Limit = 0, 0
			}
		}
	}
}

func spreadOf(groups func(int32) bool) func(*present, *binpack.Instance) {
	return func(_ *present, in *binpack.Instance) {
		for g := range in.Groups {
			if groups(int32(g)) {
				in.Groups[g].SpreadMin, in.Groups[g].Zone.SpreadMin, in.Groups[g].Zone.Skew = 0, 0, 0
			}
		}
	}
}

// typesOf lets apps use every type that some app may use: cordoned machines stay closed.
func typesOf(groups func(int32) bool) func(*present, *binpack.Instance) {
	return func(_ *present, in *binpack.Instance) {
		open := map[int32]bool{}
		for i := range in.Apps {
			for _, t := range in.Apps[i].Types {
				open[t] = true
			}
		}
		all := slices.Sorted(maps.Keys(open))
		unlimited := slices.ContainsFunc(in.Apps, func(a binpack.App) bool { return a.Types == nil })
		for i := range in.Apps {
			if a := &in.Apps[i]; groups(a.Group) && a.Types != nil {
				if a.Types = all; unlimited {
					a.Types = nil
				}
			}
		}
	}
}
