package tune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
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

// What the paper's agents have learned is something that a link can do, whatever it is worth.
func TestPaper(t *testing.T) {
	s := heavy(t)
	a := newSRLA(t, s, .8, 1)
	for a.flows < 2000 {
		a.step(t, uint64(a.flows))
	}
	a.agent.Act(a.state, a.action)
	require.NoError(t, a.thresholds().Validate())

	held := NewProblem(s, .8, 5000, 2, nil)
	agent := newReinforce(t, 3e-3, 1)
	before := make([]float32, longRunning*longActions)
	agent.Act(make([]float32, longState), before)
	learner := newLRLA(agent, true, EqualLoads(s, 4), NewProblem(s, .8, 20_000, 1, nil).flows, 1)
	learner.run(t, 20_000)
	after := make([]float32, len(before))
	agent.Act(make([]float32, longState), after)
	require.NotEqual(t, before, after, "it has learned")
	judged := newLRLA(agent, false, EqualLoads(s, 4), held.flows, 2)
	judged.run(t, len(held.flows))
	for i, f := range held.flows {
		require.GreaterOrEqual(t, judged.link.fct[i]*(1+1e-6), f.Size/(rate/8), "flow %d is not faster than the link", i)
	}
}

// controls measures the paper's agents beside what needs no learning, or next to none.
func controls(t *testing.T, b *strings.Builder) {
	t.Helper()
	s := public(t, "websearch_dctcp")
	const load = .8
	held := NewProblem(s, load, 300_000, testSeed+100, nil)
	_, hindsight, err := held.Search(t.Context(), Search{Bands: 4, Budget: DefaultBudget, Seed: 1})
	require.NoError(t, err)
	budgets := []int{20_000, 100_000, 300_000}
	b.WriteString("| web search, load .8, 4 bands: J above hindsight, % | 20,000 flows | 100,000 | 300,000 | then mean ÷ fair | slowdown ÷ fair | thresholds at the end |\n|---|---|---|---|---|---|---|\n")
	row := func(name string, values []float64, fct, slowdown float64, th flow.Thresholds) {
		fmt.Fprintf(b, "| %s |", name)
		for i := range budgets {
			fmt.Fprintf(b, " %.1f |", 100*(values[min(i, len(values)-1)]/hindsight-1))
		}
		fmt.Fprintf(b, " %.3f | %.3f | %s |\n", fct, slowdown, th)
	}
	fixed := func(name string, p *Problem, th flow.Thresholds) {
		fct, slowdown := p.Shares(th)
		row(name, []float64{fct + slowdown}, fct, slowdown, th)
	}
	sample := seen(t, s, 300, testSeed)
	search := func(h *sim.Hints) flow.Thresholds {
		found, _, err := NewProblem(sample, load, Arrivals(load), testSeed, h).Search(t.Context(), Search{Bands: 4, Budget: DefaultBudget})
		require.NoError(t, err)
		return found
	}
	tuned := search(nil)
	fixed("fair sharing", held, nil)
	fixed("bands of equal loads, nothing learned", held, EqualLoads(s, 4))
	fixed("tuned: search on 300 flows", held, tuned)
	for _, deviation := range []float64{1, .5} {
		h := &sim.Hints{Error: deviation}
		fixed(fmt.Sprintf("hinted: the same, log-error %v", deviation), NewProblem(s, load, 300_000, testSeed+100, h), search(h))
	}
	for seed := range uint64(2) {
		a := newSRLA(t, s, load, testSeed+seed)
		var values []float64
		for _, n := range budgets {
			for a.flows < n {
				a.step(t, testSeed+uint64(a.flows)+seed<<32)
			}
			a.agent.Act(a.state, a.action)
			values = append(values, held.Value(a.thresholds()))
		}
		fct, slowdown := held.Shares(a.thresholds())
		row(fmt.Sprintf("sRLA, seed %d", seed), values, fct, slowdown, a.thresholds())
	}
	for _, learning := range []float64{1e-3, 3e-3} {
		for seed := range uint64(2) {
			agent := newReinforce(t, learning, testSeed+seed)
			traffic := sim.Traffic{Sizes: s, Load: load, Rate: rate}
			a := newLRLA(agent, true, tuned, traffic.Generate(budgets[2], testSeed+200+seed), testSeed+seed)
			var values []float64
			var fct, slowdown float64
			for _, n := range budgets {
				a.run(t, n)
				judged := newLRLA(agent, false, tuned, held.flows, testSeed)
				judged.run(t, len(held.flows))
				fct, slowdown = judged.shares(held)
				values = append(values, fct+slowdown)
			}
			row(fmt.Sprintf("tuned and lRLA, rate of learning %v, seed %d", learning, seed), values, fct, slowdown, tuned)
		}
	}
}
