package sigma

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A pod that preemption has made room for counts as if it stood there.
func TestFilterHeedsNominatedPods(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a", 8), node("b", 8))
	s.engine.SetRules([]*kube.Rule{rule(t, "r", v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(1))})})
	nominated, err := framework.NewPodInfo(pod("web-1", "web").Priority(10).NominatedNodeName("a").Obj())
	require.NoError(t, err)
	s.filter(nominated.Pod) // it had a cycle before
	require.NoError(t, s.informers.Core().V1().Pods().Informer().GetStore().Add(nominated.Pod))
	s.queue.Add(s.ctx, nominated.Pod)
	require.Contains(t, s.filter(pod("web-2", "web").Obj()).refusals(), "a")
	require.Empty(t, s.filter(pod("db-1", "db").Obj()).refusals())
	require.Empty(t, s.filter(pod("web-2", "web").Priority(11).Obj()).refusals(), "of higher priority than the nominated one")
}

// Preemption through a rule: nothing but the rule closes the node, and a pod of
// lower priority goes.
func TestPreemptionThroughRule(t *testing.T) {
	web, quiet := picks("app", "web"), picks("app", "quiet")
	tests := []struct {
		name      string
		rule      v1alpha1.PlacementRuleSpec
		standing  []*v1.Pod
		pod       *st.PodWrapper
		nominated string
		victims   []string
	}{
		{
			name:      "limit",
			rule:      v1alpha1.PlacementRuleSpec{PodSet: web, MaxPerNode: new(int32(2))},
			standing:  []*v1.Pod{pod("w1", "web").Priority(3).Node("a").Obj(), pod("w2", "web").Priority(2).Node("a").Obj(), pod("d1", "db").Priority(1).Node("a").Obj()},
			pod:       pod("new", "web").Priority(10),
			nominated: "a", victims: []string{"w2"}, // the least important of those in the way, and no other
		},
		{
			name:     "exclusion",
			rule:     v1alpha1.PlacementRuleSpec{PodSet: web, Excludes: []v1alpha1.Exclusion{{PodSet: quiet, Max: 1}}},
			standing: []*v1.Pod{pod("w1", "web").Priority(2).Node("a").Obj(), pod("q1", "quiet").Priority(1).Node("a").Obj(), pod("d1", "db").Priority(1).Node("a").Obj()},
			pod:      pod("new", "quiet").Priority(10), nominated: "a", victims: []string{"q1"},
		},
		{
			name:     "spread",
			rule:     v1alpha1.PlacementRuleSpec{PodSet: web, SpreadMin: new(int32(2))},
			standing: []*v1.Pod{pod("w1", "web").Priority(1).Node("a").Obj(), pod("d1", "db").Priority(1).Node("a").Obj()},
			pod:      pod("new", "web").Priority(10), nominated: "a", victims: []string{"w1"},
		},
		{
			name:     "those in the way are as important",
			rule:     v1alpha1.PlacementRuleSpec{PodSet: web, MaxPerNode: new(int32(1))},
			standing: []*v1.Pod{pod("w1", "web").Priority(10).Node("a").Obj(), pod("d1", "db").Priority(1).Node("a").Obj()},
			pod:      pod("new", "web").Priority(10),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, nil, registerPreemption)
			s.addNodes(node("a", 8))
			s.addPods(tt.standing...)
			s.inform(append(tt.standing, tt.pod.Obj())...)
			s.engine.SetRules([]*kube.Rule{rule(t, "r", tt.rule)})
			c := s.filter(tt.pod.Obj())
			require.Empty(t, c.feasible)
			nominated, status := s.preempt(c, tt.pod.Obj())
			require.Equal(t, tt.nominated, nominated, "%v", status)
			require.Equal(t, tt.victims, s.deleted())
			if nominated == "" {
				require.Equal(t, fwk.Unschedulable, status.Code())
				return
			}

			// The victim goes, and the pod comes where it was nominated.
			for _, p := range tt.standing {
				if slices.Contains(tt.victims, p.Name) {
					s.removePods(p)
				}
			}
			_, assumed := s.place(tt.pod.NominatedNodeName(tt.nominated).Obj())
			require.Equal(t, tt.nominated, assumed.Spec.NodeName)
			require.Equal(t, map[string]int{ledger.CauseNominated: 1}, s.verify().Causes)
		})
	}
}

// A plan of victims on many nodes at once asks for changes to copies from many
// goroutines.
func TestPreemptionInParallel(t *testing.T) {
	s := newStage(t, nil, registerPreemption)
	s.engine.SetRules([]*kube.Rule{rule(t, "r", v1alpha1.PlacementRuleSpec{
		PodSet: picks("app", "web"), MaxPerNode: new(int32(1)), Excludes: []v1alpha1.Exclusion{{PodSet: picks("app", "db")}},
	})})
	for i := range 40 {
		name := fmt.Sprintf("n%02d", i)
		s.addNodes(node(name, 8))
		app := "web"
		if i%2 == 0 {
			app = "db"
		}
		standing := pod("p"+name, app).Priority(1).Node(name).Obj()
		s.addPods(standing)
		s.inform(standing)
	}
	p := pod("new", "web").Priority(10).Obj()
	s.inform(p)
	c := s.filter(p)
	require.Len(t, c.refusals(), 40)
	nominated, status := s.preempt(c, p)
	require.NotEmpty(t, nominated, "%v", status)
	require.Len(t, s.deleted(), 1)
}

// inform adds pods to the API server and the informers.
func (s *stage) inform(pods ...*v1.Pod) {
	s.Helper()
	for _, p := range pods {
		require.NoError(s, s.client.Tracker().Add(p))
		require.NoError(s, s.informers.Core().V1().Pods().Informer().GetStore().Add(p))
	}
}

// preempt looks for a node where others make room for a pod that found none.
func (s *stage) preempt(c *cycle, p *v1.Pod) (nominated string, status *fwk.Status) {
	s.Helper()
	statuses := framework.NewDefaultNodeToStatus()
	for name, why := range c.refused {
		statuses.Set(name, why)
	}
	result, status := s.framework.RunPostFilterPlugins(s.ctx, c.state, p, statuses)
	if result == nil || result.NominatingInfo == nil {
		return "", status
	}
	return result.NominatedNodeName, status
}

// deleted are the pods that the scheduler deleted.
func (s *stage) deleted() []string {
	var names []string
	for _, action := range s.client.Actions() {
		if gone, ok := action.(clienttesting.DeleteAction); ok {
			names = append(names, gone.GetName())
		}
	}
	return names
}
