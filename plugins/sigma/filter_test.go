package sigma

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// refusals are the nodes that Sigma refused, with why.
func (c *cycle) refusals() map[string]string {
	out := map[string]string{}
	for name, status := range c.refused {
		if status.Plugin() == Name {
			out[name] = status.Message()
		}
	}
	return out
}

func TestPreFilterSkipsWithoutRules(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a", 4), node("b", 4))
	s.addPods(pod("web-1", "web").Node("a").Obj())
	skipped := func(p *v1.Pod) bool {
		c := s.filter(p)
		require.True(t, c.status.IsSuccess())
		require.Len(t, c.feasible, 2)
		return c.state.GetSkipFilterPlugins().Has(Name)
	}
	require.True(t, skipped(pod("web-2", "web").Obj()), "there are no rules")

	s.engine.SetRules([]*kube.Rule{rule(t, "few", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(5))})})
	require.False(t, skipped(pod("web-2", "web").Obj()))
	require.True(t, skipped(pod("db-1", "db").Obj()), "no rule is about it")

	daemon := pod("agent-1", "web").OwnerReference("agent", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}).Obj()
	require.True(t, skipped(daemon), "rules are about pods that move")

	s.engine.SetRules(nil)
	require.True(t, skipped(pod("web-2", "web").Obj()))
}

