package planned

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// Ranks of a placement by its effect on the plan. Best Fit decides within a rank:
// ranks are far enough apart for a share below 1.
const (
	rankPlace  = 4.0  // the plan has a place for the item there
	rankOpen   = 3.0  // the plan has one on a machine not yet opened
	rankBeside = 2.0  // every reservation of the machine keeps its room
	rankSpare  = 1.0  // opens a machine that the plan does not need
	rankBreak  = -1.0 // less the price of the reservations that lose their room
)

// scorer assigns a planned machine to every machine in use. The assignment depends
// only on the items of each machine: in order of position each machine takes the
// first planned machine of its kind that holds all its items (and more); a machine
// that is in the way exchanges its own for another. As long as every item is where
// the plan had a place for it, all machines find one, since the intended one is
// such a machine; so every later item has a place too.
type scorer struct {
	p        *Policy
	s        *binpack.State
	apps     []binpack.App
	capacity [][]float64 // see [rule.Divisors]

	bestFit    binpack.Scorer
	plan       *lookup // nil = no plan, and Best Fit decides
	planned    bool
	totals     []int64
	placements uint64
	seq        uint64
	changes    []binpack.Change

	used   []int32  // machines in use by position
	first  int      // index in used from which the assignment has to be made again
	shaken bool     // the last assignment moved machines out of each other's way
	fits   []uint64 // [machine*words + w] planned machines it may be
	clean  []bool   // [machine] its items are part of some reservation

	of    []int32  // [machine] planned machine, -1 = not assigned
	owner []int32  // [planned machine] machine, -1 = not assigned
	open  []uint64 // planned machines without a machine
	seen  []uint64 // scratch of augment
	left  []int64  // [kind] machines that may be opened beyond the plan

	// The amounts that the reservations of a machine leave free, in order of
	// machine; valid for a version and a planned machine.
	spare     []int64
	spareOf   []int32
	spareAt   []uint32
	share     []int64 // [app] largest share of a machine, 1/2²⁰
	bars      []bool  // [group] closed by the current item, at least under conditions
	effects   []binpack.Effect
	kindCount []int64
}

const shareBits = 20

func newScorer(p *Policy, s *binpack.State) *scorer {
	inst := s.Instance()
	l := &scorer{
		p: p, s: s, apps: inst.Apps, capacity: rule.Divisors(s), bestFit: rule.BestFit{}.Scorer(s),
		left: make([]int64, len(s.Kinds())), share: make([]int64, len(inst.Apps)),
		bars: make([]bool, len(inst.Groups)), kindCount: make([]int64, len(s.Kinds())),
	}
	for a, app := range inst.Apps {
		top := 0.0
		for d, need := range app.Demand {
			for k := range s.Kinds() {
				top = max(top, float64(need)/l.capacity[d][k])
			}
		}
		l.share[a] = int64(min(1, top) * (1 << shareBits))
	}
	for _, line := range inst.Machines {
		k := slices.IndexFunc(s.Kinds(), func(k binpack.Kind) bool {
			return k.Type == line.Type && k.Cost == line.Cost && slices.Equal(k.Capacity, line.Capacity)
		})
		if line.Count == binpack.Unlimited || l.kindCount[k] == unlimited {
			l.kindCount[k] = unlimited
		} else {
			l.kindCount[k] += int64(line.Count)
		}
	}
	return l
}

const unlimited = int64(1) << 40

// Score implements [binpack.Scorer].
func (l *scorer) Score(item binpack.Item, candidates []int32, out []float64) {
	if l.s.Known.Total == nil || learned.ItemsLeave(l.s) {
		l.bestFit.Score(item, candidates, out)
		return
	}
	if l.sync(); l.plan == nil {
		l.bestFit.Score(item, candidates, out)
		return
	}
	a := item.App
	l.effects = l.s.Effects(l.apps[a].Group)
	for _, e := range l.effects {
		l.bars[e.Other] = true
	}
	for i, m := range candidates {
		out[i] = l.rank(a, m) + .5*l.filled(a, m)
	}
	for _, e := range l.effects {
		l.bars[e.Other] = false
	}
}

func (l *scorer) rank(a, m int32) float64 {
	if l.s.Items(m) == 0 {
		return l.rankEmpty(a, m)
	}
	i := l.of[m]
	if i < 0 {
		return rankBeside
	}
	if l.plan.holds(i, a, learned.CountApp(l.s.Contents(m), a)+1) {
		return rankPlace
	}
	price := l.price(a, m, i)
	if price == 0 {
		return rankBeside
	}
	return rankBreak - l.p.reserve*price
}

func (l *scorer) rankEmpty(a, m int32) float64 {
	k := l.s.KindOf(m)
	if len(l.plan.has[a]) > 0 && int(k) < len(l.plan.ofKind) {
		for w, word := range l.open {
			if word&l.plan.ofKind[k][w]&l.plan.has[a][0][w] != 0 {
				return rankOpen
			}
		}
	}
	if l.left[k] > 0 {
		return rankSpare
	}
	return rankBreak - l.p.reserve
}

