package savings

import (
	"context"
	"html"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/sheet/sheettest"
)

// use gives each app a history of some days up to time 0: a share of its requests, and at noon twice that.
func use(t *trace.Trace, days int, share float64) {
	u := &trace.Usage{}
	for a, app := range t.Instance.Apps {
		for d, dim := range t.Instance.Dimensions {
			s := trace.Series{App: int32(a), Dimension: int32(d), Start: -float64(days) * day, Step: 3600}
			for h := range days * 24 {
				v := share * float64(app.Demand[d]) / float64(dim.One)
				if h%24 == 12 {
					v *= 2
				}
				s.Values = append(s.Values, float32(v))
			}
			u.Series = append(u.Series, s)
		}
	}
	t.SetUsage(u)
}

func stepOf(t *testing.T, b *Bill, cause string) *Step {
	t.Helper()
	for i := range b.Steps {
		if b.Steps[i].name() == cause {
			return &b.Steps[i]
		}
	}
	t.Fatalf("no step %s", cause)
	return nil
}

func TestUsage(t *testing.T) {
	tr := messy(30, 2)
	without := billOf(t, tr)
	step := stepOf(t, without, "usage")
	require.Nil(t, step.Money, "no number without a history")
	require.Nil(t, without.Used)
	require.Contains(t, step.Command, "--usage")

	use(tr, 10, .2)
	short := billOf(t, tr)
	require.Nil(t, stepOf(t, short, "usage").Money)
	require.NotNil(t, short.Used, "used is known")
	require.InDelta(t, .2*short.Requested.CPU, short.Used.CPU, .01*short.Requested.CPU)

	use(tr, 28, .2)
	b := billOf(t, tr)
	requireSums(t, b)
	step = stepOf(t, b, "usage")
	require.Positive(t, step.Money.Mean)
	require.Contains(t, step.Risk, "cpu above capacity for 0.0000 % of the node-time (± 0.0000 over 20 orders)")
	require.Less(t, b.Cost.Floor, without.Cost.Floor)
	require.NotNil(t, b.Namespaces[0].Saves)

	use(tr, 28, .2) // but three of the judged days, which no scrape covers
	u, err := tr.Usage()
	require.NoError(t, err)
	for _, series := range u.Series {
		for h := len(series.Values) - 5*24; h < len(series.Values)-2*24; h++ {
			series.Values[h] = float32(math.NaN())
		}
	}
	unknown := billOf(t, tr)
	requireSums(t, unknown)
	step = stepOf(t, unknown, "usage")
	require.Nil(t, step.Money, "no saving without its risk")
	require.Equal(t, "not known: samples of cpu judge 57.1 % of the node-time, and a risk needs 75 %; samples of memory judge 57.1 % of the node-time, and a risk needs 75 %", step.Risk)
	require.Equal(t, without.Cost.Floor, unknown.Cost.Floor)

	use(tr, 28, 1) // all that is requested is used
	b = billOf(t, tr)
	requireSums(t, b)
	require.Zero(t, stepOf(t, b, "usage").Money.Mean)
}

// The days of a history are those between samples: 18 days without one before 10 are none.
func TestDaysOfUsage(t *testing.T) {
	tr := messy(30, 2)
	use(tr, 28, .2)
	u, err := tr.Usage()
	require.NoError(t, err)
	for i := range u.Series {
		for k := range 18 * 24 {
			u.Series[i].Values[k] = float32(math.NaN())
		}
	}
	step := stepOf(t, billOf(t, tr), "usage")
	require.Nil(t, step.Money)
	require.Equal(t, "requests nearer to use: 10 of 21 days", step.text)
}

