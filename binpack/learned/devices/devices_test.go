package devices

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/gpus"
	"github.com/sigma-scheduler/sigma/binpack/learned"
)

// deviceInstance is a random fleet of machines with and without GPUs, of three
// types, and apps of all classes, some of them limited, excluded or bound to a
// type.
func deviceInstance(rng *rand.Rand, fleet binpack.Fleet) *binpack.Instance {
	inst := &binpack.Instance{
		Fleet: fleet,
		Dimensions: []binpack.Dimension{
			{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}, {Name: "gpu", Unit: "m", One: 1000, Device: true},
		},
		Types: []string{"G2", "T4", "none"},
	}
	for m := range 40 {
		line := binpack.MachineLine{Name: fmt.Sprint("m", m), Type: int32(m % 3), Count: 1 + m%2, Cost: 1}
		line.Capacity = []int64{int64(16+16*rng.IntN(4)) * 1000, 64, []int64{8000, 2000, 0}[m%3]}
		inst.Machines = append(inst.Machines, line)
	}
	for a := range 24 {
		demand := []int64{int64(1+rng.IntN(12)) * 1000, int64(1 + rng.IntN(9)), 0}
		switch a % 4 {
		case 1, 2:
			demand[2] = int64(1+rng.IntN(9)) * 100
		case 3:
			demand[2] = []int64{1000, 2000, 4000, 8000}[rng.IntN(4)]
		}
		group := binpack.Group{Name: fmt.Sprint("a", a)}
		app := binpack.App{Name: group.Name, Group: int32(a), Demand: demand, Expected: -1, Lifetime: -1}
		if a%5 == 4 {
			app.Types = []int32{0}
		}
		if a%7 == 3 {
			group.Limit = 2
		}
		inst.Groups, inst.Apps = append(inst.Groups, group), append(inst.Apps, app)
	}
	inst.Rules = []binpack.Rule{{A: 1, B: 2}, {A: 5, B: 6, Max: 1}}
	return inst
}

// everyDeviceFeature is a policy with all features of all classes.
func everyDeviceFeature(t *testing.T, know binpack.Knowledge, rng *rand.Rand) *Policy {
	t.Helper()
	spec := learned.Spec{Knowledge: know, Features: Model.FeatureNames()}
	for range spec.Features {
		spec.Weights = append(spec.Weights, 2*rng.Float64()-1)
	}
	p, err := New(spec)
	require.NoError(t, err)
	return p
}

// deviceTwin computes features from their definitions, with the fragment of FGD.
type deviceTwin struct {
	p *Policy
	s *binpack.State
	f *gpus.Fragment
}

// score of the item on machine m and, for a share, on one of its GPUs.
func (w *deviceTwin) score(app, m int32, device int) float64 {
	if w.s.Instance().Fleet == binpack.Open && w.s.Items(m) == 0 {
		return -learned.EmptyPenalty
	}
	w.f.Refresh()
	demand := w.s.Instance().Apps[app].Demand
	cpu, gpu := w.s.Free(0)[m], w.s.Free(2)[m]
	shares := slices.Clone(w.s.Devices(m, 2))
	before := w.f.Of(m, cpu, shares)
	strandedBefore := w.stranded(cpu, gpu)
	if demand[2] >= 1000 {
		for n, i := demand[2]/1000, 0; n > 0; i++ {
			if shares[i] == 1000 {
				shares[i], n = 0, n-1
			}
		}
	} else if demand[2] > 0 {
		shares[device] -= demand[2]
	}
	cpu, gpu = cpu-demand[0], gpu-demand[2]
	v := map[string]float64{
		"fragment": (w.f.Of(m, cpu, shares) - before) / 1000,
		"stranded": w.stranded(cpu, gpu) - strandedBefore,
		"gpu":      float64(gpu) / 8000,
		"cpu":      float64(cpu) / float64(w.f.MaxCPU),
	}
	class := "whole"
	switch {
	case demand[2] == 0:
		class = "none"
	case demand[2] < 1000:
		class = "shared"
	}
	if w.s.Instance().Fleet == binpack.Fixed {
		for o := range int32(w.s.Size()) {
			if w.s.Before(o, m) {
				v["rank"] += 1 / float64(w.s.Size())
			}
		}
	}
	sum := 0.0
	for f, feature := range features {
		sum += w.p.weights[slices.Index(classNames, class)][f] * v[feature.Name]
	}
	return sum
}

