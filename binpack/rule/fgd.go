package rule

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/gpus"
)

// FGD is Fragmentation Gradient Descent (Weng et al., "Beware of Fragmentation:
// Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX
// ATC 2023): the machine, and the GPU on it, where the expected fragment grows
// least.
//
//	score = ⌊100 · sigmoid((F before − F after) ÷ 1000)⌋
//	F = Σ share of the type · GPU milli that an item of the type cannot use
//
// over the typical items. A type without GPUs, with too little cpu left for it, on
// a machine type that it may not use, or for which no GPU suffices, cannot use any
// GPU that is left; another cannot use those whose share is below its own. A type
// is a common demand of apps of a group: cpu, GPUs and machine types; typical are
// the most frequent ones that make up 95 % of the items.
//
// The mix is the forecast of each app, or without one the items that have arrived
// so far; then every arrival changes all scores, which makes it slow. Formula,
// order of summation and whole scores are those of the authors' simulator (frag.go,
// fgd_score.go): the cut to whole numbers and the tie-break by position decide most
// placements.
type FGD struct{}

// Knowledge is K1: the mix of items.
func (FGD) Knowledge() binpack.Knowledge { return binpack.K1 }

// Scorer prepares the policy for a state.
func (FGD) Scorer(s *binpack.State) binpack.Scorer {
	p := &fgd{Fragment: gpus.FragmentOf(s)}
	var needs [][2]int64
	p.class, needs = p.Classes()
	p.scores = make([][]fgdScore, len(needs))
	return p
}

type fgd struct {
	gpus.Fragment
	class []int32 // per app; apps of a class have the same demand of cpu and GPUs

	before []fgdFragment // per machine
	scores [][]fgdScore  // [class][machine]
	shares []int64       // of one machine
}

// fgdFragment is F of a machine at a version.
type fgdFragment struct {
	version uint32
	value   float64
}

// fgdScore is the score of a class on a machine at a version, and the GPU that a
// demand for a share would take.
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
	need, one := p.Apps[item.App].Demand[dimension], p.State.Instance().Dimensions[dimension].One
	if dimension != p.GPU || need >= one {
		return binpack.SmallestDevices(free, need, one, devices)
	}
	p.refreshMix()
	return append(devices, int32(p.of(item.App, p.class[item.App], m).device))
}

// of looks a score up or computes it.
func (p *fgd) of(app, class, m int32) fgdScore {
	if row := p.scores[class]; len(row) < p.State.Size() {
		p.scores[class] = append(row, make([]fgdScore, p.State.Size()-len(row))...)
	}
	known := &p.scores[class][m]
	if version := p.State.Version(m); known.version != version {
		*known = p.compute(app, m)
		known.version = version
	}
	return *known
}

// compute scores the machine as it would be after the placement.
func (p *fgd) compute(app, m int32) fgdScore {
	before := p.fragmentBefore(m)
	needCPU, needGPU := p.Need(app)
	cpu, _ := p.Left(m)
	cpu -= needCPU
	devices := p.Devices(m)
	p.shares = append(p.shares[:0], devices...)
	if needGPU == 0 || needGPU >= p.One {
		taken := int64(0)
		for i, share := range p.shares {
			if share == p.One && taken < needGPU/p.One {
				p.shares[i] = 0
				taken++
			}
		}
		return fgdScore{score: gradient(before, p.Of(m, cpu, p.shares))}
	}
	best := fgdScore{device: -1}
	for i, share := range devices {
		if share < needGPU || slices.Contains(devices[:i], share) { // the first of equals
			continue
		}
		p.shares[i] -= needGPU
		score := gradient(before, p.Of(m, cpu, p.shares))
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
	for len(p.before) < p.State.Size() {
		p.before = append(p.before, fgdFragment{})
	}
	known := &p.before[m]
	if version := p.State.Version(m); known.version != version {
		cpu, _ := p.Left(m)
		*known = fgdFragment{version, p.Of(m, cpu, p.Devices(m))}
	}
	return known.value
}

// refreshMix forgets all scores when the mix has changed.
func (p *fgd) refreshMix() {
	if !p.Refresh() {
		return
	}
	p.before = p.before[:0]
	for class := range p.scores {
		p.scores[class] = p.scores[class][:0]
	}
}
