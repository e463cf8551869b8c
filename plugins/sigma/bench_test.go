package sigma

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
)

// city is a cluster of nodes of four sizes with ten pods of 400 apps on each.
func city(b *testing.B, nodes int, log bool) *stage {
	b.Helper()
	s := newStage(b, func(a *config.SigmaArgs) {
		a.Fleet = config.FleetOpen
		if !log {
			a.DecisionLog = ""
		}
	})
	d := rand.New(rand.NewPCG(uint64(nodes), 7))
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		s.addNodes(node(name, 16<<d.IntN(4)))
		for j := range 10 {
			s.addPods(drawn(d, fmt.Sprintf("p%d-%d", i, j), name))
		}
	}
	s.decideBy(shipped(b, "general-k1"))
	return s
}

func drawn(d *rand.Rand, name, node string) *v1.Pod {
	app := d.IntN(400)
	return st.MakePod().Namespace("default").Name(name).UID(name).Label("app", fmt.Sprintf("app-%03d", app)).Node(node).
		Req(map[v1.ResourceName]string{
			v1.ResourceCPU: fmt.Sprint(100*(1+app%7), "m"), v1.ResourceMemory: fmt.Sprint(256*(1+app%5), "Mi"),
		}).Obj()
}

// BenchmarkCycle is what Sigma adds to a scheduling cycle: PreFilter, PreScore, Score
// of all nodes and Reserve; and what upstream's MostAllocated does for its scores.
// Every cycle ends with a pod on a node, and every pod leaves again. p50-ns is the
// median of PreScore and Score.
func BenchmarkCycle(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		for _, by := range []string{"sigma", "sigma-log", "mostallocated"} {
			b.Run(fmt.Sprintf("nodes=%d/by=%s", nodes, by), func(b *testing.B) { benchmarkCycle(b, nodes, by) })
		}
	}
}

func benchmarkCycle(b *testing.B, nodes int, by string) {
	s := city(b, nodes, by == "sigma-log")
	d := rand.New(rand.NewPCG(1, 1))
	c := s.filter(drawn(d, "first", ""))
	require.Equal(b, nodes, len(c.feasible)) //nolint:testifylint // Len would print them
	fit := fitOf(b, s)
	var placed []*v1.Pod
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		p := drawn(d, fmt.Sprint("new", len(placed)), "")
		require.NoError(b, s.cache.UpdateSnapshot(klog.Background(), s.snapshot))
		state := framework.NewCycleState()
		b.StartTimer()
		scores := fit
		if by != "mostallocated" {
			scores = s.Plugin
			if _, status := s.PreFilter(s.ctx, state, p, c.feasible); !status.IsSkip() {
				b.Fatal(status)
			}
		}
		begin := time.Now()
		best := bestBy(b, s.ctx, scores, state, p, c.feasible)
		b.StopTimer()
		took = append(took, time.Since(begin))
		assumed := p.DeepCopy()
		assumed.Spec.NodeName = best
		require.NoError(b, s.cache.AssumePod(klog.Background(), assumed))
		b.StartTimer()
		if by != "mostallocated" {
			s.Reserve(s.ctx, state, assumed, best)
		}
		b.StopTimer()
		if placed = append(placed, assumed); len(placed) > 500 {
			require.NoError(b, s.cache.ForgetPod(klog.Background(), placed[len(placed)-501]))
		}
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
}

type scorer interface {
	fwk.PreScorePlugin
	fwk.ScorePlugin
}

func fitOf(b *testing.B, s *stage) scorer {
	b.Helper()
	args := &schedulerconfig.NodeResourcesFitArgs{ScoringStrategy: &schedulerconfig.ScoringStrategy{
		Type: schedulerconfig.MostAllocated, Resources: []schedulerconfig.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}},
	}}
	p, err := noderesources.NewFit(s.ctx, runtime.Object(args), s.handle, feature.Features{})
	require.NoError(b, err)
	return p.(scorer)
}

// bestBy lets a plugin score, one node after the other.
func bestBy(b *testing.B, ctx context.Context, by scorer, state fwk.CycleState, p *v1.Pod, nodes []fwk.NodeInfo) string {
	if status := by.PreScore(ctx, state, p, nodes); !status.IsSuccess() {
		b.Fatal(status)
	}
	best, most := 0, int64(-1)
	for i, n := range nodes {
		score, status := by.Score(ctx, state, p, n)
		if !status.IsSuccess() {
			b.Fatal(status)
		}
		if score > most {
			best, most = i, score
		}
	}
	return nodes[best].Node().Name
}