// The risk of a trace by use is of the days from the time of its sizes on, also where the days that they were fitted
// to are in the usage beside them, or such days alone would show another one.
func TestRiskOfLaterDays(t *testing.T) {
	for _, late := range []bool{true, false} {
		tr := messy(30, 2)
		requests := map[string]any{}
		for _, a := range tr.Instance.Apps {
			requests[a.Name] = []any{trace.FormatQuantity(a.Demand[0], tr.Instance.Dimensions[0]), trace.FormatQuantity(a.Demand[1], tr.Instance.Dimensions[1])}
		}
		use(tr, 28, .2)
		u, err := tr.Usage()
		require.NoError(t, err)
		for i := range u.Series { // the last week, or the days before, above all capacity
			s := &u.Series[i]
			s.Start = 0
			for k := range s.Values {
				if (k >= 21*24) == late && s.Dimension == 0 {
					s.Values[k] *= 100
				}
			}
		}
		if tr.Source == nil {
			tr.Source = map[string]any{}
		}
		tr.Source["sizes"] = map[string]any{"at": 21 * day, "requests": requests}
		risk := stepOf(t, billOf(t, tr), "usage").Risk
		if late {
			require.NotContains(t, risk, "cpu above capacity for 0.0000 %")
		} else {
			require.Contains(t, risk, "cpu above capacity for 0.0000 %")
		}
	}
}

// Pods that an order leaves out stay where they are in that order, so that each policy has a figure.
func TestPodsThatAnOrderLeavesOut(t *testing.T) {
	tr := messy(20, 1)
	inst := tr.Instance
	inst.Types, inst.Machines = []string{"a"}, nil
	for _, name := range []string{"a", "b"} {
		inst.Machines = append(inst.Machines, binpack.MachineLine{Name: name, Count: 1, Cost: .2, Capacity: []int64{4000, 16 << 30}})
	}
	inst.Apps = []binpack.App{
		{Name: "shop/Deployment/web", Expected: -1, Lifetime: -1, Demand: []int64{3000, 1 << 30}},
		{Name: "shop/Deployment/cart", Group: 1, Expected: -1, Lifetime: -1, Demand: []int64{1000, 1 << 30}},
	}
	inst.Groups = []binpack.Group{{Name: "shop/Deployment/web"}, {Name: "shop/Deployment/cart"}}
	tr.Requests, tr.Placed, tr.Events = nil, nil, nil
	for i := range 4 { // two small ones on one node leave no room for two large ones
		tr.Requests = append(tr.Requests, trace.Request{Name: string(rune('A' + i)), App: int32(i / 2), Count: 1})
		tr.Placed = append(tr.Placed, trace.Placed{Request: int32(i), Line: int32(i % 2), Count: 1})
	}
	tr.Initial = len(tr.Requests)
	tr.Source = map[string]any{"origin": origin}
	use(tr, 28, 1)
	b := billOf(t, tr)
	requireSums(t, b)
	require.Empty(t, b.unplaced)
	require.Contains(t, stepOf(t, b, "packing").Risk, "stay, since it leaves them out otherwise")
	require.Contains(t, stepOf(t, b, "packing").Command, "--present --policy current,", "there are no moves")
	step := stepOf(t, b, "usage") // at noon the sizes are above the nodes
	require.Nil(t, step.Money)
	require.Contains(t, step.Risk, "leaves pods out at these sizes")
	require.Empty(t, step.Command)
	var screen strings.Builder
	require.NoError(t, b.Print(&screen, false))
	require.NotContains(t, screen.String(), "prometheus")
	use(tr, 28, .4)
	require.NotNil(t, stepOf(t, billOf(t, tr), "usage").Money)
}

// A trace by use gives the requests back, and the same model by use.
func TestSplit(t *testing.T) {
	tr := messy(20, 1)
	requests := map[string]any{}
	for _, a := range tr.Instance.Apps {
		requests[a.Name] = []any{trace.FormatQuantity(a.Demand[0], tr.Instance.Dimensions[0]), trace.FormatQuantity(a.Demand[1], tr.Instance.Dimensions[1])}
	}
	by := *tr
	inst := *tr.Instance
	by.Instance, by.Source = &inst, map[string]any{"sizes": map[string]any{"requests": requests}}
	inst.Apps = append([]binpack.App{}, inst.Apps...)
	for a := range inst.Apps {
		inst.Apps[a].Demand = []int64{inst.Apps[a].Demand[0] / 3, inst.Apps[a].Demand[1] / 2}
	}
	again, demands, err := split(&by)
	require.NoError(t, err)
	for a := range tr.Instance.Apps {
		require.Equal(t, tr.Instance.Apps[a].Demand, again.Instance.Apps[a].Demand)
		require.Equal(t, inst.Apps[a].Demand, demands[a])
	}
	_, err = Of(context.Background(), &trace.Trace{Source: map[string]any{"sizes": map[string]any{"at": "x"}}}, Options{})
	require.ErrorContains(t, err, "source.sizes.at: x")
	_, _, err = split(&trace.Trace{Instance: tr.Instance, Source: map[string]any{"sizes": map[string]any{}}})
	require.ErrorContains(t, err, "source.sizes.requests")
}

