package batch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/usage"
)

var (
	begin    = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	settings = Settings{Grace: 4 * time.Hour, Starving: 5 * time.Minute, Stale: 5 * time.Minute, Growth: usage.BatchGrowth}
)

// node is one of 10 cores and 64 GiB whose online pods use and expect some cores.
func node(now time.Time, used, expected float64, held ...Held) Seen {
	return Seen{
		Now: now, Capacity: 10, Memory: 64 << 30, Used: used, UsedAt: now.Add(-20 * time.Second),
		Expected: func(float64) float64 { return expected }, Requested: 32 << 30, Held: held,
	}
}

// pods hold a core and a GiB each, the first is the oldest.
func pods(n int) (list []Held) {
	for i := range n {
		list = append(list, Held{Namespace: "ns", Name: fmt.Sprint("p", i), CPU: 1, Memory: 1 << 30, Begun: begin.Add(time.Duration(i) * time.Second)})
	}
	return list
}

func TestOfferOfANode(t *testing.T) {
	n := &Node{}
	assert.Equal(t, Decision{Memory: 32 << 30}, n.Decide(settings, node(begin, 1, 3)), "it begins with no cpu")
	assert.EqualValues(t, 2000, n.Decide(settings, node(begin.Add(time.Hour), 1, 3)).CPU)
	d := n.Decide(settings, node(begin.Add(10*time.Hour), 1, 3))
	assert.EqualValues(t, 6500, d.CPU, "95 % without the expected use")
	d = n.Decide(settings, node(begin.Add(10*time.Hour+time.Minute), 8, 3))
	assert.EqualValues(t, 1500, d.CPU, "95 % without the use now")
	assert.Empty(t, d.Evict)
	assert.EqualValues(t, 1500+33, n.Decide(settings, node(begin.Add(10*time.Hour+2*time.Minute), 1, 3)).CPU, "it grows slowly")

	assert.EqualValues(t, 1500+33, n.Decide(settings, node(begin, 1, 3)).CPU, "the clock was set back")
	assert.EqualValues(t, 1500+66, n.Decide(settings, node(begin.Add(time.Minute), 1, 3)).CPU)

	in := node(begin.Add(10*time.Hour+3*time.Minute), 1, 3)
	in.Requested = 70 << 30
	assert.Zero(t, n.Decide(settings, in).Memory)
}

func TestUnknownUseOffersNothingAndEvictsNobody(t *testing.T) {
	n := &Node{}
	n.Resume(6, begin)
	held := pods(9)
	for _, at := range []time.Time{{}, begin.Add(-6 * time.Minute), begin.Add(6 * time.Minute)} {
		in := node(begin, 9, 9, held...)
		in.UsedAt = at
		d := n.Decide(settings, in)
		assert.Zero(t, d.CPU)
		assert.Zero(t, d.Memory)
		assert.Empty(t, d.Evict)
		assert.NotEmpty(t, d.Why)
	}
	assert.EqualValues(t, 6033, n.Decide(settings, node(begin.Add(time.Minute), 1, 3)).CPU, "the offer was kept")
}

func TestStarvingPodsLeaveYoungestFirst(t *testing.T) {
	n := &Node{}
	n.Resume(5, begin)
	held := pods(5)
	held[1].Priority = -2000
	for m := range 5 {
		assert.Empty(t, n.Decide(settings, node(begin.Add(time.Duration(m)*time.Minute), 8.5, 3, held...)).Evict)
	}
	d := n.Decide(settings, node(begin.Add(5*time.Minute), 8.5, 3, held...))
	assert.Equal(t, []Held{held[1], held[4], held[3]}, d.Evict, "1.5 cores are 60 % of 2.5")

	n = &Node{}
	n.Resume(5, begin)
	assert.Empty(t, n.Decide(settings, node(begin, 8.5, 3, held...)).Evict)
	assert.Empty(t, n.Decide(settings, node(begin.Add(3*time.Minute), 5, 3, held...)).Evict, "the time begins anew")
	assert.Empty(t, n.Decide(settings, node(begin.Add(6*time.Minute), 8.5, 3, held...)).Evict)
}

