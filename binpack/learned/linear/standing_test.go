package linear

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// standing adds what depends on the items of a machine, and size.
func (t *linearTwin) standing(a, m int32, top float64) float64 {
	s, w := t.s, t.p.weights
	if w[fAge] == 0 && w[fCrowd] == 0 && w[fOwn] == 0 && w[fSize] == 0 && w[fPrice] == 0 && w[fPartners] == 0 {
		return 0
	}
	v := 0.0
	active := float64(s.Active() + 1)
	if n := float64(s.Items(m)); n > 0 {
		placed := float64(s.Placements() - s.Opened(m))
		v = float64(w[fAge]*(placed/(placed+float64(10*active)))) + float64(w[fCrowd]*(n/(n+float64(s.AliveTotal()+1)/active)))
		for _, e := range s.Contents(m) {
			if e.Group == s.Instance().Apps[a].Group {
				v += w[fOwn]
				break
			}
		}
	}
	share := 0.0
	for d, need := range s.Instance().Apps[a].Demand {
		if c := s.Capacity(m)[d]; c > 0 {
			share = max(share, float64(need)*(1/float64(c)))
		}
	}
	v += float64(w[fSize] * float64(top*share))
	if w[fPrice] != 0 {
		v += float64(w[fPrice] * t.price(s.KindOf(m)))
	}
	return v + float64(w[fPartners]*t.partners(a, m))
}

// partners is the feature of that name, pair by pair.
func (t *linearTwin) partners(a, m int32) float64 {
	s := t.s
	onMachine := map[int32]float64{}
	for _, e := range s.Contents(m) {
		onMachine[e.App] += float64(e.Count)
	}
	type part struct {
		order        string
		all, staying float64
	}
	var parts []part
	meets := func(p binpack.Pair, other int32, weight float64) {
		q := part{order: fmt.Sprintf("%s %020f %v", s.Instance().Apps[other].Name, p.Bits, other == p.App), all: weight}
		switch {
		case p.Paired && onMachine[other] > onMachine[a]:
			q.staying = weight
		case !p.Paired && onMachine[other] > 0:
			q.staying = float64(weight*onMachine[other]) / float64(s.Alive()[other])
		}
		parts = append(parts, q)
	}
	for _, p := range s.Instance().Pairs {
		if p.App == a {
			meets(p, p.Other, p.Bits)
		}
		switch {
		case p.Other != a:
		case p.Paired:
			meets(p, p.App, p.Bits)
		default:
			meets(p, p.App, p.Bits*float64(s.Alive()[p.App])/float64(s.Alive()[a]+1))
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.order, b.order) })
	stays, all := 0.0, 0.0
	for _, q := range parts {
		stays, all = stays+q.staying, all+q.all
	}
	if all == 0 {
		return 0
	}
	return stays / all
}

// price is the feature of that name, from what stands on the machines.
func (t *linearTwin) price(kind int32) float64 {
	s := t.s
	volume := make([]float64, len(s.Instance().Dimensions))
	for d := range volume {
		for a, n := range s.Alive() {
			volume[d] += float64(n) * float64(t.l.d.share[d][a]) / (1 << shareBits)
		}
	}
	least, own := math.Inf(1), 0.0
	for k, kd := range s.Kinds() {
		most := 0.0
		for d, c := range kd.Capacity {
			if c > 0 {
				most = max(most, volume[d]*(t.l.d.reference[d]/float64(c)))
			}
		}
		least = min(least, kd.Cost*most)
		if int32(k) == kind {
			own = kd.Cost * most
		}
	}
	if own == 0 {
		return 0
	}
	return 1 - least/own
}
