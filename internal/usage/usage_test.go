package usage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fill adds 5-minute samples of a number of days, lognormal around a mean.
func fill(t testing.TB, h *History, rng *rand.Rand, from, days, mean float64) (cores []float64) {
	t.Helper()
	for at := from * day; at < (from+days)*day; at += 300 {
		v := mean * math.Exp(.7*rng.NormFloat64())
		require.NoError(t, h.AddCPU(at, 300, v))
		require.NoError(t, h.AddMemory(at, 300, v*1e9))
		cores = append(cores, v)
	}
	return cores
}

// The sorted samples of a day are the reference.
func TestQuantileIsNeverTooLittleAndAtMostOnePercentTooMuch(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 0))
		h := &History{}
		from := float64(rng.IntN(100))
		cores := fill(t, h, rng, from, 1, math.Exp(8*rng.Float64()-4))
		slices.Sort(cores)
		for _, q := range []float64{.5, .9, .95, .99, .999, 1} {
			exact, got := cores[int(math.Ceil(q*float64(len(cores))))-1], h.Busiest(q, (from+1)*day)
			assert.GreaterOrEqual(t, got, exact*(1-1e-9), "seed %d q %v", seed, q)
			assert.LessOrEqual(t, got, max(least, exact*growth*(1+1e-9)), "seed %d q %v", seed, q)
		}
	}
}

func TestBucketEdges(t *testing.T) {
	for b := range uint16(buckets) {
		require.Equal(t, b, bucketOf(edge(b)))
		if b > 0 {
			require.Equal(t, b, bucketOf(math.Nextafter(edge(b-1), 1e9)))
		}
	}
	assert.Equal(t, uint16(buckets-1), bucketOf(1e15))
	assert.Equal(t, uint16(0), bucketOf(0))
}

const hour = 3600.

func TestDaysAndMemoryOfTheWindow(t *testing.T) {
	h := &History{}
	require.NoError(t, h.AddMemory(0, 300, 9e9))
	for d := range 40 {
		for i := range 6 {
			require.NoError(t, h.AddCPU(float64(d)*day+float64(i)*hour, hour, 1))
		}
		require.NoError(t, h.AddMemory(float64(d)*day+1, 300, float64(1000+d)))
	}
	assert.Equal(t, [2]int{Window, 0}, daysOf(h, 40*day))
	peak, ok := h.MemoryPeak(40 * day)
	assert.True(t, ok)
	assert.Equal(t, 1039., peak, "the peak of day 0 is forgotten")
	assert.Equal(t, [2]int{8, 0}, daysOf(h, 60*day))
	assert.Zero(t, daysOf(h, 100*day))
	_, ok = h.MemoryPeak(100 * day)
	assert.False(t, ok)
	short := &History{}
	require.NoError(t, short.AddCPU(0, 300, 1))
	assert.Zero(t, daysOf(short, day), "five minutes are no day")
}

func daysOf(h *History, at float64) (days [2]int) {
	days[0], days[1] = h.Days(at)
	return days
}

// Wall time makes a day, whatever the number of replicas: 24 of them have a day of samples
// within an hour.
func TestReplicasMakeNoDays(t *testing.T) {
	h := &History{}
	for d := range 20 {
		for i := range 12 {
			for range 24 {
				require.NoError(t, h.AddCPU(float64(d)*day+float64(i)*300, 300, 1))
				require.NoError(t, h.AddMemory(float64(d)*day+float64(i)*300, 300, 1e9))
			}
		}
	}
	assert.Zero(t, daysOf(h, 20*day))
	assert.InDelta(t, 1./24, h.Coverage(20*day), 1e-9)
	for d := range 20 {
		require.NoError(t, h.AddCPU(float64(d)*day+6*hour, 5*hour, 1))
	}
	assert.Equal(t, [2]int{20, 0}, daysOf(h, 20*day))
	assert.InDelta(t, 6./24, h.Coverage(20*day), 1e-9)
	s := SizeOf(h, Amounts{2, 4e9}, false, LeastDays, 20*day)
	assert.Equal(t, []Reason{ByUse, NoMetrics}, []Reason{s.CPUReason, s.MemoryReason}, "memory has days of its own")
	assert.InDelta(t, 4e9, s.Memory, 0)
}

