package sigma

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// town has nodes of several sizes with pods of several apps on them.
func (s *stage) town(seed uint64, nodes, pods int) {
	s.Helper()
	d := rand.New(rand.NewPCG(seed, 3))
	free := make([]int, nodes)
	for i := range nodes {
		free[i] = 4 << d.IntN(3)
		s.addNodes(node(fmt.Sprintf("n%03d", i), free[i]))
	}
	for i := range pods {
		if n := d.IntN(nodes); free[n] > 2 {
			free[n]--
			s.addPods(pod(fmt.Sprint("p", i), fmt.Sprint("app", d.IntN(8))).Node(fmt.Sprintf("n%03d", n)).Obj())
		}
	}
}

// The best node has 100, the next 99 and so on to the hundredth; the others 0.
func TestScoreByRank(t *testing.T) {
	for _, name := range []string{"hand-k0", "hand-k1", "general-k1"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.top = func() int { return 100 }
			s.town(1, 130, 200)
			s.decideBy(shipped(t, name))
			p := pod("new", "app1").Obj()
			c := s.filter(p)
			s.score(c, p)
			require.Len(t, c.feasible, 130)
			want := make([]int64, 130)
			for i := range 100 {
				want[30+i] = int64(1 + i)
			}
			require.Equal(t, want, slices.Sorted(maps.Values(c.scores)))
			s.assume(c, p, c.best())
			v := s.verify()
			require.Equal(t, 1, v.Agreed, "computed again, it is the same node")
			require.Equal(t, 1, v.Decisions)
		})
	}
}

// Ties are broken by name, in whatever order the filters finished; a second query gives
// the same.
func TestTiesGoByName(t *testing.T) {
	for _, mapping := range []string{config.MappingRank, config.MappingLinear} {
		s := newStage(t, func(a *config.SigmaArgs) { a.Mapping = mapping })
		s.top = func() int { return 100 }
		d := rand.New(rand.NewPCG(1, 2))
		for _, i := range d.Perm(12) {
			s.addNodes(node(fmt.Sprint("n", 10+i), 8))
		}
		s.decideBy(shipped(t, "hand-k0"))
		var want map[string]int64
		for range 20 {
			p := pod("new", "web").Obj()
			c := s.filter(p)
			d.Shuffle(len(c.feasible), func(i, j int) { c.feasible[i], c.feasible[j] = c.feasible[j], c.feasible[i] })
			s.score(c, p)
			if want == nil {
				want = c.scores
			}
			require.Equal(t, want, c.scores)
		}
		for i := range 12 {
			if mapping == config.MappingLinear { // advice: equal scores stay equal
				require.EqualValues(t, 100, want[fmt.Sprint("n", 10+i)])
			} else {
				require.EqualValues(t, 100-i, want[fmt.Sprint("n", 10+i)])
			}
		}
	}
}

func TestLinear(t *testing.T) {
	const huge = math.MaxFloat64
	tests := []struct {
		scores []float64 // best first
		want   []int64
	}{
		{[]float64{7}, []int64{100}},
		{[]float64{7, 7, 7}, []int64{100, 100, 100}},
		{[]float64{3, 2, 1}, []int64{100, 50, 0}},
		{[]float64{-1, -1.25, -2}, []int64{100, 75, 0}},
		{[]float64{1, .996, .994, 0}, []int64{100, 100, 99, 0}},
		{[]float64{huge, 0, -huge}, []int64{100, 50, 0}},
		{[]float64{5e-324, 0}, nil}, // only within bounds
		{[]float64{huge, math.Nextafter(huge, 0)}, nil},
	}
	for _, tt := range tests {
		var ranked []engine.Ranked
		for i, score := range tt.scores {
			ranked = append(ranked, engine.Ranked{Place: int32(i), Score: score})
		}
		got := linear(ranked)
		for i, score := range got {
			require.GreaterOrEqual(t, score, fwk.MinScore, tt.scores)
			require.LessOrEqual(t, score, fwk.MaxScore, tt.scores)
			if tt.want != nil {
				require.Equal(t, tt.want[i], score, tt.scores)
			}
		}
	}
}

