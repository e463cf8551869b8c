package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// typed splits a command of the bill as a shell does.
func typed(command string) (words []string) {
	quoted, word := false, ""
	for _, r := range command {
		switch {
		case r == '\'':
			quoted = !quoted
		case r == ' ' && !quoted:
			words, word = append(words, word), ""
		default:
			word += string(r)
		}
	}
	return append(words, word)
}

// printed types a command and returns the money a month that it prints.
func printed(t *testing.T, command string) float64 {
	t.Helper()
	before, last, found := strings.Cut(command, " && ")
	if !found {
		before, last = "", before
	}
	if before != "" {
		outputOf(t, typed(before)[1:]...)
	}
	words := typed(last)
	require.Equal(t, "sigma", words[0], command)
	switch words[1] {
	case "rebalance":
		return *parsed[struct {
			Saving struct {
				Money *float64 `json:"money_per_month"`
			}
		}](t, outputOf(t, append(words[1:], "--format", "json")...)).Saving.Money
	case "compare":
		results := parsed[[]struct {
			Results []struct {
				Policy string
				From   *struct {
					Money *struct{ Mean float64 } `json:"money_per_month"`
				} `json:"saving_from_current"`
			}
		}](t, outputOf(t, append(words[1:], "--format", "json")...))[0].Results
		require.Len(t, results, 2)
		for _, r := range results {
			if r.Policy != "current" {
				require.NotNil(t, r.From.Money, command)
				return r.From.Money.Mean
			}
		}
	case "plan":
		plans := parsed[[]struct {
			Saves *float64 `json:"saves_per_month"`
		}](t, outputOf(t, append(words[1:], "--format", "json")...))
		require.Len(t, plans, 2)
		require.NotNil(t, plans[1].Saves, command)
		return *plans[1].Saves
	case "savings":
		b := parsed[aBill](t, outputOf(t, append(words[1:], "--format", "json")...))
		return b.Steps[3].Money.Mean
	}
	t.Fatalf("no figure of %s", command)
	return math.NaN()
}

// requireTyped types the command of each line.
func requireTyped(t *testing.T, b *aBill) {
	t.Helper()
	for _, s := range b.Steps {
		if s.Money != nil && s.Command != "" {
			require.InDelta(t, s.Prints, printed(t, s.Command), .011, "%s: %s", s.Cause, s.Command)
		}
	}
	for _, c := range b.Constraints {
		require.InDelta(t, c.Prints, printed(t, c.Command), .011, "%s: %s", c.What, c.Command)
	}
}

// Each line's command, typed, prints its figure: on the demo's cluster, with and without a history of use.
func TestLinesAreTheirCommands(t *testing.T) {
	dump, err := filepath.Abs("../../docs/examples/messy.json.gz")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	outputOf(t, "snapshot", "--from", dump, "--out", "snap")
	b := parsed[aBill](t, outputOf(t, "savings", "--trace", "snap", "--format", "json"))
	requireTyped(t, &b)
	for _, s := range b.Steps[:2] {
		require.Positive(t, s.Money.Mean, s.Cause)
		require.InDelta(t, s.Money.Mean, s.Prints, .011, s.Cause)
	}
	require.NotEmpty(t, b.Constraints)

	tr, err := trace.LoadAll("snap", 1<<30)
	require.NoError(t, err)
	used := tr[0]
	u := &trace.Usage{}
	for a, app := range used.Instance.Apps {
		for d, dim := range used.Instance.Dimensions[:2] {
			s := trace.Series{App: int32(a), Dimension: int32(d), Start: -28 * 86400, Step: 3600}
			for range 28 * 24 {
				s.Values = append(s.Values, float32(.3*float64(app.Demand[d])/float64(dim.One)))
			}
			u.Series = append(u.Series, s)
		}
	}
	used.SetUsage(u)
	require.NoError(t, used.Write("used"))
	b = parsed[aBill](t, outputOf(t, "savings", "--trace", "used", "--format", "json"))
	require.Positive(t, b.Steps[2].Money.Mean)
	require.InDelta(t, b.Steps[1].Money.Mean+b.Steps[2].Money.Mean, b.Steps[2].Prints, .011, "the saving on the state after the moves")
	require.InDelta(t, b.Steps[2].Prints, printed(t, b.Steps[2].Command), .011, b.Steps[2].Command)
}

// The use of pods in a file beside a dump gives the line by use with its risk, and the commands print its figure.
func TestUseBesideADump(t *testing.T) {
	folder, err := filepath.Abs("../../docs/examples")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	from := filepath.Join(folder, "messy.json.gz") + "," + filepath.Join(folder, "messy.csv.gz")
	b := parsed[aBill](t, outputOf(t, "savings", "--from", from, "--format", "json"))
	use := b.Steps[2]
	require.Equal(t, "usage", use.Cause)
	require.NotNil(t, use.Money)
	require.Positive(t, use.Money.Mean)
	require.Contains(t, use.Risk, "cpu above capacity for ")
	require.Contains(t, outputOf(t, "savings", "--from", from), "\n    risk: cpu above capacity ")
	outputOf(t, typed(b.Snapshot)[1:]...)
	for _, s := range b.Steps[:3] {
		require.InDelta(t, s.Prints, printed(t, s.Command), .011, s.Command)
	}
	again := parsed[aBill](t, outputOf(t, "savings", "--trace", "snap", "--format", "json"))
	require.Equal(t, use.Money, again.Steps[2].Money)
}

