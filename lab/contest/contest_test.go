package contest

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

func small() Config {
	return Config{
		Learners: []string{capacity.Default, "golden", "paper", "fixed:100", Best}, Profiles: 14, Runs: 2, First: 100, Trials: 30, Noise: .05,
		Limits: capacity.Geometric(1, 310, 1.25), Initial: 4, Workers: 1,
	}
}

// The default finds what the best limit gives, a fixed one does not, and the number of
// workers changes no byte.
func TestCompare(t *testing.T) {
	cfg := small()
	c, err := Compare(t.Context(), cfg)
	require.NoError(t, err)
	list := c.Summaries()
	require.GreaterOrEqual(t, list[0].Stays, 95.)
	require.LessOrEqual(t, float64(list[0].Median), 2.)
	require.LessOrEqual(t, list[0].Lost, 5.)
	require.Zero(t, list[0].Failing)
	require.Greater(t, list[3].Failing, 1., "a limit of 100 kills pods")
	require.InDelta(t, 100, list[4].Stays, 1e-6)
	require.InDelta(t, 1, float64(list[4].P90), 0)
	require.InDelta(t, 1, list[4].Excess, 1e-9)
	for _, format := range []func(*Comparison) []byte{
		func(c *Comparison) []byte { return write(t, c.JSON) }, func(c *Comparison) []byte { return write(t, c.Table) }, func(c *Comparison) []byte { return write(t, c.Report().HTML) },
	} {
		cfg.Workers = 3
		again, err := Compare(t.Context(), cfg)
		require.NoError(t, err)
		require.Equal(t, format(c), format(again))
	}
	var out struct{ Summaries []Summary }
	require.NoError(t, json.Unmarshal(write(t, c.JSON), &out))
	require.Len(t, out.Summaries, 5)
	require.Contains(t, string(write(t, c.Report().HTML)), "trials</text>")
}

func write(t *testing.T, f func(w io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, f(&b))
	return b.Bytes()
}

// Two stations and a pool by the convolution agree with the network where the pool is
// large, and with the pool's bound where it is small.
func TestPool(t *testing.T) {
	m := capacity.Network{Demand: .004, Wait: .02, Cores: 1}
	p := Profile{Network: m, Connections: 500, Held: .05}
	m.Wait += p.Held
	for _, n := range []int{1, 5, 20, 100} {
		require.InEpsilon(t, m.Throughput(n), p.Throughput(n), 1e-9)
	}
	p = Profile{Network: capacity.Network{Demand: .0001, Wait: .001, Cores: 1}, Connections: 10, Held: .05}
	require.InEpsilon(t, 200, p.Throughput(100), .001) // 10 ÷ 50 ms
	require.Less(t, p.Throughput(9), 180.)
}

// From 4, whose memory is .4, the guard lets 4 · .85 ÷ .4 = 8 be tried, which takes .6 and lets
// 11 be tried, which takes .75 and lets 12 be tried; 12 takes .8: 12 · .85 ÷ .8 = 12.
func TestReach(t *testing.T) {
	p := Profile{Network: capacity.Network{Demand: .001, Wait: 1, Cores: 1}, Rest: .2, Each: .05}
	var all []int
	for n := 1; n <= 40; n++ {
		all = append(all, n)
	}
	require.Equal(t, 12, p.Reach(all, 4))
	require.True(t, p.Fails(17))
	rate, smallest := p.Best(all, 4)
	require.InEpsilon(t, p.Throughput(12), rate, 1e-12)
	require.Equal(t, 12, smallest)
	// A list without what is between has less in reach.
	require.Equal(t, 4, p.Reach([]int{1, 4, 10}, 4))
	// One that begins where the pod fails goes down first.
	require.Equal(t, 12, p.Reach(all, 20))
	p.Rest = .99
	_, smallest = p.Best(all, 4)
	require.LessOrEqual(t, smallest, 1)
}

func TestCollectorHidesTheCliff(t *testing.T) {
	p := Profile{Network: capacity.Network{Demand: .001, Wait: .1, Cores: .25}, Rest: .2, Each: .03, Collector: true}
	require.InDelta(t, collectorTarget, p.Memory(15), 0)
	require.InDelta(t, collectorTarget, p.Memory(18), 0)
	require.InEpsilon(t, 2.5, p.demand(24)/p.demand(1), 1e-9)
}

func TestBadConfig(t *testing.T) {
	c := small()
	c.Learners = []string{"nobody"}
	_, err := Compare(t.Context(), c)
	require.ErrorContains(t, err, "unknown learner")
	for _, name := range []string{"fixed:0", "fixed:99999999", "fixed:10x", "fixed:"} {
		c.Learners = []string{name}
		_, err = Compare(t.Context(), c)
		require.ErrorContains(t, err, `learner "`+name+`": want fixed:1 to fixed:310`)
	}
	c = small()
	c.Limits = nil
	_, err = Compare(t.Context(), c)
	require.Error(t, err)
}

func TestQuantile(t *testing.T) {
	require.InDelta(t, 2, quantile([]int{3, 1, 2, 0}, .5), 0)
	require.True(t, math.IsInf(quantile([]int{3, 1, 2, 0}, .9), 1))
	require.True(t, math.IsNaN(quantile(nil, .5)))
}
