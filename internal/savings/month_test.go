package savings

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

func monthOf(t *testing.T, tr *trace.Trace) *Bill {
	t.Helper()
	b, err := Of(t.Context(), tr, Options{Catalog: compare.Catalog{Shipped: policies.Files}, Workers: 1, Seed: 1, MonthSeeds: MonthSeeds})
	require.NoError(t, err)
	return b
}

// The month is in the text, in JSON and on the page, with the same bytes for the same seed.
func TestMonth(t *testing.T) {
	b := monthOf(t, messy(12, 1))
	m := b.Month
	require.Equal(t, 30, m.Days*m.Seeds)
	require.Equal(t, 1., m.Share)
	require.Len(t, m.Stacks, 2)
	for i, l := range m.Stacks {
		require.Less(t, l.Money.Low, l.Money.High)
		require.InDelta(t, int64(m.Stacks[0].Money.Mean-l.Money.Mean), int64(l.Saves.Mean), 1, "the rounded difference")
		require.Nil(t, l.Broken, "no use")
		require.Equal(t, i == 0, l.Saves == Money{})
	}
	var screen bytes.Buffer
	require.NoError(t, b.Print(&screen, false))
	lines := strings.Split(strings.TrimSuffix(screen.String(), "\n"), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "simulated: 30 days") })
	require.Positive(t, at)
	require.LessOrEqual(t, len(lines)-at, 6)
	require.LessOrEqual(t, at-1, screenLines)
	for _, line := range lines {
		require.LessOrEqual(t, utf8.RuneCountInString(line), screenWidth, line)
	}
	require.Contains(t, lines[at+1], b.money(m.Stacks[0].Money.Mean))
	require.Contains(t, lines[at+2], m.Stacks[1].saves(b))
	require.Contains(t, pageOf(t, b), b.money(m.Stacks[1].Money.Mean)+"</td>")
	again := monthOf(t, messy(12, 1))
	one, err := json.Marshal(b)
	require.NoError(t, err)
	two, err := json.Marshal(again)
	require.NoError(t, err)
	require.Equal(t, string(one), string(two))
	require.Contains(t, string(one), `"moved_a_day":`)
}

// With sizes by use there is a third stack, which costs less where pods use half of their requests.
func TestMonthByUse(t *testing.T) {
	tr := messy(12, 2)
	use(tr, 35, .4)
	m := monthOf(t, tr).Month
	require.Len(t, m.Stacks, 3)
	require.Less(t, float64(m.Stacks[2].Money.Mean), .95*float64(m.Stacks[1].Money.Mean))
}

// Of ten months of different seeds, the interval of the difference has the mean over all in nine at least.
func TestIntervalOfAMonth(t *testing.T) {
	b := builderOf(t, messy(8, 3))
	var all []Money
	sum := Cents(0)
	const months = 10
	for i := range months {
		b.opt.Seed = uint64(1 + i*MonthSeeds)
		require.NoError(t, b.month(t.Context()))
		all = append(all, b.bill.Month.Stacks[1].Saves)
		sum += all[i].Mean
	}
	has := 0
	for _, m := range all {
		if m.Low <= sum/months && sum/months <= m.High {
			has++
		}
	}
	require.GreaterOrEqual(t, has, months-1, "%v, mean %v", all, sum/months)
}

func pageOf(t *testing.T, b *Bill) string {
	t.Helper()
	var page bytes.Buffer
	require.NoError(t, b.Page().HTML(&page))
	return page.String()
}

func builderOf(t *testing.T, tr *trace.Trace) *builder {
	t.Helper()
	p, err := presentOf(tr)
	require.NoError(t, err)
	return &builder{p: p, bill: &Bill{}, opt: Options{Seed: 1, MonthSeeds: MonthSeeds}}
}

// No stack costs less than the volume of its pods at the least price of a unit of each resource.
func TestMonthAboveItsVolume(t *testing.T) {
	for seed := range uint64(3) {
		b := builderOf(t, messy(12, seed))
		require.NoError(t, b.month(t.Context()))
		w, err := b.workloads()
		require.NoError(t, err)
		m := b.bill.Month
		least := 0.
		for d := range w.inst.Dimensions {
			price := 0.
			for i, line := range w.inst.Machines {
				if each := line.Cost / float64(line.Capacity[d]); i == 0 || each < price {
					price = each
				}
			}
			cost := 0.
			for i := range m.Seeds {
				days, scale := w.days(1+uint64(i), leadDays+m.Days, m.Share)
				require.Equal(t, 1., scale)
				cost += volume(days, d, leadDays*day, float64(leadDays+m.Days)*day) * price / float64(m.Seeds)
			}
			least = max(least, cost)
		}
		for _, l := range m.Stacks {
			require.GreaterOrEqual(t, l.Money.Mean, aMonth(least), l.Stack)
			require.Less(t, l.Money.Mean, 3*aMonth(least), "the volume is of the same pods")
		}
	}
}

// volume is the mean demand of the pods of a trace in a span.
func volume(t *trace.Trace, d int, from, until float64) (sum float64) {
	living, at := 0., 0.
	for _, e := range append(slices.Clone(t.Events), trace.Event{Time: until}) {
		sum += living * max(0, min(e.Time, until)-max(at, from)) / (until - from)
		at = e.Time
		n := float64(e.Count) * float64(t.Instance.Apps[t.Requests[e.Request].App].Demand[d])
		if e.Kind == trace.Delete {
			n = -n
		}
		living += n
	}
	return sum
}

// Of a cluster with many pods a part of each workload is simulated, and the money is that of all.
func TestPartOfALargeCluster(t *testing.T) {
	b := builderOf(t, messy(60, 1))
	w, err := b.workloads()
	require.NoError(t, err)
	whole, scale := w.days(1, 2, 1)
	require.Equal(t, 1., scale)
	mean := 0.
	for seed := range uint64(20) {
		part, scale := w.days(seed, 2, .25)
		require.Less(t, len(part.Events), len(whole.Events)/2)
		mean += scale * volume(part, 0, day, 2*day) / 20
	}
	require.InEpsilon(t, volume(whole, 0, day, 2*day), mean, .1)
}

// A month that cannot be simulated has the reason, and the bill is as without it.
func TestNoMonth(t *testing.T) {
	tr := messy(12, 1)
	tr.Instance.Fleet = binpack.Fixed
	b := monthOf(t, tr)
	require.Equal(t, "its fleet is fixed", b.Month.Why)
	require.Empty(t, b.Month.Stacks)
	var screen bytes.Buffer
	require.NoError(t, b.Print(&screen, false))
	require.Contains(t, screen.String(), "No month is simulated: its fleet is fixed.")
	b.Month = nil
	require.NotContains(t, pageOf(t, b), "simulated")
	require.Equal(t, b.Cost, billOf(t, tr).Cost)

	some := builderOf(t, messy(12, 1))
	some.p.given.Instance.Dimensions = append(some.p.given.Instance.Dimensions, binpack.Dimension{Name: "gpu", Device: true})
	_, err := some.workloads()
	require.ErrorContains(t, err, "devices")
}
