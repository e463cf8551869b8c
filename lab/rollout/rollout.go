package rollout

import (
	"cmp"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/learned/linear"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// A Policy places a request as a whole, by the proposal that does best over
// sampled futures (hindsight optimisation: Chong, Givan and Chang 2000). Futures
// are drawn from what the forecast and the arrivals so far allow. Some are packed
// together with the request, and each of these proposes places for it. Others are
// packed around each proposal; the policy follows the one after which the fewest
// machines are needed on average. Proposals are compared on the same futures and
// draws, and after every few futures the worse half is dropped (sequential halving:
// Karnin, Koren and Somekh 2013).
//
// This needs apps that come in one request. Once an app has come twice the weights
// decide, as in the model linear. They also decide where a future would be too
// large or is of a kind that is not modelled, see rolls.
type Policy struct {
	weights *linear.Policy

	futures, scenarios, effort int
	sigma, trust, margin       float64
	seed                       uint64
}

// Defaults of the parameters.
const (
	defaultFutures   = 16
	defaultScenarios = 8
	defaultEffort    = 8
	defaultSigma     = .2
	defaultMargin    = .1
)

func build(spec learned.Spec) (binpack.Policy, error) {
	weights, err := linear.New(spec)
	if err != nil {
		return nil, err
	}
	number := func(name string, absent float64) float64 {
		if v, ok := spec.Parameters[name]; ok {
			return v
		}
		return absent
	}
	return &Policy{
		weights:   weights,
		futures:   int(math.Round(number("futures", defaultFutures))),
		scenarios: int(math.Round(number("scenarios", defaultScenarios))),
		effort:    int(math.Round(number("effort", defaultEffort))),
		sigma:     number("sigma", defaultSigma),
		trust:     number("trust", 0),
		margin:    number("margin", defaultMargin),
		seed:      uint64(math.Round(number("seed", 0))),
	}, nil
}

// Knowledge implements [binpack.Policy].
func (p *Policy) Knowledge() binpack.Knowledge { return binpack.K1 }

// Scorer implements [binpack.Policy].
func (p *Policy) Scorer(s *binpack.State) binpack.Scorer {
	l := &scorer{p: p, s: s, weights: linear.NewScorer(p.weights, s)}
	if l.models() {
		l.f = newFuture(s)
		l.start = l.f.newPacking()
		l.most = futureMachines
		if lines := s.Instance().Machines; !slices.ContainsFunc(lines, func(m binpack.MachineLine) bool { return m.Count == binpack.Unlimited }) {
			n := 0
			for _, m := range lines {
				n += m.Count
			}
			l.most = min(l.most, n)
		}
	}
	return l
}

// scorer decides on a request when its first item is scored, and finds the same
// decision for the other items: it depends on the machines without the request's
// app, the counts of what has come, the forecast and the seed.
type scorer struct {
	p       *Policy
	s       *binpack.State
	weights *linear.Scorer
	f       *future // nil: such instances are left to the weights
	most    int     // machines

	decided   bool
	key       uint64  // digest of what the decision depends on
	open      []int32 // machines that hold something else, by index
	chosen    int     // of proposals
	proposals []proposal
	scenarios []draft
	start     packing // what stands without the request
	scored    uint64  // state of the draws of the scenarios' packings
}

// A proposal says where the items of a request go.
type proposal struct {
	// places are the items for each of scorer.open, then for machines to be
	// opened, most first.
	places []uint8
	cost   float64 // Σ machines needed in the end, over scenarios
	n      int     // scenarios
}

// models reports whether a future can model the instance: one kind of machine, one
// app to a group, no devices, at most futureApps apps.
func (l *scorer) models() bool {
	inst := l.s.Instance()
	if len(l.s.Kinds()) != 1 || len(inst.Apps) > futureApps || len(inst.Apps) != len(inst.Groups) {
		return false
	}
	return !slices.ContainsFunc(inst.Dimensions, func(d binpack.Dimension) bool { return d.Device })
}

// rolls reports whether the current request is placed by roll-outs.
func (l *scorer) rolls(a int32) bool {
	s := l.s
	if l.f == nil || s.Known.Expected == nil || s.Left() > 0 || s.Requests()[a] != 1 || s.Alive()[a] > s.Seen()[a] {
		return false // the last: some items were there from the beginning
	}
	apps, volume := int64(0), 0.0
	for b, n := range s.Requests() {
		if n > 0 {
			apps++
		}
		volume += float64(max(s.Known.Expected[b], float64(s.Seen()[b]), float64(s.Alive()[b])) * l.f.share(int32(b)))
	}
	// While no app has come twice, an app that has come is complete.
	return s.RequestCount() == apps && volume <= .8*futureMachines && s.Active() < futureMachines && s.Seen()[a] < unlimitedCount
}

// share is the size of an app's item in machines.
func (f *future) share(a int32) float64 { return float64(f.size[a]) / (1 << sizeShareBits) }

// followed is added to the score of the places of the decision: it outweighs all
// else.
const followed = 4

// Score implements [binpack.Scorer].
func (l *scorer) Score(item binpack.Item, candidates []int32, out []float64) {
	l.weights.Score(item, candidates, out)
	if !l.rolls(item.App) {
		return
	}
	l.decide(item.App)
	for i, m := range candidates {
		out[i] = squash(out[i])
		if l.wants(item.App, m) {
			out[i] += followed
		}
	}
}

// squash keeps the order of scores within −1 … 1.
func squash(v float64) float64 { return v / (1 + math.Abs(v)) }

// wants reports whether the decision has a place for one more item of a on m.
func (l *scorer) wants(a, m int32) bool {
	places := l.proposals[l.chosen].places
	at := l.slot(a, m)
	return at < len(places) && learned.CountApp(l.s.Contents(m), a) < int32(places[at])
}

// slot returns a machine's index in places. Machines that hold only items of the
// request were opened for it, in order of position.
func (l *scorer) slot(a, m int32) int {
	if at, ok := slices.BinarySearch(l.open, m); ok {
		return at
	}
	at := len(l.open)
	for o := range int32(l.s.Size()) {
		own := l.s.Items(o) > 0 && l.s.Items(o) == learned.CountApp(l.s.Contents(o), a)
		if own && o != m && (l.s.Items(m) == 0 || l.s.Before(o, m)) {
			at++
		}
	}
	return at
}

// decide finds the places of the current request, unless it has already.
func (l *scorer) decide(a int32) {
	s, f := l.s, l.f
	key := rule.Mix(l.p.seed<<32 | uint64(a))
	for b, n := range s.Seen() {
		key = rule.Mix(key ^ uint64(n) ^ math.Float64bits(s.Known.Expected[b]))
	}
	f.state = key // the draws depend on what has come, not on where it stands
	l.open = l.open[:0]
	for m := range int32(s.Size()) {
		if s.Items(m) == learned.CountApp(s.Contents(m), a) {
			continue
		}
		l.open = append(l.open, m)
		sum := uint64(0) // contents have no order
		for _, e := range s.Contents(m) {
			if e.App != a {
				sum += rule.Mix(uint64(e.App)<<32 | uint64(e.Count))
			}
		}
		key = rule.Mix(key ^ rule.Mix(uint64(m)) ^ sum)
	}
	if l.decided && key == l.key {
		return
	}
	l.decided, l.key = true, key
	f.clear(&l.start)
	for i, m := range l.open {
		for _, e := range s.Contents(m) {
			if e.App != a {
				f.put(&l.start, int(e.App), i, int(e.Count))
			}
		}
	}
	l.roll(a)
}

// roll draws the futures, collects proposals and chooses one.
func (l *scorer) roll(a int32) {
	s, f, p := l.s, l.f, l.p
	var beliefs []belief
	arrived, total := 0.0, 0.0
	f.loose = f.loose[:0]
	for b, n := range s.Seen() {
		app, size, e := int32(b), f.share(int32(b)), s.Known.Expected[b]
		stands := float64(s.Alive()[b])
		arrived += float64(max(float64(n), stands) * size)
		total += float64(max(0, e) * size)
		if rest := e - stands; n == 0 && rest >= .5 && l.placeable(app) {
			beliefs = append(beliefs, newBelief(app, rest, p.sigma, size))
			f.loose = append(f.loose, app)
		}
	}
	l.proposals = l.proposals[:0]
	for _, d := range f.drafts(p.futures, beliefs, f.apps, arrived, total, p.trust) {
		l.propose(a, d)
	}
	l.scenarios = f.drafts(p.scenarios, beliefs, f.apps, arrived, total, p.trust)
	for i := range l.scenarios {
		d := &l.scenarios[i]
		f.shift(d.counts, beliefs, p.margin*(d.volume-arrived))
	}
	l.scored = f.draw()
	live := make([]int, len(l.proposals))
	for i := range live {
		live[i] = i
	}
	for from, to := 0, 0; from < p.scenarios && len(live) > 1; from = to {
		to = min(p.scenarios, from+max(2, p.scenarios/4))
		if len(live) == 2 {
			to = p.scenarios
		}
		for i := from; i < to; i++ {
			for _, at := range live {
				c := &l.proposals[at]
				c.cost += l.outcome(a, c.places, i)
				c.n++
			}
		}
		slices.SortStableFunc(live, func(i, j int) int { return cmp.Compare(l.proposals[i].cost, l.proposals[j].cost) })
		live = live[:(len(live)+1)/2]
	}
	l.chosen = live[0]
}

// placeable reports whether an empty machine takes an app at all.
func (l *scorer) placeable(a int32) bool {
	app := &l.s.Instance().Apps[a]
	if app.Types != nil && !slices.Contains(app.Types, l.s.Kinds()[0].Type) {
		return false
	}
	for i, d := range l.f.dimensions {
		if app.Demand[d] > l.f.capacity[i] {
			return false
		}
	}
	return true
}

// fleet is the number of machines into which a volume is packed.
func (l *scorer) fleet(volume float64) int {
	if l.s.Instance().Fleet == binpack.Fixed {
		return l.most
	}
	return min(l.most, max(1, len(l.open), int(math.Ceil(volume-1e-6))))
}

// load adds a future to what stands; all its items wait for a place.
func (l *scorer) load(d *draft, machines int) {
	f := l.f
	f.now.copyFrom(&l.start)
	f.machines, f.usable = machines, math.MaxUint64>>(futureMachines-machines)
	for _, b := range f.loose {
		f.want(&f.now, b, d.counts[b])
	}
}

// propose packs a future with the request and notes where the request stands.
func (l *scorer) propose(a int32, d draft) {
	f := l.f
	machines := l.fleet(d.volume)
	l.load(&d, machines)
	f.want(&f.now, a, int32(l.s.Seen()[a]))
	f.loose = append(f.loose, a)
	f.fill(&f.now, false, false)
	f.search(proposalEffort * l.p.effort)
	f.loose = f.loose[:len(f.loose)-1]
	for ; f.now.left[a] > 0 && machines < l.most; machines++ { // an extra machine for the request
		f.usable = 1 << machines
		f.place(&f.now, int(a), 0, false)
	}
	places := make([]uint8, max(machines, len(l.open)))
	for m := range machines {
		places[m] = uint8(f.holds(&f.now, int(a), m))
	}
	opened := places[len(l.open):]
	slices.SortFunc(opened, func(x, y uint8) int { return int(y) - int(x) })
	for len(opened) > 0 && opened[len(opened)-1] == 0 {
		opened = opened[:len(opened)-1]
	}
	places = places[:len(l.open)+len(opened)]
	if !slices.ContainsFunc(l.proposals, func(p proposal) bool { return slices.Equal(p.places, places) }) {
		l.proposals = append(l.proposals, proposal{places: places})
	}
}

// proposalEffort is how many times as many steps pack a future that proposes as one
// that compares.
const proposalEffort = 3

// outcome returns how many machines a scenario needs with the request placed as
// proposed: the machines that it is packed into, and the volume left out.
func (l *scorer) outcome(a int32, places []uint8, scenario int) float64 {
	f, d := l.f, &l.scenarios[scenario]
	machines := max(l.fleet(d.volume), len(places))
	l.load(d, machines)
	for m, n := range places {
		if n > 0 {
			f.put(&f.now, int(a), m, int(n))
		}
	}
	f.state = rule.Mix(l.scored + uint64(scenario))
	f.fill(&f.now, false, false)
	f.search(l.p.effort)
	return float64(machines) + float64(f.now.out)/(1<<sizeShareBits)
}

// Explain implements [binpack.Explainer]. The last term gives the expected number
// of machines and adds nothing to the score.
func (l *scorer) Explain(item binpack.Item, m int32) []binpack.Term {
	a := item.App
	if !l.rolls(a) {
		return l.weights.Explain(item, m)
	}
	l.decide(a)
	var out [1]float64
	l.weights.Score(item, []int32{m}, out[:])
	place := binpack.Term{Name: "place of the best proposal", Weight: followed, Value: learned.Indicator(l.wants(a, m))}
	place.Contribution = place.Weight * place.Value
	weights := squash(out[0])
	return []binpack.Term{
		place,
		{Name: "linear score, squashed", Weight: 1, Value: weights, Contribution: weights},
		{Name: "machines expected in the end", Value: l.expect(a, m)},
	}
}

// expect returns the mean number of machines in the end if the request is placed as
// decided, but with an item on m.
func (l *scorer) expect(a, m int32) float64 {
	places := slices.Clone(l.proposals[l.chosen].places)
	if at := l.slot(a, m); !l.wants(a, m) {
		for len(places) <= at {
			places = append(places, 0)
		}
		places[at]++
		for i := len(places) - 1; i >= 0; i-- { // in place of the last item still to be placed
			if i != at && places[i] > 0 && !l.stands(a, i) {
				places[i]--
				break
			}
		}
	}
	sum := 0.0
	for i := range l.scenarios {
		sum += l.outcome(a, places, i)
	}
	return sum / float64(len(l.scenarios))
}

// stands reports whether a slot holds all that the decision has for it.
func (l *scorer) stands(a int32, slot int) bool {
	for m := range int32(l.s.Size()) {
		if n := learned.CountApp(l.s.Contents(m), a); n > 0 && l.slot(a, m) == slot {
			return n >= int32(l.proposals[l.chosen].places[slot])
		}
	}
	return false
}

// ExplainFleet implements [binpack.FleetExplainer].
func (l *scorer) ExplainFleet() binpack.FleetTarget {
	if l.rolls(l.s.LastArrival()) {
		return binpack.FleetTarget{Why: "the request is placed as a whole, on empty machines too, as sampled futures say"}
	}
	return l.weights.ExplainFleet()
}
