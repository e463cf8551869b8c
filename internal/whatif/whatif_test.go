package whatif

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

var options = Options{Plan: plan.Options{Seed: 1, Work: 1e6}}

// shop is two apps on three machines of two types in two zones.
func shop() *trace.Trace {
	return &trace.Trace{
		Name: "shop",
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}},
			Types:      []string{"small", "large"},
			Machines: []binpack.MachineLine{
				{Name: "s", Count: 2, Cost: 1, Capacity: []int64{10, 10}, Zone: "a"},
				{Name: "l", Type: 1, Count: 1, Cost: 3, Capacity: []int64{20, 20}, Zone: "b"},
			},
			Groups: []binpack.Group{{}, {}},
			Apps: []binpack.App{
				{Name: "web", Group: 0, Demand: []int64{2, 5}, Expected: -1, Lifetime: -1},
				{Name: "db", Group: 1, Demand: []int64{4, 4}, Expected: -1, Lifetime: -1},
			},
		},
		MeasureFrom: math.NaN(),
		Requests:    []trace.Request{{Name: "web-1", App: 0, Count: 4}, {Name: "db-1", App: 1, Count: 1}},
		Events:      []trace.Event{{Time: 1, Request: 0, Count: 4}, {Time: 2, Request: 1, Count: 1}},
	}
}

func ask(t *testing.T, tr *trace.Trace, q Question) *Answer {
	t.Helper()
	a, err := Ask(t.Context(), tr, &q, options)
	require.NoError(t, err)
	return a
}

func binding(a *Answer) (names []string) {
	for _, r := range a.Relaxed {
		if r.Binds {
			names = append(names, r.What)
		}
	}
	return names
}

// Memory binds: 8 items of web fill the 40 of it, with 16 of 40 cores.
func TestWhatBinds(t *testing.T) {
	a := ask(t, shop(), Question{Apps: []string{"web=+4", "db=-1"}})
	require.Equal(t, []int{8, 0, 3}, []int{a.Then.Items, a.Then.LeftOut, a.Then.Nodes})
	a = ask(t, shop(), Question{Apps: []string{"web=+5", "db=-1"}})
	require.Equal(t, []AppLeft{{"web", 1}}, a.NotFit)
	require.True(t, a.Then.Proven, "nine of five are 45 of 40")
	require.Equal(t, []string{"memory"}, binding(a))
	more := func(d int) *trace.Trace {
		tr := shop()
		for i := range tr.Instance.Machines {
			tr.Instance.Machines[i].Capacity[d] *= 2
		}
		return tr
	}
	require.Zero(t, ask(t, more(1), Question{Apps: []string{"web=+5", "db=-1"}}).Then.LeftOut, "twice the memory")
	require.Equal(t, 1, ask(t, more(0), Question{Apps: []string{"web=+5", "db=-1"}}).Then.LeftOut, "twice the cores")

	limited := shop()
	limited.Instance.Groups[1].Limit = 1
	a = ask(t, limited, Question{Apps: []string{"db=+3", "web=-4"}})
	require.Equal(t, []string{"db: at most 1 on a node"}, binding(a))
	both := shop()
	both.Instance.Groups[1].Limit = 1
	both.Instance.Apps[1].Demand = []int64{4, 10}
	a = ask(t, both, Question{Apps: []string{"db=+5", "web=-4"}})
	require.Empty(t, binding(a))
	require.ElementsMatch(t, []string{"memory", "db: at most 1 on a node"}, a.Together)
}

