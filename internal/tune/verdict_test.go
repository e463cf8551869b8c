package tune

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// TestBetter: where one day or built days judge, a policy needs the margin, clearly over the draws; where
// days judge, the whole interval.
func TestBetter(t *testing.T) {
	of := func(days ...[]float64) (l losses) {
		for _, orders := range days {
			var day []loss
			for _, v := range orders {
				day = append(day, loss{cost: v, refused: v})
			}
			l = append(l, day)
		}
		return l
	}
	recorded, built := []span{{}}, []span{{trace: 1}}
	for name, tc := range map[string]struct {
		part []span
		m    measure
		lost losses
		want bool
	}{
		"one day":                    {recorded, byCost, of([]float64{98, 98}), true},
		"less than the margin":       {recorded, byCost, of([]float64{99.6, 99.6}), false},
		"one draw of two is worse":   {recorded, byCost, of([]float64{90, 101}), false},
		"seven draws of eight":       {recorded, byCost, of([]float64{95, 95, 95, 95, 95, 95, 95, 100.1}), true},
		"draws that disagree":        {recorded, byCost, of([]float64{90, 90, 90, 115}), false},
		"left out, one day":          {recorded, byLeftOut, of([]float64{80, 80}), true},
		"left out, too few less":     {recorded, byLeftOut, of([]float64{95, 95}), false},
		"left out, a worse draw":     {recorded, byLeftOut, of([]float64{20, 101}), false},
		"two days":                   {recorded, byCost, of([]float64{99.5}, []float64{99.5}), true},
		"two days, one worse":        {recorded, byCost, of([]float64{90}, []float64{101}), false},
		"built days":                 {built, byCost, of([]float64{96}, []float64{96}), true},
		"built days, too little":     {built, byCost, of([]float64{98}, []float64{98}), false},
		"built days, one is dearer":  {built, byCost, of([]float64{80}, []float64{101}), false},
		"built days, few left out":   {built, byLeftOut, of([]float64{96}, []float64{96}), false},
		"built days, none left out":  {built, byLeftOut, of([]float64{0}, []float64{0}), true},
		"built days, all left alike": {built, byLeftOut, of([]float64{100}, []float64{100}), false},
	} {
		r := &run{cfg: Config{Seed: 1, Traces: []*trace.Trace{nil}}, measure: tc.m}
		base := make(losses, len(tc.lost))
		for day := range base {
			for range tc.lost[day] {
				base[day] = append(base[day], loss{cost: 100, refused: 100})
			}
		}
		require.Equal(t, tc.want, r.better(&judged{all: []*candidate{{}, {}}, lost: []losses{base, tc.lost}, built: tc.part[0].trace > 0}, 1, tc.part), name)
	}
}

// TestBetterRule: of some twenty rules the best of one day may be so by luck, so it has to save twice as much as a trained policy.
func TestBetterRule(t *testing.T) {
	r := &run{cfg: Config{Seed: 1, Traces: []*trace.Trace{nil}}, measure: byCost}
	day := func(cost float64) losses { return losses{{{cost: cost}, {cost: cost}}} }
	for kind, want := range map[string]bool{builtIn: false, trained: true} {
		j := &judged{all: []*candidate{{kind: inForce}, {kind: kind}}, lost: []losses{day(100), day(99.2)}}
		require.Equal(t, want, r.better(j, 1, []span{{}}), kind)
	}
}

// TestLeaveOut: one candidate whose risk is not known does not fail the others; the policy in force does.
func TestLeaveOut(t *testing.T) {
	unknown, other := &unknownRisk{errors.New("use is known for 60 % of the node-time")}, errors.New("broken")
	all := []*candidate{{name: "now", kind: inForce}, {name: "nextfit", kind: builtIn}}
	require.NoError(t, leaveOut(all, []error{nil, unknown}))
	require.ErrorIs(t, leaveOut(all, []error{nil, other}), other)
	require.ErrorIs(t, leaveOut(all, []error{unknown, nil}), unknown)
	all[1].prefers = true
	require.ErrorIs(t, leaveOut(all, []error{nil, unknown}), unknown, "a price is of all settings")
}