// Nothing else bounds the memory of a pod of class BestEffort.
func TestPodsAboveTheirMemoryLeave(t *testing.T) {
	n := &Node{}
	n.Resume(5, begin)
	held := pods(3)
	held[0].Uses, held[1].Uses = 1<<30, 1<<30+1
	assert.Equal(t, []Held{held[1]}, n.Decide(settings, node(begin, 1, 3, held...)).Evict)
	in := node(begin, 1, 3, held...)
	in.UsedAt = time.Time{}
	assert.Empty(t, n.Decide(settings, in).Evict)
}

func TestPodsAboveTheOfferLeaveAfterTheGrace(t *testing.T) {
	n := &Node{}
	n.Resume(5, begin)
	held := pods(5)
	for m := range 240 {
		require.Empty(t, n.Decide(settings, node(begin.Add(time.Duration(m)*time.Minute), 1, 6, held...)).Evict)
	}
	d := n.Decide(settings, node(begin.Add(4*time.Hour), 1, 6, held...))
	assert.Equal(t, []Held{held[4], held[3]}, d.Evict, "3.5 cores are offered")

	n = &Node{}
	n.Resume(9, begin)
	in := node(begin, 1, 0, held...)
	in.Requested = 61 << 30
	n.Decide(settings, in)
	in.Now, in.UsedAt = in.Now.Add(4*time.Hour), in.Now.Add(4*time.Hour)
	assert.Len(t, n.Decide(settings, in).Evict, 2, "3 GiB are left")
}

// Twenty rounds of faults: whatever happens, the offer is never negative nor above the formula, nobody leaves while
// the use is unknown, and only as many as needed leave.
func TestFaults(t *testing.T) {
	evicted := 0
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		const nodes = 12
		states, held, load := make([]*Node, nodes), make([][]Held, nodes), make([]float64, nodes)
		for i := range states {
			states[i] = &Node{}
			states[i].Resume(6, begin)
			held[i], load[i] = pods(6), 1+2*rng.Float64()
		}
		now, away, full := begin, 0, 0
		for minute := range 900 {
			now = now.Add(time.Minute)
			switch rng.IntN(60) {
			case 0: // Prometheus or the metrics API is away
				away = 1 + rng.IntN(20)
			case 1: // the clock is set back
				now = now.Add(-time.Duration(rng.IntN(30)) * time.Minute)
			case 2: // the controller is killed, and the kubelet has registered anew
				i := rng.IntN(nodes)
				states[i] = &Node{}
				states[i].Resume(6*float64(rng.IntN(2)), now)
			case 3: // all nodes are full at once
				full = 10
			}
			away, full = max(0, away-1), max(0, full-1)
			for i, n := range states {
				used := load[i]
				if full > 0 || minute%300 == 299 && i%10 == 0 { // ten times the load on a tenth
					used = min(10, 10*load[i])
				}
				in := node(now, used, load[i], held[i]...)
				if away > 0 {
					in.UsedAt = now.Add(-time.Hour)
				}
				d := n.Decide(settings, in)
				require.GreaterOrEqual(t, d.CPU, int64(0))
				require.LessOrEqual(t, float64(d.CPU)/1000, max(0, 9.5-max(used, load[i]))+1e-9, "seed %d minute %d", seed, minute)
				if away > 0 {
					require.Zero(t, d.CPU)
					require.Empty(t, d.Evict)
				}
				if len(d.Evict) > 0 {
					cores, left := float64(len(held[i])), 10-used
					least := min(cores, float64(d.CPU)/1000)
					if left < usage.BatchDelivered*cores {
						least = min(least, left/usage.BatchDelivered)
					}
					need := int(math.Ceil(cores - least - 1e-9))
					require.LessOrEqual(t, len(d.Evict), need, "seed %d minute %d: only as many as needed", seed, minute)
					held[i] = held[i][:len(held[i])-len(d.Evict)]
					evicted += len(d.Evict)
				}
				if extra := int(float64(d.CPU)/1000) - len(held[i]); extra > 0 && full == 0 {
					held[i] = pods(len(held[i]) + extra)
				}
			}
		}
	}
	assert.Positive(t, evicted)
}
