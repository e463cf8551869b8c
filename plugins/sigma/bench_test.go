package sigma

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
func city(b *testing.B, nodes int, policy string, log bool) *stage {
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
	s.decideBy(shipped(b, policy))
	return s
}

// drawn is a pod of one of 400 Deployments, as the API server has it.
func drawn(d *rand.Rand, name, node string) *v1.Pod {
	app := d.IntN(400)
	p := st.MakePod().Namespace("default").Name(name).UID(name).Node(node).
		OwnerReference(fmt.Sprintf("app-%03d-5d4f8c7b6d", app), schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}).
		Label("part-of", "city").Label("pod-template-hash", "5d4f8c7b6d").
		Req(map[v1.ResourceName]string{
			v1.ResourceCPU: fmt.Sprint(100*(1+app%7), "m"), v1.ResourceMemory: fmt.Sprint(256*(1+app%5), "Mi"),
		}).Obj()
	for _, taint := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{
			Key: taint, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
		})
	}
	return p
}

// BenchmarkCycle is what Sigma adds to a scheduling cycle: PreFilter, PreScore, Score of all nodes and
// Reserve; and what upstream's MostAllocated does for its scores. Every cycle ends with a pod on a node; the
// next one finds its binding confirmed, and an older pod gone. The figures are medians.
func BenchmarkCycle(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		for _, by := range []string{"kubernetes-k0", "kubernetes-k0/log", "mostallocated"} {
			b.Run(fmt.Sprintf("nodes=%d/by=%s", nodes, by), func(b *testing.B) { benchmarkCycle(b, nodes, by) })
		}
	}
}

// upstreamFit is upstream's plugin for resources.
type upstreamFit interface {
	scorer
	fwk.PreFilterPlugin
	fwk.FilterPlugin
}

type scorer interface {
	fwk.PreScorePlugin
	fwk.ScorePlugin
}

// A watch takes the time of the parts of each cycle.
type watch struct {
	parts  []string
	took   map[string][]time.Duration
	cycles []time.Duration
}

func (w *watch) part(name string, do func()) {
	begin := time.Now()
	do()
	d := time.Since(begin)
	if w.took[name] == nil {
		w.parts = append(w.parts, name)
	}
	w.took[name] = append(w.took[name], d)
	w.cycles[len(w.cycles)-1] += d
}

func (w *watch) report(b *testing.B) {
	b.Helper()
	median := func(took []time.Duration, unit string) {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, unit)
	}
	median(w.cycles, "µs/pod")
	for _, name := range w.parts {
		median(w.took[name], name+"-µs")
	}
	b.ReportMetric(0, "ns/op")
}

func benchmarkCycle(b *testing.B, nodes int, by string) {
	const stay = 500 // pods that live at a time
	policy, log := by, false
	switch by {
	case "mostallocated":
		policy = "kubernetes-k0"
	case "kubernetes-k0/log":
		policy, log = "kubernetes-k0", true
	}
	s := city(b, nodes, policy, log)
	d := rand.New(rand.NewPCG(1, 1))
	fit := fitOf(b, s)
	s.filter(drawn(d, "first", "")) // the ledger has all nodes
	var placed []*v1.Pod
	w := &watch{took: map[string][]time.Duration{}}
	for b.Loop() {
		p := drawn(d, fmt.Sprint("new-", len(placed)), "")
		if n := len(placed); n > 0 {
			placed[n-1] = confirmed(placed[n-1])
			s.addPods(placed[n-1])
		}
		if n := len(placed); n > stay {
			s.removePods(placed[n-1-stay])
		}
		require.NoError(b, s.cache.UpdateSnapshot(klog.Background(), s.snapshot))
		state := framework.NewCycleState()
		w.cycles = append(w.cycles, 0)
		scores := scorer(fit)
		if by != "mostallocated" {
			scores = s.Plugin
			w.part("prefilter", func() {
				if _, status := s.PreFilter(s.ctx, state, p, nil); !status.IsSkip() {
					b.Fatal(status)
				}
			})
		}
		feasible := passing(b, s, fit, state, p)
		w.part("prescore", func() {
			if status := scores.PreScore(s.ctx, state, p, feasible); !status.IsSuccess() {
				b.Fatal(status)
			}
		})
		var best string
		w.part("score", func() { best = bestBy(b, s.ctx, scores, state, p, feasible) })
		assumed := p.DeepCopy()
		assumed.Spec.NodeName = best
		require.NoError(b, s.cache.AssumePod(klog.Background(), assumed))
		if by != "mostallocated" {
			w.part("reserve", func() { s.Reserve(s.ctx, state, assumed, best) })
		}
		placed = append(placed, assumed)
	}
	w.report(b)
}

// confirmed is a pod as an informer reports it after its binding.
func confirmed(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	p.ResourceVersion = "2"
	p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
	return p
}

// passing are the nodes with room for a pod, in the order in which the scheduler finds them.
func passing(b *testing.B, s *stage, fit upstreamFit, state fwk.CycleState, p *v1.Pod) []fwk.NodeInfo {
	b.Helper()
	all, err := s.snapshot.NodeInfos().List()
	require.NoError(b, err)
	if _, status := fit.PreFilter(s.ctx, state, p, all); !status.IsSuccess() {
		b.Fatal(status)
	}
	found, n := make([]fwk.NodeInfo, len(all)), atomic.Int32{}
	s.framework.Parallelizer().Until(s.ctx, len(all), func(i int) {
		if fit.Filter(s.ctx, state, p, all[i]).IsSuccess() {
			found[n.Add(1)-1] = all[i]
		}
	}, "Filter")
	return found[:n.Load()]
}

func fitOf(b *testing.B, s *stage) upstreamFit {
	b.Helper()
	args := &schedulerconfig.NodeResourcesFitArgs{ScoringStrategy: &schedulerconfig.ScoringStrategy{
		Type: schedulerconfig.MostAllocated, Resources: []schedulerconfig.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}},
	}}
	p, err := noderesources.NewFit(s.ctx, runtime.Object(args), s.handle, feature.Features{})
	require.NoError(b, err)
	return p.(upstreamFit)
}

// bestBy lets a plugin score, one node after the other.
func bestBy(b *testing.B, ctx context.Context, by scorer, state fwk.CycleState, p *v1.Pod, nodes []fwk.NodeInfo) string {
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
