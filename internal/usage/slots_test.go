package usage

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSlotOf(t *testing.T) {
	assert.Equal(t, 0, SlotOf(0), "a Thursday")
	assert.Equal(t, 23, SlotOf(2*day-1))
	assert.Equal(t, 24, SlotOf(2*day), "Saturday")
	assert.Equal(t, 47, SlotOf(4*day-1))
	assert.Equal(t, 5, SlotOf(4*day+5*hour))
	assert.Equal(t, 23, SlotOf(-1), "the Wednesday before")
}

// The sorted samples of each slot are the reference: never below them, at most 1 % above.
func TestQuantilesOfSlots(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s, days := &Slots{}, 20+rng.IntN(30)
		end := float64(days) * day
		var samples [SlotCount][]float64
		for at := 0.; at < end; at += 300 {
			v := math.Exp(.7*rng.NormFloat64()) * float64(1+SlotOf(at))
			if rng.IntN(10) == 0 {
				continue
			}
			require.NoError(t, s.AddCPU(at, 300, v))
			if at >= end-Window*day {
				samples[SlotOf(at)] = append(samples[SlotOf(at)], v)
			}
		}
		for _, q := range []float64{.5, .99, 1} {
			got := s.Quantiles(q, end, 14)
			for slot, list := range samples {
				slices.Sort(list)
				exact := list[int(math.Ceil(q*float64(len(list))-1e-9))-1]
				require.GreaterOrEqual(t, got[slot], exact*(1-1e-9), "seed %d slot %d q %v", seed, slot, q)
				require.LessOrEqual(t, got[slot], exact*growth*(1+1e-9), "seed %d slot %d q %v", seed, slot, q)
			}
		}
	}
}

func TestSlotsWithTooFewDaysAreNotANumber(t *testing.T) {
	s := &Slots{}
	for d := range 14 { // ten weekdays and four days of weekends
		require.NoError(t, s.AddCPU(float64(d)*day+5*hour, 300, 2))
		if d != 2 {
			require.NoError(t, s.AddCPU(float64(d)*day+6*hour, 300, 2))
		}
	}
	got := s.Quantiles(.99, 14*day, 14)
	assert.InEpsilon(t, 2, got[5], .011)
	assert.InEpsilon(t, 2, got[24+5], .011)
	assert.True(t, math.IsNaN(got[24+6]), "three days of weekends")
	assert.True(t, math.IsNaN(got[7]), "none")
	assert.True(t, math.IsNaN(s.Quantiles(.99, 60*day, 1)[5]), "all days are out of the window")

	size := &Size{Amounts: Amounts{CPU: 3}, CPUReason: ByUse}
	of := SlotsOf(s, size, 14, 14*day)
	assert.InEpsilon(t, 2, of[5], .011)
	assert.Equal(t, 3., of[24+6])
	size.CPUReason = Job
	assert.Equal(t, 3., SlotsOf(s, size, 14, 14*day)[5], "by request")
	assert.Equal(t, 3., SlotsOf(nil, size, 14, 14*day)[5])
}

func TestSamplesOfSlotsInAnyOrder(t *testing.T) {
	s := &Slots{}
	require.NoError(t, s.AddCPU(40*day, 300, 1))
	require.NoError(t, s.AddCPU(12*day, 300, 9), "a later day took its place")
	assert.InEpsilon(t, 1, s.Quantiles(1, 41*day, 1)[0], .011)
	require.Error(t, s.AddCPU(0, 300, -1))
	require.Error(t, s.AddCPU(0, 300, math.NaN()))
}

// Whatever is sampled, a workload has at most one bucket for each amount an hour and day can have.
func TestSlotsAreBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	s := &Slots{}
	for range 200_000 {
		require.NoError(t, s.AddCPU(day*60*rng.Float64(), 300, math.Exp(.7*rng.NormFloat64())))
	}
	n := 0
	for i := range s.hours {
		for _, h := range s.hours[i] {
			n += cap(h.bucket)
		}
	}
	assert.Less(t, n, 28*24*512)
}

func TestOfferFallsAtOnceAndGrowsSlowly(t *testing.T) {
	o := &Offer{}
	assert.Zero(t, o.Update(0, 40, 4, 10), "it begins with nothing")
	assert.InDelta(t, 8, o.Update(hour, 40, 4, 10), 1e-9, "20 % of the machine an hour")
	assert.InDelta(t, 28, o.Update(10*hour, 40, 4, 10), 1e-9, "95 % without the expected use")
	assert.InDelta(t, 18, o.Update(10*hour+60, 40, 20, 10), 1e-9, "use above it")
	assert.InDelta(t, 18+8./60, o.Update(10*hour+120, 40, 4, 10), 1e-9)
	assert.InDelta(t, 18+8./60, o.Update(9*hour, 40, 4, 10), 1e-9, "a clock that was set back")
	assert.InDelta(t, 18+8./60+8./60, o.Update(10*hour+180, 40, 4, 10), 1e-9)
	assert.Zero(t, o.Update(11*hour, 40, 50, 10), "never negative")
}

func TestExpectedIsTheMostOfTwoHours(t *testing.T) {
	var seen []float64
	most := Expected(10*hour+60, func(at float64) float64 {
		seen = append(seen, at)
		return map[int]float64{10: 1, 11: 5, 12: 3}[int(at/hour)]
	})
	assert.Equal(t, 5., most)
	assert.Equal(t, []float64{10*hour + 60, 11 * hour, 12 * hour}, seen)
	seen = nil
	Expected(10*hour, func(at float64) float64 { seen = append(seen, at); return 0 })
	assert.Len(t, seen, 2)
}

// Traces may begin before time 0: an offer grows there, too, and a time before the last one counts as that.
func TestOfferBeforeZero(t *testing.T) {
	var o Offer
	for i := range 10 {
		o.Update(float64(i)*3600-7*86400, 10, 1, 1)
	}
	require.InDelta(t, 8.5, o.Cores, 1e-9)
	require.InDelta(t, 1, o.Update(-7*86400, 10, 8.5, 1), 1e-9)
	require.InDelta(t, 1, o.Update(-7*86400+3600, 10, 1, 1), 1e-9, "no growth without new time")
}
