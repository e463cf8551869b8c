package linear

import (
	"github.com/sigma-scheduler/sigma/binpack"
)

// ageScale is the number of placements for each machine in use after which age is ½.
const ageScale = 10

// present holds the parts of age, crowd and partners that are equal for all machines.
type present struct {
	app            int32
	placed         uint64
	scale, average float64 // of age; the items for each machine in use
	traffic        float64
}

func (l *Scorer) present(a int32) present {
	active := float64(l.s.Active() + 1)
	p := present{app: a, placed: l.s.Placements(), scale: ageScale * active, average: float64(l.s.AliveTotal()+1) / active}
	if l.partners != nil {
		p.traffic = l.traffic(a)
	}
	return p
}

// ageAndCrowd are these two features of a machine.
func (p *present) ageAndCrowd(s *binpack.State, m int32) (age, crowd float64) {
	n := s.Items(m)
	if n == 0 {
		return 0, 0
	}
	items, placed := float64(n), float64(p.placed-s.Opened(m))
	return placed / (placed + p.scale), items / (items + p.average)
}

// addStanding adds the features of the items on a machine: age, crowd, own, size,
// price and partners. Empty machines that are kept back are all alike. sizes are those of a column.
func (l *Scorer) addStanding(a int32, keepBack bool, candidates []int32, sizes []float64, own bool, out []float64) {
	l.compare()
	p := l.present(a)
	var holding []uint64
	if l.weights[fOwn] != 0 {
		holding = l.s.Holding(l.s.Instance().Apps[a].Group)
	}
	for i, m := range candidates {
		if keepBack && l.s.Items(m) == 0 {
			continue
		}
		size := 0.0
		switch {
		case sizes == nil:
		case own:
			size = sizes[i]
		default:
			size = sizes[m]
		}
		out[i] += l.standingScore(&p, m, holding != nil && holding[m/64]>>(m%64)&1 != 0, size)
	}
}

// standingScore is the sum of these features on a machine that holds items of the group, or none. size is its sizeScore.
func (l *Scorer) standingScore(p *present, m int32, holds bool, size float64) float64 {
	age, crowd := p.ageAndCrowd(l.s, m)
	v := float64(l.weights[fAge]*age) + float64(l.weights[fCrowd]*crowd)
	if holds {
		v += l.weights[fOwn]
	}
	v += size
	if l.kinds != nil {
		v += l.kinds.score[l.s.KindOf(m)]
	}
	if p.traffic > 0 {
		v += float64(l.weights[fPartners] * l.local(p.app, m, p.traffic))
	}
	return v
}

// sizeScore is the weighted feature size of a demand on a machine, whose util is given.
func (l *Scorer) sizeScore(need []int64, m int32, util float64) float64 {
	return float64(l.weights[fSize] * float64(util*l.largestShare(need, m)))
}

// largestShare is the largest share of a machine over dimensions that a demand takes.
func (l *Scorer) largestShare(need []int64, m int32) float64 {
	return share(need, l.inverse[l.s.KindOf(m)])
}
