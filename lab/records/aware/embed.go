package aware

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
	"github.com/sigma-scheduler/sigma/internal/learn/rl"
	"github.com/sigma-scheduler/sigma/mpa/ddpg"
)

const watchedEach = 3 // episodes of an application that the embedder learns from

// trainEmbedder trains on episodes of the pool in which rules acted.
func trainEmbedder(ctx context.Context, apps []*application, updates int) (*embedder, error) {
	var seen [][]rl.Transition
	for _, a := range apps {
		for k := range watchedEach {
			list, err := a.watched(ctx, k)
			if err != nil {
				return nil, err
			}
			if len(list) > embeddingSteps {
				seen = append(seen, list)
			}
		}
	}
	rng := rand.New(rand.NewPCG(poolSeed, embeddingStream))
	gru, err := nn.NewGRU[float32](rng, embeddingInputs, embeddingSize)
	if err != nil {
		return nil, err
	}
	head, err := nn.NewMLP[float32](rng, nn.Shape{Sizes: []int{embeddingSize, 32, ddpg.StateSize}, Hidden: nn.ReLU, Output: nn.Linear}, 0)
	if err != nil {
		return nil, err
	}
	const rows = embeddingSteps * embeddingBatch
	pass, out := gru.Pass(embeddingSteps, embeddingBatch), head.Pass(rows)
	x, want, loss := nn.NewMatrix[float32](rows, embeddingInputs), nn.NewMatrix[float32](rows, ddpg.StateSize), nn.NewMatrix[float32](rows, ddpg.StateSize)
	gruGrad, headGrad := make([]float32, len(gru.Params())), make([]float32, len(head.Params()))
	gruAdam, headAdam := nn.NewAdam[float32](3e-3, len(gruGrad)), nn.NewAdam[float32](3e-3, len(headGrad))
	for range updates {
		for b := range embeddingBatch {
			list := seen[rng.IntN(len(seen))]
			from := rng.IntN(len(list) - embeddingSteps)
			for t := range embeddingSteps {
				fill(x.Row(t*embeddingBatch+b), &list[from+t])
				copy(want.Row(t*embeddingBatch+b), list[from+t].Next)
			}
		}
		nn.MSE(out.Forward(pass.Forward(x)), want, loss)
		clear(gruGrad)
		clear(headGrad)
		pass.Backward(out.Backward(loss, headGrad, true), gruGrad)
		gruAdam.Step(gru.Params(), gruGrad)
		headAdam.Step(head.Params(), headGrad)
	}
	return &embedder{gru: gru, pass: gru.Pass(embeddingSteps, 1), x: nn.NewMatrix[float32](embeddingSteps, embeddingInputs)}, nil
}

func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return dot / math.Sqrt(aa*bb)
}