func TestFilter(t *testing.T) {
	web, db := picks("app", "web"), picks("app", "db")
	standing := []*v1.Pod{
		pod("web-1", "web").Node("a").Obj(), pod("web-2", "web").Node("a").Obj(), pod("web-3", "web").Node("b").Obj(),
		pod("db-1", "db").Node("b").Obj(), pod("db-2", "db").Node("c").Obj(),
		pod("web-4", "web").Namespace("other").Node("d").Obj(),
	}
	const limit, excludes = "placement rule r: at most %d of default/%s on a node", "placement rule r: default/%s excludes default/%s"
	tests := []struct {
		name string
		rule v1alpha1.PlacementRuleSpec
		pod  *st.PodWrapper
		want map[string]string
	}{
		{
			name: "limit", pod: pod("new", "web"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: web, MaxPerNode: new(int32(2))},
			want: map[string]string{"a": fmt.Sprintf(limit, 2, "web")},
		},
		{
			name: "limit one", pod: pod("new", "web"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: web, MaxPerNode: new(int32(1))},
			want: map[string]string{"a": fmt.Sprintf(limit, 1, "web"), "b": fmt.Sprintf(limit, 1, "web")},
		},
		{
			name: "limit of each app by itself", pod: pod("new", "db"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: picks("", ""), MaxPerNode: new(int32(1))},
			want: map[string]string{"b": fmt.Sprintf(limit, 1, "db"), "c": fmt.Sprintf(limit, 1, "db")},
		},
		{
			name: "limit in another namespace", pod: pod("new", "web"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web", "other"), MaxPerNode: new(int32(1))},
			want: map[string]string{},
		},
		{
			name: "limit of pods of that namespace", pod: pod("new", "web").Namespace("other"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web", "third", "other"), MaxPerNode: new(int32(1))},
			want: map[string]string{"d": "placement rule r: at most 1 of other/web on a node"},
		},
		{
			name: "spread not reached", pod: pod("new", "web"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: web, SpreadMin: new(int32(3))},
			want: map[string]string{
				"a": "placement rule r: default/web stands on 2 nodes and has to stand on 3 before two share one",
				"b": "placement rule r: default/web stands on 2 nodes and has to stand on 3 before two share one",
			},
		},
		{
			name: "spread reached", pod: pod("new", "web"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: web, SpreadMin: new(int32(2))},
			want: map[string]string{},
		},
		{
			name: "excludes: the selected pod comes", pod: pod("new", "web"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: web, Excludes: []v1alpha1.Exclusion{{PodSet: db}}},
			want: map[string]string{"b": fmt.Sprintf(excludes, "web", "db"), "c": fmt.Sprintf(excludes, "web", "db")},
		},
		{
			name: "excludes: the excluded pod comes", pod: pod("new", "db"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: web, Excludes: []v1alpha1.Exclusion{{PodSet: db}}},
			want: map[string]string{"a": fmt.Sprintf(excludes, "web", "db"), "b": fmt.Sprintf(excludes, "web", "db"), "d": "placement rule r: other/web excludes default/db"},
		},
		{
			name: "excludes with a number", pod: pod("new", "db"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: web, Excludes: []v1alpha1.Exclusion{{PodSet: db, Max: 1}}},
			want: map[string]string{"b": fmt.Sprintf(excludes, "web", "db")},
		},
		{
			name: "excludes in a namespace", pod: pod("new", "db"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web", "other"), Excludes: []v1alpha1.Exclusion{{PodSet: db}}},
			want: map[string]string{"d": "placement rule r: other/web excludes default/db"},
		},
		{
			name: "the own app is exempt from excludes", pod: pod("new", "web"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: web, Excludes: []v1alpha1.Exclusion{{PodSet: web}}},
			want: map[string]string{"d": "placement rule r: other/web excludes default/web"}, // they are two apps
		},
		{
			name: "an unknown app", pod: pod("new", "cache"),
			rule: v1alpha1.PlacementRuleSpec{PodSet: db, Excludes: []v1alpha1.Exclusion{{PodSet: picks("", "")}}},
			want: map[string]string{"b": fmt.Sprintf(excludes, "db", "cache"), "c": fmt.Sprintf(excludes, "db", "cache")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, nil)
			s.addNodes(node("a", 8), node("b", 8), node("c", 8), node("d", 8), node("e", 8))
			s.addPods(standing...)
			s.engine.SetRules([]*kube.Rule{rule(t, "r", tt.rule)})
			c := s.filter(tt.pod.Obj())
			require.Equal(t, tt.want, c.refusals())
			for _, status := range c.refused {
				require.Equal(t, fwk.Unschedulable, status.Code(), "preemption may help")
			}
		})
	}
}

// Filter may be called for any node any number of times, and changes nothing that
// another cycle sees; nor does what preemption tries on its copies.
func TestFilterHasNoSideEffects(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a", 8), node("b", 8))
	standing := pod("web-1", "web").Node("a").Obj()
	s.addPods(standing)
	s.engine.SetRules([]*kube.Rule{rule(t, "r", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(1)), SpreadMin: new(int32(2))})})
	p := pod("web-2", "web").Obj()
	c := s.filter(p)
	want := c.refusals()
	require.Len(t, want, 1)
	infoA, err := s.snapshot.NodeInfos().Get("a")
	require.NoError(t, err)

	removed := c.state.Clone()
	info, err := framework.NewPodInfo(standing)
	require.NoError(t, err)
	require.True(t, s.framework.RunPreFilterExtensionRemovePod(s.ctx, removed, p, info, infoA).IsSuccess())
	require.Nil(t, s.Filter(s.ctx, removed, p, infoA), "without the other one it may come")
	again := removed.Clone()
	require.True(t, s.framework.RunPreFilterExtensionAddPod(s.ctx, again, p, info, infoA).IsSuccess())
	require.NotNil(t, s.Filter(s.ctx, again, p, infoA), "it is back")
	require.Nil(t, s.Filter(s.ctx, removed, p, infoA), "but not in the copy it was made of")

	for range 3 {
		require.NotNil(t, s.Filter(s.ctx, c.state, p, infoA))
		require.Equal(t, want, s.filter(p).refusals())
	}
	require.Equal(t, want, s.filter(pod("web-3", "web").Obj()).refusals())
	require.Empty(t, s.events(ledger.KindDecide))
}

// The pod informer reports pods that got a node, from any scheduler, and deleted pods.
func TestPodEvents(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a", 8), node("b", 8))
	s.addPods(pod("web-1", "web").Node("a").Obj())
	s.engine.SetRules([]*kube.Rule{rule(t, "one", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(1))})})
	s.decideBy(shipped(t, "hand-k0"))
	waits := pod("waits", "db").Obj()
	s.score(s.filter(waits), waits)

	s.bound(nil, pod("web-2", "web").Node("b").Obj())
	s.bound(nil, pod("web-3", "web").Obj())
	s.bound(nil, "no pod")
	require.Empty(t, s.engine.Conflicts())
	s.bound(pod("web-4", "web").Node("a").Obj(), pod("web-4", "web").Node("a").Obj())
	require.Empty(t, s.engine.Conflicts(), "nothing changed")
	s.bound(pod("web-4", "web").Obj(), pod("web-4", "web").Node("a").Obj())
	require.Equal(t, map[string]int{"one": 1}, s.engine.Conflicts())

	s.gone("no pod")
	s.gone(cache.DeletedFinalStateUnknown{Obj: waits})
	s.filter(pod("other", "other").Obj())
	removed := s.events(ledger.KindRemove)
	require.Len(t, removed, 1)
	require.Equal(t, "default/waits", removed[0].Pod)
	s.verify()
}

