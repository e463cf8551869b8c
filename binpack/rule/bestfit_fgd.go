package rule

import (
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/gpus"
)

// BestFitFGD is Best Fit as FGD's authors define it: over cpu and GPUs, divided
// by the largest machine instead of the machine itself, cut to a whole number.
//
//	score = ⌊100 · (1 − ½ · cpu left ÷ max cpu − ½ · GPU left ÷ max GPU)⌋
//
// with the amounts left after the placement (best_fit_score.go of their simulator).
// A shared GPU is the one with the least share left that suffices.
type BestFitFGD struct{ blind }

// Scorer prepares the policy for a state.
func (BestFitFGD) Scorer(s *binpack.State) binpack.Scorer {
	return byClass{&bestFitFGD{gpus.ViewOf(s)}}
}

type bestFitFGD struct{ gpus.View }

func (p *bestFitFGD) Score(item binpack.Item, candidates []int32, out []float64) {
	needCPU, needGPU := p.Need(item.App)
	maxCPU, maxGPU := float64(p.MaxCPU), float64(p.MaxGPU)
	for i, m := range candidates {
		cpu, gpu := p.Left(m)
		residual := float64(float64(cpu-needCPU)/maxCPU*.5) + float64(float64(gpu-needGPU)/maxGPU*.5)
		out[i] = float64(int64((1 - residual) * 100))
	}
}
