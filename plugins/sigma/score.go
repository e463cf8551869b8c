package sigma

import (
	"context"
	"hash/maphash"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	"github.com/sigma-scheduler/sigma/plugins/engine"
)

const stateKey = fwk.StateKey(Name)

// verdictState carries a cycle's verdict from PreScore to Score and Reserve.
type verdictState struct {
	verdict *engine.Verdict
	ranked  []scored // other nodes have 0
	some    filter   // of these nodes, if they are many
}

type scored struct {
	node  *framework.NodeInfo
	score int64
}

// few is the number of ranked nodes up to which a look at all of them is faster than a filter.
const few = 4

// score returns the score of a node.
func (s *verdictState) score(node *framework.NodeInfo) int64 {
	if len(s.ranked) > few && !s.some.mayHave(node) {
		return 0
	}
	for i := range s.ranked {
		if s.ranked[i].node == node {
			return s.ranked[i].score
		}
	}
	return 0
}

// A filter is a set of bits by the hash of nodes: most nodes that are not ranked are not in it.
type filter [128]uint64

var filterSeed = maphash.MakeSeed()

func (f *filter) bit(of *framework.NodeInfo) (word *uint64, bit uint64) {
	hash := maphash.Comparable(filterSeed, of)
	return &f[hash/64%uint64(len(f))], 1 << (hash % 64)
}

func (f *filter) add(n *framework.NodeInfo) {
	word, bit := f.bit(n)
	*word |= bit
}

func (f *filter) mayHave(n *framework.NodeInfo) bool {
	word, bit := f.bit(n)
	return *word&bit != 0
}

// Clone implements [fwk.StateData]. The state does not change once it is written.
func (s *verdictState) Clone() fwk.StateData { return s }

// PreScore ranks all nodes at once by the policy.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if err := p.sync(state); err != nil {
		return fwk.AsStatus(err)
	}
	p.nodes.markPassed(nodes)
	v := p.engine.RankAmong(ctx, pod, p.nodes.names, p.nodes.passed, p.top())
	s := &verdictState{verdict: v}
	state.Write(stateKey, s)
	if !v.Decides || len(v.Ranked) == 0 {
		return fwk.NewStatus(fwk.Skip) // the other scores decide
	}
	points := byRank
	if p.mapping == config.MappingLinear {
		points = linear
	}
	s.ranked = make([]scored, len(v.Ranked))
	for i, score := range points(v.Ranked) {
		node := p.nodes.given[v.Ranked[i].Place]
		s.ranked[i] = scored{node, score}
		s.some.add(node)
	}
	p.current = s
	return nil
}

// mostRanked returns the number of nodes to rank. Where all other scores together do not outweigh one rank, the
// first gets the pod, and the log has the second beside it.
func mostRanked(mapping string, scorers []schedulerconfig.Plugin, extenders []fwk.Extender) int {
	own, others := int64(0), int64(0)
	for _, s := range scorers {
		if s.Name == Name {
			own = int64(s.Weight)
		} else {
			others += int64(s.Weight)
		}
	}
	if mapping != config.MappingRank || own <= others*fwk.MaxScore || slices.ContainsFunc(extenders, fwk.Extender.IsPrioritizer) {
		return int(fwk.MaxScore)
	}
	return 2
}

// byRank gives the best node 100, the next 99 and so on. So no two share a score,
// which the scheduler would decide at random.
func byRank(ranked []engine.Ranked) []int64 {
	scores := make([]int64, len(ranked))
	for i := range ranked {
		scores[i] = fwk.MaxScore - int64(i)
	}
	return scores
}

// linear spreads the scores over 0 to 100: advice that other scores can outweigh.
func linear(ranked []engine.Ranked) []int64 {
	most, least := ranked[0].Score, ranked[len(ranked)-1].Score
	scores := make([]int64, len(ranked))
	for i, r := range ranked {
		scores[i] = fwk.MaxScore
		if width := most/2 - least/2; width > 0 { // halves: the difference may be too large
			scores[i] = int64(float64(fwk.MaxScore)*((r.Score/2-least/2)/width) + .5)
		}
	}
	return scores
}

// Score implements [fwk.ScorePlugin].
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	s := p.current
	if s == nil || p.cycle != state { // the short cut is for one cycle at a time, as in the scheduler
		data, err := state.Read(stateKey)
		if err != nil {
			return 0, nil // an error would reject the pod
		}
		s = data.(*verdictState)
	}
	return s.score(concrete(info)), nil
}

// ScoreExtensions implements [fwk.ScorePlugin]: there is nothing to normalise.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// Reserve records the pod's node.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	var v *engine.Verdict
	if data, err := state.Read(stateKey); err == nil {
		v = data.(*verdictState).verdict
	}
	p.engine.Reserve(pod, node, v)
	return nil
}

// Unreserve records that the pod did not get its node.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.engine.BindFailed(pod)
	p.nodes.again(node)
}
