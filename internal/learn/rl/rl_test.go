package rl

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A second implementation, in plain loops and float64, moves the same way. float32 has
// some seven digits; Adam turns tiny gradients of unsure sign into whole steps, so that
// single parameters may differ by a step, but not their mean.
func TestUpdateEqualsPlainLoops(t *testing.T) {
	c := AWARE(10, 3, 4)
	c.Imitation = .5
	d := filled(t, c)
	slow := newPeer(d)
	for range 10 {
		_, err := d.Update()
		require.NoError(t, err)
		slow.update(&d.batch)
	}
	for name, pair := range map[string]struct {
		ours   []float32
		theirs *plain
		rate   float64
	}{
		"actor":         {d.actor.net.Params(), slow.actor, c.ActorRate},
		"critic":        {d.critics[0].net.Params(), slow.critic, c.CriticRate},
		"actor target":  {d.actor.target.Params(), slow.actorOld, c.ActorRate * c.Tau},
		"critic target": {d.critics[0].target.Params(), slow.criticOld, c.CriticRate * c.Tau},
	} {
		mean := 0.
		for i, v := range pair.ours {
			mean += math.Abs(float64(v)-pair.theirs.params[i]) / float64(len(pair.ours))
		}
		t.Logf("%s: differs by %.1e steps in the mean", name, mean/pair.rate)
		require.Less(t, mean, .01*pair.rate+1e-8, name)
	}
}

// kept returns reward, discount and the first number of state and next state of each
// row that can be sampled.
func kept(b *buffer) (rows [][4]float32) {
	for i := range b.size {
		rows = append(rows, [4]float32{b.rows.state.Row(i)[0], b.rows.reward[i], b.rows.discount[i], b.rows.next.Row(i)[0]})
	}
	return rows
}