// Coverage is of the days from the first sample on, and of the last 28.
func TestGapsAreNotCovered(t *testing.T) {
	h := &History{}
	assert.Zero(t, h.Coverage(10*day))
	for d := 4.; d < 10; d++ {
		if d == 6 || d == 7 {
			continue
		}
		require.NoError(t, h.AddCPU(d*day, day, 1))
	}
	assert.InDelta(t, 4./6, h.Coverage(10*day), 1e-9)
	assert.Equal(t, [2]int{4, 0}, daysOf(h, 10*day))
	require.NoError(t, h.AddCPU(40*day, day/2, 1))
	assert.InDelta(t, .5, h.Coverage(41*day), 1e-9)
	require.NoError(t, h.AddCPU(40*day+.9*day, day, 1), "no step beyond its day")
	assert.InDelta(t, .5+.1/1, h.Coverage(41*day), .002)
}

// A busy day counts in full for 28 days, also where a quantile of all days would not see it.
func TestBusiestDays(t *testing.T) {
	h := &History{}
	until := func(from, days float64) {
		for at := from * day; at < days*day; at += 300 {
			v := .1
			if at >= 10*day && at < 10*day+hour { // an hour is 2 % of two days, and .15 % of 28
				v = 2
			}
			require.NoError(t, h.AddCPU(at, 300, v))
		}
	}
	until(0, 20)
	assert.InDelta(t, 2, h.Busiest(.99, 20*day), .021)
	assert.InDelta(t, .1, h.Busiest(.95, 20*day), .002)
	until(20, 38)
	assert.InDelta(t, 2, h.Busiest(.99, 38*day), .021)
	until(38, 39)
	assert.InDelta(t, .1, h.Busiest(.99, 39*day), .002, "day 10 is forgotten")
	assert.Zero(t, h.Busiest(.99, 100*day))
	assert.Zero(t, (&History{}).Busiest(.99, 0))
}

// A slow quantile over the samples of each two days is the reference.
func TestBusiestIsTheSlowOne(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 4))
		h := &History{}
		byDay := make([][]float64, 30)
		for i := range 30 * 288 {
			v := math.Exp(rng.NormFloat64() + math.Sin(float64(i)/2000))
			byDay[i/288] = append(byDay[i/288], v)
			require.NoError(t, h.AddCPU(float64(i)*300, 300, v))
		}
		want := 0.
		for d := 2; d < 29; d++ {
			two := append(slices.Clone(byDay[d]), byDay[d+1]...)
			slices.Sort(two)
			want = max(want, two[int(math.Ceil(.99*float64(len(two))))-1])
		}
		got := h.Busiest(.99, 30*day)
		assert.GreaterOrEqual(t, got, want*(1-1e-9), "seed %d", seed)
		assert.LessOrEqual(t, got, want*growth*(1+1e-9), "seed %d", seed)
	}
}

func TestRefusesWhatIsNoSample(t *testing.T) {
	h := &History{}
	for _, v := range []float64{-1, math.NaN(), math.Inf(1), 1e300} {
		require.Error(t, h.AddCPU(0, 300, v))
		require.Error(t, h.AddCPU(v*1e300, 300, 1))
		require.Error(t, h.AddMemory(0, 300, v))
	}
	require.Error(t, h.AddCPU(0, 0, 1))
	require.Error(t, h.AddCPU(0, math.NaN(), 1))
	assert.Equal(t, &History{}, h)
}

