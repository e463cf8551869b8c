package policy

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// FGD is Fragmentation Gradient Descent (Weng et al., "Beware of Fragmentation:
// Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX
// ATC 2023): the machine, and the GPU on it, where the expected fragment grows
// least.
//
//	score = ⌊100 · sigmoid((F before − F after) ÷ 1000)⌋
//	F = Σ share of the type · GPU milli that an item of the type cannot use
//
// over the typical items. A type without GPUs, with too little cpu left for it,
// on a machine type that it may not use, or for which no GPU suffices, cannot use
// any GPU that is left; another cannot use those whose share is below its own.
// A type is what apps of a group ask for in common: cpu, GPUs and machine types;
// typical are the most frequent ones that make up 95 % of the items.
//
// The mix is the forecast of each app, or where there is none what has arrived
// so far; then every arrival changes all scores, which makes it slow. Formula,
// order of summation and whole scores are those of the authors' simulator
// (frag.go, fgd_score.go): the cut to whole numbers and the tie-break by position
// decide most placements.
type FGD struct{}

// Knowledge is K1: the mix of items.
func (FGD) Knowledge() binpack.Knowledge { return binpack.K1 }

// Scorer prepares the policy for a state.
func (FGD) Scorer(s *binpack.State) binpack.Scorer {
	p := &fgd{typicalMix: newTypicalMix(s)}
	var needs [][2]int64
	p.class, needs = p.classes()
	p.scores = make([][]fgdScore, len(needs))
	return p
}

type fgd struct {
	typicalMix
	class []int32 // per app; apps of a class ask for the same cpu and GPUs

	before []fgdFragment // per machine
	scores [][]fgdScore  // [class][machine]

	// Of one machine and the sizes of the mix.
	useless []int64 // GPU units that an item of the size cannot use
	shares  []int64
}

// fgdFragment is F of a machine as of a version.
type fgdFragment struct {
	version uint32
	value   float64
}

// fgdScore is the score of a class on a machine as of a version, and the GPU
// that a share of one would take.
type fgdScore struct {
	version uint32
	score   int16
	device  int16
}

func (p *fgd) Score(item binpack.Item, candidates []int32, out []float64) {
	p.refreshMix()
	class := p.class[item.App]
	for i, m := range candidates {
		out[i] = float64(p.of(item.App, class, m).score)
	}
}

// ChooseDevices takes the GPU with the best score for a share of one, the lowest
// index where scores are equal.
func (p *fgd) ChooseDevices(item binpack.Item, m int32, dimension int, free []int64, devices []int32) []int32 {
	need, one := p.apps[item.App].Demand[dimension], p.state.Instance().Dimensions[dimension].One
	if dimension != p.gpu || need >= one {
		return binpack.SmallestDevices(free, need, one, devices)
	}
	p.refreshMix()
	return append(devices, int32(p.of(item.App, p.class[item.App], m).device))
}

// of looks a score up or computes it.
func (p *fgd) of(app, class, m int32) fgdScore {
	if row := p.scores[class]; len(row) < p.state.Size() {
		p.scores[class] = append(row, make([]fgdScore, p.state.Size()-len(row))...)
	}
	known := &p.scores[class][m]
	if version := p.state.Version(m); known.version != version {
		*known = p.compute(app, m)
		known.version = version
	}
	return *known
}

// compute places the item in thought.
func (p *fgd) compute(app, m int32) fgdScore {
	before := p.fragmentBefore(m)
	needCPU, needGPU := p.need(app)
	cpu, _ := p.left(m)
	cpu -= needCPU
	devices := p.devices(m)
	p.shares = append(p.shares[:0], devices...)
	if needGPU == 0 || needGPU >= p.one {
		taken := int64(0)
		for i, share := range p.shares {
			if share == p.one && taken < needGPU/p.one {
				p.shares[i] = 0
				taken++
			}
		}
		return fgdScore{score: gradient(before, p.fragment(m, cpu, p.shares))}
	}
	best := fgdScore{device: -1}
	for i, share := range devices {
		if share < needGPU || slices.Contains(devices[:i], share) { // the first of equals
			continue
		}
		p.shares[i] -= needGPU
		score := gradient(before, p.fragment(m, cpu, p.shares))
		p.shares[i] = share
		if best.device < 0 || score > best.score {
			best = fgdScore{score: score, device: int16(i)}
		}
	}
	return best
}

func gradient(before, after float64) int16 {
	return int16(1 / (1 + math.Exp(-(before-after)/1000)) * 100)
}

func (p *fgd) fragmentBefore(m int32) float64 {
	for len(p.before) < p.state.Size() {
		p.before = append(p.before, fgdFragment{})
	}
	known := &p.before[m]
	if version := p.state.Version(m); known.version != version {
		cpu, _ := p.left(m)
		*known = fgdFragment{version, p.fragment(m, cpu, p.devices(m))}
	}
	return known.value
}

// Why an item of a type cannot use GPUs, in the order in which the authors add
// the amounts up.
const (
	lacksBoth = iota
	lacksGPU  // also: part of the GPUs
	lacksCPU
	asksNoGPU
	asksNoGPULacksCPU
	noAccess
	reasons
)

// fragment is F of a machine with so much cpu and such GPUs left.
func (p *fgd) fragment(m int32, cpu int64, shares []int64) float64 {
	left := int64(0)
	for _, share := range shares {
		left += share
	}
	if left == 0 {
		return 0
	}
	p.measure(shares)
	kind := p.state.Kinds()[p.state.KindOf(m)].Type
	all := p.milli(left)
	var sums [reasons]float64
	for i := range p.mix {
		t := &p.mix[i]
		room := cpu >= t.cpu
		switch {
		case t.gpu == 0 && room:
			sums[asksNoGPU] += float64(t.share * all)
		case t.gpu == 0:
			sums[asksNoGPULacksCPU] += float64(t.share * all)
		case t.machines != nil && !t.machines[kind]:
			sums[noAccess] += float64(t.share * all)
		case p.useless[t.size] < 0 && room:
			sums[lacksGPU] += float64(t.share * all)
		case p.useless[t.size] < 0:
			sums[lacksBoth] += float64(t.share * all)
		case room:
			sums[lacksGPU] += float64(t.share * p.milli(p.useless[t.size]))
		default:
			sums[lacksCPU] += float64(t.share * all)
		}
	}
	sum := 0.0
	for _, s := range sums {
		sum += s
	}
	return sum
}

// measure finds for each size the units that it cannot use; -1 = it does not fit.
func (p *fgd) measure(shares []int64) {
	for i, size := range p.sizes {
		each, missing, useless := min(size, p.one), max(size/p.one, 1), int64(0)
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
func (p *fgd) milli(units int64) float64 {
	if p.one == 1000 {
		return float64(units)
	}
	return float64(units) * 1000 / float64(p.one)
}

// refreshMix forgets all scores when the mix has changed.
func (p *fgd) refreshMix() {
	if !p.refresh() {
		return
	}
	p.useless = make([]int64, len(p.sizes))
	p.before = p.before[:0]
	for class := range p.scores {
		p.scores[class] = p.scores[class][:0]
	}
}
