package linear

import (
	"math"
	"math/bits"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// tailShare is the part of the weights of util and mean by which the least terms of near may raise
// scores without a look for their machines.
const tailShare = .001

// closes are the terms of open, close and closing in the scores of an item. A limit contains the terms of near, and
// a machine that is closed to such an app already is raised by minus the term; that of the least terms is in tail.
type closes struct {
	open      float64 // weight of an app that is allowed
	near      []int32
	far       []far
	nearTerms []float64
	farTerms  []float64
	nearSum   float64
	tail      float64
	little    float64 // the highest of the terms in tail, negated
	most      float64 // that all of them add to the limit of a machine that is not raised
	sizes     float64 // of all terms together

	bonus  []float64 // [machine] by how much it is raised
	peaks  []float64 // [block] the highest bonus
	takes  []uint64  // bitset of the machines that are not closed to the item
	raised []uint64  // those of them with a bonus; nil = none
}

// setCloses computes the terms for the items of an app.
func (g *guide) setCloses(a int32) {
	l, c := g.l, &g.closes
	c.open, c.near, c.far, c.raised = l.openWeight(), nil, nil, nil
	c.nearTerms, c.farTerms, c.nearSum, c.tail, c.most, c.sizes = c.nearTerms[:0], c.farTerms[:0], 0, 0, 0, 0
	if l.weights[fClose] == 0 && l.weights[fClosing] == 0 && c.open == 0 {
		return
	}
	c.near, c.far = l.near[a], l.far[a]
	fixed, closing := l.closingWeights()
	for _, b := range c.near {
		v := fixed + float64(closing*float64(l.d.remaining[b]*l.d.dominant[b]))
		c.nearTerms = append(c.nearTerms, v)
		c.nearSum += v
		c.sizes += math.Abs(v)
	}
	budget := tailShare * (math.Abs(l.weights[fUtil]) + math.Abs(l.weights[fMean]))
	for c.little = budget; ; c.little /= 2 {
		c.tail = 0
		for _, v := range c.nearTerms {
			if -v <= c.little {
				c.tail += max(0, -v)
			}
		}
		if c.tail <= budget {
			break
		}
	}
	c.most = c.nearSum + c.tail
	for _, f := range c.far {
		v := fixed + float64(closing*float64(l.d.remaining[f.app]*l.d.dominant[f.app]))
		c.farTerms = append(c.farTerms, v)
		c.most += max(0, v)
		c.sizes += math.Abs(v)
	}
}

// Raised implements [binpack.Raiser].
func (g *guide) Raised(x *binpack.Index) []float64 {
	l, c := g.l, &g.closes
	if !slices.ContainsFunc(c.nearTerms, func(v float64) bool { return -v > c.little }) {
		return nil
	}
	offered, blocked := l.s.Offered(), l.s.Blocked(g.app)
	words := len(offered)
	if len(c.bonus) < 64*words {
		c.bonus = make([]float64, 64*words)
	}
	c.takes, c.raised = slices.Grow(c.takes[:0], words)[:words], slices.Grow(c.raised[:0], words)[:words]
	clear(c.raised)
	for w, word := range offered {
		c.takes[w] = word &^ blocked[w]
	}
	takes, raised, bonus := c.takes, c.raised, c.bonus
	for i, b := range c.near {
		v := -c.nearTerms[i]
		if v <= c.little {
			continue
		}
		for w, word := range l.s.Blocked(b) {
			if word &= takes[w]; word == 0 {
				continue
			}
			raised[w] |= word
			for at := bonus[w*64 : w*64+64]; word != 0; word &= word - 1 {
				at[bits.TrailingZeros64(word)&63] += v
			}
		}
	}
	n := x.Blocks()
	c.peaks = slices.Grow(c.peaks[:0], n)[:n]
	clear(c.peaks)
	for w, word := range raised {
		for ; word != 0; word &= word - 1 {
			m := w*64 + bits.TrailingZeros64(word)
			if b := x.BlockOf(int32(m)); b >= 0 && bonus[m] > c.peaks[b] {
				c.peaks[b] = bonus[m]
			}
		}
	}
	return c.peaks
}

// forget takes the bonus from all machines.
func (c *closes) forget() {
	if c.raised != nil {
		clear(c.bonus)
	}
}

// closed adds the terms of a machine to its score, as [Scorer.addClosing] does.
func (g *guide) closed(v float64, m int32) float64 {
	l := g.l
	v += g.nearSum
	row := l.s.BlockedApps(m)
	for i, b := range g.near {
		if row[b>>6]>>(b&63)&1 != 0 {
			v -= g.nearTerms[i]
		}
	}
	group := l.s.Instance().Apps[g.app].Group
	for i, f := range g.far {
		if row[f.app>>6]>>(f.app&63)&1 == 0 && l.s.Count(group, m)+1 >= f.own && l.s.Count(f.group, m) >= f.others {
			v += g.farTerms[i]
		}
	}
	return v
}
