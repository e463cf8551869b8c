package reassign

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// Options of a search.
type Options struct {
	Seed  uint64
	Steps int // moves and swaps that are tried
	// Watch, if set, is told the steps so far and the least cost, now and then.
	Watch func(steps int, least int64)
}

const (
	swapShare = .8     // of the steps
	cold      = 1e-7   // last temperature ÷ mean rise of a valid step
	cooling   = 1024   // steps at a temperature
	enough    = 20_000 // steps for each process and machine: what is more is spent on further rounds
	maxRounds = 8
	watchStep = 1 << 20
)

// cooled are the parts of a round, each from the best so far: their share of the steps and their first temperature ÷
// mean rise. The first stays near the start, the second leaves it, the others polish.
var cooled = []struct{ share, hot float64 }{{.1, .3}, {.5, 10}, {.2, 1}, {.2, .1}}

// Search improves the assignment of the start by simulated annealing over moves of a process and swaps of
// two. Every assignment on its way is valid. The same seed and steps give the same assignment; when the context
// ends, it returns the best so far.
func Search(ctx context.Context, p *Problem, opt Options) []int32 {
	s := newAnnealer(p, opt.Seed)
	s.best, s.least = slices.Clone(p.Start), s.total
	if len(p.Machines) < 2 || len(p.Processes) == 0 {
		return s.best
	}
	rise := s.meanRise()
	rounds := min(maxRounds, 1+opt.Steps/(enough*len(p.Machines)*len(p.Processes)))
	for range rounds {
		for _, part := range cooled {
			n := int(part.share * float64(opt.Steps) / float64(rounds))
			if !s.cool(ctx, n, part.hot*rise, cold*rise, opt.Watch) {
				return s.best
			}
		}
	}
	return s.best
}

// cool takes steps from the best assignment while the temperature falls, and reports whether it came to its end.
func (s *annealer) cool(ctx context.Context, steps int, hot, cold float64, watch func(int, int64)) bool {
	s.reset(s.best)
	t, fall := hot, math.Pow(cold/hot, cooling/float64(max(steps, cooling)))
	for range steps {
		if s.steps++; s.steps%cooling == 0 {
			t *= fall
		}
		if s.steps%watchStep == 0 {
			if ctx.Err() != nil {
				return false
			}
			if watch != nil {
				watch(s.steps, s.least)
			}
		}
		if s.step(t) && s.total < s.least {
			s.least = s.total
			copy(s.best, s.at)
		}
	}
	return true
}

// An annealer holds an assignment and what its cost is made of.
type annealer struct {
	p     *Problem
	rng   *rand.Rand
	at    []int32 // per process
	total int64
	steps int     // taken so far
	best  []int32 // assignment
	least int64   // its cost

	r        int
	used     []int64 // per machine and resource
	full     []int64 // the same, with what those that left still use of transient resources
	cost     []int64 // per machine: load and balance
	runs     []int32 // per service and machine: processes
	location []int32 // per service and location: processes
	near     []int32 // per service and neighbourhood: processes
	spread   []int   // per service: locations
	moved    []int   // per service
	services []int   // per number of moves: services that have so many
	most     int     // moves of a service
}

func newAnnealer(p *Problem, seed uint64) *annealer {
	s := &annealer{p: p, rng: rand.New(rand.NewPCG(seed, 0)), r: len(p.Transient)}
	s.reset(p.Start)
	return s
}

// reset takes an assignment.
func (s *annealer) reset(assignment []int32) {
	p, n := s.p, len(s.p.Services)
	s.at = slices.Clone(p.Start)
	s.used, s.full = make([]int64, len(p.Machines)*s.r), make([]int64, len(p.Machines)*s.r)
	s.cost, s.runs = make([]int64, len(p.Machines)), make([]int32, n*len(p.Machines))
	s.location, s.near = make([]int32, n*p.locations), make([]int32, n*p.neighbourhoods)
	s.spread, s.moved = make([]int, n), make([]int, n)
	s.services, s.most = make([]int, len(p.Processes)+1), 0
	s.services[0] = n
	for i, m := range p.Start {
		s.enter(int32(i), m)
		for r, amount := range p.Processes[i].Demand {
			if p.Transient[r] {
				s.full[int(m)*s.r+r] += amount
			}
		}
	}
	for m := range p.Machines {
		s.cost[m] = s.costOf(int32(m))
	}
	s.total = p.Cost(p.Start).Total()
	for i, m := range assignment {
		if m != s.at[i] {
			s.shift(int32(i), m)
		}
	}
}

// enter books a process on a machine.
func (s *annealer) enter(i, m int32) {
	s.book(i, m, 1)
	s.at[i] = m
}

// leave takes a process off its machine.
func (s *annealer) leave(i int32) {
	s.book(i, s.at[i], -1)
}

func (s *annealer) slot(i, m int32) int {
	return int(s.p.Processes[i].Service)*len(s.p.Machines) + int(m)
}

func (s *annealer) book(i, m int32, sign int64) {
	p := s.p
	process, machine := &p.Processes[i], &p.Machines[m]
	for r, n := range process.Demand {
		at := int(m)*s.r + r
		s.used[at] += sign * n
		if !p.Transient[r] || m != p.Start[i] {
			s.full[at] += sign * n
		}
	}
	s.runs[s.slot(i, m)] += int32(sign)
	v := int(process.Service)
	l := &s.location[v*p.locations+int(machine.Location)]
	if *l == 0 {
		s.spread[v]++
	}
	if *l += int32(sign); *l == 0 {
		s.spread[v]--
	}
	s.near[v*p.neighbourhoods+int(machine.Neighbourhood)] += int32(sign)
}

