package population

import (
	"math"
	"slices"
	"strconv"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// A Policy places items of one dimension by what a machine will waste in the
// end. Machines in use with the same amount free, level r, are a population of
// N(r); the k-th of them costs
//
//	m(r, k) = W(r, κ·R ÷ (1 + c + η·k + d·M)) + b·ρ^g·k^e,  m(0, k) = 0
//
// W(r, m) is the expected waste of a machine that is offered m more items (see
// wasteTable) of a distribution that is estimated from what has come. R is the
// number of items to come, M of machines in use with room for one: the fraction
// says how many of the items to come the k-th machine will be offered. κ, c, η and
// b are functions of r: their logarithms are linear between six knots. ρ is the
// share of the time that is left. An item goes where it raises the sum of m over
// all machines in use the least,
//
//	m(r − s, N(r−s)+1) − m(r, N(r))     a machine in use
//	m(r − s, N(r−s)+1) + start          an empty one
//
// and among equals to an empty machine, then to the one with the least room. With
// the clock R is counted from it; without, ρ is 1 and R = far + past · items seen.
// With the clock empty machines are kept back, too, while those in use have more
// room than the volume to come needs: with small items, prices that were learned
// for large ones would open far too many machines.
//
// Amounts are counted in levels: in units of the greatest common divisor of all
// sizes, or of the largest machine ÷ maxLevels when these are finer (what is free is
// rounded down, sizes in the estimate to the nearest). The model does not look ahead
// to limits and rules. It is Best Fit with several dimensions, where there are no
// populations, and once more than one item in 50 has left, since it expects items
// to stay.
//
// The prototype of the idea is a greedy step on a separable potential, as the sum
// of squares is one (Csirik et al. 2006, "On the sum-of-squares algorithm for
// bin packing").
type Policy struct {
	know                         binpack.Knowledge
	kappa, rivals, crowd, excess knots
	busy, fade, bend, start      float64
	base, prior, small, large    float64
	far, past                    float64
}

// knotShares are the free shares of the largest machine at which the
// functions of r are given.
var knotShares = [...]float64{.1, .2, .32, .48, .68, .92}

// knots are the values of a function at knotShares.
type knots [len(knotShares)]float64

// at is the function at a free share, constant beyond the ends.
func (k *knots) at(share float64) float64 {
	i := 0
	for i < len(k) && knotShares[i] < share {
		i++
	}
	if i == 0 || i == len(k) {
		return k[min(i, len(k)-1)]
	}
	f := (share - knotShares[i-1]) / (knotShares[i] - knotShares[i-1])
	return k[i-1] + float64(f*(k[i]-k[i-1]))
}

const (
	// maxLevels bounds the levels: the time for a table grows with their square.
	maxLevels = 512
	// minSample is the number of requests below which a sample is not used.
	minSample = 64
	// tieCost is far below any difference of waste, which is in hundredths
	// of a machine.
	tieCost = 1e-9
	// Empty machines are kept back when there are so many machines, and so large a
	// share of those in use, more than needed.
	spareMachines = 1
	spareShare    = .02
)

// New builds the policy of a spec that the model's Check has passed.
func New(spec learned.Spec) (*Policy, error) {
	value := func(name string) float64 {
		if v, ok := spec.Parameters[name]; ok {
			return v
		}
		i := slices.IndexFunc(parameters, func(p learned.Parameter) bool { return p.Name == name })
		return (parameters[i].Low + parameters[i].High) / 2
	}
	p := &Policy{
		know: spec.Knowledge,
		busy: math.Exp(value("busy")), fade: math.Exp(value("fade")), bend: math.Exp(value("bend")), start: value("start"),
		base: math.Exp(value("base")), prior: math.Exp(value("prior")), small: value("small"), large: value("large"),
		far: math.Exp(value("far")), past: value("past"),
	}
	for name, k := range map[string]*knots{"kappa": &p.kappa, "rivals": &p.rivals, "crowd": &p.crowd, "excess": &p.excess} {
		for i := range k {
			k[i] = value(name + strconv.Itoa(i+1))
		}
	}
	return p, nil
}

// Knowledge implements [binpack.Policy].
func (p *Policy) Knowledge() binpack.Knowledge { return p.know }

// Scorer implements [binpack.Policy].
func (p *Policy) Scorer(s *binpack.State) binpack.Scorer {
	most := int64(0)
	for _, k := range s.Kinds() {
		most = max(most, k.Capacity[0])
	}
	if len(s.Instance().Dimensions) != 1 || most == 0 {
		return rule.BestFit{}.Scorer(s)
	}
	return newScorer(p, s, most)
}

// scorer follows the state's journal with the numbers N(r). It caches m(r, N(r)+1)
// and m(r, N(r)) until something they depend on changes. R, M and ρ are rounded to
// five leading bits, so that they change seldom; the cached values still depend on
// the state alone.
type scorer struct {
	p    *Policy
	s    *binpack.State
	most int64 // the largest capacity

	unit   int64 // of a level; 0 = most ÷ maxLevels
	levels int   // of the largest machine

	// Since the last sample.
	sampled int64     // requests that had come then
	counts  []int64   // [level] items sampled
	chance  []float64 // [level] the distribution of sizes
	table   wasteTable

	kappa, rivals, crowd, excess []float64 // [level]
	power                        []float64 // [k] k^e

	fit binpack.Scorer // Best Fit

	// Populations.
	seq     uint64
	changes []binpack.Change
	level   []int32 // [machine], -1 = not in use
	number  []int32 // [level] N(r)
	roomy   int     // M
	room    int64   // of these, in levels
	used    int64   // in all machines in use, in levels

	// Marginal costs.
	to                float64 // R
	rho, among, faded float64
	keepBack          bool // empty machines
	epoch             uint32
	margins           []margin // [level]
}

// margin holds m(r, N(r)+1) and m(r, N(r)) at an epoch.
type margin struct {
	next, last     float64
	nextAt, lastAt uint32
}

func newScorer(p *Policy, s *binpack.State, most int64) *scorer {
	l := &scorer{p: p, s: s, most: most, fit: rule.BestFit{}.Scorer(s)}
	for i := range s.Instance().Apps {
		l.unit = gcd(l.unit, s.Instance().Apps[i].Demand[0])
	}
	l.unit = min(max(1, l.unit), most)
	if most/l.unit > maxLevels {
		l.unit = 0
	}
	l.levels = int(l.levelOf(most))
	n := l.levels + 1
	l.counts, l.chance, l.number, l.margins = make([]int64, n), make([]float64, n), make([]int32, n), make([]margin, n)
	for r := range n {
		share := float64(r) / float64(l.levels)
		l.kappa, l.rivals = append(l.kappa, math.Exp(p.kappa.at(share))), append(l.rivals, math.Exp(p.rivals.at(share)))
		l.crowd, l.excess = append(l.crowd, math.Exp(p.crowd.at(share))), append(l.excess, math.Exp(p.excess.at(share)))
	}
	return l
}

// ByClass is the mark of [binpack.ClassScorer].
func (l *scorer) ByClass() {}

// Score implements [binpack.Scorer].
func (l *scorer) Score(item binpack.Item, candidates []int32, out []float64) {
	if l.itemsLeave() {
		l.fit.Score(item, candidates, out)
		return
	}
	l.sync()
	need := l.s.Instance().Apps[item.App].Demand[0]
	free := l.s.Free(0)
	for i, m := range candidates {
		rest := l.next(l.levelOf(free[m] - need))
		if l.s.Items(m) == 0 {
			out[i] = tieCost - (rest + l.p.start)
			if l.keepBack {
				out[i] -= learned.EmptyPenalty
			}
			continue
		}
		r := l.levelOf(free[m])
		out[i] = l.last(r) - rest - float64(tieCost*float64(r))
	}
}

// Explain implements [binpack.Explainer]: costs in hundredths of the largest machine.
func (l *scorer) Explain(item binpack.Item, m int32) []binpack.Term {
	if l.itemsLeave() {
		return nil
	}
	l.sync()
	free := l.s.Free(0)[m]
	after := l.next(l.levelOf(free - l.s.Instance().Apps[item.App].Demand[0]))
	before, opened, tie, kept := 0.0, 1.0, tieCost, learned.Indicator(l.keepBack)
	if l.s.Items(m) > 0 {
		r := l.levelOf(free)
		before, opened, tie, kept = l.last(r), 0, -float64(tieCost*float64(r)), 0
	}
	return []binpack.Term{
		{Name: "cost before", Weight: 1, Value: before, Contribution: before},
		{Name: "cost after", Weight: -1, Value: after, Contribution: -after},
		{Name: "start", Weight: -l.p.start, Value: opened, Contribution: -l.p.start * opened},
		{Name: "tie", Weight: 1, Value: tie, Contribution: tie},
		{Name: "kept back", Weight: -learned.EmptyPenalty, Value: kept, Contribution: -learned.EmptyPenalty * kept},
	}
}

// itemsLeave reports whether the policy is Best Fit, because items leave.
func (l *scorer) itemsLeave() bool { return learned.ItemsLeave(l.s) }

// levelOf is an amount in levels, rounded down.
func (l *scorer) levelOf(amount int64) int32 {
	switch l.unit {
	case 1:
		return int32(amount)
	case 0:
		return int32(amount * maxLevels / l.most)
	default:
		return int32(amount / l.unit)
	}
}

// next is m(r, N(r)+1).
func (l *scorer) next(r int32) float64 {
	if g := &l.margins[r]; g.nextAt == l.epoch {
		return g.next
	}
	return l.renewNext(r)
}

// last is m(r, N(r)).
func (l *scorer) last(r int32) float64 {
	if g := &l.margins[r]; g.lastAt == l.epoch {
		return g.last
	}
	return l.renewLast(r)
}

func (l *scorer) renewNext(r int32) float64 {
	g := &l.margins[r]
	g.next, g.nextAt = l.cost(r, l.number[r]+1), l.epoch
	return g.next
}

func (l *scorer) renewLast(r int32) float64 {
	g := &l.margins[r]
	g.last, g.lastAt = l.cost(r, l.number[r]), l.epoch
	return g.last
}

// cost is m(r, k).
func (l *scorer) cost(r, k int32) float64 {
	if r == 0 {
		return 0
	}
	if int(r) < l.table.least {
		return l.table.waste[int(r)*wasteRow]
	}
	for int(k) >= len(l.power) {
		l.power = append(l.power, math.Pow(float64(len(l.power)), l.p.bend))
	}
	offers := l.kappa[r] * l.to / (1 + l.rivals[r] + float64(l.crowd[r]*float64(k)) + l.among)
	return l.table.at(int(r), offers) + float64(l.excess[r]*l.faded*l.power[k])
}

// sync updates everything to the state.
func (l *scorer) sync() {
	var all bool
	l.changes, l.seq, all = l.s.Changes(l.seq, l.changes[:0])
	sample, at := l.s.Sample()
	if at < minSample {
		sample, at = nil, 0
	}
	if all || at != l.sampled {
		l.sampled = at
		l.learn(sample)
		l.recount()
	} else {
		for _, c := range l.changes {
			l.follow(c.Machine)
		}
	}
	l.look()
}

// look reads the clock and the number of machines in use. It begins an epoch if a
// figure that costs depend on has changed.
func (l *scorer) look() {
	seen := float64(l.s.SeenTotal())
	to, rho := l.p.far+float64(l.p.past*seen), 1.0
	if t := l.s.Known.Elapsed; l.p.know.Clock() && t >= 0 {
		rho = leading(1 - t)
		to = leading(seen/max(t, 1./1024)) * rho
		spare := float64(l.levels) * (spareMachines + spareShare*float64(l.s.Active()))
		// The volume to come, less two standard errors of a count of requests.
		sure := max(0, 1-2/math.Sqrt(float64(max(1, l.s.RequestCount()))))
		l.keepBack = float64(l.room) > float64(sure*(to/max(1, seen)*float64(l.used)))+spare
	} else {
		to = leading(to)
	}
	among := l.p.busy * leading(float64(l.roomy))
	if l.epoch == 0 || to != l.to || rho != l.rho || among != l.among {
		l.to, l.rho, l.among = to, rho, among
		l.faded = math.Pow(rho, l.p.fade)
		l.epoch++
	}
}

// leading rounds a number down to its five leading bits.
func leading(x float64) float64 {
	return math.Float64frombits(math.Float64bits(x) &^ (1<<48 - 1))
}

// learn makes the table for a sample of arrivals.
func (l *scorer) learn(sample []int64) {
	clear(l.counts)
	for a, c := range sample {
		if c > 0 {
			l.counts[l.sizeOf(l.s.Instance().Apps[a].Demand[0])] += c
		}
	}
	n := float64(l.levels)
	low := max(1, int(math.Round(l.p.small*n)))
	high := max(low, int(math.Round(l.p.large*n)))
	sizeEstimate(l.counts, l.p.base, l.p.prior, low, high, l.chance)
	l.table.make(l.chance)
	clear(l.margins)
	l.epoch = 0
}

// sizeOf is a size in levels, rounded to the nearest from 1 up.
func (l *scorer) sizeOf(size int64) int {
	if l.unit > 0 {
		return max(1, min(l.levels, int(size/l.unit)))
	}
	return max(1, min(l.levels, int((size*2*maxLevels/l.most+1)/2)))
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// recount counts the populations from scratch.
func (l *scorer) recount() {
	clear(l.number)
	l.level = l.level[:0]
	l.roomy, l.room, l.used = 0, 0, 0
	for m := range int32(l.s.Size()) {
		l.follow(m)
	}
}

// follow moves a machine to the population it is in.
func (l *scorer) follow(m int32) {
	for int(m) >= len(l.level) {
		l.level = append(l.level, -1)
	}
	r := int32(-1)
	if l.s.Items(m) > 0 {
		r = l.levelOf(max(0, l.s.Free(0)[m]))
	}
	size := l.levelOf(l.s.Capacity(m)[0])
	l.join(l.level[m], size, -1)
	l.join(r, size, 1)
	l.level[m] = r
}

// join changes the number of machines of a level, by one of a size.
func (l *scorer) join(r, size, by int32) {
	if r < 0 {
		return
	}
	l.used += int64(by) * int64(size-r)
	l.number[r] += by
	l.margins[r].nextAt, l.margins[r].lastAt = 0, 0
	if int(r) >= l.table.least {
		l.roomy += int(by)
		l.room += int64(by) * int64(r)
	}
}
