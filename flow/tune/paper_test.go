package tune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/internal/learn/rl"
)

// An sRLA is the agent of AuTO (Chen et al., SIGCOMM 2018) that sets thresholds, as far as we know
// it: an actor-critic of 100 finished short flows with 7 numbers each, whose reward is the ratio
// of the objective before to that now. Widths (600 and 600), batch (8), how numbers are scaled and
// flows a step (1,000) are ours, and so is the objective, J.
type sRLA struct {
	agent         *rl.DDPG
	sizes         *flow.Sizes
	load          float64
	rng           *rand.Rand
	state, action []float32
	last          float64 // J of the last step
	flows         int
}

const (
	paperFlows  = 100 // of a state
	paperFields = 7   // addresses, ports, protocol, size, time
	paperStep   = 1000
)

func newSRLA(t *testing.T, s *flow.Sizes, load float64, seed uint64) *sRLA {
	t.Helper()
	config := rl.AWARE(paperFlows*paperFields, 3, seed)
	config.Hidden, config.Batch, config.Warmup, config.Capacity, config.Noise.Dt = []int{600, 600}, 8, 8, 2000, 1
	agent, err := rl.New(config)
	require.NoError(t, err)
	return &sRLA{agent: agent, sizes: s, load: load, rng: rand.New(rand.NewPCG(seed, 9)), state: make([]float32, paperFlows*paperFields), action: make([]float32, 3)}
}

// thresholds of the action: 1 KB to 1 GB in logarithms.
func (a *sRLA) thresholds() flow.Thresholds {
	x := make([]float64, len(a.action))
	for i, v := range a.action {
		x[i] = math.Log(1e3) + (float64(v)+1)/2*math.Log(1e6)
	}
	return thresholds(x)
}

// step acts on the next flows, learns from what came of it, and sees those that finished.
func (a *sRLA) step(t *testing.T, seed uint64) {
	t.Helper()
	a.agent.Explore(a.state, a.action)
	p := NewProblem(a.sizes, a.load, paperStep, seed, nil)
	j := p.Value(a.thresholds())
	next := make([]float32, len(a.state))
	at := 0
	for i, f := range p.flows {
		if f.Size > 100e3 || at == len(next) {
			continue
		}
		for range 4 { // addresses and ports
			next[at] = float32(a.rng.Float64())
			at++
		}
		next[at], next[at+1], next[at+2] = 1, float32(math.Log10(f.Size)/10), float32(math.Log10(p.fct[i])/10)
		at += 3
	}
	if a.last > 0 {
		err := a.agent.Observe(rl.Transition{State: a.state, Action: a.action, Reward: float32(a.last / j), Next: next})
		require.NoError(t, err)
		_, err = a.agent.Update()
		require.NoError(t, err)
	}
	a.state, a.last = next, j
	a.flows += paperStep
}

// TestPaper measures the paper's agent beside what needs no learning. It runs where SIGMA_BENCH
// names a file for its table.
func TestPaper(t *testing.T) {
	s, flows := heavy(t), []int{2000}
	bench := os.Getenv("SIGMA_BENCH") != ""
	if bench {
		s, flows = public(t, "websearch_dctcp"), []int{20_000, 100_000, 300_000}
	}
	held := NewProblem(s, .8, 300_000, testSeed+100, nil)
	_, hindsight, err := held.Search(t.Context(), Search{Bands: 4, Budget: DefaultBudget, Seed: 1})
	require.NoError(t, err)
	above := func(found flow.Thresholds) float64 { return 100 * (held.Value(found)/hindsight - 1) }
	var b strings.Builder
	b.WriteString("| J above hindsight, %: web search, load .8, 4 bands | 20,000 flows | 100,000 | 300,000 | its thresholds |\n|---|---|---|---|---|\n")
	for seed := range uint64(2) {
		a := newSRLA(t, s, .8, testSeed+seed)
		fmt.Fprintf(&b, "| the paper's agent, seed %d |", seed)
		for _, n := range flows {
			for a.flows < n {
				a.step(t, testSeed+uint64(a.flows)+seed<<32)
			}
			a.agent.Act(a.state, a.action)
			fmt.Fprintf(&b, " %.0f |", above(a.thresholds()))
		}
		fmt.Fprintf(&b, " %s |\n", a.thresholds())
		require.NoError(t, a.thresholds().Validate())
	}
	if !bench {
		return
	}
	found, _, err := NewProblem(seen(t, s, 300, testSeed), .8, Arrivals(.8), testSeed, nil).Search(t.Context(), Search{Bands: 4, Budget: DefaultBudget})
	require.NoError(t, err)
	fmt.Fprintf(&b, "| equal loads, nothing learned | %.1f | %.1f | %.1f | %s |\n", above(EqualLoads(s, 4)), above(EqualLoads(s, 4)), above(EqualLoads(s, 4)), EqualLoads(s, 4))
	fmt.Fprintf(&b, "| search on 300 flows | %.1f | %.1f | %.1f | %s |\n", above(found), above(found), above(found), found)
	fmt.Fprintf(&b, "| fair sharing | %.0f | %.0f | %.0f | |\n", above(nil), above(nil), above(nil))
	t.Log("\n" + b.String())
	file, err := os.OpenFile(os.Getenv("SIGMA_BENCH"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = file.WriteString("\n" + b.String() + "\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
}