// The searches of relaxations share the steps of one search of the answer, and a row has the note where they found nothing: that two
// apps of more than half a machine do not share one is not proven.
func TestRelaxationsShareSteps(t *testing.T) {
	tr := shop()
	tr.Instance.Apps[0].Demand, tr.Instance.Apps[1].Demand = []int64{6, 1}, []int64{6, 1}
	tr.Instance.Machines = []binpack.MachineLine{{Name: "s", Count: 13, Cost: 1, Capacity: []int64{10, 14}}}
	for i, n := range []int32{7, 6} {
		tr.Requests[i].Count, tr.Events[i].Count = n, n
		tr.Instance.Groups[i].Limit = 7
	}
	text := printed(t, tr, Question{Apps: []string{"db=+1"}}, options)
	require.Regexp(t, `(?m)^cpu +0 +1 +1 +yes$`, text)
	require.Regexp(t, `(?m)^memory +1 +13 +13 +not found: search cut$`, text)
	require.Regexp(t, `(?m)^\w+: at most 7 on a node +1 +13 +13 +not found: search cut$`, text)
}

// A search that was cut shows neither that all items fit nor that they do not.
func TestNothingFoundWithinTheBudget(t *testing.T) {
	a := Answer{NotFit: []AppLeft{{"web", 1}}, Relaxed: []Relaxed{{What: "cpu", LeftOut: 1}, {What: "memory", LeftOut: 1}}}
	require.Equal(t, "the number of nodes: nothing of the list lets all items in", a.binds())
	a.Relaxed[1].Cut = true
	require.Equal(t, "none found within the budget: some searches were cut", a.binds())
	a.NotFit = nil
	require.Equal(t, "none found within the budget: some searches were cut", a.binds())
	a.Relaxed[0].Binds = true
	require.Equal(t, "cpu", a.binds())
}

func TestChanges(t *testing.T) {
	a := ask(t, shop(), Question{Add: "20%"}) // of five: one more, of the app with the largest rest
	require.Equal(t, []int{5, 6}, []int{a.Now.Items, a.Then.Items})
	a = ask(t, shop(), Question{Without: []string{"b"}, Apps: []string{"db=-1"}})
	require.Equal(t, []int{4, 2, 0}, []int{a.Then.Items, a.Then.Nodes, a.Then.LeftOut})
	a = ask(t, shop(), Question{Nodes: []string{"large=0", "small=+1"}})
	require.Equal(t, []int{3, 0}, []int{a.Then.Nodes, a.Then.LeftOut})
	open := shop()
	open.Instance.Fleet = binpack.Open
	for i := range open.Instance.Machines {
		open.Instance.Machines[i].Count = binpack.Unlimited
	}
	require.Equal(t, 3, ask(t, open, Question{Nodes: []string{"small=3"}}).Then.Nodes)
	a = ask(t, open, Question{Nodes: []string{"small=2"}})
	require.Equal(t, []int{0, 2}, []int{a.Then.LeftOut, a.Then.Nodes}, "one large beside")
}

// What stands stays, except on machines that are gone.
func TestStands(t *testing.T) {
	tr := shop()
	tr.Initial, tr.Events = 2, nil
	tr.Placed = []trace.Placed{{Request: 0, Line: 0, Index: 0, Count: 2}, {Request: 0, Line: 1, Count: 2}, {Request: 1, Line: 0, Index: 1, Count: 1}}
	a := ask(t, tr, Question{Nodes: []string{"small=-1"}}) // that of db, which has fewest
	require.Equal(t, []int{5, 2, 0}, []int{a.Then.Items, a.Then.Nodes, a.Then.LeftOut})
	require.Equal(t, []trace.Placed{{Request: 0, Line: 0, Index: 0, Count: 2}, {Request: 0, Line: 1, Count: 2}, {Request: 1, Line: 0, Index: 1, Count: 1}}, tr.Placed, "the trace is as it was")
	a = ask(t, tr, Question{Lose: 1})
	require.Equal(t, Loss{Node: "l", Moved: 2, LeftOut: 1, Nodes: 2, Tried: 3, Harmless: 2}, *a.Loss)
}

