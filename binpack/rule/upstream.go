package rule

import (
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Ties is the rule by which a strategy of kube-scheduler breaks the ties of its
// whole scores.
type Ties struct {
	Seed       uint64
	ByPosition bool // the lowest position, instead of at random as kube-scheduler does
}

func tiesOf(o Options) Ties { return Ties{Seed: o.Seed, ByPosition: o.TiesByPosition} }

// AtRandom makes a strategy break its ties at random, as kube-scheduler does. Other rules stay as they are.
func AtRandom(p binpack.Policy, seed uint64) binpack.Policy {
	switch p := p.(type) {
	case MostAllocated:
		p.Ties = Ties{Seed: seed}
		return p
	case LeastAllocated:
		p.Ties = Ties{Seed: seed}
		return p
	case RequestedToCapacityRatio:
		p.Ties = Ties{Seed: seed}
		return p
	}
	return p
}

// maxNodeScore is the highest score of a kube-scheduler plugin.
const maxNodeScore = 100

// A strategy is the arithmetic of one scoring plugin of kube-scheduler 1.36
// (pkg/scheduler/framework/plugins/noderesources). It gets, per dimension, the item's
// request, the amount requested of a machine with the item on it, which it may
// overwrite, the machine's amount, and the weight. It returns a whole score from 0 to
// maxNodeScore. A dimension with allocatable 0 does not count.
type strategy func(demand, requested, allocatable, weights []int64) int64

// scorer runs a strategy on a state. resources are the dimensions that count, with
// their weights; nil = all, with weight 1.
func (t Ties) scorer(s *binpack.State, u *upstream, resources map[string]int64) binpack.Scorer {
	u.state, u.ties, u.guides = s, t, map[int]*allocated{}
	for _, dim := range s.Instance().Dimensions {
		weight := int64(1)
		if resources != nil {
			weight = resources[dim.Name]
		}
		u.scalar, u.weights = append(u.scalar, isScalar(dim)), append(u.weights, weight)
	}
	n := len(u.scalar)
	u.requested, u.allocatable = make([]int64, gather*n), make([]int64, n)
	if t.ByPosition {
		return byPosition{u}
	}
	return u
}

// byPosition is upstream where the lowest position breaks ties.
type byPosition struct{ *upstream }

// ByClass is the mark of [binpack.ClassScorer].
func (byPosition) ByClass() {}

// upstream runs a strategy over candidates.
type upstream struct {
	state   *binpack.State
	ties    Ties
	score   strategy
	scalar  []bool  // per dimension
	weights []int64 // per dimension; 0 = it does not count

	skipsNothing bool    // an item without any demand scores 0 everywhere
	fall         float64 // the sign of the score's fall with the free amount; 0 = not linear

	guides map[int]*allocated // [bits of the dimensions that count]

	requested   []int64 // of gather candidates, one after the other
	allocatable []int64
}

// gather is the number of candidates read from the columns at a time: with many
// dimensions reading down the columns is faster than across them.
const gather = 32

func (u *upstream) Score(item binpack.Item, candidates []int32, out []float64) {
	demand := u.state.Instance().Apps[item.App].Demand
	nothing := u.skipsNothing && !slices.ContainsFunc(demand, func(need int64) bool { return need > 0 })
	for len(candidates) > 0 {
		n := min(gather, len(candidates))
		u.read(demand, candidates[:n])
		for i, m := range candidates[:n] {
			out[i] = 0
			if !nothing {
				out[i] = float64(u.scoreOne(demand, u.requested[i*len(demand):(i+1)*len(demand)], m))
			}
			if !u.ties.ByPosition {
				out[i] += draw(u.state, u.ties.Seed, item, m)
			}
		}
		candidates, out = candidates[n:], out[n:]
	}
}

// read fills requested with the negative of the free amount after the placement.
func (u *upstream) read(demand []int64, candidates []int32) {
	for d, need := range demand {
		free := u.state.Free(d)
		for i, m := range candidates {
			u.requested[i*len(demand)+d] = need - free[m]
		}
	}
}

func (u *upstream) scoreOne(demand, requested []int64, m int32) int64 {
	capacity := u.state.Capacity(m)
	for d, need := range demand {
		u.allocatable[d] = capacity[d]
		requested[d] += capacity[d]
		if !u.counts(d, need) {
			u.allocatable[d] = 0
		}
	}
	return u.score(demand, requested, u.allocatable, u.weights)
}

// counts reports whether a dimension counts for a demand. A scalar resource that the pod does
// not request does not.
func (u *upstream) counts(d int, need int64) bool {
	return u.weights[d] != 0 && (need != 0 || !u.scalar[d])
}

// isScalar reports whether kube-scheduler would treat a dimension as a scalar
// resource (IsScalarResourceName): extended resources such as example.com/gpu,
// huge pages and attachable volumes. Devices are always extended resources in a
// cluster, whatever a trace calls them.
func isScalar(dim binpack.Dimension) bool {
	return dim.Device || strings.Contains(dim.Name, "/") ||
		strings.HasPrefix(dim.Name, "hugepages-") || strings.HasPrefix(dim.Name, "attachable-volumes-")
}

// RandomTie names the term of the draw that decides between equal whole scores.
const RandomTie = "random tie"

// Explain implements [binpack.Explainer]: the strategy's whole score and the
// draw that breaks its ties.
func (u *upstream) Explain(item binpack.Item, m int32) []binpack.Term {
	score := []float64{0}
	u.Score(item, []int32{m}, score)
	whole := math.Floor(score[0]) // the draw is below 1, and the sum exact
	terms := []binpack.Term{{Name: "whole score", Weight: 1, Value: whole, Contribution: whole}}
	if !u.ties.ByPosition {
		draw := score[0] - whole
		terms = append(terms, binpack.Term{Name: RandomTie, Weight: 1, Value: draw, Contribution: draw})
	}
	return terms
}
