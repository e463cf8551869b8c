package report

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestAggregate(t *testing.T) {
	rows := aggregate(several())
	if rows[0].like.Policy != "learned" || rows[0].like.Knowledge != "K1" || rows[len(rows)-1].like.Knowledge != "K2" {
		t.Errorf("order: %+v", rows)
	}
	// Means 15.75 and 17 over orders: 16.375 ± sqrt(2·.625²/1/2) = .625; Best-Fit
	// has 20.25 twice.
	r := rows[0]
	near(t, "machines", r.mean(machinesHead), 16.375)
	near(t, "error", r.estimates[machinesHead].err, 0.625)
	near(t, "gap", r.mean(gapHead), 16.375/15-1)
	near(t, "at limit", r.mean("at limit %"), 0.25) // 2 of 4 orders, none of 4
	near(t, "vs bestfit", r.mean("vs bestfit %"), 16.375/20.25-1)
	// A figure without meaning on one of the traces counts on the other alone.
	mixed := aggregate([]Comparison{small(), fixed()})
	for _, r := range mixed {
		if r.like.Policy == "bestfit" && (len(r.outcomes) != 2 || r.estimates[gapHead].n != 1 || r.estimates[machinesHead].n != 2) {
			t.Errorf("mixed: %+v", r)
		}
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) < 1e-6) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestFigures(t *testing.T) {
	for _, c := range []struct {
		most   int
		sign   bool
		values []float64
		want   []string
	}{
		{2, false, []float64{15.75, 20.25, 9}, []string{"15.75", "20.25", "9.00"}},
		{2, false, []float64{277.123, 99}, []string{"277.1", "99.0"}},
		{2, false, []float64{1000.4, 12345.6}, []string{"1000", "12346"}},
		{2, true, []float64{-21.5, 4.25, 0, nothing}, []string{"-21.50", "+4.25", "0.00", "-"}},
		{4, false, []float64{0.70833}, []string{"0.7083"}},
		{2, false, []float64{20, 18}, []string{"20", "18"}},
		{2, true, []float64{-0.001, 0.5}, []string{"0.00", "+0.50"}},
		{1, false, []float64{math.Inf(1)}, []string{"+Inf"}},
	} {
		if _, got := figures("", "", c.most, c.sign, c.values); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
}

func TestSummary(t *testing.T) {
	current := small()
	current = Build(current.Trace, Bound{Machines: 15, Cost: 15}, []PolicyRuns{
		{Policy: "current", Knowledge: "K0", Runs: packed(47)},
		{Policy: "bestfit", Knowledge: "K0", Runs: packed(45)},
		{Policy: "learned", Knowledge: "K0", Runs: packed(41)},
		{Policy: "dotproduct", Knowledge: "K0", Runs: packed(40)},
	})
	waits := packed(47)
	waits[0].Unplaced, waits[0].Placed = 3, 219
	waiting := Build(current.Trace, Bound{Machines: 15, Cost: 15}, []PolicyRuns{
		{Policy: "current", Knowledge: "K0", Runs: waits},
		{Policy: "bestfit", Knowledge: "K0", Runs: packed(45)},
		{Policy: "learned", Knowledge: "K0", Runs: packed(45)},
	})
	single := Build(Trace{}, Bound{Machines: 1, Cost: 1}, []PolicyRuns{{Policy: "bestfit", Runs: packed(1)}, {Policy: "firstfit", Runs: packed(2)}})
	alone := Build(Trace{}, Bound{Machines: 2, Cost: 2}, []PolicyRuns{{Policy: "bestfit", Runs: packed(3)}})
	worse := Build(Trace{}, Bound{Machines: 2, Cost: 2}, []PolicyRuns{
		{Policy: "bestfit", Runs: packed(4)},
		{Policy: "mine.yaml", Exposure: "trained on", Runs: packed(5)},
		{Policy: "firstfit", Runs: packed(4)},
	})
	same := Build(Trace{}, Bound{Machines: 2, Cost: 2}, []PolicyRuns{
		{Policy: "bestfit", Runs: packed(4)}, {Policy: "firstfit", Runs: packed(4)},
	})
	for _, c := range []struct {
		comparison Comparison
		want       string
	}{
		{small(), "bestfit needs 20.2 machines, learned (K1) 15.8; 15 is the optimum: 22 % fewer."},
		{current, "the present placement needs 47 machines, bestfit 45, learned 41, dotproduct 40; 15 is the limit: learned needs 2.5 % more than dotproduct."},
		{waiting, "the present placement, in which 3 items wait, needs 47 machines, bestfit 45, learned 45; 15 is the limit: no difference from bestfit."},
		{single, "bestfit needs 1 machine, firstfit 2; 1 is the limit: 100 % more."},
		{alone, "bestfit needs 3 machines; 2 is the limit."},
		{worse, "bestfit needs 4 machines, mine.yaml (trained on) 5, firstfit 4; 2 is the limit: mine.yaml needs 25 % more than bestfit."},
		{same, "bestfit needs 4 machines, firstfit 4; 2 is the limit: no difference."},
		{fixed(), "bestfit leaves out 2.00 % of the cpu, learned (K0+clock, same instance, other orders) 1.14 %: 43 % less."},
		{churn(), "bestfit takes 1.080 times the cost of the bound, learned 1.031: 4.5 % less."},
		{Comparison{}, "No policy was compared."},
	} {
		if got := c.comparison.Summary(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	// One trace says nothing of the error.
	var lone strings.Builder
	table := overview([]Comparison{small(), fixed()})
	table.Text(&lone)
	if s := lone.String(); strings.Contains(s, "± 0 (1)") || strings.Contains(s, "± 0.0 (1)") || strings.Contains(s, "± 0.00 (1)") {
		t.Errorf("an error from one trace:\n%s", s)
	}
	// Only Best-Fit ran on all three; the others' means are of easier traces.
	want := "bestfit leaves out 0.67 % of the cpu (means over 3 traces)."
	if got := Summary([]Comparison{small(), fixed(), churn()}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Summary([]Comparison{{}, {}}); got != "No policy was compared on all 2 traces." {
		t.Error(got)
	}
	if got := Summary(nil); !strings.HasPrefix(got, "Nothing") {
		t.Error(got)
	}
}