// Wrong use is refused, and the message names the flag.
func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		q    Question
		want string
	}{
		{Question{}, "nothing is asked"},
		{Question{Add: "20"}, "--add 20: want a share"},
		{Question{Add: "-20%"}, "--add -20%: want a share"},
		{Question{Add: "NaN%"}, "--add NaN%: want a share"},
		{Question{Apps: []string{"web"}}, "--app web: want a name, an equals sign"},
		{Question{Apps: []string{"web=30"}}, "--app web=30: want a sign"},
		{Question{Apps: []string{"web=+0"}}, "--app web=+0: want a sign and a number that is not 0"},
		{Question{Apps: []string{"web=+1.5"}}, `"+1.5": want a whole number`},
		{Question{Apps: []string{"shop=+3"}}, `--app shop=+3: unknown app "shop"; there are db, web`},
		{Question{Apps: []string{"web=-5"}}, `--app web=-5: app "web" has 4 items`},
		{Question{Without: []string{"c"}}, `--without c: unknown zone "c"; there are a, b`},
		{Question{Without: []string{"a", "b"}}, "no machine is left"},
		{Question{Nodes: []string{"medium=3"}}, `--nodes medium=3: unknown type "medium"; there are large, small`},
		{Question{Nodes: []string{"small=-3"}}, `--nodes small=-3: type "small" has 2 machines`},
		{Question{Nodes: []string{"small=+0"}}, "not 0 behind a sign"},
		{Question{Lose: 2}, "--lose 2: want 1"},
	} {
		_, err := Ask(t.Context(), shop(), &c.q, options)
		require.ErrorContains(t, err, c.want)
	}
	open := shop()
	open.Instance.Fleet, open.Instance.Machines[0].Count = binpack.Open, binpack.Unlimited
	_, err := Ask(t.Context(), open, &Question{Nodes: []string{"small=+1"}}, options)
	require.ErrorContains(t, err, "has no limit: want a number without a sign")
}

// Everything is tried: a set of items by app on machines with what they hold.
type everything struct {
	inst *binpack.Instance
	kind []int
	on   [][]int // items by app, per machine
	best float64
}

// least is the least cost of placing items beside what stands; infinite where they do not fit.
func least(inst *binpack.Instance, placed []trace.Placed, requests []trace.Request, items []int) float64 {
	e := everything{inst: inst, best: math.Inf(1)}
	for line, m := range inst.Machines {
		for i := range m.Count {
			on := make([]int, len(inst.Apps))
			for _, p := range placed {
				if int(p.Line) == line && int(p.Index) == i {
					on[requests[p.Request].App] += int(p.Count)
				}
			}
			e.kind, e.on = append(e.kind, line), append(e.on, on)
		}
	}
	e.place(slices.Clone(items))
	return e.best
}

func (e *everything) place(items []int) {
	app := slices.IndexFunc(items, func(n int) bool { return n > 0 })
	if app < 0 {
		cost := 0.0
		for m, on := range e.on {
			if slices.Max(on) > 0 {
				cost += e.inst.Machines[e.kind[m]].Cost
			}
		}
		e.best = min(e.best, cost)
		return
	}
	items[app]--
	for m, on := range e.on {
		on[app]++
		if e.holds(m) && e.zoneHolds(e.inst.Machines[e.kind[m]].Zone) {
			e.place(items)
		}
		on[app]--
	}
	items[app]++
}

func (e *everything) holds(m int) bool {
	line := e.inst.Machines[e.kind[m]]
	groups := make([]int, len(e.inst.Groups))
	for d, room := range line.Capacity {
		for app, n := range e.on[m] {
			room -= int64(n) * e.inst.Apps[app].Demand[d]
		}
		if room < 0 {
			return false
		}
	}
	for app, n := range e.on[m] {
		groups[e.inst.Apps[app].Group] += n
		if types := e.inst.Apps[app].Types; n > 0 && types != nil && !slices.Contains(types, line.Type) {
			return false
		}
	}
	for g, n := range groups {
		if limit := int(e.inst.Groups[g].Limit); limit > 0 && n > limit {
			return false
		}
	}
	return !slices.ContainsFunc(e.inst.Rules, func(r binpack.Rule) bool { return r.Forbids(int32(groups[r.A]), int32(groups[r.B])) })
}

