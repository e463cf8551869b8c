package usage

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pods has the samples of some pods over 20 days, of a use by pod and step.
func pods(t *testing.T, n int, use func(pod, step int) float64) *History {
	h, m := &History{}, &Means{}
	for pod := range n {
		for i := range 20 * 288 {
			at, v := float64(i)*300, use(pod, i)
			require.NoError(t, h.AddCPU(at, 300, v))
			m.Add(at, 300, v)
		}
	}
	m.Move(h)
	return h
}

func TestCPUOfOnePod(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	h := pods(t, 1, func(int, int) float64 { return math.Exp(rng.NormFloat64()) })
	assert.InEpsilon(t, h.Busiest(Quantile, 20*day), h.CPU(20*day), 1e-5+growth-1, "the mean of one pod is its use")
}

// Pods that vary by themselves count halfway to their mean.
func TestCPUOfManyPods(t *testing.T) {
	h := pods(t, 20, func(_, step int) float64 {
		if step%288 < 6 { // all pods together: 2 % of the time
			return 3
		}
		return 1
	})
	assert.InEpsilon(t, 3, h.CPU(20*day), .011, "a peak of all pods counts in full")

	h = pods(t, 20, func(pod, step int) float64 {
		if step%288/7 == pod { // one pod after the other, of 41 times
			return 12
		}
		return 1
	})
	assert.InEpsilon(t, (12+(12+19)/20.)/2, h.CPU(20*day), .011, "one pod, and the mean of twenty")
}

// A leader uses three cores and two followers a tenth: the request of 2.5 is not lowered, and the workload is named.
func TestLeaderAboveItsRequest(t *testing.T) {
	h := pods(t, 3, func(pod, _ int) float64 { return []float64{3, .1, .1}[pod] })
	s := SizeOf(h, Amounts{CPU: 2.5}, false, LeastDays, 20*day)
	assert.Equal(t, Above, s.CPUReason)
	assert.InEpsilon(t, 2.5, s.CPU, 1e-9)
	s = SizeOf(h, Amounts{CPU: 4}, false, LeastDays, 20*day)
	assert.Equal(t, ByUse, s.CPUReason)
	assert.InEpsilon(t, (3+3.2/3)/2, s.CPU, .011)
}

func TestMeansOfUnevenSamples(t *testing.T) {
	m, h := &Means{}, &History{}
	m.Add(0, 3600, 2) // an hour of one pod beside 5 minutes of another, of which a minute is a sample of its own
	m.Add(600, 60, 6)
	m.Add(660, 240, 1)
	m.Add(day-150, 3600, 4) // up to the end of its day
	m.Move(h)
	assert.InEpsilon(t, 2, h.means.busiest(.9, day), .011)
	assert.InEpsilon(t, 4, h.means.busiest(1, day), .011)
	m.Add(1200, 300, 2)
	m.Move(h)
	var all float64
	for _, w := range h.means[0].use.weight {
		all += w
	}
	assert.InEpsilon(t, 13.5*300, all, 1e-9, "twelve steps, a half, and one again: a move empties the means")
}

// Days of the same place in the window: the later one counts, in either order.
func TestMeansOfTheLaterDay(t *testing.T) {
	for _, order := range [][]float64{{1, 1 + Window}, {1 + Window, 1}} {
		m, h := &Means{}, &History{}
		for _, d := range order {
			m.Add(d*day, 300, d)
		}
		m.Move(h)
		assert.InEpsilon(t, 1+Window, h.means.busiest(1, (2+Window)*day), .011, "%v", order)
	}
}