// Two small nodes cost more than one large one with the room of both: of it there may be any number.
func TestShapes(t *testing.T) {
	tr := messy(20, 1)
	inst := tr.Instance
	inst.Types, inst.Machines = []string{"a"}, nil
	for i := range 8 {
		inst.Machines = append(inst.Machines, binpack.MachineLine{Name: string(rune('a' + i)), Count: 1, Cost: .3, Capacity: []int64{4000, 16 << 30}})
	}
	inst.Machines[7].Cost, inst.Machines[7].Capacity = .35, []int64{8000, 32 << 30}
	inst.Apps = []binpack.App{{Name: "shop/Deployment/web", Expected: -1, Lifetime: -1, Demand: []int64{1900, 4 << 30}}}
	inst.Groups = []binpack.Group{{Name: "shop/Deployment/web"}}
	tr.Requests, tr.Placed, tr.Events, tr.Initial = nil, nil, nil, 0
	for i := range 14 {
		tr.Requests = append(tr.Requests, trace.Request{Name: string(rune('A' + i)), Count: 1})
		tr.Placed = append(tr.Placed, trace.Placed{Request: int32(i), Line: int32(i / 2), Count: 1})
	}
	tr.Initial = len(tr.Requests)
	tr.Source = map[string]any{"origin": origin}
	b := billOf(t, tr)
	requireSums(t, b)
	step := stepOf(t, b, "shapes")
	require.Positive(t, step.Money.Mean)
	require.Equal(t, aMonth(3*.35+.3), b.Cost.Now-b.Steps[0].Money.Mean-b.Steps[1].Money.Mean-step.Money.Mean, "three large ones and a small one hold 14 pods")
	require.Contains(t, step.Command, "--any-number")

	tr.Source[clusterKey] = map[string]any{"spot": map[string]any{"h": true}}
	require.Zero(t, stepOf(t, billOf(t, tr), "shapes").Money.Mean, "of spot nodes there may be no more")
}

// Pods whose volumes follow them stay in moves alone.
func TestFollow(t *testing.T) {
	tr := listed()
	tr.Source[clusterKey] = map[string]any{}
	tr.Instance.Apps[0].Demand = []int64{1900, 4 << 30}
	fixed, follow := map[string]any{}, map[string]any{}
	for _, q := range tr.Requests {
		fixed[q.Name], follow[q.Name] = "where it may go depends on its volumes", true
	}
	tr.Source["fixed"] = fixed
	b := billOf(t, tr)
	requireSums(t, b)
	require.Equal(t, b.Cost.Now, b.Cost.Floor, "all stay")
	require.Zero(t, stepOf(t, b, "packing").Money.Mean)

	tr.Source[clusterKey] = map[string]any{"follow": follow}
	b = billOf(t, tr)
	requireSums(t, b)
	require.Zero(t, stepOf(t, b, "moves").Money.Mean)
	require.Zero(t, stepOf(t, b, "moves").Bound, "no move is more")
	require.Equal(t, aMonth(3*.2), stepOf(t, b, "packing").Money.Mean, "seven in pairs, and one of 3 cores")
	require.Equal(t, []Pinned{{"where it may go depends on its volumes (in moves alone)", 8, "A"}}, b.Pinned)
	tr.Source["ignored"] = fixed
	require.Equal(t, b.Cost.Now, billOf(t, tr).Cost.Floor, "constraints that the trace lacks bind more")
}

