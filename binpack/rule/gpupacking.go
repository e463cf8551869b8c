package rule

import (
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/gpus"
)

// GPUPacking fills GPUs that are shared already, then machines that have one in
// use, then empty ones (gpu_packing_score.go of FGD's authors):
//
//	all GPUs of the machine are free    max(33 − GPUs, GPUs)
//	takes GPUs that are free            max(50 − GPUs taken, 33)
//	takes a share of a GPU in use       max(100 − ⌊⌊100 · share left⌋ ÷ 10⌋, 50)
//
// where the GPU taken is the one with the least share left that suffices. An item
// without GPUs scores 0 everywhere: it takes the lowest position.
type GPUPacking struct{ blind }

// Scorer prepares the policy for a state.
func (GPUPacking) Scorer(s *binpack.State) binpack.Scorer { return &gpuPacking{gpus.ViewOf(s)} }

type gpuPacking struct{ gpus.View }

func (p *gpuPacking) Score(item binpack.Item, candidates []int32, out []float64) {
	_, need := p.Need(item.App)
	for i, m := range candidates {
		out[i] = 0
		if need > 0 {
			out[i] = float64(p.score(need, p.Devices(m)))
		}
	}
}

func (p *gpuPacking) score(need int64, devices []int64) int64 {
	free, least := int64(0), p.One // the least share that suffices
	for _, share := range devices {
		if share == p.One {
			free++
		}
		if share >= need {
			least = min(least, share)
		}
	}
	switch {
	case free == int64(len(devices)):
		return max(33-free, free)
	case least == p.One:
		return max(50-max(need/p.One, 1), 33)
	}
	return max(100-least*100/p.One/10, 50)
}
