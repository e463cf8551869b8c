package rl

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// filled is an agent with 5,000 random transitions, as large as the autoscaler's.
func filled(t testing.TB, c Config) *DDPG {
	t.Helper()
	d, err := New(c)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(c.Seed, 7))
	for i := range 5000 {
		require.NoError(t, d.Observe(randomTransition(rng, c, i)))
	}
	return d
}

func randomTransition(rng *rand.Rand, c Config, i int) Transition {
	numbers := func(n int) []float32 {
		out := make([]float32, n)
		for j := range out {
			out[j] = float32(2*rng.Float64() - 1)
		}
		return out
	}
	t := Transition{State: numbers(c.State), Action: numbers(c.Action), Reward: float32(rng.NormFloat64()), Next: numbers(c.State), Demonstrated: i%3 == 0}
	switch {
	case i%50 == 49:
		t.End = TimeLimit
	case i%70 == 69:
		t.End = Terminal
	}
	return t
}

// The figure is updates a CPU second. Beside it stands the peer of peer_test.go, plain
// loops in float64, on the same batches; the two
// take turns. The peer has one critic also where ours has two.
func BenchmarkUpdate(b *testing.B) {
	for _, hidden := range []int{40, 64} {
		for _, twin := range []bool{false, true} {
			b.Run(fmt.Sprintf("hidden=2x%d/twin=%v", hidden, twin), func(b *testing.B) {
				c := AWARE(10, 3, 1)
				c.Hidden, c.Twin = []int{hidden, hidden}, twin
				d := filled(b, c)
				slow := newPeer(d)
				var ours, theirs float64
				n, m := 0, 0
				for b.Loop() {
					start := cputime.Process()
					for range 100 {
						_, err := d.Update()
						require.NoError(b, err)
					}
					n += 100
					middle := cputime.Process()
					for range 5 {
						slow.update(&d.batch)
					}
					m += 5
					ours += middle - start
					theirs += cputime.Process() - middle
				}
				fast, plain := float64(n)/ours, float64(m)/theirs
				b.ReportMetric(fast, "updates/CPU-s")
				b.ReportMetric(plain, "plain-loop-updates/CPU-s")
				b.ReportMetric(fast/plain, "ratio")
			})
		}
	}
}

// TestSpeed writes updates a CPU second of the paper's agent; see hack/bench.sh.
func TestSpeed(t *testing.T) {
	path := os.Getenv("SIGMA_BENCH")
	if path == "" {
		t.Skip("SIGMA_BENCH, the file to write the table to, is not set; see `make mpa-bench`")
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Close()) }()
	fmt.Fprintf(out, "\n| DDPG, batch of 64 | updates/CPU-s, median of 5 (least … most) | must | aim |\n|---|---:|---:|---:|\n")
	for _, size := range []struct{ hidden, must, aim int }{{40, 1000, 2000}, {64, 700, 1200}} {
		c := AWARE(10, 3, 1)
		c.Hidden = []int{size.hidden, size.hidden}
		d := filled(t, c)
		rates := make([]float64, 5)
		for r := range rates {
			const updates = 1000
			start := cputime.Process()
			for range updates {
				_, err := d.Update()
				require.NoError(t, err)
			}
			rates[r] = updates / (cputime.Process() - start)
		}
		slices.Sort(rates)
		fmt.Fprintf(out, "| 2 × %d | %.0f (%.0f … %.0f) | ≥ %d | ≥ %d |\n", size.hidden, rates[2], rates[0], rates[4], size.must, size.aim)
		require.Greater(t, rates[2], float64(size.must), "2 × %d", size.hidden)
	}
}
