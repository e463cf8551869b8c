package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sigma-scheduler/sigma/cerebro"
)

// Days with node-times of 100, 100 and 50 and 1, 3 and 0 above capacity: 4 ÷ 250 = 1.6 %. The residuals are -.6, 1.4
// and -.8, so ± is t(2 degrees) 4.303 · √(.36 + 1.96 + .64 ÷ 2) ÷ √3 ÷ (250 ÷ 3), in percent. A day without machines counts nothing.
func TestOverCapacityOfDays(t *testing.T) {
	run := cerebro.Run{Use: &cerebro.Use{
		Until: 250, NodeSeconds: 250, ItemSeconds: 250,
		Dimensions: []cerebro.DimensionUse{{Judged: 250, JudgedDays: []float64{100, 0, 100, 50}, Over: 4, Days: []float64{1, 0, 3, 0}, Covered: 250, Worst: 2}},
	}}
	u := UseOf(Trace{Dimensions: []string{"cpu"}}, run)
	near(t, "mean", u.Interval["cpu"].Mean, 1.6)
	near(t, "half", u.Interval["cpu"].half(), 3.626501)
	if want := "cpu above capacity for 1.6000 % of the node-time (± 3.6265 over 3 days), at worst 2.00 of it"; !strings.HasPrefix(u.Text(), want) {
		t.Errorf("%s", u.Text())
	}
	c := Build(Trace{Name: "t", Dimensions: []string{"cpu"}}, Bound{}, []PolicyRuns{{Policy: "bestfit", Runs: []cerebro.Run{run}}})
	near(t, "one order", c.result("bestfit").Over["cpu"].half(), 3.626501)
	one := &run.Use.Dimensions[0]
	one.JudgedDays, one.Days = one.JudgedDays[:1], one.Days[:1]
	if one := UseOf(Trace{Dimensions: []string{"cpu"}}, run); one.Interval != nil || strings.Contains(one.Text(), "±") {
		t.Errorf("one day: %s", one.Text())
	}
}

// Orders 1 to 3 are over for 1, 2 and 3 % of the node-time: 2 ± t(2 degrees)·1/√3 = 2.484. Order 0
// does not count beside them, and one judged order has no interval.
func TestOverCapacityOfOrders(t *testing.T) {
	run := func(order int, over float64) cerebro.Run {
		return cerebro.Run{Order: order, Use: &cerebro.Use{
			From: 0, Until: 100, NodeSeconds: 100, ItemSeconds: 100, Dimensions: []cerebro.DimensionUse{{Judged: 100, Over: over, Covered: 100, Worst: 2}},
		}}
	}
	c := Build(Trace{Name: "t", Dimensions: []string{"cpu"}}, Bound{}, []PolicyRuns{
		{Policy: "bestfit", Runs: []cerebro.Run{run(0, 50), run(1, 1), run(2, 2), run(3, 3)}},
		{Policy: "firstfit", Runs: []cerebro.Run{run(0, 50)}},
	})
	got, single := c.result("bestfit").Over["cpu"], c.result("firstfit").Over
	if got == nil || single != nil {
		t.Fatalf("intervals %v, %v", got, single)
	}
	near(t, "mean", got.Mean, 2)
	near(t, "low", got.Low, -.484138)
	near(t, "high", got.High, 4.484138)
	for _, o := range c.outcomes() {
		if half := marginOf("cpu")(&o); o.result.Policy == "bestfit" {
			near(t, "half", half, 2.484138)
		} else if half == half {
			t.Errorf("one order: ± %v", half)
		}
	}
}

