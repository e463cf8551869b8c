package linear

import (
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
)

const (
	// indexFrom is the number of machines from which an index saves more than it costs.
	indexFrom = 128
	// Shared parts hold for so many placements for each machine in use, and as long as the number of
	// machines in use and that of the items on each change by no more than such a share.
	heldPlacements = 1. / 8
	heldChange     = 1. / 128
)

// A guide leads a search of an index. It serves scores without traffic. All items share mean, util of
// single dimensions, open, recent, age, crowd and empty.
type guide struct {
	l     *Scorer
	index *binpack.Index
	size  float64 // of all weights together

	// Shared parts hold between these.
	now, until      float64 // placements
	active, average between // machines in use + 1, items on each
	kept            bool    // empty machines are kept back
	apps            int

	// Of the item.
	present
	need     []int64
	own      int32 // the group, where machines that hold it have another score; else -1
	singl    float64
	slot     float64 // see slotWeight; 0 = no app has pressure
	shape    uint64
	pressure int64
	ownMost  float64 // for a machine that holds the group, if positive
	kinds    []kindRest
	closes
}

// A kindRest is the part of an item's score that a machine has by its kind.
type kindRest struct {
	fixed float64
	slope float64 // of the largest share after the placement
}

type between struct{ least, most float64 }

func around(v float64) between { return between{v * (1 - heldChange), v * (1 + heldChange)} }

func (s between) holds(v float64) bool { return v >= s.least && v <= s.most }

// highest is the most of a weighted feature.
func (s between) highest(weight float64) float64 {
	if weight < 0 {
		return weight * s.least
	}
	return weight * s.most
}

func newGuide(l *Scorer) *guide {
	g := &guide{size: 1}
	for _, w := range l.weights {
		g.size += math.Abs(w)
	}
	for _, w := range l.utilDims {
		g.size += math.Abs(w)
	}
	g.index = binpack.NewIndex(l.s, g, indexFrom)
	return g
}

// guided reports whether a guide serves in the present state.
func (l *Scorer) guided() bool {
	return l.partners == nil && (l.weights[fSlot] <= 0 || len(l.strong) == 0)
}

// searched appends to buf the machines that may have the highest score.
func (l *Scorer) searched(a int32, buf []int32) (contenders []int32, known bool) {
	if l.guide == nil {
		l.guide = newGuide(l)
	}
	l.compare()
	g, group := l.guide, l.s.Instance().Apps[a].Group
	g.l, g.present, g.need, g.singl = l, l.present(a), l.profiles[l.profileOf[a]], l.utilWeight(a)
	if g.own, g.ownMost = -1, 0; l.weights[fOwn] != 0 && l.s.Spread(group) > 0 {
		g.own, g.ownMost = group, max(0, l.weights[fOwn])
	}
	if g.slot = 0; len(l.strong) > 0 {
		g.slot, g.shape, g.pressure = l.slotWeight(), 1<<l.shapeOf[a], l.pressure[a]
	}
	g.setCloses(a)
	g.kinds = g.kinds[:0]
	for k := range l.inverse {
		g.kinds = append(g.kinds, g.restOf(k))
	}
	contenders, known = g.index.Search(a, 0, buf)
	g.forget()
	return contenders, known
}

func (g *guide) restOf(k int) kindRest {
	l, w := g.l, &g.l.weights
	r := kindRest{fixed: g.ownMost + g.most + tiny*(g.size+g.sizes)}
	most, sum := 0.0, 0.0
	for d, n := range g.need {
		add := float64(n) * l.inverse[k][d]
		most, sum = max(most, add), sum+add
		if l.utilDims != nil {
			r.fixed += l.utilDims[d] * add
		}
	}
	r.fixed += w[fMean]*sum/l.dimsOf[k] + max(0, w[fRise])*most
	r.slope = w[fUtil] + g.singl + w[fSize]*most
	if l.kinds != nil {
		r.fixed += l.kinds.score[k]
	}
	return r
}

// Renew implements [binpack.Guide].
func (g *guide) Renew() bool {
	placed, active, kept, apps := float64(g.placed), float64(g.l.s.Active()+1), g.l.keepBack(), len(g.l.profileOf)
	began := g.now
	if g.now = placed; placed >= began && placed <= g.until && g.active.holds(active) && g.average.holds(g.present.average) && kept == g.kept && apps == g.apps {
		return false
	}
	g.until, g.active, g.average, g.kept, g.apps = placed+heldPlacements*active, around(active), around(g.present.average), kept, apps
	return true
}

