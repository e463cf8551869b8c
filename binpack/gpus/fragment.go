package gpus

import "github.com/sigma-scheduler/sigma/binpack"

// A Fragment computes FGD's expected fragment of a machine,
//
//	F = Σ share of the type · GPU milli that an item of the type cannot use
//
// over the typical items of a mix.
type Fragment struct {
	Mix
	useless []int64 // per size of the mix: GPU units that an item cannot use
}

// FragmentOf prepares the fragment of a state; Refresh fills its mix.
func FragmentOf(s *binpack.State) Fragment { return Fragment{Mix: MixOf(s)} }

// Refresh rebuilds the mix if the forecast or the arrivals have changed, and reports
// whether it did.
func (p *Fragment) Refresh() bool {
	if !p.Mix.Refresh() {
		return false
	}
	p.useless = make([]int64, len(p.Sizes))
	return true
}

// The reasons why an item of a type cannot use GPUs, in the order in which the
// authors add the amounts up.
const (
	lacksBoth = iota
	lacksGPU  // also: part of the GPUs
	lacksCPU
	asksNoGPU
	asksNoGPULacksCPU
	noAccess
	reasons
)

// Of is F of a machine with so much cpu and such GPUs left.
func (p *Fragment) Of(m int32, cpu int64, shares []int64) float64 {
	left := int64(0)
	for _, share := range shares {
		left += share
	}
	if left == 0 {
		return 0
	}
	p.measure(shares)
	kind := p.State.Kinds()[p.State.KindOf(m)].Type
	all := p.milli(left)
	var sums [reasons]float64
	for i := range p.Items {
		t := &p.Items[i]
		room := cpu >= t.CPU
		switch {
		case t.GPU == 0 && room:
			sums[asksNoGPU] += float64(t.Share * all)
		case t.GPU == 0:
			sums[asksNoGPULacksCPU] += float64(t.Share * all)
		case t.Machines != nil && !t.Machines[kind]:
			sums[noAccess] += float64(t.Share * all)
		case p.useless[t.Size] < 0 && room:
			sums[lacksGPU] += float64(t.Share * all)
		case p.useless[t.Size] < 0:
			sums[lacksBoth] += float64(t.Share * all)
		case room:
			sums[lacksGPU] += float64(t.Share * p.milli(p.useless[t.Size]))
		default:
			sums[lacksCPU] += float64(t.Share * all)
		}
	}
	sum := 0.0
	for _, s := range sums {
		sum += s
	}
	return sum
}

// measure finds for each size the units that it cannot use; -1 = it does not fit.
func (p *Fragment) measure(shares []int64) {
	for i, size := range p.Sizes {
		each, missing, useless := min(size, p.One), max(size/p.One, 1), int64(0)
		for _, share := range shares {
			if share >= each {
				missing--
			} else {
				useless += share
			}
		}
		if missing > 0 {
			useless = -1
		}
		p.useless[i] = useless
	}
}

// milli is an amount of GPUs in thousandths of one.
func (p *Fragment) milli(units int64) float64 {
	if p.One == 1000 {
		return float64(units)
	}
	return float64(units) * 1000 / float64(p.One)
}