// TestVerdictText: no sentence praises a policy that it does not choose, and one day has no interval.
func TestVerdictText(t *testing.T) {
	one := func(mean float64) *Interval { return &Interval{mean, math.NaN(), math.NaN()} }
	later := Parts{Judge: "hours 24 to 48", Exposure: "later days"}
	rows := []Row{{Policy: "learned"}, {Policy: "bestfit"}}
	for want, out := range map[string]Result{
		"keep what you have: nothing is clearly better than learned. The best other policy (bestfit) has 0.4 % fewer node-hours, too little to be sure.":    {Saving: one(.4), Test: rows, Measure: "fewer node-hours", Parts: later},
		"keep what you have: nothing is clearly better than learned. The best other policy (bestfit) has 4.0 % fewer node-hours, but its pods wait longer.": {Saving: one(4), Test: rows, Measure: "fewer node-hours", Parts: later, forbidden: "its pods wait longer"},
		"bestfit was chosen over learned, and no part is left to judge it.":                                                                                 {Better: true, Rule: "bestfit", Chosen: "bestfit"},
		"keep what you have: nothing is better than learned. The best other policy (bestfit) has 1.2 % ± 0.5 higher cost of nodes.":                         {Saving: &Interval{-1.2, -1.7, -.7}, Test: rows, Measure: "lower cost of nodes", Parts: later},
		"worth it: 2.0 % fewer node-hours than learned. It was judged on 3 built days, not on later days.":                                                  {Better: true, Saving: one(2), Test: rows, Measure: "fewer node-hours", Parts: Parts{Judge: "3 built days", Exposure: "built days"}},
		"use the rule worstfit: 2.0 % ± 0.5 less demand left out than learned.":                                                                             {Better: true, Rule: "worstfit", Saving: &Interval{2, 1.5, 2.5}, Test: rows, Measure: "less demand left out", Parts: later},
	} {
		out.Against = "learned"
		require.Equal(t, want, out.Sentence())
	}
}

// TestBest: the policy that is there stays unless another saves the margin, lets nothing wait longer, and,
// with a forecast, is surely better.
func TestBest(t *testing.T) {
	k0, k1 := rule.BestFit{}, forecasting{rule.BestFit{}}
	of := func(values ...float64) (l losses) {
		for _, v := range values {
			l = append(l, []loss{{cost: v}}, []loss{{cost: v}})
		}
		return l
	}
	waits := of(90)
	waits[0][0].waiting = 1
	for name, tc := range map[string]struct {
		all  []*candidate
		lost []losses
		want int
	}{
		"less than the margin":     {[]*candidate{{policy: k0}}, []losses{of(99.1)}, 0},
		"the margin":               {[]*candidate{{policy: k0}}, []losses{of(98.9)}, 1},
		"the most":                 {[]*candidate{{policy: k0}, {policy: k0}, {policy: k0}}, []losses{of(98), of(97), of(97.5)}, 2},
		"its pods wait":            {[]*candidate{{policy: k0}, {policy: k0}}, []losses{waits, of(95)}, 2},
		"a forecast, sure":         {[]*candidate{{kind: trained, policy: k0}, {kind: trained, policy: k1}}, []losses{of(98), of(90)}, 2},
		"all are worse":            {[]*candidate{{policy: k0}, {policy: k0}}, []losses{of(101), of(102)}, 0},
		"a forecast beside a rule": {[]*candidate{{policy: k0}, {kind: trained, policy: k1}}, []losses{of(98), {{{cost: 100}}, {{cost: 90}}}}, 1},
		"it costs the same":        {[]*candidate{{policy: k0}}, []losses{of(100)}, 0},
	} {
		r := &run{cfg: Config{Seed: 1}}
		j := judged{all: append([]*candidate{{policy: k0}}, tc.all...), lost: append([]losses{of(100)}, tc.lost...)}
		require.Equal(t, tc.want, r.best(&j, 1, 0, 1), name)
	}
	r := &run{cfg: Config{Seed: 1}}
	j := judged{all: []*candidate{{policy: k0}, {kind: trained, policy: k0}, {kind: trained, policy: k1}}, lost: []losses{of(100, 100, 100), of(95, 95, 95), of(80, 96, 96)}}
	require.Equal(t, 1, r.best(&j, 1, 0, 1), "better in one day of three only")
	require.Equal(t, 0, r.best(&j, 1, 0, 20))
	j.lost = []losses{{{{cost: 100}}}, {{{cost: 98}}}, {{{cost: 97.6}}}}
	require.Equal(t, 1, r.best(&j, 1, 0, 1), "one day does not show that a forecast is surely better")
	j.lost[2][0][0].cost = 96
	require.Equal(t, 2, r.best(&j, 1, 0, 1), "but by the margin")
	require.Empty(t, r.forbids(of(95), of(100)))
	require.Equal(t, "its pods wait longer", r.forbids(waits, of(100)))
}

// forecasting is a policy that uses a forecast.
type forecasting struct{ rule.BestFit }

func (forecasting) Knowledge() binpack.Knowledge { return binpack.K1 }
