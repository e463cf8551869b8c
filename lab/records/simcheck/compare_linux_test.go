package simcheck

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

func TestApps(t *testing.T) {
	var names []string
	for _, a := range apps {
		names = append(names, a.name)
	}
	assert.Equal(t, Apps(), names)
}

// Of 1…100 seconds, those of the first 20 left out: p50 is the 40th of 80.
func TestPercentiles(t *testing.T) {
	var took []float64
	var list []draw
	for i := range 100 {
		took = append(took, float64(i+1))
		list = append(list, draw{At: time.Duration(i) * time.Second})
	}
	p50, p95, p99 := percentiles(took, list, 20*time.Second)
	assert.Equal(t, []float64{60, 96, 100}, []float64{p50, p95, p99})
}

// A request alone takes what it asks for and what it costs besides.
func TestSimulate(t *testing.T) {
	a := apps[0]
	list := []draw{{At: 0, CPU: 4 * time.Millisecond}, {At: time.Second, CPU: 4 * time.Millisecond}}
	p50, _, p99, err := a.simulate(list, cost{each: .001, floor: .0005}, 1, 0)
	require.NoError(t, err)
	assert.InDelta(t, .0055, p50, 1e-6)
	assert.InDelta(t, .0055, p99, 1e-6)
}

// The draws have the rate, the wait and the work that they are asked for.
func TestDraws(t *testing.T) {
	list := draws(rand.New(rand.NewPCG(1, 2)), 100, 100, loadsim.Dist{Mean: .02, CV: .5}, loadsim.Dist{Mean: .004, CV: 2})
	var wait, cpu time.Duration
	for i, d := range list {
		wait, cpu = wait+d.Wait, cpu+d.CPU
		assert.True(t, i == 0 || list[i-1].At <= d.At)
	}
	n := time.Duration(len(list))
	assert.InDelta(t, 10000, len(list), 300)
	assert.InDelta(t, .02, (wait / n).Seconds(), .001)
	assert.InDelta(t, .004, (cpu / n).Seconds(), .0004)
}

func TestPairRows(t *testing.T) {
	one := [3][]float64{{.001, .002, .003}, {.002, .004, .006}, {.003, .006, .009}}
	p := pairs{real: one, model: one, ratio: [3][]float64{{1, 1, 1}, {.9, 1, 1.1}, {1, 1, 1}}, marks: []string{"", "*", ""}}
	assert.Equal(t, [][]string{
		{"0.5", "measured", "2.0", "4.0", "6.0", "2.0 4.0* 6.0"},
		{"0.5", "simulated", "2.0", "4.0", "6.0", "2.0 4.0* 6.0"},
		{"0.5", "ratio", "1.00", "1.00", "1.00", "0.90 1.00* 1.10"},
	}, p.rows(.5))
}