// Pods that keep apart need a node each.
func TestConstraints(t *testing.T) {
	tr := messy(20, 1)
	inst := tr.Instance
	inst.Apps = []binpack.App{{Name: "shop/Deployment/web", Expected: -1, Lifetime: -1, Demand: []int64{500, 1 << 30}}}
	inst.Groups = []binpack.Group{{Name: "shop/Deployment/web", Limit: 1}}
	tr.Requests, tr.Placed, tr.Events = nil, nil, nil
	for i := range 5 {
		tr.Requests = append(tr.Requests, trace.Request{Name: string(rune('A' + i)), Count: 1})
		tr.Placed = append(tr.Placed, trace.Placed{Request: int32(i), Line: int32(i), Count: 1})
	}
	tr.Initial = len(tr.Requests)
	tr.Source = map[string]any{"origin": origin}
	b := billOf(t, tr)
	requireSums(t, b)
	require.Len(t, b.Constraint, 2, "the kind, and its only group")
	require.Equal(t, antiAffinity, b.Constraint[0].Kind)
	require.Equal(t, 4, b.Constraint[0].Nodes)
	require.LessOrEqual(t, b.Constraint[0].Money, b.Constraint[0].Bound)
	require.Equal(t, "one workload needs it alone", b.binds)
	inst.Groups[0].Limit = 0
	require.Empty(t, billOf(t, tr).Constraint)
}

// No nodes, and only such that take no pods.
func TestNothingToPlace(t *testing.T) {
	tr := messy(20, 1)
	tr.Instance.Machines, tr.Placed, tr.Requests, tr.Events, tr.Initial = nil, nil, nil, nil, 0
	b := billOf(t, tr)
	requireSums(t, b)
	require.Equal(t, aMonth(.384+.192), b.Cost.Now)
	require.Equal(t, aMonth(.384), b.Cost.Floor, "the cordoned one is not needed")
	delete(tr.Source, clusterKey)
	b = billOf(t, tr)
	requireSums(t, b)
	require.Zero(t, b.Cost.Now)
	var screen strings.Builder
	require.NoError(t, b.Print(&screen, false))
	require.Contains(t, screen.String(), "\nThe cluster has no nodes: there is nothing to save.\n")
}

// The page has all rows, loads nothing and is well formed.
func TestPage(t *testing.T) {
	tr := messy(40, 5)
	use(tr, 28, .2)
	b := billOf(t, tr)
	var page strings.Builder
	require.NoError(t, b.Page().HTML(&page))
	sheettest.Check(t, page.String())
	rows := 0
	for _, n := range b.Namespaces {
		for _, w := range n.Workloads {
			require.Contains(t, page.String(), n.Namespace+"/"+w.Name)
			rows++
		}
	}
	require.Greater(t, rows, 10)
	require.Contains(t, page.String(), "proven least")
	require.Contains(t, page.String(), `<td data-head="at most">`, "a narrow page names the columns in each row")
	require.NotRegexp(t, `<table(?: class="[^n"]*")?>`, page.String(), "no table is wider than a narrow page")
	require.NotContains(t, page.String(), "<dd>messy: ", "the name is in the title")
	for i := range b.Steps {
		require.Contains(t, page.String(), html.EscapeString(b.Steps[i].text))
	}
}