// A risk is of the time with samples, and of three quarters of the node-time at least.
func TestRiskNeedsSamples(t *testing.T) {
	use := func(judged float64) *Use {
		return UseOf(Trace{Dimensions: []string{"cpu", "memory"}}, cerebro.Run{Use: &cerebro.Use{
			Until: 100, NodeSeconds: 100, ItemSeconds: 200,
			Dimensions: []cerebro.DimensionUse{
				{Judged: judged, JudgedDays: []float64{judged}, Over: judged / 10, Days: []float64{judged / 10}, Covered: 2 * judged, Worst: 2},
				{Dimension: 1, Judged: 100, JudgedDays: []float64{100}, Days: []float64{0}, Covered: 200, Worst: .5},
			},
			Nodes: []cerebro.NodeUse{{Machine: "n", Seconds: 100, Over: []float64{judged / 10, 0}, Worst: []float64{2, .5}, Judged: []float64{judged, 100}}},
		}})
	}
	u := use(80)
	near(t, "over", u.OverPercent["cpu"], 10)
	near(t, "of the node", u.Nodes[0].OverPercent["cpu"], 10)
	if want := "cpu above capacity for 10.0000 % of the node-time, at worst 2.00 of it; memory above capacity for 0.0000 % of the node-time, at worst 0.50 of it; samples of cpu cover 80.0 % of the items' time and judge 80.0 % of the node-time"; u.Text() != want || u.NotKnown != "" {
		t.Errorf("%s %q", u.Text(), u.NotKnown)
	}
	for _, u := range []*Use{use(74), MeanUse([]*Use{use(80), use(60)}, "order")} {
		if _, known := u.OverPercent["cpu"]; known || u.Worst["cpu"] != 0 || !strings.HasPrefix(u.Text(), "memory above capacity for 0.0000 %") {
			t.Errorf("a risk with few samples: %s", u.Text())
		}
		if want := fmt.Sprintf("samples of cpu judge %.1f %% of the node-time, and a risk needs 75 %%", u.JudgedPercent["cpu"]); u.NotKnown != want || !strings.Contains(u.Text(), "not known: "+want) {
			t.Errorf("%s", u.Text())
		}
	}
}

// Two replays of the same two days are no four draws: the interval is the mean of theirs, and more spans narrow it.
func TestUseOfSameDays(t *testing.T) {
	use := func(over ...float64) *Use {
		return UseOf(Trace{Dimensions: []string{"cpu"}}, cerebro.Run{Use: &cerebro.Use{
			Until: 200, NodeSeconds: 200, ItemSeconds: 200,
			Dimensions: []cerebro.DimensionUse{{Judged: 200, JudgedDays: []float64{100, 100}, Over: over[0] + over[1], Days: over, Covered: 200, Worst: 2}},
		}})
	}
	one := use(1, 3) // 2 % ± t(1 degree) 12.706 · √2 ÷ √2
	near(t, "days", one.Interval["cpu"].half(), 12.706205)
	both := UseOfSameDays([]*Use{one, use(2, 4)})
	near(t, "mean", both.OverPercent["cpu"], 2.5)
	near(t, "middle", both.Interval["cpu"].Mean, 2.5)
	near(t, "half", both.Interval["cpu"].half(), 12.706205)
	if both.Of != "2 days" {
		t.Error(both.Of)
	}
	single := use(1, 3)
	single.Interval = nil
	if got := UseOfSameDays([]*Use{single, one}); got.Interval != nil || got.Of != "" {
		t.Errorf("%v of %q", got.Interval, got.Of)
	}
}

// A resource of the trace without a series of use is named in the risk, in JSON and in the notes, also of a mean.
func TestRiskNamesWhatItIsNotOf(t *testing.T) {
	head := Trace{Name: "t", Dimensions: []string{"cpu", "memory", "gpu"}, Unseen: "3.0 % of the cpu"}
	run := cerebro.Run{Use: &cerebro.Use{
		Until: 100, NodeSeconds: 100, ItemSeconds: 100,
		Dimensions: []cerebro.DimensionUse{{Judged: 100, JudgedDays: []float64{100}, Days: []float64{0}, Covered: 100, Worst: .5}},
	}}
	const want = "memory not judged: the usage has no series of it; 3.0 % of the cpu"
	u := UseOf(head, run)
	for _, one := range []*Use{u, MeanUse([]*Use{u, u}, "order"), UseOfSameDays([]*Use{u, u})} {
		if !strings.HasSuffix(one.Text(), "; "+want) || len(one.NotJudged) != 1 {
			t.Error(one.Text())
		}
	}
	notes := UseNotes([]Comparison{Build(head, Bound{}, []PolicyRuns{{Policy: "bestfit", Runs: []cerebro.Run{run}}, {Policy: "firstfit", Runs: []cerebro.Run{run}}})})
	if len(notes) != 1 || notes[0] != "t by use: "+want {
		t.Errorf("%q", notes)
	}
}
