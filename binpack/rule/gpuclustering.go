package rule

import (
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/gpus"
)

// GPUClustering separates items by their number of GPUs (Xiao et al., "Gandiva",
// OSDI 2018; gpu_clustering_score.go of FGD's authors). A share of a GPU is a
// class, and so is each whole number:
//
//	score = ⌊25 · (max GPU − GPU left) ÷ max GPU⌋ +
//	        75 only the item's class is on the machine
//	        50 the item's class and others are
//	        25 none is
//	         0 only others are
//
// with the amounts left before the placement. An item without GPUs has no class and
// scores 0 everywhere: it takes the lowest position. A shared GPU is the one with
// the least share left that suffices.
type GPUClustering struct{ blind }

// Scorer prepares the policy for a state.
func (GPUClustering) Scorer(s *binpack.State) binpack.Scorer {
	p := &gpuClustering{View: gpus.ViewOf(s)}
	for app := range p.Apps {
		_, need := p.Need(int32(app))
		class := need / p.One
		if need > 0 && class == 0 {
			class = -1
		}
		p.class = append(p.class, class)
	}
	return p
}

type gpuClustering struct {
	gpus.View
	class []int64 // per app: GPUs requested, -1 = a share, 0 = no GPU
}

func (p *gpuClustering) Score(item binpack.Item, candidates []int32, out []float64) {
	class := p.class[item.App]
	for i, m := range candidates {
		out[i] = 0
		if class != 0 {
			_, left := p.Left(m)
			out[i] = float64(25*(p.MaxGPU-left)/p.MaxGPU + p.company(class, m))
		}
	}
}

// company is the part of the score that depends on the items on the machine.
func (p *gpuClustering) company(class int64, m int32) int64 {
	same, others := false, false
	for _, e := range p.State.Contents(m) {
		switch p.class[e.App] {
		case 0:
		case class:
			same = true
		default:
			others = true
		}
	}
	switch {
	case same && !others:
		return 75
	case same:
		return 50
	case !others:
		return 25
	}
	return 0
}
