package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// city is a snapshot of four machines of 4 cpu: three web of 1 and two db of 2, of
// which no two share a machine; a fourth web waits, and a third db came later, to n2.
func city() *trace.Trace {
	machine := func(name string) binpack.MachineLine {
		return binpack.MachineLine{Name: name, Count: 1, Cost: 1, Capacity: []int64{4}}
	}
	app := func(name string, group int32, need int64) binpack.App {
		return binpack.App{Name: name, Group: group, Demand: []int64{need}, Expected: -1, Lifetime: -1}
	}
	t := &trace.Trace{Name: "city", MeasureFrom: math.NaN(), Instance: &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{"m"}, Fleet: binpack.Open,
		Machines: []binpack.MachineLine{machine("n1"), machine("n2"), machine("n3"), machine("n4")},
		Groups:   []binpack.Group{{Name: "web"}, {Name: "db", Limit: 1}},
		Apps:     []binpack.App{app("web", 0, 1), app("db", 1, 2)},
	}}
	t.Initial = 5
	for i, name := range []string{"w1", "w2", "d1", "d2", "w3", "waits", "late"} {
		t.Requests = append(t.Requests, trace.Request{Name: name, App: []int32{0, 0, 1, 1, 0, 0, 1}[i], Count: 1})
	}
	for i, line := range []int32{0, 1, 2, 3, 3} {
		t.Placed = append(t.Placed, trace.Placed{Request: int32(i), Line: line, Count: 1})
	}
	t.Events = []trace.Event{{Kind: trace.Create, Request: 5, Count: 1}, {Time: 1, Kind: trace.Create, Request: 6, Count: 1}}
	t.Source = map[string]any{Placements: map[string]any{"late": "n2"}}
	return t
}

func compareCity(t *testing.T, tr *trace.Trace, opt Options, names ...string) (map[string]report.Result, Result) {
	t.Helper()
	opt.Workers, opt.Seed = 1, 1
	result, err := Run(t.Context(), []*trace.Trace{tr}, names, Catalog{}, opt)
	require.NoError(t, err)
	rows := map[string]report.Result{}
	for _, r := range result.Comparisons[0].Results {
		rows[r.Policy] = r
	}
	return rows, result
}

func TestCurrent(t *testing.T) {
	rows, result := compareCity(t, city(), Options{Repack: true, Orders: 3}, "bestfit", "firstfit", Current)
	require.Equal(t, Current, result.Comparisons[0].Results[0].Policy, "first, though it leaves an item out")
	for order, run := range rows[Current].Runs { // in any order of arrival
		require.Equal(t, 4, run.Machines)
		require.Equal(t, 1, run.Unplaced)
		require.Equal(t, 6, run.Placed)
		require.Equal(t, 9./16, run.AllocationRate["cpu"], order)
	}
	// 10 cpu, and three db that stay apart.
	require.Equal(t, 3, rows["firstfit"].Runs[0].Machines)
	require.Zero(t, rows["bestfit"].Runs[0].Unplaced)
	require.Zero(t, result.Violations)
	require.Equal(t, 3, result.Comparisons[0].Bound.Machines)

	// The digest is that of the trace on disk.
	digest, err := digestOf(city())
	require.NoError(t, err)
	require.Equal(t, digest, result.Comparisons[0].Trace.Digest)
	require.Equal(t, 7, result.Comparisons[0].Trace.Items)
	require.Contains(t, result.Notes, "city: current leaves the 5 items of placed.csv where they are; the other policies place them again, in the order of its lines")
	require.Contains(t, result.Notes, "city: as it stood at the beginning 2 machines could be drained, with their items (2) moved to others in use: n2, n1")
}

func TestStandingStays(t *testing.T) {
	rows, result := compareCity(t, city(), Options{}, "firstfit", Current)
	require.Equal(t, 4, rows["firstfit"].Runs[0].Machines)
	require.Equal(t, 2, rows["firstfit"].Runs[0].Placed, "items of placed.csv do not count")
	require.Equal(t, 4, rows[Current].Runs[0].Machines)
	require.Equal(t, 1, rows[Current].Runs[0].Unplaced)
	require.Contains(t, result.Notes[0], "--repack places them again")

	rows, result = compareCity(t, city(), Options{Repack: true}, "firstfit")
	require.Equal(t, 3, rows["firstfit"].Runs[0].Machines)
	require.Equal(t, []string{"city: each policy places the 5 items of placed.csv again, in the order of its lines"}, result.Notes)
}

// The items of a request are numbered in the order of lines.
func TestCurrentOfManyItems(t *testing.T) {
	tr := city()
	tr.Requests[0].Count = 4
	tr.Placed = append(tr.Placed, trace.Placed{Request: 0, Line: 1, Count: 2}, trace.Placed{Request: 0, Line: 2, Count: 1})
	c, err := newCurrent(tr)
	require.NoError(t, err)
	for number, line := range []int32{0, 1, 1, 2} {
		got, _, _, ok := c.Where(0, int32(number))
		require.True(t, ok)
		require.Equal(t, line, got)
	}
	_, _, _, ok := c.Where(0, 4)
	require.False(t, ok)
}

// What stands against a constraint stands all the same.
func TestCurrentAsksNoConstraint(t *testing.T) {
	tr := city()
	tr.Placed[2].Line = 3 // both db on n4
	tr.Instance.Rules = []binpack.Rule{{A: 0, B: 1}}
	rows, result := compareCity(t, tr, Options{Repack: true, Orders: 2}, Current)
	require.Equal(t, 3, rows[Current].Runs[0].Machines)
	require.Zero(t, result.Violations, "no policy of ours broke it")
}

