package devices

import (
	"cmp"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/gpus"
)

// fragments computes FGD's expected fragment from tables. An item of a type that
// requests at most one GPU cannot use a GPU with less left than that, whatever the
// other GPUs have; so
//
//	F = Σ left of a GPU · share of the types that cannot use it
//
// except for types that request several: they cannot use any GPU in part, and no
// GPU at all if too few are entirely free. The shares depend on the machine through
// its type and the cpu left.
type fragments struct {
	gpus.Mix
	cpus  []int64       // different demands of cpu in the mix, ascending
	ones  []int64       // different demands of at most one GPU, ascending; one itself is the last
	rows  []fragmentRow // by machine type, then rank of cpu; made when first needed
	ratio float64       // cpu for each unit of GPUs that items with GPUs request
}

// A fragmentRow belongs to a machine type and a rank of the cpu left. lost[i] is the
// share of the mix that cannot use a GPU whose free share suffices for i of the
// demands in ones. lacks[k] is the share that cannot use k entirely free GPUs because
// it needs more.
type fragmentRow struct {
	lost  []float64
	lacks []float64
}

func newFragments(s *binpack.State) fragments {
	p := fragments{Mix: gpus.MixOf(s)}
	p.compile()
	return p
}

// compile prepares the tables for a new mix.
func (p *fragments) compile() {
	p.cpus, p.ones = p.cpus[:0], append(p.ones[:0], p.One)
	p.ratio = 0
	cpu, gpu := 0.0, 0.0
	for i := range p.Items {
		t := &p.Items[i]
		if t.GPU == 0 {
			continue
		}
		p.cpus = append(p.cpus, t.CPU)
		p.ones = append(p.ones, min(t.GPU, p.One))
		cpu += float64(t.Share * float64(t.CPU))
		gpu += float64(t.Share * float64(t.GPU))
	}
	if gpu > 0 {
		p.ratio = cpu / gpu
	}
	slices.SortFunc(p.cpus, cmp.Compare)
	p.cpus = slices.Compact(p.cpus)
	slices.SortFunc(p.ones, cmp.Compare)
	p.ones = slices.Compact(p.ones)
	p.rows = make([]fragmentRow, len(p.State.Instance().Types)*(len(p.cpus)+1))
}

// row returns the row of a machine with so much cpu left.
func (p *fragments) row(m int32, cpu int64) *fragmentRow {
	kind := p.State.Kinds()[p.State.KindOf(m)].Type
	rank := rankOf(p.cpus, cpu)
	r := &p.rows[int(kind)*(len(p.cpus)+1)+rank]
	if r.lost != nil {
		return r
	}
	r.lost = make([]float64, len(p.ones)+1)
	for i := range p.Items {
		t := &p.Items[i]
		usable := t.GPU > 0 && (rank > 0 && t.CPU <= p.cpus[rank-1]) && (t.Machines == nil || t.Machines[kind])
		for j := range r.lost {
			// GPUs with at least ones[j-1] left and less than ones[j].
			if !usable || j == 0 || min(t.GPU, p.One) > p.ones[j-1] {
				r.lost[j] += t.Share
			}
		}
		if usable && t.GPU > p.One {
			n := int(t.GPU / p.One)
			for len(r.lacks) < n {
				r.lacks = append(r.lacks, 0)
			}
			for k := range n {
				r.lacks[k] += t.Share
			}
		}
	}
	return r
}

// rankOf counts the values, which ascend, that are at most v.
func rankOf(values []int64, v int64) int {
	lo, hi := 0, len(values)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if values[mid] <= v {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// fragment is F of GPUs, in units.
func (p *fragments) fragment(r *fragmentRow, shares []int64) float64 {
	free := int64(0)
	for _, share := range shares {
		if share == p.One {
			free++
		}
	}
	return p.partly(r, shares) + p.whole(r, free)
}

// partly is F of the GPUs that are shared already.
func (p *fragments) partly(r *fragmentRow, shares []int64) float64 {
	sum := 0.0
	for _, share := range shares {
		if 0 < share && share < p.One {
			sum += p.useless(r, share)
		}
	}
	return sum
}

// useless is F of a GPU in part.
func (p *fragments) useless(r *fragmentRow, share int64) float64 {
	return float64(float64(share) * r.lost[rankOf(p.ones, share)])
}

// whole is F of GPUs that are entirely free.
func (p *fragments) whole(r *fragmentRow, free int64) float64 {
	lost := r.lost[len(p.ones)]
	if int(free) < len(r.lacks) {
		lost += r.lacks[free]
	}
	return float64(float64(free*p.One) * lost)
}

// stranded is the GPUs left beyond those that the cpu left can serve, in units.
func (p *fragments) stranded(cpu, gpu int64) float64 {
	if p.ratio == 0 {
		return 0
	}
	return max(0, float64(gpu)-float64(cpu)/p.ratio)
}
