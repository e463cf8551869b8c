package linear

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/rtree"
)

// A guide leads [binpack.State.Search] for one item. It serves scores that depend on each
// machine alone: without closing and traffic, and with slot as long as no app is about to run out of places.
type guide struct {
	l *Scorer
	present
	need           []int64
	keepBack, held bool
	singl          float64
	active, now    float64 // machines in use + 1, placements
	size           float64 // of all weights together
}

// guided reports whether a guide serves the items of an app.
func (l *Scorer) guided(a int32) bool {
	if len(l.strong) > 0 || l.partners != nil || len(l.s.Instance().Dimensions) > binpack.MaxBounded || l.weights[fOpen] != 0 {
		return false
	}
	return l.wholeKinds && (l.weights[fClose] == 0 && l.weights[fClosing] == 0 || len(l.near[a])+len(l.far[a]) == 0)
}

// searched appends to buf the machines that may have the highest score.
func (l *Scorer) searched(a int32, buf []int32) (contenders []int32, known bool) {
	group := l.s.Instance().Apps[a].Group
	l.compare()
	g := &l.guide
	*g = guide{
		l: l, present: l.present(a), need: l.profiles[l.profileOf[a]], keepBack: l.keepBack(), held: l.s.Spread(group) > 0,
		singl: l.utilWeight(a), active: float64(l.s.Active() + 1), now: float64(l.s.Placements()), size: 1,
	}
	for _, w := range l.weights {
		g.size += math.Abs(w)
	}
	for _, w := range l.utilDims {
		g.size += math.Abs(w)
	}
	return l.s.Search(g, a, 0, buf)
}

// Sorting implements [binpack.Guide].
func (g *guide) Sorting() binpack.Sorting {
	w := &g.l.weights
	s := binpack.Sorting{
		From: 256,
		Free: math.Abs(w[fUtil]) + (math.Abs(w[fMean])+math.Abs(w[fFull])+math.Abs(w[fFrag]))/2,
		Used: math.Abs(w[fRecent]), Opened: math.Abs(w[fAge]), Items: math.Abs(w[fCrowd]),
	}
	for _, w := range g.l.utilDims {
		s.Free += math.Abs(w)
	}
	return s
}

// Value implements [binpack.Guide]: the result of Score.
func (g *guide) Value(m int32) float64 {
	l := g.l
	v, top := l.amounts(g.need, l.row(m), m)
	if g.singl != 0 {
		v += float64(g.singl * top)
	}
	kept := g.keepBack && l.s.Items(m) == 0
	if kept {
		v = -learned.EmptyPenalty
	}
	if w := l.weights[fRecent]; w != 0 {
		if last := l.s.LastUsed(m); last > 0 {
			v += w / (1 + float64((g.now-float64(last))/g.active))
		}
	}
	if l.standing && !kept {
		holds := g.held && l.weights[fOwn] != 0 && l.s.Count(l.s.Instance().Apps[g.app].Group, m) > 0
		v += l.standingScore(&g.present, m, holds, l.sizeScore(g.need, m, top))
	}
	return v
}

// Bound implements [binpack.Guide].
func (g *guide) Bound(b *binpack.Bounds) float64 {
	l, w := g.l, &g.l.weights
	var top, mean, share rtree.Range
	v := 0.0
	for d, unit := range b.Unit {
		need := float64(g.need[d])
		add := rtree.Range{Least: need * unit.Least, Most: need * unit.Most}
		used := rtree.Range{Least: 1 - b.Free[d].Most + add.Least, Most: min(1, 1-b.Free[d].Least+add.Most)}
		if used.Least > 1+tiny {
			return none
		}
		top.Least, top.Most = max(top.Least, used.Least), max(top.Most, used.Most)
		share.Least, share.Most = max(share.Least, add.Least), max(share.Most, add.Most)
		mean.Least += used.Least
		mean.Most += used.Most
		if l.utilDims != nil {
			v += highest(l.utilDims[d], used)
		}
	}
	dims := float64(len(g.need))
	mean.Least, mean.Most = mean.Least/dims, mean.Most/dims
	v += highest(w[fUtil]+g.singl, top) + highest(w[fMean], mean) + max(0, w[fRise])*share.Most + g.rest(top)
	switch {
	case b.Items.Most == 0:
		if v += w[fEmpty]; g.keepBack {
			v = -learned.EmptyPenalty
		}
	case b.Items.Least == 0:
		v += max(0, w[fEmpty])
	}
	recent := rtree.Range{Most: 1 / (1 + (g.now-b.Used.Most)/g.active)}
	if b.Used.Least > 0 {
		recent.Least = 1 / (1 + (g.now-b.Used.Least)/g.active)
	}
	v += highest(w[fRecent], recent)
	if l.standing {
		v += g.standingBound(b, top, share)
	}
	return v + tiny*g.size
}

// standingBound is the most of the features of the items on a machine.
func (g *guide) standingBound(b *binpack.Bounds, top, share rtree.Range) float64 {
	l, w := g.l, &g.l.weights
	var age, crowd rtree.Range
	if b.Items.Most > 0 {
		placed := g.now - b.Opened.Least
		age.Most = placed / (placed + ageScale*g.active)
		crowd.Most = b.Items.Most / (b.Items.Most + g.average)
	}
	if b.Items.Least > 0 {
		placed := g.now - b.Opened.Most
		age.Least = placed / (placed + ageScale*g.active)
		crowd.Least = b.Items.Least / (b.Items.Least + g.average)
	}
	v := highest(w[fAge], age) + highest(w[fCrowd], crowd) +
		highest(w[fSize], rtree.Range{Least: top.Least * share.Least, Most: top.Most * share.Most})
	if g.held {
		v += max(0, w[fOwn])
	}
	switch {
	case l.kinds == nil:
	case b.Kind >= 0:
		v += l.kinds.score[b.Kind]
	default:
		v += l.kinds.most
	}
	if g.keepBack && b.Items.Most == 0 {
		return 0
	}
	return v
}

// rest is the most of full and frag by the largest share after the placement.
func (g *guide) rest(top rtree.Range) float64 {
	const edge = 1 - smallShare
	most := math.Inf(-1)
	if top.Least <= edge+tiny {
		most = 0
	}
	if top.Most >= edge-tiny {
		most = max(most, g.l.weights[fFrag])
	}
	if top.Most >= 1-tiny {
		most = max(most, g.l.weights[fFull])
	}
	return most
}

// highest is the most of a weighted feature.
func highest(weight float64, r rtree.Range) float64 {
	if weight < 0 {
		return weight * r.Least
	}
	return weight * r.Most
}

// wholeKinds reports whether each kind has some of each dimension.
func wholeKinds(kinds []binpack.Kind) bool {
	return !slices.ContainsFunc(kinds, func(k binpack.Kind) bool { return slices.Min(k.Capacity) <= 0 })
}