// An independent checker, which shares no code with the product, accepts the plans of the models.
func TestPlansByAnotherChecker(t *testing.T) {
	data := os.Getenv("SIGMA_DATA")
	python, err := exec.LookPath("python3")
	checker := filepath.Join(data, "..", "tools", "check.py")
	if _, missing := os.Stat(checker); data == "" || err != nil || missing != nil {
		t.Skip("no checker")
	}
	tr := messy(25, 4)
	use(tr, 28, .3)
	p, err := presentOf(tr)
	require.NoError(t, err)
	b := &builder{p: p, after: p, bill: &Bill{}, opt: Options{Seed: 1, Catalog: compare.Catalog{Shipped: policies.Files}}}
	u, err := tr.Usage()
	require.NoError(t, err)
	sized, err := b.bySize(u, -judgeDays*day)
	require.NoError(t, err)
	sized.SetUsage(nil)
	model := p.loose(0)
	model.SetUsage(nil)
	shapes, err := AnyNumber(sized)
	require.NoError(t, err)
	for name, model := range map[string]*trace.Trace{"packing": model, "usage": sized, "shapes": shapes} {
		for i := range model.Events {
			model.Events[i].Time = 0
		}
		plan, err := b.plan(context.Background(), model)
		require.NoError(t, err)
		require.Zero(t, plan.Unplaced, name)
		dir := filepath.Join(t.TempDir(), name)
		require.NoError(t, model.Write(dir))
		file, err := trace.CreatePlacements(dir + ".csv")
		require.NoError(t, err)
		for _, placement := range plan.Placements {
			require.NoError(t, file.Write(placement))
		}
		require.NoError(t, file.Commit())
		out, err := exec.Command(python, checker, dir, dir+".csv").CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
	}
}

// Amounts beyond all budgets neither overflow nor end the program.
func TestHugeCosts(t *testing.T) {
	require.EqualValues(t, mostCents, aMonth(1e300))
	require.EqualValues(t, -mostCents, aMonth(-1e300))
	require.Equal(t, "-0.05", Cents(-5).String())
	require.NotEmpty(t, Cents(math.MinInt64).String())
	for _, factor := range []float64{1, 1e3, 1e6, 1e9, 1e12} { // the columns stay apart, within the screen
		tr := messy(20, 1)
		for i := range tr.Instance.Machines {
			tr.Instance.Machines[i].Cost *= factor
		}
		b := billOf(t, tr)
		for i := range b.Steps {
			if m := b.Steps[i].Money; m != nil {
				m.Low, m.High = 0, 2*m.Mean+1
			}
		}
		var screen strings.Builder
		require.NoError(t, b.Print(&screen, false))
		for line := range strings.SplitSeq(screen.String(), "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), screenWidth, line)
		}
		if factor == 1e12 {
			continue // before and after the moves it is the largest amount
		}
		require.Regexp(t, `(?m)^  remove 1 empty node, move \d+ .* \d+ +[0-9,]+( M)? ±[0-9,]+( M)? +[0-9,]+( M)?$`, screen.String(), factor)
	}
}

// The cause of the floor is that of its largest part.
func TestCauseOfTheFloor(t *testing.T) {
	tr := messy(20, 1)
	inst := tr.Instance
	inst.Machines = inst.Machines[:0]
	for i := range 10 {
		inst.Machines = append(inst.Machines, binpack.MachineLine{Name: string(rune('a' + i)), Count: 1, Cost: 1, Capacity: []int64{4000, 16 << 30}})
	}
	inst.Types = []string{"a"}
	inst.Apps = []binpack.App{{Name: "shop/Deployment/web", Expected: -1, Lifetime: -1, Demand: []int64{2000, 1 << 30}}}
	inst.Groups = []binpack.Group{{Name: "shop/Deployment/web"}}
	tr.Events = nil
	bill := func(fixed int, nodes map[string]any) string {
		tr.Requests, tr.Placed = nil, nil
		stay := map[string]any{}
		for i := range 20 {
			name := string(rune('A' + i))
			tr.Requests = append(tr.Requests, trace.Request{Name: name, Count: 1})
			tr.Placed = append(tr.Placed, trace.Placed{Request: int32(i), Line: int32(i / 2), Count: 1})
			if i < 2*fixed {
				stay[name] = "it has local storage"
			}
		}
		tr.Initial = len(tr.Requests)
		tr.Source = map[string]any{"origin": origin, "fixed": stay, clusterKey: map[string]any{"nodes": nodes}}
		b := billOf(t, tr)
		requireSums(t, b)
		return b.binds
	}
	require.Equal(t, "cpu binds", bill(2, nil))
	require.Equal(t, "pods that must not move", bill(8, nil))
	require.Equal(t, "nodes that stay", bill(2, map[string]any{"dead": map[string]any{"why": "not well", "cost": 30, "stays": true}}))
}