func TestSizeOf(t *testing.T) {
	const gib = 1 << 30
	history := func(days int, cpu, memory float64) *History {
		h := &History{}
		for d := range days {
			for i := range 24 {
				require.NoError(t, h.AddCPU(float64(d)*day+float64(i)*hour, hour, cpu))
				require.NoError(t, h.AddMemory(float64(d)*day+float64(i)*hour, hour, memory))
			}
		}
		return h
	}
	request := Amounts{2, 4 * gib}
	for _, c := range []struct {
		name        string
		h           *History
		job         bool
		cpu, memory float64
		why, whyMem Reason
	}{
		{"by use", history(14, .5, gib), false, .5, 1.15 * gib, ByUse, ByUse},
		{"13 days", history(13, .5, gib), false, 2, 4 * gib, Short, Short},
		{"13 days above the request", history(13, 3, gib), false, 2, 4 * gib, Short, Short},
		{"job", history(20, .5, gib), true, 2, 4 * gib, Job, Job},
		{"no metrics", nil, false, 2, 4 * gib, NoMetrics, NoMetrics},
		{"empty", &History{}, false, 2, 4 * gib, NoMetrics, NoMetrics},
		{"idle", history(14, .001, 1<<20), false, FloorCPU, FloorMemory, AtFloor, AtFloor},
		{"above", history(14, 3, 5*gib), false, 3, 1.15 * 5 * gib, Above, Above},
		{"the margin ends at the request", history(14, 1.999, 3.9*gib), false, 2, 4 * gib, AtRequest, AtRequest},
		{"at the request", history(14, 2, 4*gib), false, 2, 4 * gib, AtRequest, AtRequest},
	} {
		s := SizeOf(c.h, request, c.job, LeastDays, 14*day)
		assert.InEpsilon(t, c.cpu, s.CPU, .0101, c.name)
		assert.GreaterOrEqual(t, s.CPU, c.cpu*(1-1e-9), c.name)
		assert.InEpsilon(t, c.memory, s.Memory, 1e-9, c.name)
		assert.Equal(t, []Reason{c.why, c.whyMem}, []Reason{s.CPUReason, s.MemoryReason}, c.name)
		assert.Equal(t, c.name == "above", s.Above(), c.name)
	}
	s := SizeOf(history(3, .7, gib), Amounts{}, false, LeastDays, 3*day)
	assert.Equal(t, []Reason{NoRequest, NoRequest}, []Reason{s.CPUReason, s.MemoryReason}, "without a request it is not free")
	assert.InEpsilon(t, .7, s.CPU, .0101)
	assert.InEpsilon(t, 1.15*gib, s.Memory, 1e-9)
	var short History // five hours of a night are no day of history, and yet a use
	for i := range 60 {
		require.NoError(t, short.AddCPU(13*day+float64(i)*300, 300, 8))
	}
	s = SizeOf(&short, Amounts{}, false, LeastDays, 14*day)
	assert.InEpsilon(t, 8, s.CPU, .0101)
	assert.Equal(t, NoRequest, s.CPUReason)
	s = SizeOf(history(14, .001, 1), Amounts{.005, 1 << 20}, false, LeastDays, 14*day)
	assert.Equal(t, Amounts{.005, 1 << 20}, s.Amounts, "the floor is not above the request")
}

// A year of a workload takes no more than 200 KiB.
func TestBounded(t *testing.T) {
	h := &History{}
	rng := rand.New(rand.NewPCG(3, 3))
	for d := range 12 {
		fill(t, h, rng, float64(30*d), 30, .5)
		var m Means
		for step := range 30 * 288 {
			m.Add(float64(30*d)*day+float64(step)*300, 300, math.Exp(rng.NormFloat64()))
		}
		m.Move(h)
	}
	bytes := 0
	for _, d := range append(h.pods[:], h.means[:]...) {
		bytes += cap(d.use.bucket)*2 + cap(d.use.weight)*8
	}
	assert.Positive(t, bytes)
	assert.Less(t, bytes, 200<<10)
}

func ExampleSizeOf() {
	h := &History{}
	for hours := range 24 * 20 {
		use := .2
		if hours%24 == 9 {
			use = .8
		}
		_ = h.AddCPU(float64(hours)*3600, 3600, use)
		_ = h.AddMemory(float64(hours)*3600, 3600, 600<<20)
	}
	s := SizeOf(h, Amounts{CPU: 2, Memory: 2 << 30}, false, LeastDays, 20*86400)
	fmt.Println(&s)
	// Output: cpu 0.802 (use), memory 690 Mi (use), 20 days, 100 % covered
}

// A summary has the sizes of its history, for any request.
func TestSummary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		h := &History{}
		for range r.IntN(2000) {
			at := float64(r.IntN(30*288)) * 300
			require.NoError(t, h.AddCPU(at, 300, r.Float64()))
			if r.IntN(2) == 0 {
				require.NoError(t, h.AddMemory(at, 300, 1e9*r.Float64()))
			}
		}
		at := 86400 * float64(20+r.IntN(12))
		s := h.Summary(at)
		for _, request := range []Amounts{{}, {CPU: .5}, {Memory: 1e8}, {CPU: r.Float64(), Memory: 2e9 * r.Float64()}} {
			require.Equal(t, SizeOf(h, request, false, 3, at), s.Size(request, false, 3))
		}
	}
	require.Equal(t, SizeOf(nil, Amounts{CPU: 1}, false, 14, 0), (&Summary{}).Size(Amounts{CPU: 1}, false, 14))
}
