package linear

import "math/bits"

// utilWeight is the factor of util in the features singl and tight.
func (l *Scorer) utilWeight(a int32) float64 {
	v := 0.0
	active := float64(l.s.Active() + 1)
	if w := l.weights[fTight]; w != 0 {
		v = float64(w * l.d.limits.tightness(active))
	}
	if w := l.weights[fSingl]; w != 0 && l.s.Instance().Groups[l.s.Instance().Apps[a].Group].Limit == 1 {
		r := float64(l.d.remaining[a]) / (1 << itemBits)
		v += float64(w * min(1, r/active))
	}
	return v
}

// openWeight is the weight of one app that is allowed.
func (l *Scorer) openWeight() float64 {
	if n := len(l.profileOf); n > 1 {
		return l.weights[fOpen] / float64(n-1)
	}
	return 0
}

// closingWeights returns the weight of an app to which the placement closes a
// machine, and that of each unit of the app's R_b·c_b.
func (l *Scorer) closingWeights() (fixed, closing float64) {
	rc := float64(l.d.sumRC)/(1<<(itemBits+shareBits)) + 1
	return l.weights[fClose]/max(1, l.maxDegree) - l.openWeight(), 4 * l.weights[fClosing] / rc / (1 << (itemBits + shareBits))
}

func (l *Scorer) addRecent(w float64, candidates []int32, out []float64) {
	active := float64(l.s.Active() + 1)
	now := float64(l.s.Placements())
	for i, m := range candidates {
		if last := l.s.LastUsed(m); last > 0 {
			out[i] += w / (1 + float64((now-float64(last))/active))
		}
	}
}

// addClosing adds the features close and closing, and subtracts from open the apps
// that the placement closes. Most apps are allowed on most machines, so every term
// is added to all candidates and subtracted where the machine is closed already.
func (l *Scorer) addClosing(a int32, open float64, candidates []int32, out []float64) {
	wClose, wClosing := l.weights[fClose], l.weights[fClosing]
	if wClose == 0 && wClosing == 0 && open == 0 {
		return
	}
	fixed, closing := l.closingWeights()
	if near := l.near[a]; len(near) > 0 {
		sum := 0.0
		for _, b := range near {
			sum += fixed + float64(closing*float64(l.d.remaining[b]*l.d.dominant[b]))
		}
		position := l.position
		for i := range out {
			out[i] += sum
		}
		if len(candidates) <= fewCandidates {
			for _, b := range near {
				v := fixed + float64(closing*float64(l.d.remaining[b]*l.d.dominant[b]))
				for i, m := range candidates {
					if l.s.BlockedApps(m)[b>>6]>>(b&63)&1 != 0 {
						out[i] -= v
					}
				}
			}
			near = nil
		}
		without := l.s.Blocked(a) // no candidate is here, nor most of those that are closed to b
		for _, b := range near {
			v := fixed + float64(closing*float64(l.d.remaining[b]*l.d.dominant[b]))
			for w, word := range l.s.Blocked(b) {
				for word &^= without[w]; word != 0; word &= word - 1 {
					m := int32(w*64 + bits.TrailingZeros64(word))
					if i := position[m]; int(i) < len(candidates) && candidates[i] == m {
						out[i] -= v
					}
				}
			}
		}
	}
	for _, f := range l.far[a] {
		v := fixed + float64(closing*float64(l.d.remaining[f.app]*l.d.dominant[f.app]))
		row := l.s.Blocked(f.app)
		group := l.s.Instance().Apps[a].Group
		for i, m := range candidates {
			if row[m>>6]>>(m&63)&1 == 0 && l.s.Count(group, m)+1 >= f.own && l.s.Count(f.group, m) >= f.others {
				out[i] += v
			}
		}
	}
}