// What a cycle's scores are does not depend on which cycle was the last.
func TestScoreOfAnotherCycle(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a", 8), node("b", 8))
	s.decideBy(shipped(t, "hand-k0"))
	p := pod("web-1", "web").Obj()
	c := s.filter(p)
	s.score(c, p)
	require.Equal(t, "a", c.best())
	copied := c.state.Clone()
	s.addPods(pod("db-1", "db").Req(map[v1.ResourceName]string{v1.ResourceCPU: "6"}).Node("b").Obj()) // one core is left
	next := s.filter(pod("web-2", "web").Obj())
	for _, info := range c.feasible {
		score, _ := s.Score(s.ctx, next.state, p, info)
		require.Zero(t, score, "it was not scored yet")
	}
	s.score(next, pod("web-2", "web").Obj())
	require.Equal(t, "b", next.best())
	for _, info := range c.feasible {
		for _, state := range []fwk.CycleState{c.state, copied} {
			score, status := s.Score(s.ctx, state, p, info)
			require.True(t, status.IsSuccess())
			require.Equal(t, c.scores[info.Node().Name], score)
		}
		score, status := s.Score(s.ctx, framework.NewCycleState(), p, info)
		require.True(t, status.IsSuccess(), "without PreScore: an error would reject the pod")
		require.Zero(t, score)
	}
}

// An extender that is sent whole nodes makes the scheduler go on with others of the
// same names.
func TestNodesThatAnExtenderSentBack(t *testing.T) {
	s := newStage(t, nil)
	s.town(4, 12, 20)
	s.decideBy(shipped(t, "hand-k0"))
	p := pod("new", "app1").Obj()
	want := s.scores(p)
	for _, keep := range []int{12, 5} {
		c := s.filter(p)
		c.feasible = c.feasible[:keep]
		for i := range c.feasible {
			n := framework.NewNodeInfo()
			n.SetNode(c.feasible[i].Node())
			c.feasible[i] = n
		}
		s.score(c, p)
		require.Len(t, c.scores, keep)
		require.EqualValues(t, 100, c.scores[c.best()])
		if keep == 12 {
			require.Equal(t, want, c.scores)
		}
	}
}

// Sigma alone: the node with the highest score is the policy's first, as computed
// from the decision log.
func TestSoleScorer(t *testing.T) {
	for _, fleet := range []string{config.FleetOpen, config.FleetFixed} {
		s := newStage(t, func(a *config.SigmaArgs) { a.Fleet = fleet })
		s.town(2, 30, 40)
		s.decideBy(shipped(t, "general-k1"))
		s.engine.SetRules([]*kube.Rule{rule(t, "few", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "app3"), MaxPerNode: new(int32(2))})})
		placed := 0
		for i := range 60 {
			p := pod(fmt.Sprint("new", i), fmt.Sprint("app", i%9)).Obj()
			c := s.filter(p)
			s.score(c, p)
			if len(c.feasible) < 2 {
				continue
			}
			require.EqualValues(t, 100, c.scores[c.best()])
			s.assume(c, p, c.best())
			placed++
		}
		require.Greater(t, placed, 50)
		v := s.verify()
		require.Equal(t, map[string]int{ledger.CausePolicy: placed}, v.Causes, fleet)
		require.Equal(t, placed, v.Agreed)
		require.Zero(t, v.Refused)
	}
}

// A policy that does not decide leaves the node to the other scores, and the log has
// what it would have taken.
func TestSkipsWhereItDoesNotDecide(t *testing.T) {
	tests := []struct {
		name   string
		policy func(*policy.Spec)
		skips  bool
		mode   string
		cause  string
	}{
		{"shadow", func(o *policy.Spec) { o.Mode = "shadow" }, true, "shadow", ledger.CausePolicy},
		{"canary for nobody", func(o *policy.Spec) { o.Mode, o.CanaryPercent = "canary", new(0) }, true, "canary", ledger.CauseNeutral},
		{"canary for all", func(o *policy.Spec) { o.Mode, o.CanaryPercent = "canary", new(100) }, false, "canary", ledger.CausePolicy},
		{"live", func(o *policy.Spec) { o.Mode = "live" }, false, "live", ledger.CausePolicy},
		{"mode left out", func(o *policy.Spec) { o.Mode = "" }, true, "shadow", ledger.CausePolicy},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, nil)
			s.town(3, 10, 20)
			s.decideBy(shipped(t, "hand-k0", tt.policy))
			p := pod("new", "app1").Obj()
			c := s.filter(p)
			s.score(c, p)
			require.Equal(t, tt.skips, c.state.GetSkipScorePlugins().Has(Name))
			require.Equal(t, tt.skips, len(c.scores) == 0)
			s.assume(c, p, "n009") // the choice of other scores
			d := s.events(ledger.KindDecide)
			require.Len(t, d, 1)
			require.Equal(t, tt.mode, d[0].Mode)
			require.Equal(t, tt.cause, d[0].Cause)
			require.Equal(t, "n009", d[0].Node)
			require.Equal(t, tt.cause == ledger.CausePolicy, d[0].Choice != "" && d[0].Choice != "n009", d[0].Choice)
			s.verify()
		})
	}
}

