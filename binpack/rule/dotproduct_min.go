package rule

import (
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/gpus"
)

// DotProductMin takes the machine whose free amounts point least the item's
// way, FGD's authors' reading of Tetris (Grandl et al., SIGCOMM 2014), which
// itself takes the one that points most that way:
//
//	score = ⌊100 · (1 − ½ · (cpu free · cpu ÷ max cpu² + GPU free · GPU ÷ max GPU²))⌋
//
// with the amounts free before the placement and the largest machine's amounts
// (dot_product_score.go, GPUs merged into one dimension, normalised by max). A
// shared GPU is the one with the least share left that suffices.
type DotProductMin struct{ blind }

// Scorer prepares the policy for a state.
func (DotProductMin) Scorer(s *binpack.State) binpack.Scorer {
	return byClass{&dotProductMin{gpus.ViewOf(s)}}
}

type dotProductMin struct{ gpus.View }

func (p *dotProductMin) Score(item binpack.Item, candidates []int32, out []float64) {
	needCPU, needGPU := p.Need(item.App)
	maxCPU, maxGPU := float64(p.MaxCPU), float64(p.MaxGPU)
	shareCPU, shareGPU := float64(needCPU)/maxCPU, float64(needGPU)/maxGPU
	for i, m := range candidates {
		cpu, gpu := p.Left(m)
		product := float64(float64(cpu)/maxCPU*shareCPU) + float64(float64(gpu)/maxGPU*shareGPU)
		out[i] = float64(int64(100 * (1 - product/2)))
	}
}