// filled returns the largest share in use of a machine after the placement.
func (l *scorer) filled(a, m int32) float64 {
	k := l.s.KindOf(m)
	top := 0.0
	for d, need := range l.apps[a].Demand {
		top = max(top, 1-float64(l.s.Free(d)[m]-need)/l.capacity[d][k])
	}
	return top
}

// price returns the share of a machine that is reserved on m, as planned machine i,
// and that an item without a place there makes useless.
func (l *scorer) price(a, m, i int32) float64 {
	spare := l.spareRoom(m, i)
	k := l.s.KindOf(m)
	price := 0.0
	for d, need := range l.apps[a].Demand {
		if over := need - max(0, spare[d]); over > 0 {
			price = max(price, float64(over)/l.capacity[d][k])
		}
	}
	group := l.apps[a].Group
	limit := l.s.Instance().Groups[group].Limit
	if limit == 0 && len(l.effects) == 0 {
		return price
	}
	lost, own := int64(0), l.s.Count(group, m)
	room := limit - own - 1 // places of the group that are left after it
	for _, e := range l.plan.machines[i].items {
		if e.Group != group && !l.bars[e.Group] {
			continue
		}
		rest := e.Count - learned.CountApp(l.s.Contents(m), e.App)
		switch {
		case rest <= 0:
		case e.Group != group:
			if l.closes(m, e.Group, own+1) {
				lost += int64(rest) * l.share[e.App]
			}
		case limit > 0:
			room -= rest
			if room < 0 {
				lost += l.share[e.App]
			}
		}
	}
	return price + float64(lost)/(1<<shareBits)
}

// closes reports whether own items of the current group close m to another group.
func (l *scorer) closes(m, other, own int32) bool {
	for _, e := range l.effects {
		if e.Other == other && own >= e.Own && (e.Others == 0 || l.s.Count(other, m) >= e.Others) {
			return true
		}
	}
	return false
}

// spareRoom returns the free amounts of machine m, per dimension, once all items
// that planned machine i reserves there have arrived.
func (l *scorer) spareRoom(m, i int32) []int64 {
	dims := len(l.capacity)
	spare := l.spare[int(m)*dims : (int(m)+1)*dims]
	if l.spareOf[m] == i && l.spareAt[m] == l.s.Version(m) {
		return spare
	}
	l.spareOf[m], l.spareAt[m] = i, l.s.Version(m)
	for d := range spare {
		spare[d] = l.s.Free(d)[m]
	}
	for _, e := range l.plan.machines[i].items {
		rest := int64(e.Count - learned.CountApp(l.s.Contents(m), e.App))
		if rest <= 0 {
			continue
		}
		for d, need := range l.apps[e.App].Demand {
			spare[d] -= rest * need
		}
	}
	return spare
}

// sync updates plan and assignment to the state.
func (l *scorer) sync() {
	var all bool
	l.changes, l.seq, all = l.s.Changes(l.seq, l.changes[:0])
	total := l.s.Known.Total
	again := !l.planned || l.s.Placements() < l.placements || !slices.Equal(total, l.totals)
	l.placements = l.s.Placements()
	if again {
		l.plan, l.planned = l.p.planFor(l.s), true
		l.totals = append(l.totals[:0], total...)
	}
	if l.plan == nil {
		return
	}
	if again {
		l.prepare()
	}
	if again || all {
		l.reload()
		return
	}
	l.grow()
	for _, c := range l.changes {
		l.follow(c.Machine)
	}
	if l.shaken && len(l.changes) > 0 {
		l.first = 0
	}
	l.assign()
}

// prepare makes room for a new plan.
func (l *scorer) prepare() {
	n := len(l.plan.machines)
	l.owner = slices.Grow(l.owner[:0], n)[:n]
	l.open = slices.Grow(l.open[:0], l.plan.words)[:l.plan.words]
	l.seen = slices.Grow(l.seen[:0], l.plan.words)[:l.plan.words]
}

// reload reads the whole state.
func (l *scorer) reload() {
	l.used, l.first, l.shaken = l.used[:0], 0, false
	l.of, l.clean, l.fits = l.of[:0], l.clean[:0], l.fits[:0]
	l.spare, l.spareOf, l.spareAt = l.spare[:0], l.spareOf[:0], l.spareAt[:0]
	l.grow()
	clear(l.open)
	for i := range l.owner {
		l.owner[i] = -1
		l.open[i>>6] |= 1 << (i & 63)
	}
	for m := range int32(l.s.Size()) {
		l.follow(m)
	}
	l.first = 0
	l.assign()
}

// Explain implements [binpack.Explainer]: the effect of the placement on the plan
// (see the ranks), and how full the machine gets. Without a plan, the terms are
// those of Best Fit.
func (l *scorer) Explain(item binpack.Item, m int32) []binpack.Term {
	score := []float64{0}
	l.Score(item, []int32{m}, score) // updates the plan
	if l.s.Known.Total == nil || learned.ItemsLeave(l.s) || l.plan == nil {
		return l.bestFit.(binpack.Explainer).Explain(item, m)
	}
	filled := l.filled(item.App, m)
	rank := score[0] - .5*filled
	return []binpack.Term{
		{Name: "place in the plan", Weight: 1, Value: rank, Contribution: rank},
		{Name: "filled after", Weight: .5, Value: filled, Contribution: .5 * filled},
	}
}
