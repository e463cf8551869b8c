package tune

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/internal/learn/rl"
)

// An lRLA is the agent of AuTO that steers long flows, those in the last band, as far as we know it: a
// policy gradient that sees 11 running ones with 6 numbers each and 10 finished ones with 7, gives each
// running one a priority, a rate and a path, and is paid the ratio of the mean throughput now to that before.
// There is no path: one link has none. Ours are what the numbers are and how they are scaled, widths (128
// and 128), 32 decisions an update, σ = .3, a discount of .9, a decision each 10 ms, five priorities inside
// the last band, and the last ten long flows that finished as those whose throughput counts.
type lRLA struct {
	agent         *rl.Reinforce
	explore       bool
	link          *longLink
	rng           *rand.Rand // of addresses, which say nothing
	state, action []float32
	last          float64 // mean throughput at the last decision, 0 before
	acted         bool
}

const (
	longRunning, longRunningFields = 11, 6                                                     // addresses, ports, protocol, priority
	longEnded, longEndedFields     = 10, 7                                                     // addresses, ports, protocol, size, time
	longState                      = longRunning*longRunningFields + longEnded*longEndedFields // 136
	longActions                    = 2                                                         // priority, rate
	longPriorities                 = 5                                                         // one of them is the middle
	longEvery                      = .01                                                       // seconds
)

func newReinforce(t *testing.T, rate float64, seed uint64) *rl.Reinforce {
	t.Helper()
	agent, err := rl.NewReinforce(rl.ReinforceConfig{
		State: longState, Action: longRunning * longActions,
		Hidden: []int{128, 128}, Rate: rate, Sigma: .3, Discount: .9, Episode: 32, Seed: seed,
	})
	require.NoError(t, err)
	return agent
}

func newLRLA(agent *rl.Reinforce, explore bool, th flow.Thresholds, flows []sim.Flow, seed uint64) *lRLA {
	return &lRLA{
		agent: agent, explore: explore, link: newLongLink(th, flows), rng: rand.New(rand.NewPCG(seed, 10)),
		state: make([]float32, longState), action: make([]float32, longRunning*longActions),
	}
}

// run goes on until so many flows have arrived, or all have ended.
func (a *lRLA) run(t *testing.T, flows int) {
	t.Helper()
	for a.link.next < flows || flows == len(a.link.flows) && len(a.link.active) > 0 {
		a.link.run(a.link.now + longEvery)
		running := a.link.long()
		if len(running) == 0 {
			continue
		}
		if a.explore {
			a.learn(t)
		}
		a.see(running)
		if a.explore {
			a.agent.Explore(a.state, a.action)
		} else {
			a.agent.Act(a.state, a.action)
		}
		a.acted = true
		for i, f := range running {
			priority, share := unit(a.action[longActions*i]), unit(a.action[longActions*i+1])
			f.band = len(a.link.th) + min(int(priority*longPriorities), longPriorities-1)
			f.most = a.link.rate * min(1, max(.01, 2*share)) // HTB's ceiling is twice the rate
		}
	}
}

// unit moves −1…1 to 0…1.
func unit(v float32) float64 { return (float64(v) + 1) / 2 }

func (a *lRLA) learn(t *testing.T) {
	t.Helper()
	ended := a.link.ended
	if len(ended) == 0 {
		return
	}
	mean := 0.
	for _, id := range ended {
		mean += a.link.flows[id].Size / a.link.fct[id] / float64(len(ended))
	}
	if a.acted && a.last > 0 {
		require.NoError(t, a.agent.Reward(mean/a.last))
	}
	a.last = mean
}

func (a *lRLA) see(running []*longFlow) {
	clear(a.state)
	at := a.state
	address := func() {
		for i := range 4 {
			at[i] = float32(a.rng.Float64())
		}
		at[4] = 1
	}
	for i := range longRunning {
		if i < len(running) {
			address()
			at[5] = float32(running[i].band-len(a.link.th)) / longPriorities
		}
		at = at[longRunningFields:]
	}
	for _, id := range a.link.ended {
		address()
		at[5], at[6] = float32(math.Log10(a.link.flows[id].Size)/10), float32(math.Log10(a.link.fct[id])/10)
		at = at[longEndedFields:]
	}
}

// A longLink is a link with bands whose last one serves flows by priority, and each at most at a rate.
type longLink struct {
	rate   float64 // bytes per second
	th     flow.Thresholds
	flows  []sim.Flow
	fct    []float64
	next   int // flow to arrive
	now    float64
	active []*longFlow
	ended  []int // the last ten long ones
}

