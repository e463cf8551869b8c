package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
)

// Savings are in percent, machines, hours and money, against both bases, with the ends of intervals; the JSON has the same.
func TestSavingsTable(t *testing.T) {
	of := func(name string, list ...PolicyRuns) Comparison {
		return Build(Trace{Name: name, Fleet: "open", Mixed: true, Deletes: true, Currency: "EUR", Seconds: 3600, Orders: 3}, Bound{}, list)
	}
	over := func(values ...float64) []cerebro.Run {
		runs := costs(true, values...)
		for i := range runs {
			runs[i].CostSeconds, runs[i].MachineSeconds, runs[i].PeakMachines = 3600*runs[i].Cost, 7200*runs[i].Cost, int(runs[i].Cost)
		}
		return runs
	}
	list := []Comparison{of("a",
		PolicyRuns{Policy: "current", Runs: over(20)}, PolicyRuns{Policy: "bestfit", Runs: over(10, 10, 10)},
		PolicyRuns{Policy: "p.yaml", Digest: "sha256:x", Runs: over(6, 7, 8)})}
	g := savings(list)
	require.Len(t, g.Rows, 3)
	var heads []string
	for _, c := range g.Columns {
		heads = append(heads, c.Head)
	}
	require.Equal(t, []string{"policy", "saved against", "cost %", "machines", "machine-hours", "EUR a month"}, heads)
	require.Equal(t, []string{"p.yaml", "bestfit"}, g.Rows[0].Cells[:2])
	require.Equal(t, []string{"p.yaml", "current"}, g.Rows[1].Cells[:2])
	require.Equal(t, []string{"bestfit", "current"}, g.Rows[2].Cells[:2])
	require.Equal(t, "30.0 (5.2 to 54.8)", g.Rows[0].Cells[2])
	require.Equal(t, "50.0", g.Rows[2].Cells[2])
	require.Equal(t, "20", g.Rows[2].Cells[4])   // (20 − 10) × 2 hours
	require.Equal(t, "7300", g.Rows[2].Cells[5]) // 10 an hour × 730
	require.Contains(t, savingsCaption(list), "over orders")

	var b strings.Builder
	require.NoError(t, Table(&b, list, Options{}))
	require.Contains(t, b.String(), "saved against")
	list[0].Trace.Currency = ""
	require.Len(t, savings(list).Columns, 5)
	left := over(6, 7, 8)
	left[1].Unplaced = 1
	require.Empty(t, savings([]Comparison{of("a", PolicyRuns{Policy: "bestfit", Runs: over(10, 10, 10)}, PolicyRuns{Policy: "p.yaml", Digest: "x", Runs: left})}).Rows)
	require.Empty(t, savings(nil).Rows)
}

// Three items of a on one machine and one on another in the same zone; b has one of its two in each zone; c, alone, does not count.
func TestRisk(t *testing.T) {
	in := &binpack.Instance{
		Groups:   []binpack.Group{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Apps:     []binpack.App{{Group: 0}, {Group: 0}, {Group: 1}, {Group: 2}},
		Machines: []binpack.MachineLine{{Zone: "x"}, {Zone: "x"}, {Zone: "y"}},
	}
	l := &Layout{Instance: in, Machines: []Machine{
		{Line: 0, Items: []binpack.Entry{{App: 0, Count: 2}, {App: 1, Count: 1}, {App: 2, Group: 1, Count: 1}}},
		{Line: 1, Items: []binpack.Entry{{App: 0, Count: 1}}},
		{Line: 2, Items: []binpack.Entry{{App: 2, Group: 1, Count: 1}, {App: 3, Group: 2, Count: 1}}},
	}}
	require.Equal(t, risk{apps: 2, together: 3 + 1, share: .75 + .5, zone: 1 + .5, worst: 3, worstOf: 4, worstApp: "a"}, l.risk())
	c := Comparison{Trace: Trace{Zones: true}, Results: []Result{{Policy: "p", Layout: l, Runs: []Run{{}}}, {Policy: "none", Runs: []Run{{}}}}}
	g := c.risks()
	require.Len(t, g.Rows, 1)
	require.Equal(t, "62.5", g.Rows[0].Cells[2])
	require.Equal(t, "3 of 4 of a", g.Rows[0].Cells[3])
	require.Equal(t, "75.0", g.Rows[0].Cells[4])
	require.Len(t, asides([]Comparison{c}), 1)
}

// The picture is of the policies that the verdict compares.
func TestPictureOfVerdict(t *testing.T) {
	c := drawnSmall(16, 20)
	policy, against := Drawn([]Comparison{c})
	require.Equal(t, "learned", policy)
	_, free, _ := contenders([]Comparison{c})
	require.Equal(t, free.Policy, against)
	require.Contains(t, newVerdict([]Comparison{c}, nil).Text, " against "+against)
	policy, against = Drawn(nil)
	require.Empty(t, policy+against)
}
