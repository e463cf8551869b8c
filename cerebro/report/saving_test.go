package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro"
)

// costs are runs of orders 1…N with these costs and as many machines, over an hour where items leave.
func costs(deletes bool, values ...float64) (runs []cerebro.Run) {
	for i, v := range values {
		run := cerebro.Run{Order: i + 1, Machines: int(v), PeakMachines: int(v), Cost: v, Placed: 1}
		if deletes {
			run.CostSeconds, run.MachineSeconds = 3600*v, 7200*v
		}
		runs = append(runs, run)
	}
	return runs
}

func savingOf(c Comparison, policy string) Saving {
	for _, r := range c.Results {
		if r.Policy == policy {
			return r.Saving
		}
	}
	return Saving{}
}

func TestSavings(t *testing.T) {
	policies := func(deletes bool) []PolicyRuns {
		return []PolicyRuns{
			{Policy: "current", Runs: costs(deletes, 15)},
			{Policy: "bestfit", Runs: costs(deletes, 10, 10, 10)},
			{Policy: "mostallocated", Runs: costs(deletes, 8, 8, 8)},
			{Policy: "learned", Digest: "sha256:x", Runs: costs(deletes, 6, 7, 8)},
		}
	}
	priced := Trace{Fleet: "open", Mixed: true, Currency: "EUR", Seconds: 3600}
	c := Build(priced, Bound{}, policies(false))
	require.Equal(t, Saving{Against: "mostallocated", Currency: "EUR"}, savingOf(c, "mostallocated"), "nothing against itself")
	// 2, 1, 0 less: mean 1, and 4.303 · 1 ÷ √3 to either side.
	s := savingOf(c, "learned")
	require.Equal(t, &Interval{1, -1.484138, 3.484138}, s.Machines)
	require.Equal(t, &Interval{12.5, -18.551721, 43.551721}, s.Percent)
	require.InDelta(t, 730, s.Money.Mean, 1e-9)
	require.InDelta(t, -1083.42, s.Money.Low, .01)
	require.Nil(t, s.MachineHours)
	require.Equal(t, &Interval{-87.5, -87.5, -87.5}, savingOf(c, "current").Percent, "one order stands for all")

	of := func(c Comparison, policy string) *Saving {
		for i := range c.Results {
			if c.Results[i].Policy == policy {
				return c.Results[i].SavingFromCurrent
			}
		}
		return nil
	}
	require.Nil(t, of(c, "current"))
	require.Equal(t, "current", of(c, "learned").Against)
	require.InDelta(t, 8, of(c, "learned").Machines.Mean, 1e-9)
	require.InDelta(t, 8*730, of(c, "learned").Money.Mean, 1e-9)
	require.InDelta(t, 5, of(c, "bestfit").Machines.Mean, 1e-9, "of free rules too")
	require.Nil(t, of(Build(priced, Bound{}, policies(false)[1:]), "learned"), "nothing was recorded")

	priced.Deletes = true
	s = savingOf(Build(priced, Bound{}, policies(true)), "learned")
	require.InDelta(t, 2, s.MachineHours.Mean, 1e-9)
	require.InDelta(t, 730, s.Money.Mean, 1e-9, "a unit less each hour")

	require.Nil(t, savingOf(Build(Trace{}, Bound{}, policies(false)), "learned").Money, "no prices")
	left := policies(false)
	left[3].Runs[0].Unplaced = 1
	require.Nil(t, savingOf(Build(priced, Bound{}, left), "learned").Percent, "what is left out costs nothing")
	require.Empty(t, savingOf(Build(priced, Bound{}, left[3:]), "learned").Against, "no rule")
}

// The summary says the saving in money, with its interval: a saving that is not proven is none.
func TestSavingInWords(t *testing.T) {
	priced := func(values ...float64) Comparison {
		return Build(Trace{Fleet: "open", Mixed: true, Currency: "EUR", Seconds: 3600}, Bound{}, []PolicyRuns{
			{Policy: "mostallocated", Runs: costs(true, 8, 8, 8)}, {Policy: "learned", Digest: "sha256:x", Runs: costs(true, values...)},
		})
	}
	for want, list := range map[string][]Comparison{
		" learned saves 1460 EUR a month against mostallocated.":                                         {priced(6, 6, 6)},
		" learned costs 1460 EUR a month more than mostallocated.":                                       {priced(10, 10, 10)},
		" EUR a month against mostallocated: learned 730 (95 %: -1083 to 2543), so no saving is proven.": {priced(6, 7, 8)},
		" learned saves 1825 EUR a month against mostallocated (95 %: 918.3 to 2732).":                   {priced(6, 6, 6), priced(5, 5, 5), priced(5.5, 5.5, 5.5)},
	} {
		require.Contains(t, Summary(list), want)
	}
	recorded := Build(Trace{Fleet: "open", Mixed: true, Currency: "EUR", Seconds: 3600}, Bound{}, []PolicyRuns{
		{Policy: "current", Runs: costs(true, 9)}, {Policy: "mostallocated", Runs: costs(true, 8)}, {Policy: "learned", Digest: "sha256:x", Runs: costs(true, 6)},
	})
	require.Contains(t, Summary([]Comparison{recorded}), " learned saves 1460 EUR a month against mostallocated. learned saves 2190 EUR a month against the present placement.")
	free := Build(Trace{Currency: "EUR"}, Bound{}, []PolicyRuns{{Policy: "bestfit", Runs: costs(false, 8)}, {Policy: "firstfit", Runs: costs(false, 9)}})
	require.NotContains(t, free.Summary(), "a month", "free rules save nothing against themselves")
	mixed := priced(6, 6, 6)
	for i := range mixed.Results {
		mixed.Results[i].Saving.Currency = "USD"
	}
	require.NotContains(t, Summary([]Comparison{priced(6, 6, 6), mixed}), "a month", "two currencies")
}