type longFlow struct {
	id         int
	left, rate float64 // bytes to its next threshold or end; bytes per second
	most       float64 // bytes per second
	band       int     // that of the bytes; in the last one, and the priority
}

func newLongLink(th flow.Thresholds, flows []sim.Flow) *longLink {
	return &longLink{rate: rate / 8, th: th, flows: flows, fct: make([]float64, len(flows))}
}

// long are the first of the running long flows, in the order in which they arrived.
func (l *longLink) long() []*longFlow {
	var long []*longFlow
	for _, f := range l.active {
		if f.band >= len(l.th) {
			long = append(long, f)
		}
	}
	slices.SortFunc(long, func(a, b *longFlow) int { return cmp.Compare(a.id, b.id) })
	return long[:min(len(long), longRunning)]
}

// share gives the flows of each band evenly what those before leave, up to their rates.
func (l *longLink) share() {
	room := l.rate
	slices.SortFunc(l.active, func(a, b *longFlow) int {
		return cmp.Or(cmp.Compare(a.band, b.band), cmp.Compare(a.most, b.most), cmp.Compare(a.id, b.id))
	})
	for from := 0; from < len(l.active); {
		to := from
		for to < len(l.active) && l.active[to].band == l.active[from].band {
			to++
		}
		for i := from; i < to; i++ {
			l.active[i].rate = min(l.active[i].most, room/float64(to-i))
			room -= l.active[i].rate
		}
		if from = to; room < 1e-9*l.rate {
			room = 0
		}
	}
}

// run goes on until a time.
func (l *longLink) run(until float64) {
	for l.now < until {
		l.share()
		to, first := until, -1
		for i, f := range l.active {
			if f.rate > 0 && l.now+f.left/f.rate < to {
				to, first = l.now+f.left/f.rate, i
			}
		}
		arrives := l.next < len(l.flows) && l.flows[l.next].At <= to
		if arrives {
			to = max(l.now, l.flows[l.next].At)
		}
		for _, f := range l.active {
			f.left -= f.rate * (to - l.now)
		}
		l.now = to
		switch {
		case arrives:
			l.active = append(l.active, &longFlow{id: l.next, most: l.rate, left: min(l.flows[l.next].Size, float64(l.th[0]))})
			l.next++
		case first >= 0:
			l.leave(first)
		}
	}
}

// leave moves a flow to its next band, or ends it.
func (l *longLink) leave(i int) {
	f := l.active[i]
	size := l.flows[f.id].Size
	last := len(l.th)
	if f.band < last && size > float64(l.th[f.band]) {
		sent := float64(l.th[f.band])
		if f.band++; f.band == last {
			f.band, f.left = last+longPriorities/2, size-sent
		} else {
			f.left = min(size, float64(l.th[f.band])) - sent
		}
		return
	}
	l.fct[f.id] = l.now - l.flows[f.id].At
	l.active = slices.Delete(l.active, i, i+1)
	if f.band >= last {
		l.ended = append(l.ended, f.id)
		l.ended = l.ended[max(0, len(l.ended)-longEnded):]
	}
}

// An agent that has learned nothing gives all long flows the same, so that its link is one of bands.
func TestLongLink(t *testing.T) {
	p := NewProblem(heavy(t), .8, 5000, 1, nil)
	th := flow.Thresholds{100_000, 1_800_000, 9_900_000}
	want := p.Value(th)
	bands := slices.Clone(p.fct)
	l := newLongLink(th, p.flows)
	l.run(math.MaxFloat64)
	for i := range bands {
		require.InEpsilon(t, bands[i], l.fct[i], 1e-6, i)
	}
	// The first decisions move next to nothing, and priorities that are learned keep off the short flows.
	a := newLRLA(newReinforce(t, 1e-3, 1), false, th, p.flows, 1)
	a.run(t, len(p.flows))
	require.InEpsilon(t, want, a.value(p), .02)
}

// value is J of all its flows, which are those of the problem.
func (a *lRLA) value(p *Problem) float64 {
	fct, slowdown := a.shares(p)
	return fct + slowdown
}

func (a *lRLA) shares(p *Problem) (fct, slowdown float64) {
	copy(p.fct, a.link.fct)
	fct, slowdown = p.sums()
	return fct / p.fair, slowdown / p.slowdown
}