func (e *everything) zoneHolds(zone string) bool {
	groups := make([]int, len(e.inst.Groups))
	for m, on := range e.on {
		if e.inst.Machines[e.kind[m]].Zone == zone {
			for app, n := range on {
				groups[e.inst.Apps[app].Group] += n
			}
		}
	}
	for g, n := range groups {
		if limit := int(e.inst.Groups[g].Zone.Limit); limit > 0 && n > limit {
			return false
		}
	}
	return true
}

// random is a small fixed fleet with some items that stand and some that come; of each size it has at most some machines.
func random(rng *rand.Rand, machines int) (*trace.Trace, []int) {
	tr := shop()
	inst := tr.Instance
	inst.Machines[0].Count, inst.Machines[1].Count = 1+rng.IntN(machines), 1+rng.IntN(machines)
	for a := range inst.Apps {
		inst.Apps[a].Demand = []int64{1 + rng.Int64N(7), 1 + rng.Int64N(7)}
	}
	if rng.IntN(2) == 0 {
		inst.Groups[0].Limit = int32(1 + rng.IntN(2))
	}
	if rng.IntN(3) == 0 {
		inst.Rules = []binpack.Rule{{A: 0, B: 1, Max: int32(rng.IntN(2))}}
		if rng.IntN(2) == 0 {
			inst.Rules = append(inst.Rules, binpack.Rule{A: 1, B: 0, Max: int32(1 + rng.IntN(2))})
		}
	}
	if rng.IntN(4) == 0 {
		inst.Groups[0].Zone.Limit = int32(1 + rng.IntN(3))
	}
	if rng.IntN(3) == 0 {
		inst.Apps[1].Types = []int32{int32(rng.IntN(2))}
	}
	items := []int{1 + rng.IntN(3), 1 + rng.IntN(2)}
	for a, n := range items {
		tr.Requests[a].Count, tr.Events[a].Count = int32(n), int32(n)
	}
	return tr, items
}

// relaxed is an instance without what is named, made in another way than by the package.
func relaxed(t *testing.T, inst *binpack.Instance, what string) *binpack.Instance {
	in := *inst
	in.Groups, in.Apps, in.Machines = slices.Clone(in.Groups), slices.Clone(in.Apps), slices.Clone(in.Machines)
	free := func(d int) {
		for i := range in.Machines {
			in.Machines[i].Capacity = slices.Clone(in.Machines[i].Capacity)
			in.Machines[i].Capacity[d] = 1 << 30
		}
	}
	switch {
	case what == "cpu":
		free(0)
	case what == "memory":
		free(1)
	case what == "limits, rules and types":
		in.Rules, in.Groups[0].Limit, in.Groups[0].Zone.Limit, in.Apps[1].Types = nil, 0, 0, nil
	case strings.HasPrefix(what, "web: at most") && strings.HasSuffix(what, "in a zone"):
		in.Groups[0].Zone.Limit = 0
	case strings.HasPrefix(what, "web: at most"):
		in.Groups[0].Limit = 0
	case strings.HasPrefix(what, "db: only types"):
		in.Apps[1].Types = nil
	case strings.HasPrefix(what, "beside web"):
		in.Rules = slices.Clone(in.Rules[1:])
	case strings.HasPrefix(what, "beside db"):
		in.Rules = slices.Clone(in.Rules[:1])
	default:
		t.Fatal(what)
	}
	return &in
}

