package rule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// Apps of gpuState.
const (
	halfGPU  int32 = iota // 2 cpu and half a GPU
	twoGPUs               // 4 cpu and 2 GPUs
	smallGPU              // 1 cpu and .4 of a GPU
	cpuOnly               // 1 cpu
)

// gpuState has machine 0 with 8 cpu and 2 GPUs, of which .4 of the first is
// taken; machine 1 with 16 cpu and 4 GPUs, of which two are; and machine 2, alike
// and empty. The memory of all is never short and never counts.
func gpuState(t *testing.T) *binpack.State {
	t.Helper()
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{
			{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}, {Name: "gpu", Unit: "m", One: 1000, Device: true},
		},
		Types: []string{"T4", "G2"},
		Machines: []binpack.MachineLine{
			{Name: "m0", Type: 0, Count: 1, Cost: 1, Capacity: []int64{8000, 64, 2000}},
			{Name: "m1", Type: 1, Count: 2, Cost: 1, Capacity: []int64{16000, 64, 4000}},
		},
	}
	for a, demand := range [][]int64{{2000, 3, 500}, {4000, 1, 2000}, {1000, 2, 400}, {1000, 1, 0}} {
		inst.Groups = append(inst.Groups, binpack.Group{})
		inst.Apps = append(inst.Apps, binpack.App{Group: int32(a), Demand: demand, Expected: -1, Lifetime: -1})
	}
	s := binpack.NewState(inst)
	require.NoError(t, s.PlaceAs(smallGPU, 0, []binpack.Device{{Dimension: 2, Index: 0}}))
	require.NoError(t, s.PlaceAs(twoGPUs, 1, []binpack.Device{{Dimension: 2, Index: 0}, {Dimension: 2, Index: 1}}))
	return s
}

func gpuScores(s *binpack.State, pol binpack.Policy, app int32) []float64 {
	out := make([]float64, 3)
	pol.Scorer(s).Score(binpack.Item{App: app}, []int32{0, 1, 2}, out)
	return out
}

func TestBestFitFGD(t *testing.T) {
	// cpu left ÷ 16 and GPU left ÷ 4, halved: 5/32 + 1.1/8 = .29375;
	// 10/32 + 1.5/8 = .5; 14/32 + 3.5/8 = .875.
	require.Equal(t, []float64{70, 50, 12}, gpuScores(gpuState(t), rule.BestFitFGD{}, halfGPU))
}

func TestDotProductMin(t *testing.T) {
	// The item is 1/8, 1/8: (7/16 + 1.6/4)/8/2 = .052…; (12/16 + 2/4)/16 = .078125;
	// 2/16 = .125.
	require.Equal(t, []float64{94, 92, 87}, gpuScores(gpuState(t), rule.DotProductMin{}, halfGPU))
}

func TestGPUPacking(t *testing.T) {
	s := gpuState(t)
	// The GPU with .6 left; one of two free ones; a machine with four.
	require.Equal(t, []float64{100 - 6, 50 - 1, 33 - 4}, gpuScores(s, rule.GPUPacking{}, halfGPU))
	require.Equal(t, []float64{0, 0, 0}, gpuScores(s, rule.GPUPacking{}, cpuOnly))
	s.Remove(smallGPU, 0, []binpack.Device{{Dimension: 2, Index: 0}})
	require.Equal(t, []float64{33 - 2, 50 - 2, 33 - 4}, gpuScores(s, rule.GPUPacking{}, twoGPUs))
}

func TestGPUClustering(t *testing.T) {
	s := gpuState(t)
	// Machine 0 holds shares alone and has 1.6 of at most 4 left; machine 1 holds
	// others and has 2 left.
	require.Equal(t, []float64{75 + 15, 12, 25}, gpuScores(s, rule.GPUClustering{}, halfGPU))
	require.Equal(t, []float64{15, 75 + 12, 25}, gpuScores(s, rule.GPUClustering{}, twoGPUs))
	require.Equal(t, []float64{0, 0, 0}, gpuScores(s, rule.GPUClustering{}, cpuOnly))
	// cpu alone is no company; a share beside two GPUs is.
	require.NoError(t, s.PlaceAs(cpuOnly, 2, nil))
	require.NoError(t, s.PlaceAs(smallGPU, 1, []binpack.Device{{Dimension: 2, Index: 2}}))
	require.Equal(t, []float64{75 + 15, 50 + 15, 25}, gpuScores(s, rule.GPUClustering{}, halfGPU))
}

// TestFGD: half of the items ask for half a GPU, half for two. F before: on
// machine 0 two GPUs are not to be had, ½ · 1600 = 800; on the others 0.
//
// Half a GPU after it: on GPU 0 of machine 0 the .1 that stays is lost to all,
// ½ · 100 + ½ · 1100 = 600; on GPU 1 ½ · 1100 = 550, the better one, though not
// the fullest. On machine 1 ½ · 1500 = 750, on machine 2 ½ · 500 = 250. And
// 100 · sigmoid of .2, .25, −.75, −.25 is 54.9, 56.2, 32.0, 43.7.
func TestFGD(t *testing.T) {
	s := gpuState(t)
	s.Known.Expected = []float64{8, 8, 0, -1}
	require.Equal(t, []float64{56, 32, 43}, gpuScores(s, rule.FGD{}, halfGPU))
	scorer := rule.FGD{}.Scorer(s)
	item := binpack.Item{App: halfGPU}
	m, err := s.Choose(scorer, item)
	require.NoError(t, err)
	require.EqualValues(t, 0, m)
	chooser, ok := scorer.(binpack.DeviceChooser)
	require.True(t, ok)
	require.Equal(t, []binpack.Device{{Dimension: 2, Index: 1}}, s.Place(item, m, chooser))
	require.Equal(t, []int64{600, 500}, s.Devices(m, 2))
	// Whole ones take the lowest.
	require.Equal(t, []binpack.Device{{Dimension: 2, Index: 0}, {Dimension: 2, Index: 1}},
		s.Place(binpack.Item{App: twoGPUs}, 2, chooser))
	require.Equal(t, binpack.K1, rule.FGD{}.Knowledge())
}

// TestFGDMix: without a forecast the mix is what has arrived; a rare type is not
// typical; and an item that may not use a machine's type finds all of it lost.
func TestFGDMix(t *testing.T) {
	s := gpuState(t)
	scorer := rule.FGD{}.Scorer(s)
	out := make([]float64, 1)
	score := func(app, m int32) float64 {
		scorer.Score(binpack.Item{App: app}, []int32{m}, out)
		return out[0]
	}
	require.InDelta(t, 50, score(halfGPU, 1), 0, "nothing has arrived")
	s.Arrive(twoGPUs, 96)
	// 1500 of two GPUs are lost where one is shared: sigmoid −1.5 = .182.
	require.InDelta(t, 18, score(halfGPU, 1), 0)
	s.Arrive(halfGPU, 4) // 4 in 100 are not typical
	require.InDelta(t, 18, score(halfGPU, 1), 0)
	s.Arrive(halfGPU, 92)
	require.InDelta(t, 32, score(halfGPU, 1), 0)

	s = gpuState(t)
	s.Instance().Apps[twoGPUs].Types = []int32{1}
	s.Known.Expected = []float64{0, 1, 0, 0}
	// On machine 0 all is lost before and after: 1600 − 1100, sigmoid .5 = .622.
	require.Equal(t, []float64{62, 18, 37}, gpuScores(s, rule.FGD{}, halfGPU))
}