// What Reserve and Unreserve enter is in the log, and counts in the next cycle.
func TestReserveAndUnreserve(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a", 8), node("b", 8))
	s.decideBy(shipped(t, "hand-k0"))
	one := rule(t, "one", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(1))})
	s.engine.SetRules([]*kube.Rule{one})

	c, first := s.place(pod("web-1", "web").Obj())
	require.Equal(t, "a", first.Spec.NodeName)
	require.Contains(t, s.filter(pod("web-2", "web").Obj()).refusals(), "a")
	s.fail(c, first)
	require.Empty(t, s.filter(pod("web-2", "web").Obj()).refusals())

	_, first = s.place(pod("web-1", "web").Obj()) // tried again
	require.Equal(t, "a", first.Spec.NodeName)
	_, second := s.place(pod("web-2", "web").Obj()) // one node is left: no policy is asked
	require.Equal(t, "b", second.Spec.NodeName)
	_, third := s.place(pod("web-3", "web").Obj())
	require.Nil(t, third)

	v := s.verify()
	require.Equal(t, map[string]int{ledger.CausePolicy: 2, ledger.CauseSingle: 1}, v.Causes)
	require.Len(t, s.events(ledger.KindFailed), 1)
	require.Len(t, s.events(ledger.KindArrive), 1, "a pod that is tried again did not come again")
}

// The API server reported that a binding failed, but it was made, and the scheduler's
// cache has seen it before: the node does not change any more. The pod must count.
func TestBindingThatFailedWasMade(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a", 8), node("b", 8))
	s.decideBy(shipped(t, "hand-k0"))
	s.engine.SetRules([]*kube.Rule{rule(t, "one", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(1))})})
	c, first := s.place(pod("web-1", "web").Obj())
	bound := pod("web-1", "web").Node(first.Spec.NodeName).Obj()
	s.addPods(bound)                        // the informer has it
	s.filter(pod("other", "other").Obj())   // and a cycle saw it
	s.Unreserve(s.ctx, c.state, first, "a") // then the binding call comes back with an error
	require.Error(t, s.cache.ForgetPod(klog.Background(), first), "it is not assumed any more")
	require.Contains(t, s.filter(pod("web-2", "web").Obj()).refusals(), "a")
	s.verify()
}

// A cycle sees one state of the cluster from its beginning to its end.
func TestNothingComesInDuringCycle(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a", 8), node("b", 8), node("c", 8))
	s.decideBy(shipped(t, "hand-k0"))
	c1, first := s.place(pod("web-1", "web").Obj())
	p := pod("web-2", "web").Obj()
	c2 := s.filter(p)
	s.fail(c1, first)
	s.engine.SetPolicy(ledger.Primary, nil)
	s.score(c2, p)
	s.assume(c2, p, c2.best())
	_, third := s.place(pod("web-3", "web").Obj())
	require.NotNil(t, third)
	decisions := s.events(ledger.KindDecide)
	require.Len(t, decisions, 3)
	require.Equal(t, ledger.CausePolicy, decisions[1].Cause)
	require.Equal(t, ledger.CauseFallback+"no-policy", decisions[2].Cause)
	failed := s.events(ledger.KindFailed)
	require.Len(t, failed, 1)
	require.Greater(t, failed[0].Seq, decisions[1].Seq)
	s.verify()
}

// Pods that tolerate it may stand on cordoned nodes, which no policy ranks.
func TestOnlyCordonedNodes(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a", 8).Unschedulable(true), node("b", 8).Unschedulable(true))
	s.decideBy(shipped(t, "hand-k0"))
	p := pod("web-1", "web").Obj()
	c := s.filter(p)
	s.score(c, p)
	require.Empty(t, c.scores)
	s.assume(c, p, "b")
	require.Equal(t, map[string]int{ledger.CauseNeutral: 1}, s.verify().Causes)
}

