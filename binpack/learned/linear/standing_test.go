package linear

import (
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// standing adds what depends on the items of a machine, and size.
func (t *linearTwin) standing(a, m int32, top float64) float64 {
	s, w := t.s, t.p.weights
	if w[fAge] == 0 && w[fCrowd] == 0 && w[fOwn] == 0 && w[fSize] == 0 && w[fPrice] == 0 && w[fBill] == 0 && w[fPartners] == 0 {
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
	if w[fPrice] != 0 || w[fBill] != 0 {
		k := s.KindOf(m)
		v += float64(w[fPrice]*t.price(k, 0)) + float64(w[fBill]*t.price(k, t.limitBound()))
	}
	return v + float64(w[fPartners]*t.partners(a, m))
}

// partners is the feature of that name, pair by pair and group by group.
func (t *linearTwin) partners(a, m int32) float64 {
	s := t.s
	inst := s.Instance()
	living, here := map[int32]float64{}, map[int32]float64{} // by group
	for b, n := range s.Alive() {
		living[inst.Apps[b].Group] += float64(n)
	}
	onMachine := map[int32]float64{}
	for _, e := range s.Contents(m) {
		onMachine[e.App] += float64(e.Count)
		here[e.Group] += float64(e.Count)
	}
	type sending struct{ app, group int32 }
	most := map[sending]binpack.Pair{}
	for _, p := range inst.Pairs {
		key := sending{p.App, inst.Apps[p.Other].Group}
		if known, ok := most[key]; !ok || p.Bits > known.Bits {
			p.Paired = p.Paired && !ok || known.Paired
			most[key] = p
		}
	}
	own := inst.Apps[a].Group
	type part struct {
		order        string
		all, staying float64
	}
	var parts []part
	for key, p := range most {
		from := inst.Apps[p.App].Group
		if key.app == a && living[key.group] > 0 {
			q := part{order: "0 " + inst.Groups[key.group].Name, all: p.Bits}
			if p.Paired && here[key.group] > here[own] {
				q.staying = p.Bits
			} else if !p.Paired {
				q.staying = float64(p.Bits*here[key.group]) / living[key.group]
			}
			parts = append(parts, q)
		}
		if n := float64(s.Alive()[p.App]); key.group == own && living[from] > 0 {
			q := part{order: "1 " + inst.Groups[from].Name + " " + inst.Apps[p.App].Name}
			if p.Paired {
				q.all = p.Bits * n / living[from]
				if here[from] > here[own] {
					q.staying = q.all
				}
			} else if n > 0 {
				q.all = p.Bits * n / (living[own] + 1)
				q.staying = float64(q.all*onMachine[p.App]) / n
			}
			parts = append(parts, q)
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

// limitBound is the least number of machines that the limits of the living items need.
func (t *linearTwin) limitBound() float64 {
	most := 0.0
	alive := map[int32]int64{}
	for a, app := range t.s.Instance().Apps {
		alive[app.Group] += t.s.Alive()[a]
		if limit := t.s.Instance().Groups[app.Group].Limit; limit > 0 {
			most = max(most, float64(alive[app.Group])/float64(limit))
		}
	}
	return most
}

// price is the feature of that name, or bill with the machines that limits need, from the living items.
func (t *linearTwin) price(kind int32, limits float64) float64 {
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
		most = max(most, limits)
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