func TestQueueingHints(t *testing.T) {
	web, db := picks("app", "web"), picks("app", "db")
	rules := []*kube.Rule{
		rule(t, "few", v1alpha1.PlacementRuleSpec{PodSet: web, MaxPerNode: new(int32(1)), Excludes: []v1alpha1.Exclusion{{PodSet: db}}}),
		rule(t, "wide", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "wide"), SpreadMin: new(int32(2))}),
	}
	relabelled := func(p *st.PodWrapper, app string) *v1.Pod { q := p.Obj().DeepCopy(); q.Labels["app"] = app; return q }
	tests := []struct {
		name          string
		waits         *st.PodWrapper
		before, after *st.PodWrapper
		relabel       string // the app it is of after
		want          fwk.QueueingHint
	}{
		{name: "one in its way goes", waits: pod("new", "web"), before: pod("web-1", "web").Node("a"), want: fwk.Queue},
		{name: "one excluded goes", waits: pod("new", "web"), before: pod("db-1", "db").Node("b"), want: fwk.Queue},
		{name: "one that excludes it goes", waits: pod("new", "db"), before: pod("web-1", "web").Node("a"), want: fwk.Queue},
		{name: "one of its app goes, by spread", waits: pod("new", "wide"), before: pod("wide-1", "wide").Node("a"), want: fwk.Queue},
		{name: "another app's goes", waits: pod("new", "web"), before: pod("cache-1", "cache").Node("a"), want: fwk.QueueSkip},
		{name: "a pod goes that excludes no waiting pod", waits: pod("new", "wide"), before: pod("web-1", "web").Node("a"), want: fwk.QueueSkip},
		{name: "one goes that had no node", waits: pod("new", "web"), before: pod("web-9", "web"), want: fwk.QueueSkip},
		{name: "one in its way is another app's now", waits: pod("new", "web"), before: pod("web-1", "web").Node("a"), relabel: "cache", want: fwk.Queue},
		{name: "another app's becomes another", waits: pod("new", "web"), before: pod("cache-1", "cache").Node("a"), relabel: "cache2", want: fwk.QueueSkip},
		{name: "one without a node is relabelled", waits: pod("new", "web"), before: pod("web-9", "web"), relabel: "cache", want: fwk.QueueSkip},
		{name: "it is relabelled itself", waits: pod("new", "web"), before: pod("new", "web"), relabel: "free", want: fwk.Queue},
		{name: "one of its app comes to a node, and it has to spread", waits: pod("new", "wide"), after: pod("wide-2", "wide").Node("b"), want: fwk.Queue},
		{name: "one of its app is made that has no node", waits: pod("new", "wide"), after: pod("wide-2", "wide"), want: fwk.QueueSkip},
		{name: "one of its app comes to a node", waits: pod("new", "web"), after: pod("web-2", "web").Node("b"), want: fwk.QueueSkip},
		{name: "another app's comes to a node", waits: pod("new", "wide"), after: pod("web-2", "web").Node("b"), want: fwk.QueueSkip},
	}
	s := newStage(t, nil)
	s.addNodes(node("a", 8), node("b", 8))
	s.addPods(pod("web-1", "web").Node("a").Obj(), pod("db-1", "db").Node("b").Obj(),
		pod("wide-1", "wide").Node("a").Obj(), pod("cache-1", "cache").Node("a").Obj())
	s.engine.SetRules(rules)
	for _, app := range []string{"web", "db", "wide"} { // each was refused once
		s.filter(pod("new", app).Obj())
	}
	events, err := s.EventsToRegister(t.Context())
	require.NoError(t, err)
	require.Len(t, events, 2, "without a cluster there are no rules to watch")
	podEvent := events[0]
	require.Equal(t, fwk.Pod, podEvent.Event.Resource)
	require.Equal(t, fwk.Add|fwk.Delete|fwk.UpdatePodLabel|fwk.UpdatePodScaleDown, podEvent.Event.ActionType)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after any
			if tt.before != nil {
				before = tt.before.Obj()
			}
			if tt.after != nil {
				after = tt.after.Obj()
			}
			if tt.relabel != "" {
				after = relabelled(tt.before, tt.relabel)
			}
			hint, err := podEvent.QueueingHintFn(klog.Background(), tt.waits.Obj(), before, after)
			require.NoError(t, err)
			require.Equal(t, tt.want, hint)
		})
	}
	_, err = podEvent.QueueingHintFn(klog.Background(), pod("new", "web").Obj(), "no pod", nil)
	require.Error(t, err)

	// Nodes: whatever may open one, without asking.
	require.Equal(t, fwk.Node, events[1].Event.Resource)
	require.Nil(t, events[1].QueueingHintFn)
	for _, action := range []fwk.ActionType{fwk.Add, fwk.UpdateNodeLabel, fwk.UpdateNodeTaint, fwk.UpdateNodeAllocatable} {
		require.NotZero(t, events[1].Event.ActionType&action)
	}
	s.has.Rules = true
	events, err = s.EventsToRegister(t.Context())
	require.NoError(t, err)
	require.Len(t, events, 3)
	gvr, _ := schema.ParseResourceArg(string(events[2].Event.Resource))
	require.Equal(t, v1alpha1.SchemeGroupVersion.WithResource("placementrules"), *gvr)
	old := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "few", "uid": "x", "generation": int64(1)}}}
	now := old.DeepCopy()
	now.SetGeneration(2)
	for _, tt := range []struct {
		before, after any
		want          fwk.QueueingHint
	}{{nil, old, fwk.Queue}, {old, now, fwk.Queue}, {old, nil, fwk.Queue}, {old, old.DeepCopy(), fwk.QueueSkip}} {
		hint, err := events[2].QueueingHintFn(klog.Background(), pod("new", "web").Obj(), tt.before, tt.after)
		require.NoError(t, err)
		require.Equal(t, tt.want, hint)
	}
}