// costOf is the cost of the load and the balance of a machine.
func (s *annealer) costOf(m int32) (cost int64) {
	p, machine := s.p, &s.p.Machines[m]
	used := s.used[int(m)*s.r:][:s.r]
	for r, weight := range p.LoadWeight {
		cost += weight * max(0, used[r]-machine.Safe[r])
	}
	for _, b := range p.Balances {
		cost += b.Weight * max(0, b.Target*(machine.Capacity[b.A]-used[b.A])-(machine.Capacity[b.B]-used[b.B]))
	}
	return cost
}

// shift moves a process and keeps the total up to date; whether the assignment is valid is not its
// business.
func (s *annealer) shift(i, to int32) {
	from := s.at[i]
	was := s.cost[from] + s.cost[to] + s.price(i, from)
	s.leave(i)
	s.enter(i, to)
	s.count(i, from, to)
	s.cost[from], s.cost[to] = s.costOf(from), s.costOf(to)
	s.total += s.cost[from] + s.cost[to] + s.price(i, to) - was
}

// price of a process that stands on a machine: of the move there.
func (s *annealer) price(i, m int32) int64 {
	start := s.p.Start[i]
	if m == start {
		return 0
	}
	return s.p.ProcessWeight*s.p.Processes[i].Move + s.p.MachineWeight*s.p.Machines[start].Move[m]
}

// count keeps the moves of the service, and the price of those of the service with the most.
func (s *annealer) count(i, from, to int32) {
	start, v := s.p.Start[i], s.p.Processes[i].Service
	change := 0
	if from == start {
		change++
	}
	if to == start {
		change--
	}
	if change == 0 {
		return
	}
	was := s.most
	s.services[s.moved[v]]--
	s.moved[v] += change
	s.services[s.moved[v]]++
	s.most = max(s.most, s.moved[v])
	for s.most > 0 && s.services[s.most] == 0 {
		s.most--
	}
	s.total += s.p.ServiceWeight * int64(s.most-was)
}

// fits reports whether a process has room on a machine once another (-1 = none) has left it.
func (s *annealer) fits(i, m, other int32) bool {
	p, capacity := s.p, s.p.Machines[m].Capacity
	full := s.full[int(m)*s.r:][:s.r]
	home := m == p.Start[i]
	for r, n := range p.Processes[i].Demand {
		if p.Transient[r] && home {
			continue // it is counted there
		}
		have := full[r]
		if other >= 0 && (!p.Transient[r] || p.Start[other] != m) {
			have -= p.Processes[other].Demand[r]
		}
		if have+n > capacity[r] {
			return false
		}
	}
	return s.runs[s.slot(i, m)] == 0
}

// valid reports whether spread and dependencies hold after a process has come from a machine.
func (s *annealer) valid(i, from int32) bool {
	p, v := s.p, s.p.Processes[i].Service
	if s.spread[v] < p.Services[v].Spread {
		return false
	}
	here, there := p.Machines[s.at[i]].Neighbourhood, p.Machines[from].Neighbourhood
	if here == there {
		return true
	}
	for _, need := range p.Services[v].Needs {
		if s.near[int(need)*p.neighbourhoods+int(here)] == 0 {
			return false
		}
	}
	if s.near[int(v)*p.neighbourhoods+int(there)] == 0 {
		for _, u := range p.dependents[v] {
			if s.near[int(u)*p.neighbourhoods+int(there)] > 0 {
				return false
			}
		}
	}
	return true
}

// step tries a move or a swap at a temperature and reports whether it was taken.
func (s *annealer) step(t float64) bool {
	if s.rng.Float64() < swapShare {
		return s.swap(t)
	}
	i, to := s.rng.Int32N(int32(len(s.at))), s.rng.Int32N(int32(len(s.p.Machines)))
	from, was := s.at[i], s.total
	if from == to || !s.fits(i, to, -1) {
		return false
	}
	s.shift(i, to)
	if s.valid(i, from) && s.take(s.total-was, t) {
		return true
	}
	s.shift(i, from)
	return false
}

func (s *annealer) swap(t float64) bool {
	i, j := s.rng.Int32N(int32(len(s.at))), s.rng.Int32N(int32(len(s.at)))
	a, b, was := s.at[i], s.at[j], s.total
	if a == b || s.p.Processes[i].Service == s.p.Processes[j].Service || !s.fits(i, b, j) || !s.fits(j, a, i) {
		return false
	}
	s.shift(i, b)
	s.shift(j, a)
	if s.valid(i, a) && s.valid(j, b) && s.take(s.total-was, t) {
		return true
	}
	s.shift(j, b)
	s.shift(i, a)
	return false
}

func (s *annealer) take(rise int64, t float64) bool {
	return rise <= 0 || s.rng.Float64() < math.Exp(-float64(rise)/t)
}

// meanRise is the mean of what valid steps from here cost that cost something; 1 where there are none.
func (s *annealer) meanRise() float64 {
	sum, n := 0.0, 0
	at := slices.Clone(s.at)
	for range 4096 {
		was := s.total
		if s.step(math.Inf(1)) {
			if s.total > was {
				sum += float64(s.total - was)
				n++
			}
		}
	}
	s.reset(at)
	if n == 0 {
		return 1
	}
	return sum / float64(n)
}