// Each pod of a DaemonSet has a selector of its own, for its node: none of them is
// an app to us, or every one would touch every node.
func TestDaemonSets(t *testing.T) {
	s := newStage(t, nil)
	s.decideBy(shipped(t, "hand-k0"))
	for i := range 20 {
		s.addNodes(node(fmt.Sprintf("n%02d", i), 8))
	}
	for i := range 20 {
		p := pod(fmt.Sprint("agent-", i), "agent").OwnerReference("agent", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}).Obj()
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprintf("n%02d", i)}},
			}}},
		}}}
		c := s.filter(p)
		s.score(c, p)
		require.Empty(t, c.scores)
		s.assume(c, p, fmt.Sprintf("n%02d", i))
	}
	s.place(pod("web-1", "web").Obj())
	require.Len(t, s.events(ledger.KindDecide), 1)
	require.Len(t, s.events(ledger.KindApp), 1)
	require.Len(t, s.events(ledger.KindNode), 40, "each came once, and has less room by its agent")
	s.verify()
}

// scores are all scores of a pod.
func (s *stage) scores(p *v1.Pod) map[string]int64 {
	s.Helper()
	c := s.filter(p)
	s.score(c, p)
	return c.scores
}

// Whatever happens to nodes and pods between cycles, the plugin sees what a new one
// sees that comes to the same cluster.
func TestFollowsTheCluster(t *testing.T) {
	steps := 120
	if testing.Short() {
		steps = 40
	}
	for seed := range uint64(4) {
		s := newStage(t, nil)
		d := rand.New(rand.NewPCG(seed, 5))
		nodes := map[string]*v1.Node{}
		pods := map[string]*v1.Pod{}
		some := func(names []string) string { return names[d.IntN(len(names))] }
		names := func() []string { return slices.Sorted(maps.Keys(nodes)) }
		for step := range steps {
			switch n := d.IntN(12); {
			case len(nodes) < 5 || n == 0:
				name := fmt.Sprintf("n%02d", d.IntN(30)) // often one that was there before
				if nodes[name] == nil {
					nodes[name] = node(name, 4<<d.IntN(3)).Label(v1.LabelTopologyZone, fmt.Sprint(d.IntN(3))).Obj()
					s.cache.AddNode(klog.Background(), nodes[name])
				}
			case n == 1:
				name := some(names())
				require.NoError(t, s.cache.RemoveNode(klog.Background(), nodes[name]))
				delete(nodes, name)
				if d.IntN(2) == 0 { // and comes back at once, with its pods
					nodes[name] = node(name, 8).Obj()
					s.cache.AddNode(klog.Background(), nodes[name])
				}
			case n < 5:
				name := some(names())
				changed := nodes[name].DeepCopy()
				switch d.IntN(4) {
				case 0:
					changed.Spec.Unschedulable = !changed.Spec.Unschedulable
				case 1: // the list's order is by zones
					changed.Labels[v1.LabelTopologyZone] = fmt.Sprint(d.IntN(3))
				case 2:
					changed.Labels["disk"] = fmt.Sprint(d.IntN(2))
				default:
					changed.Status.Allocatable[v1.ResourceCPU] = *resource.NewQuantity(int64(4<<d.IntN(3)), resource.DecimalSI)
				}
				s.cache.UpdateNode(klog.Background(), nodes[name], changed)
				nodes[name] = changed
			case n < 9:
				name := fmt.Sprint("p", step)
				p := pod(name, fmt.Sprint("app", d.IntN(5)))
				if d.IntN(5) == 0 {
					p.OwnerReference("agent", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"})
				}
				pods[name] = p.Node(some(names())).Obj()
				s.addPods(pods[name])
			default:
				if len(pods) > 0 {
					name := some(slices.Sorted(maps.Keys(pods)))
					s.removePods(pods[name])
					delete(pods, name)
				}
			}
			if d.IntN(3) > 0 {
				continue // several things at once
			}
			p := pod("new", fmt.Sprint("app", d.IntN(5))).NodeSelector(map[string]string{"disk": "1"})
			if d.IntN(2) == 0 {
				p = pod("new", fmt.Sprint("app", d.IntN(5)))
			}
			fresh := newStage(t, nil)
			for _, n := range nodes {
				fresh.cache.AddNode(klog.Background(), n)
			}
			for _, p := range pods {
				fresh.addPods(p)
			}
			require.Equal(t, fresh.scores(p.Obj()), s.scores(p.Obj()), "seed %d, step %d", seed, step)
		}
		s.verify()
	}
}