// Shared implements [binpack.Guide].
func (g *guide) Shared(m int32) float64 {
	l, w := g.l, &g.l.weights
	v := 0.0
	if last := float64(l.s.LastUsed(m)); last > 0 {
		recent := between{1 / (1 + (g.until-last)/g.active.least), 1 / (1 + (g.now-last)/g.active.most)}
		v = recent.highest(w[fRecent])
	}
	n := float64(l.s.Items(m))
	if n == 0 && g.kept {
		return v - learned.EmptyPenalty + 2*g.size
	}
	mean, k := 0.0, l.s.KindOf(m)
	for d, inv := range l.inverse[k] {
		if inv == 0 {
			continue
		}
		used := 1 - float64(l.s.Free(d)[m])*inv
		mean += used
		if l.utilDims != nil {
			v += l.utilDims[d] * used
		}
	}
	v += w[fMean]*mean/l.dimsOf[k] + l.openWeight()*float64(l.allowed[m]-1)
	if n == 0 {
		return v + w[fEmpty]
	}
	opened := float64(l.s.Opened(m))
	least, most := g.now-opened, g.until-opened
	age := between{least / (least + ageScale*g.active.most), most / (most + ageScale*g.active.least)}
	crowd := between{n / (n + g.average.most), n / (n + g.average.least)}
	return v + age.highest(w[fAge]) + crowd.highest(w[fCrowd])
}

// Limit implements [binpack.Guide].
func (g *guide) Limit(kind int32, shared, least, most float64) float64 {
	r := &g.kinds[kind]
	return shared + r.fixed + between{least, most}.highest(r.slope) + g.edge(least, most)
}

// edge is the most of full and frag where the largest share after the placement is between two values.
func (g *guide) edge(least, most float64) float64 {
	const edge = 1 - smallShare
	frag, full := g.l.weights[fFrag], g.l.weights[fFull]
	switch {
	case most < edge-tiny:
		return 0
	case most >= 1-tiny && least <= edge+tiny:
		return max(0, frag, full)
	case most >= 1-tiny:
		return max(frag, full)
	case least <= edge+tiny:
		return max(0, frag)
	}
	return frag
}

// Limits implements [binpack.Guide].
func (g *guide) Limits(kind int32, machines []int32, tops, limits []float64, enough float64) {
	const edge = 1 - smallShare - tiny
	r := &g.kinds[kind]
	limits, tops = limits[:len(machines)], tops[:len(machines)]
	for i, top := range tops {
		v := limits[i] + r.fixed + r.slope*top
		if top >= edge {
			v += g.edge(top, top)
		}
		if g.raised != nil {
			v += g.bonus[machines[i]]
		}
		if v >= enough && g.ownMost > 0 && !g.l.s.Holds(g.own, machines[i]) {
			v -= g.ownMost
		}
		limits[i] = v
	}
}

// Value implements [binpack.Guide]: the result of Score.
func (g *guide) Value(m int32) float64 {
	l := g.l
	v, top := l.amounts(g.need, l.row(m), m)
	if g.singl != 0 {
		v += float64(g.singl * top)
	}
	kept := g.kept && l.s.Items(m) == 0
	if kept {
		v = -learned.EmptyPenalty
	}
	if g.slot != 0 {
		if lost := l.lostShapes(g.need, m, l.strongShapes); lost != 0 {
			v += float64(g.slot * float64(l.lostSum(lost, g.shape, g.pressure, m)))
		}
	}
	if g.open != 0 {
		v += float64(g.open * float64(l.allowed[m]-1))
	}
	if w := l.weights[fRecent]; w != 0 {
		if last := l.s.LastUsed(m); last > 0 {
			v += w / (1 + float64((g.now-float64(last))/float64(l.s.Active()+1)))
		}
	}
	if l.standing && !kept {
		holds := g.own >= 0 && l.s.Holds(g.own, m)
		v += l.standingScore(&g.present, m, holds, l.sizeScore(g.need, m, top))
	}
	if len(g.near)+len(g.far) > 0 {
		v = g.closed(v, m)
	}
	return v
}