// With departures, too: they leave from where they stood.
func TestCurrentOverTime(t *testing.T) {
	tr := city()
	tr.Events = append(tr.Events, trace.Event{Time: 3, Kind: trace.Delete, Request: 0, Count: 1}, trace.Event{Time: 5, Kind: trace.Delete, Request: 5, Count: 1})
	rows, _ := compareCity(t, tr, Options{Repack: true}, Current, "bestfit")
	run := rows[Current].Runs[0]
	require.Equal(t, 3, run.Machines)
	require.Equal(t, 4, run.PeakMachines)
	require.Equal(t, 4*3.+3*2, run.MachineSeconds) // n1 is empty from 3 on
}

func TestCurrentNeedsPlaces(t *testing.T) {
	catalog := Catalog{}
	require.NoError(t, catalog.Check([]string{Current}))
	_, err := catalog.Find(Current, oneApp())
	require.EqualError(t, err, `policy current for trace "one": it has no placed.csv, so nothing says where items stood`)

	tr := city()
	tr.Source[Placements] = map[string]any{"late": "n5"}
	_, err = catalog.Find(Current, tr)
	require.EqualError(t, err, `policy current for trace "city": trace.yaml: source.placements: late: machine "n5": unknown machine`)
}

// The present of a cluster has only items that must not move in placed.csv: of machines that could be drained they say nothing.
func TestNotesOfThePresent(t *testing.T) {
	tr := city()
	_, result := compareCity(t, tr, Options{Present: true}, "bestfit", Current)
	notes := strings.Join(result.Notes, "\n")
	require.NotContains(t, notes, "drained")
	require.NotContains(t, notes, "--repack")
	require.Regexp(t, `city: \d+ items?, which must not move, stays? under every policy; the others are placed again`, notes)
}

// Training on a repacked trace is not training on the trace as it stands.
func TestExposureOfRepacked(t *testing.T) {
	tr := city()
	repacked, err := digestOf(tr.FromEmpty())
	require.NoError(t, err)
	o := object("K0")
	o.Spec.Parameters = map[string]float64{"alpha": 1}
	o.Spec.Provenance = map[string]any{"traces": []any{map[string]any{"trace": repacked.Trace, "instance": repacked.Instance}}, "seed": 1, "orders": 0}
	path := t.TempDir() + "/p.yaml"
	require.NoError(t, o.Save(path))
	for repack, want := range map[bool]string{true: TrainedOn, false: SameInstance} {
		rows, _ := compareCity(t, tr, Options{Repack: repack}, path)
		require.Equal(t, want, rows[path].Exposure)
	}
}

func TestDrainable(t *testing.T) {
	machines, items := drainable(city())
	require.Equal(t, []string{"n2", "n1"}, machines)
	require.Equal(t, 2, items)

	full := city() // only its own room would take the other web
	full.Instance.Apps[0].Demand[0] = 3
	full.Placed = full.Placed[:3]
	full.Requests = append(full.Requests[:3], full.Requests[5:]...)
	full.Initial, full.Events = 3, nil
	machines, _ = drainable(full)
	require.Empty(t, machines)

	// A limit closes the machines that have room: the two db stay apart.
	apart := city()
	apart.Placed = apart.Placed[2:4]
	machines, _ = drainable(apart)
	require.Empty(t, machines)

	_, result := compareCity(t, full, Options{Repack: true}, Current)
	require.Contains(t, strings.Join(result.Notes, "\n"), "no machine could be drained")
}

// Equal machines go by position, in whatever order placed.csv lists them: n3 is the
// last of two that hold the same, so it is emptied into n2.
func TestDrainableByPosition(t *testing.T) {
	for _, lines := range [][]int32{{1, 2}, {2, 1}} {
		tr := city()
		tr.Initial, tr.Requests, tr.Events = 2, tr.Requests[:2], nil
		tr.Placed = nil
		for i, line := range lines {
			tr.Placed = append(tr.Placed, trace.Placed{Request: int32(i), Line: line, Count: 1})
		}
		machines, items := drainable(tr)
		require.Equal(t, []string{"n3"}, machines, "placed in the lines %v", lines)
		require.Equal(t, 1, items)
	}
}

// The drain takes the machine that Best-Fit takes among those in use, also where
// machines came into being out of the file's order.
func TestDrainRanks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	asked, tied := 0, 0
	for range 300 {
		tr := city()
		tr.Instance.Fleet = binpack.Fleet(rng.IntN(2))
		d := drain{state: binpack.NewState(tr.Instance)}
		for range 3 + rng.IntN(6) {
			m := d.state.MachineAt(int32(rng.IntN(4)), 0)
			if app := int32(rng.IntN(2)); d.state.Fits(app, m) {
				d.state.Book(app, m)
			}
		}
		d.scorer = rule.BestFit{}.Scorer(d.state)
		for app := range int32(2) {
			for beside := range int32(d.state.Size()) {
				others := slices.DeleteFunc(d.state.Feasible(app, nil), func(m int32) bool { return m == beside || d.state.Items(m) == 0 })
				scores := make([]float64, len(others))
				if len(others) > 0 {
					d.scorer.Score(binpack.Item{App: app}, others, scores)
					asked++
				}
				want, most := int32(-1), math.Inf(-1)
				for i, m := range others {
					if scores[i] == most {
						tied++
					}
					if line, _ := d.state.Position(m); scores[i] > most || scores[i] == most && line < want {
						want, most = line, scores[i]
					}
				}
				got := d.best(app, beside)
				if got >= 0 {
					got, _ = d.state.Position(got)
				}
				require.Equal(t, want, got, "line of machines.csv")
			}
		}
	}
	require.Greater(t, asked, 1000)
	require.Greater(t, tied, 100)
}