func TestFilterByZone(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a1", 4).Label(v1.LabelTopologyZone, "a"), node("a2", 4).Label(v1.LabelTopologyZone, "a"), node("b1", 4).Label(v1.LabelTopologyZone, "b"), node("c1", 4))
	s.addPods(pod("web-1", "web").Node("a1").Obj())
	s.engine.SetRules([]*kube.Rule{rule(t, "zones", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(1)), TopologyKey: v1.LabelTopologyZone})})
	full, none := "placement rule zones: at most 1 of default/web in a zone", "placement rule zones: the node has no label topology.kubernetes.io/zone"
	require.Equal(t, map[string]string{"a1": full, "a2": full, "c1": none}, s.filter(pod("web-2", "web").Obj()).refusals())

	require.NotNil(t, s.cache.UpdateNode(klog.Background(), node("c1", 4).Obj(), node("c1", 4).Label(v1.LabelTopologyZone, "c").Obj()))
	require.Equal(t, map[string]string{"a1": full, "a2": full}, s.filter(pod("web-2", "web").Obj()).refusals())
}

// A pod that a rule refuses is tried again once the rule gives way, and not because of another rule.
func TestTriedAgain(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a", 4))
	s.addPods(pod("web-1", "web").Node("a").Obj(), pod("db-1", "db").Node("a").Obj())
	s.engine.SetRules([]*kube.Rule{
		rule(t, "few", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(1)), AfterMinutes: new(int32(1))}),
		rule(t, "strict", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "db"), MaxPerNode: new(int32(1))}),
	})
	waits := func(name, app string) *v1.Pod {
		p := pod(name, app).Obj()
		p.CreationTimestamp = metav1.NewTime(time.Now().Add(200*time.Millisecond - time.Minute))
		c := s.filter(p)
		require.Len(t, c.refusals(), 1)
		for range 2 {
			_, _ = s.PostFilter(s.ctx, c.state, p, framework.NewDefaultNodeToStatus())
		}
		return p
	}
	waits("db-2", "db")
	web := waits("web-2", "web")
	require.Eventually(t, func() bool { return len(s.activated) > 0 }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, "default/web-2", <-s.activated)
	require.Empty(t, s.filter(web).refusals())
	time.Sleep(100 * time.Millisecond)
	require.Empty(t, s.activated, "each once")
}