func TestReturns(t *testing.T) {
	for name, tc := range map[string]struct {
		steps int
		ends  []End
		want  [][4]float32 // state, return, discount, state it is followed by
	}{
		// State i has the reward 2^i; γ is .5.
		"one step":      {1, []End{Continues, TimeLimit, Terminal}, [][4]float32{{0, 1, .5, 1}, {1, 2, .5, 2}, {2, 4, 0, 3}}},
		"two steps":     {2, []End{Continues, Continues, Continues}, [][4]float32{{0, 1 + 1, .25, 2}, {1, 2 + 2, .25, 3}}},
		"a terminal":    {2, []End{Continues, Continues, Terminal}, [][4]float32{{0, 2, .25, 2}, {1, 4, 0, 3}, {2, 4, 0, 3}}},
		"a time limit":  {2, []End{Continues, Continues, TimeLimit}, [][4]float32{{0, 2, .25, 2}, {1, 4, .25, 3}, {2, 4, .5, 3}}},
		"short episode": {5, []End{Continues, TimeLimit, Continues}, [][4]float32{{0, 2, .25, 2}, {1, 2, .5, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := AWARE(1, 1, 0)
			c.Steps, c.Discount = tc.steps, .5
			b := newBuffer(c)
			for i, end := range tc.ends {
				b.add(Transition{State: []float32{float32(i)}, Action: []float32{0}, Reward: float32(math.Exp2(float64(i))), Next: []float32{float32(i + 1)}, End: end})
			}
			require.Equal(t, tc.want, kept(b))
		})
	}
}

func TestBufferForgetsTheOldest(t *testing.T) {
	c := AWARE(1, 1, 0)
	c.Capacity, c.Warmup = 3, 3
	b := newBuffer(c)
	for i := range 5 {
		b.add(Transition{State: []float32{float32(i)}, Action: []float32{float32(-i)}, Next: []float32{0}, Demonstrated: i == 3})
	}
	require.Equal(t, []float32{3, -3, 4, -4, 2, -2}, b.rows.both.Data)
	require.Equal(t, []bool{true, false, false}, b.rows.demonstrated)
	out, drawn := newBatch(1000, 1, 1), map[float32]int{}
	b.sample(rand.New(rand.NewPCG(1, 1)), &out)
	for i, s := range out.state.Data {
		require.Equal(t, -s, out.both.Row(i)[1])
		drawn[s]++
	}
	for s := float32(2); s < 5; s++ {
		require.InDelta(t, 333, drawn[s], 60) // four deviations
	}
}

// One state and a reward of 1: it is worth 1 ÷ (1 − γ) = 5 where episodes are merely cut,
// and 1 where each step is the last.
func TestTimeLimitIsNoTerminalState(t *testing.T) {
	for end, want := range map[End]float64{TimeLimit: 5, Terminal: 1} {
		c := AWARE(1, 1, 2)
		c.Discount, c.Tau, c.Hidden = .8, .05, []int{8}
		d, err := New(c)
		require.NoError(t, err)
		for range 100 {
			require.NoError(t, d.Observe(Transition{State: []float32{1}, Action: []float32{0}, Reward: 1, Next: []float32{1}, End: end}))
		}
		var last Losses
		for range 1500 {
			last, err = d.Update()
			require.NoError(t, err)
		}
		require.InDelta(t, want, last.Value, .1*want)
	}
}

func TestTwin(t *testing.T) {
	c := AWARE(2, 2, 2)
	c.Twin = true
	d := filled(t, c)
	for k, bias := range []float32{7, 3} {
		p := d.critics[k].target.Params()
		clear(p)
		p[len(p)-1] = bias
	}
	before := append([]float32(nil), d.actor.net.Params()...)
	require.NotEqual(t, d.critics[0].net.Params(), d.critics[1].net.Params())
	_, err := d.Update()
	require.NoError(t, err)
	for i, y := range d.critics[0].outputs.Data {
		require.Equal(t, d.batch.reward[i]+d.batch.discount[i]*3, y, "the lower critic counts")
	}
	require.Equal(t, before, d.actor.net.Params(), "the actor waits")
	moved := false
	actions := d.actor.target.Pass(c.Batch).Forward(d.batch.next)
	for i := range c.Batch {
		for j, a := range d.nextBoth.Row(i)[2:] {
			require.LessOrEqual(t, math.Abs(float64(a-actions.Row(i)[j])), mostSmoothing+1e-6)
			moved = moved || a != actions.Row(i)[j]
		}
	}
	require.True(t, moved, "noise on the target's action")
	_, err = d.Update()
	require.NoError(t, err)
	require.NotEqual(t, before, d.actor.net.Params())
}

// Without rewards the actor does what was demonstrated, and only that.
func TestImitation(t *testing.T) {
	c := AWARE(1, 1, 3)
	c.Imitation, c.ActorRate = 2, 3e-3
	d, err := New(c)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 500 {
		s := float32(2*rng.Float64() - 1)
		tr := Transition{State: []float32{s}, Action: []float32{-.8 * s}, Next: []float32{s}, Demonstrated: true}
		if i%2 == 0 {
			tr.Action[0], tr.Demonstrated = .9, false
		}
		require.NoError(t, d.Observe(tr))
	}
	for range 1000 {
		_, err := d.Update()
		require.NoError(t, err)
	}
	action := make([]float32, 1)
	for _, s := range []float32{-.9, -.3, .2, .7} {
		d.Act([]float32{s}, action)
		require.InDelta(t, -.8*s, action[0], .06)
	}
}

func TestExplore(t *testing.T) {
	c := AWARE(1, 1, 3)
	c.Noise = Noise{Theta: .5, Sigma: .1, Dt: 1}
	d, err := New(c)
	require.NoError(t, err)
	action := make([]float32, 1)
	sum, squares := 0., 0.
	for range c.Warmup {
		d.Explore([]float32{0}, action)
		squares += float64(action[0] * action[0])
		require.NoError(t, d.Observe(Transition{State: []float32{0}, Action: action, Next: []float32{0}}))
	}
	require.InDelta(t, 1./3, squares/float64(c.Warmup), .12, "uniform while it warms up")
	greedy := make([]float32, 1)
	d.Act([]float32{0}, greedy)
	squares = 0
	const n = 20000
	for range n {
		d.Explore([]float32{0}, action)
		x := float64(action[0] - greedy[0])
		sum, squares = sum+x/n, squares+x*x/n
	}
	// x' = .5·x + .1·ξ has the deviation .1 ÷ √(1 − .25).
	require.InDelta(t, 0, sum, .01)
	require.InDelta(t, .1/math.Sqrt(.75), math.Sqrt(squares), .003)
	require.NotZero(t, d.noise[0])
	require.NoError(t, d.Observe(Transition{State: []float32{0}, Action: action, Next: []float32{0}, End: TimeLimit}))
	require.Zero(t, d.noise[0], "each episode begins without noise")
}

func TestNoAllocation(t *testing.T) {
	for _, twin := range []bool{false, true} {
		c := AWARE(10, 3, 1)
		c.Twin, c.Steps, c.Imitation = twin, 3, .1
		d := filled(t, c)
		tr := randomTransition(rand.New(rand.NewPCG(1, 1)), c, 0)
		require.Zero(t, testing.AllocsPerRun(50, func() {
			d.Explore(tr.State, tr.Action)
			if d.Observe(tr) != nil {
				t.Fail()
			}
			if _, err := d.Update(); err != nil {
				t.Fail()
			}
		}))
	}
}

func TestDivergence(t *testing.T) {
	d := filled(t, AWARE(2, 1, 1))
	p := d.critics[0].net.Params()
	p[0] = float32(math.NaN())
	_, err := d.Update()
	require.ErrorContains(t, err, "rl: update 1: the training has diverged")
	_, err = d.Encode()
	require.ErrorContains(t, err, "rl: actor.network: number 0 is NaN")
}

func TestRefusedTransitions(t *testing.T) {
	d, err := New(AWARE(2, 1, 1))
	require.NoError(t, err)
	nan := float32(math.NaN())
	for want, tr := range map[string]Transition{
		"rl: state has 1 numbers, want 2":        {State: []float32{1}, Action: []float32{1}, Next: []float32{1, 1}},
		"rl: action has 0 numbers, want 1":       {State: []float32{1, 1}, Next: []float32{1, 1}},
		"rl: next state[1] is +Inf":              {State: []float32{1, 1}, Action: []float32{1}, Next: []float32{1, float32(math.Inf(1))}},
		"rl: action[0] is NaN":                   {State: []float32{1, 1}, Action: []float32{nan}, Next: []float32{1, 1}},
		"rl: reward is NaN":                      {State: []float32{1, 1}, Action: []float32{1}, Next: []float32{1, 1}, Reward: nan},
		"rl: a transition does not end in way 3": {State: []float32{1, 1}, Action: []float32{1}, Next: []float32{1, 1}, End: 3},
		"rl: next state has 3 numbers, want 2":   {State: []float32{1, 1}, Action: []float32{1}, Next: []float32{1, 1, 1}},
	} {
		require.EqualError(t, d.Observe(tr), want)
	}
	require.Zero(t, d.seen+d.buffer.waiting+d.buffer.size)
	require.Panics(t, func() { d.Act([]float32{1}, []float32{1}) })
}

func TestRefusedConfigs(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"rl: state: 0, want 1 to 16384":                    func(c *Config) { c.State = 0 },
		"rl: action: -1":                                   func(c *Config) { c.Action = -1 },
		"rl: batch: 0":                                     func(c *Config) { c.Batch = 0 },
		"rl: warmup: 11, want 1 to 10":                     func(c *Config) { c.Capacity, c.Warmup = 10, 11 },
		"rl: capacity: 1000000 transitions are 3001000000": func(c *Config) { c.Capacity, c.State, c.Action = 1_000_000, 1000, 1 },
		"rl: hidden: no layer":                             func(c *Config) { c.Hidden = nil },
		"rl: hidden: nn: sizes[1]: 0":                      func(c *Config) { c.Hidden = []int{0} },
		"rl: discount: 1.5, want 0 to 1":                   func(c *Config) { c.Discount = 1.5 },
		"rl: tau: NaN":                                     func(c *Config) { c.Tau = math.NaN() },
		"rl: actorRate: -1":                                func(c *Config) { c.ActorRate = -1 },
		"rl: criticRate: +Inf":                             func(c *Config) { c.CriticRate = math.Inf(1) },
		"rl: noise.dt: 0":                                  func(c *Config) { c.Noise.Dt = 0 },
		"rl: noise.theta: 200, want 0 to 100":              func(c *Config) { c.Noise.Theta = 200 },
		"rl: noise.sigma: -1":                              func(c *Config) { c.Noise.Sigma = -1 },
		"rl: imitation: -1":                                func(c *Config) { c.Imitation = -1 },
		"rl: steps: 0":                                     func(c *Config) { c.Steps = 0 },
	} {
		c := AWARE(2, 1, 1)
		change(&c)
		_, err := New(c)
		require.ErrorContains(t, err, want)
	}
}