// One large node costs less than two small ones: the plan of the line prints its figure.
func TestLineOfShapesIsItsCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	tr := &trace.Trace{Name: "snap", MeasureFrom: math.NaN(), Source: map[string]any{"origin": "Kubernetes cluster", "currency": "EUR"}, Instance: &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}}, Types: []string{"small", "large"}, Fleet: binpack.Open,
		Apps:   []binpack.App{{Name: "shop/Deployment/web", Expected: -1, Lifetime: -1, Demand: []int64{1900, 4 << 30}}},
		Groups: []binpack.Group{{Name: "shop/Deployment/web"}},
	}}
	for i := range 7 {
		tr.Instance.Machines = append(tr.Instance.Machines, binpack.MachineLine{Name: fmt.Sprint("small-", i), Count: 1, Cost: .3, Capacity: []int64{4000, 16 << 30}})
	}
	tr.Instance.Machines = append(tr.Instance.Machines, binpack.MachineLine{Name: "large-0", Type: 1, Count: 1, Cost: .35, Capacity: []int64{8000, 32 << 30}})
	for i := range 14 {
		tr.Requests = append(tr.Requests, trace.Request{Name: fmt.Sprint("web-", i), Count: 1})
		tr.Placed = append(tr.Placed, trace.Placed{Request: int32(i), Line: int32(i / 2), Count: 1})
	}
	tr.Initial = len(tr.Requests)
	require.NoError(t, tr.Write("snap"))
	b := parsed[aBill](t, outputOf(t, "savings", "--trace", "snap", "--format", "json"))
	require.Positive(t, b.Steps[3].Money.Mean)
	requireTyped(t, &b)
	require.Equal(t, b.Steps[3].Money.Mean, b.Steps[3].Prints)
	require.Contains(t, outputOf(t, append(typed(b.Steps[3].Command)[1:], "--quiet")...), fmt.Sprintf("saves %.2f EUR a month", b.Steps[3].Prints))
}

// Moves of another cluster are an error with the line.
func TestAfterOtherMoves(t *testing.T) {
	dump, err := filepath.Abs("../../docs/examples/messy.json.gz")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	outputOf(t, "snapshot", "--from", dump, "--out", "snap")
	for text, want := range map[string]string{
		"step,request,item,app,from,to,devices\n1,shop/none,0,a,b,c,\n": `m.csv:2: request "shop/none": the trace has none`,
		"instance_type,price\n": "m.csv: record on line 1: wrong number of fields",
	} {
		require.NoError(t, os.WriteFile("m.csv", []byte(text), 0o600))
		var out, wrong strings.Builder
		require.NotZero(t, run(t.Context(), []string{"compare", "--trace", "snap", "--present", "--after", "m.csv", "--policy", "current"}, &out, &wrong))
		require.Contains(t, wrong.String(), want)
	}
}

// A pod that waits and fits keeps its room in the bill and in each command of it.
func TestLinesWithAPodThatWaits(t *testing.T) {
	t.Chdir(t.TempDir())
	tr := &trace.Trace{Name: "snap", MeasureFrom: math.NaN(), Source: map[string]any{
		"origin": "Kubernetes cluster", "currency": "EUR", "cluster": map[string]any{"waiting": map[string]any{"late": "limits beside other pods"}},
	}, Instance: &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}}, Types: []string{"a"}, Fleet: binpack.Open,
		Apps: []binpack.App{
			{Name: "shop/Deployment/web", Expected: -1, Lifetime: -1, Demand: []int64{1500, 4 << 30}},
			{Name: "shop/Deployment/late", Group: 1, Expected: -1, Lifetime: -1, Demand: []int64{2500, 4 << 30}},
		},
		Groups: []binpack.Group{{Name: "shop/Deployment/web", Limit: 1}, {Name: "shop/Deployment/late"}},
	}}
	for i := range 5 { // one is empty
		tr.Instance.Machines = append(tr.Instance.Machines, binpack.MachineLine{Name: fmt.Sprint("n", i), Count: 1, Cost: .3, Capacity: []int64{4000, 16 << 30}})
	}
	for i := range 4 {
		tr.Requests = append(tr.Requests, trace.Request{Name: fmt.Sprint("web-", i), Count: 1})
		tr.Placed = append(tr.Placed, trace.Placed{Request: int32(i), Line: int32(i), Count: 1})
	}
	tr.Initial = len(tr.Requests)
	tr.Requests = append(tr.Requests, trace.Request{Name: "late", App: 1, Count: 1})
	tr.Events = []trace.Event{{Kind: trace.Create, Request: 4, Count: 1}}
	require.NoError(t, tr.Write("snap"))
	b := parsed[aBill](t, outputOf(t, "savings", "--trace", "snap", "--format", "json"))
	require.InDelta(t, .3*730, b.Steps[0].Money.Mean, .01, "the empty node")
	require.InDelta(t, b.Steps[0].Money.Mean, b.Steps[0].Prints, .011)
	require.NotEmpty(t, b.Constraints)
	require.InDelta(t, .3*730, b.Constraints[0].Money, .01, "three nodes hold all five pods")
	require.InDelta(t, .3*730, printed(t, "sigma plan --trace snap --present --without 'anti-affinity of all pods' --starts 1"), .01)
	b.Constraints = nil
	requireTyped(t, &b)
}