// TestAgainstEverything: cost, whether all fits and what binds equal what trying everything finds.
func TestAgainstEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	notFit, tried, bound := 0, 0, 0
	for i := range 160 {
		tr, items := random(rng, 2)
		add := []int{1 + rng.IntN(3), rng.IntN(3)}
		q := Question{Apps: []string{fmt.Sprintf("web=+%d", add[0])}}
		if add[1] > 0 {
			q.Apps = append(q.Apps, fmt.Sprintf("db=+%d", add[1]))
		}
		inst := *tr.Instance
		inst.Machines = slices.Clone(inst.Machines)
		switch rng.IntN(3) {
		case 0:
			q.Without = []string{"b"}
			inst.Machines = inst.Machines[:1]
		case 1:
			q.Nodes = []string{"small=+1"}
			inst.Machines[0].Count++
		}
		all := []int{items[0] + add[0], items[1] + add[1]}
		want := least(&inst, nil, nil, all)
		a := ask(t, tr, q)
		require.Equal(t, math.IsInf(want, 1), a.Then.LeftOut > 0, "case %d: %v", i, q)
		if a.Then.LeftOut == 0 {
			require.Equal(t, want, a.Then.Cost, "case %d: %v", i, q)
		} else {
			notFit++
		}
		require.LessOrEqual(t, a.Then.Bound.Cost, want)
		for _, r := range a.Relaxed {
			other := least(relaxed(t, &inst, r.What), nil, nil, all)
			require.Equal(t, other < want, r.Binds, "case %d: %v without %s: %g instead of %g", i, q, r.What, other, want)
			tried++
			if r.Binds {
				bound++
			}
		}
	}
	require.Greater(t, notFit, 20)
	require.Greater(t, bound, 40)
	require.Greater(t, tried-bound, 40)
}

// A sum of costs that is rounded in another order binds nothing: six nodes of .3 are needed with and without zones.
func TestRoundingDoesNotBind(t *testing.T) {
	tr := shop()
	tr.Instance.Machines = []binpack.MachineLine{
		{Name: "a", Count: 3, Cost: .3, Capacity: []int64{10, 10}, Zone: "a"},
		{Name: "b", Count: 4, Cost: .3, Capacity: []int64{10, 10}, Zone: "b"},
	}
	tr.Instance.Groups[0].Zone.Skew = 1
	tr.Instance.Apps[0].Demand = []int64{10, 10}
	tr.Requests, tr.Events = tr.Requests[:1], tr.Events[:1]
	tr.Requests[0].Count, tr.Events[0].Count = 5, 5
	a := ask(t, tr, Question{Apps: []string{"web=+1"}})
	require.Equal(t, []int{6, 0}, []int{a.Then.Nodes, a.Then.LeftOut})
	require.Equal(t, 1.8, a.Then.Cost)
	for _, r := range a.Relaxed {
		if r.What == "limits, rules and types" {
			require.Equal(t, 1.8, r.Cost)
			require.False(t, r.Binds)
		}
	}
}

// An app of a snapshot is found by the namespace and name of its controller; of several the names are listed.
func TestAppsByNamespaceAndName(t *testing.T) {
	tr := shop()
	tr.Instance.Apps[0].Name, tr.Instance.Apps[1].Name = "shop/Deployment/cart@cpu=500m,memory=2Gi", "shop/StatefulSet/db"
	for _, name := range []string{"shop/cart", "cart", "shop/Deployment/cart", "shop/Deployment/cart@cpu=500m,memory=2Gi"} {
		require.Equal(t, 6, ask(t, tr, Question{Apps: []string{name + "=+1"}}).Then.Items, name)
	}
	_, err := Ask(t.Context(), tr, &Question{Apps: []string{"other/cart=+1"}}, options)
	require.ErrorContains(t, err, `--app other/cart=+1: unknown app "other/cart"; there are shop/Deployment/cart@cpu=500m,memory=2Gi`)
	require.NotContains(t, err.Error(), "db")
	tr.Instance.Apps[1].Name = "shop/Deployment/cart@cpu=1"
	_, err = Ask(t.Context(), tr, &Question{Apps: []string{"shop/cart=+1"}}, options)
	require.ErrorContains(t, err, `app "shop/cart" is one of 2; there are shop/Deployment/cart@cpu=1, shop/Deployment/cart@cpu=500m,memory=2Gi`)
}
