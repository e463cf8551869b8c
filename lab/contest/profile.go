package contest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// A Profile is a pod with all that decides its throughput.
type Profile struct {
	Kind    string
	Seed    uint64
	Network capacity.Network
	// Connections of a pool, 0 = there is none, and for how many seconds a request holds one.
	Connections int
	Held        float64
	// Memory as shares of its limit: at rest, and of each request inside.
	Rest, Each float64
	// Collector says that a runtime collects garbage harder as it nears its limit.
	Collector bool

	rates map[int]float64
}

// Kinds of profiles.
func Kinds() []string {
	return []string{"cpu", "mixed", "io", "threads", "memory", "collector", "pool"}
}

const profileStream = 0xc0ffee

// Draw draws a profile; the kinds take turns by seed.
func Draw(seed uint64) *Profile {
	rng := rand.New(rand.NewPCG(seed, profileStream))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, rng.Float64()) }
	p := &Profile{Kind: Kinds()[seed%uint64(len(Kinds()))], Seed: seed, Rest: between(.05, .3)}
	m := &p.Network
	m.Cores = []float64{.25, .5, 1, 2}[rng.IntN(4)]
	m.Demand = between(.001, .02)
	turn := m.Demand / m.Cores // seconds between answers of a busy pod
	p.Each = between(.1, .9) * (.8 - p.Rest) / 310
	switch p.Kind {
	case "cpu":
		m.Wait = between(.05, 1) * turn
	case "mixed":
		m.Wait = between(2, 20) * turn
	case "io":
		m.Wait = between(20, 150) * turn
	case "threads":
		m.Wait, m.Contention = between(2, 30)*turn, between(.01, .1)
	case "memory", "collector":
		m.Wait = between(4, 60) * turn
		knee, _ := m.Peak(310, .97)
		p.Rest = between(.05, .4)
		p.Each = (.85 - p.Rest) / max(2, between(.3, 1.5)*float64(knee))
		p.Collector = p.Kind == "collector"
	case "pool":
		p.Connections = int(between(4, 40))
		p.Held = between(.02, .1)
		m.Demand = m.Cores * p.Held / float64(p.Connections) * between(.1, .8)
		m.Wait = m.Demand * between(.1, 1)
	}
	return p
}

// Changed returns the profile with requests that take factor times the cpu, the time of
// others and the memory.
func (p *Profile) Changed(factor float64) *Profile {
	q := *p
	q.rates = nil
	q.Network.Demand *= factor
	q.Network.Wait *= factor
	q.Held *= factor
	q.Each *= factor
	return &q
}

// live is the share of the memory limit that n requests inside hold.
func (p *Profile) live(n int) float64 { return p.Rest + p.Each*float64(n) }

// Memory returns the share of the limit that is measured. A collector lets garbage lie up
// to a target below the limit.
func (p *Profile) Memory(n int) float64 {
	if live := p.live(n); p.Collector {
		return min(1, max(live, min(collectorTarget, live*1.4)))
	}
	return min(1, p.live(n))
}

const collectorTarget = .79

// Fails says whether the pod is killed with n requests inside.
func (p *Profile) Fails(n int) bool { return p.live(n) > 1 }

// demand in core-seconds with n requests inside.
func (p *Profile) demand(n int) float64 {
	d := p.Network.Demand * (1 + p.Network.Contention*float64(n-1))
	if p.Collector {
		// Measured: 1.5 ms far from the limit, 3.8 ms near it.
		d *= 1 + 1.5*max(0, min(1, (p.live(n)-.6)/.3))
	}
	return d
}

// Throughput returns the answers a second at a limit n that is always full, of a pod that
// is not killed.
func (p *Profile) Throughput(n int) float64 {
	if x, ok := p.rates[n]; ok {
		return x
	}
	m := p.Network
	m.Demand, m.Contention = p.demand(n), 0
	x := 0.0
	if p.Connections == 0 {
		x = m.Throughput(n)
	} else {
		x = p.pooled(&m, n)
	}
	if p.rates == nil {
		p.rates = map[int]float64{}
	}
	p.rates[n] = x
	return x
}

// pooled is the throughput of the network with the pool as a third station, by convolution
// of their weights (Buzen, 1973). All weights are scaled by a power of the throughput's
// bound, so that they stay near 1.
func (p *Profile) pooled(m *capacity.Network, n int) float64 {
	scale := min(m.Cores/m.Demand, float64(p.Connections)/p.Held)
	cpu, pool, wait := make([]float64, n+1), make([]float64, n+1), make([]float64, n+1)
	cpu[0], pool[0], wait[0] = 1, 1, 1
	for k := 1; k <= n; k++ {
		cpu[k] = cpu[k-1] * m.Demand * scale / min(float64(k), m.Cores)
		pool[k] = pool[k-1] * p.Held * scale / min(float64(k), float64(p.Connections))
		wait[k] = wait[k-1] * m.Wait * scale / float64(k)
	}
	sum := func(total int) float64 {
		g := 0.0
		for a := 0; a <= total; a++ {
			part := 0.0
			for b := 0; b <= total-a; b++ {
				part += pool[b] * wait[total-a-b]
			}
			g += cpu[a] * part
		}
		return g
	}
	return sum(n-1) / sum(n) * scale
}

// Reach returns the largest of some limits that a guard by proportion lets a learner try
// that begins at one of them: from n that takes a share m of the memory up to n · .85 ÷ m,
// and on from there. spare is kept below that, as the memory is measured with noise.
func (p *Profile) Reach(limits []int, initial int) int {
	at, top := initial, math.MaxInt
	for p.Fails(at) && at > 1 {
		top = max(1, at*7/10)
		at = top
	}
	for {
		most := float64(at) * .85 / p.Memory(at) * (1 - spare)
		next := 0
		for _, n := range limits {
			if float64(n) <= most {
				next = n
			}
		}
		if next <= at && (next < at || p.Memory(at) <= .85) || next == 0 {
			return min(at, next, top)
		}
		if at = next; p.Fails(at) {
			return 0
		}
	}
}

const spare = .02

// Best returns the highest throughput of the limits within the guard's reach, and the
// smallest limit that is within 5 % of it; 0 where there is none.
func (p *Profile) Best(limits []int, initial int) (rate float64, smallest int) {
	reach := p.Reach(limits, initial)
	for _, n := range limits {
		if n <= reach && !p.Fails(n) {
			rate = max(rate, p.Throughput(n))
		}
	}
	for _, n := range limits {
		if n <= reach && !p.Fails(n) && p.Throughput(n) >= good*rate {
			return rate, n
		}
	}
	return 0, 0
}

// good is the share of the best throughput from which on a limit counts as found.
const good = .95

// String names the profile.
func (p *Profile) String() string { return fmt.Sprintf("%s-%d", p.Kind, p.Seed) }