// stranded is the GPUs left beyond what the cpu left can serve.
func (w *deviceTwin) stranded(cpu, gpu int64) float64 {
	needCPU, needGPU := 0.0, 0.0
	for _, t := range w.f.Items {
		if t.GPU > 0 {
			needCPU += t.Share * float64(t.CPU)
			needGPU += t.Share * float64(t.GPU)
		}
	}
	if needCPU == 0 {
		return 0
	}
	return max(0, float64(gpu)-float64(cpu)*needGPU/needCPU) / 1000
}

// TestDevicesEqualsTwin places and removes items at random, and compares every
// choice, of machine and of GPU, with that of a plain loop over all machines.
func TestDevicesEqualsTwin(t *testing.T) {
	for _, tc := range []struct {
		know  binpack.Knowledge
		fleet binpack.Fleet
		room  int
	}{
		{binpack.K1, binpack.Fixed, learned.MaxCached},
		{binpack.K0, binpack.Fixed, learned.MaxCached},
		{binpack.K1, binpack.Open, learned.MaxCached},
		{binpack.K1, binpack.Fixed, 0},
	} {
		t.Run(fmt.Sprint(tc.know, tc.fleet, tc.room), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, uint64(tc.know)))
			s := binpack.NewState(deviceInstance(rng, tc.fleet))
			if tc.know == binpack.K1 {
				for range s.Instance().Apps {
					s.Known.Expected = append(s.Known.Expected, float64(rng.IntN(20)))
				}
			}
			pol := everyDeviceFeature(t, tc.know, rng)
			l := pol.Scorer(s).(*scorer)
			l.room = tc.room
			fragment := gpus.FragmentOf(s)
			twin := &deviceTwin{pol, s, &fragment}
			type placed struct {
				app, m  int32
				devices []binpack.Device
			}
			var standing []placed
			unplaced := 0
			for step := range 3000 {
				if len(standing) > 0 && rng.IntN(3+step/500) == 0 {
					i := rng.IntN(len(standing))
					s.Remove(standing[i].app, standing[i].m, standing[i].devices)
					standing = slices.Delete(standing, i, i+1)
					continue
				}
				app := int32(rng.IntN(len(s.Instance().Apps)))
				s.Arrive(app, 1)
				item := binpack.Item{App: app}
				best, most := int32(-1), math.Inf(-1)
				for _, m := range s.Feasible(app, nil) {
					score, _ := twin.best(app, m)
					if near := math.Abs(score-most) < 1e-9; score > most && !near || near && s.Before(m, best) {
						best, most = m, score
					}
				}
				m, err := s.Choose(l, item)
				if best < 0 {
					require.ErrorIs(t, err, binpack.ErrNoFit)
					unplaced++
					continue
				}
				require.NoError(t, err)
				require.Equal(t, best, m, "step %d", step)
				out := []float64{0}
				l.Score(item, []int32{m}, out)
				require.InDelta(t, most, out[0], 1e-9)
				sum := 0.0
				for _, term := range l.Explain(item, m) {
					sum += term.Contribution
				}
				require.InDelta(t, most, sum, 1e-9)
				_, device := twin.best(app, m)
				used := slices.Clone(s.Place(item, m, l))
				if device >= 0 {
					require.EqualValues(t, device, used[0].Index, "step %d", step)
				}
				standing = append(standing, placed{app, m, used})
			}
			require.Positive(t, unplaced)
		})
	}
}

// best is the score of the item on a machine, with the GPU for a share.
func (w *deviceTwin) best(app, m int32) (score float64, device int) {
	need := w.s.Instance().Apps[app].Demand[2]
	if need == 0 || need >= 1000 {
		return w.score(app, m, -1), -1
	}
	score, device = math.Inf(-1), -1
	for i, share := range w.s.Devices(m, 2) {
		if share < need {
			continue
		}
		s := w.score(app, m, i)
		if s > score+1e-9 || math.Abs(s-score) <= 2e-9 && share < w.s.Devices(m, 2)[device] {
			score, device = s, i
		}
	}
	return score, device
}
