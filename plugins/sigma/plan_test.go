package sigma

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// planWeb reserves room for one pod of web with two cores on a node.
func (s *stage) planWeb(node string) {
	s.Helper()
	plan, err := kube.NewPlan(&v1alpha1.PlacementPlan{ObjectMeta: metav1.ObjectMeta{Name: "site"}, Spec: v1alpha1.PlacementPlanSpec{
		Mode: v1alpha1.PlanEnabled, Deadline: metav1.NewTime(time.Now().Add(time.Hour)),
		Workloads: []v1alpha1.PlannedWorkload{{
			Namespace: "default", Name: "web", Nodes: []v1alpha1.PlannedNode{{Node: node, Pods: 1}},
			Requests: map[string]resource.Quantity{"cpu": resource.MustParse("2")},
		}},
	}}, "app")
	require.NoError(s, err)
	s.engine.SetPlans([]*kube.Plan{plan})
}

// cores are those of a container beside the one that every pod has.
func cores(n string) map[v1.ResourceName]string { return map[v1.ResourceName]string{v1.ResourceCPU: n} }

// A planned pod goes to its node, and its binding that fails leaves the place reserved. Filter
// refuses the node to others, and preemption makes the room that they need beside it.
func TestPlan(t *testing.T) {
	s := newStage(t, nil, registerPreemption)
	s.decideBy(shipped(t, "hand-k0"))
	s.addNodes(node("a", 8), node("b", 8))
	low := pod("low", "db").Priority(1).Node("b").Req(cores("1")).Obj()
	full := pod("full", "db").Priority(20).Node("a").Req(cores("7")).Obj()
	s.addPods(low, full)
	s.planWeb("b")
	large := pod("large", "other").Priority(10).Req(cores("4")).Obj()
	s.inform(low, full, large)
	c := s.filter(large)
	require.Equal(t, fwk.Unschedulable, c.refused["b"].Code())
	require.Equal(t, "PlacementPlan/site: cpu is reserved for other pods", c.refused["b"].Message())
	nominated, status := s.preempt(c, large)
	require.Equal(t, "b", nominated, "%v", status)
	require.Equal(t, []string{"low"}, s.deleted())
	require.True(t, s.filter(pod("small", "other").Req(cores("3")).Obj()).refused["b"].IsSuccess())

	web := pod("web-1", "web").Req(cores("1")).Obj()
	s.removePods(full)
	c, assumed := s.place(web)
	require.Equal(t, "b", assumed.Spec.NodeName)
	s.fail(c, assumed)
	require.Equal(t, fwk.Unschedulable, s.filter(large).refused["b"].Code(), "reserved again")
	_, assumed = s.place(web)
	require.Equal(t, "b", assumed.Spec.NodeName)
	require.Equal(t, 2, s.verify().Causes[ledger.CausePlanned])
}

// What can open a node with reservations wakes the pods that they keep off it.
func TestPlanWakesPods(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a", 8), node("b", 8))
	s.planWeb("b")
	s.filter(pod("new", "other").Obj())
	events, err := s.EventsToRegister(t.Context())
	require.NoError(t, err)
	for on, want := range map[string]fwk.QueueingHint{"a": fwk.QueueSkip, "b": fwk.Queue} {
		hint, err := events[0].QueueingHintFn(klog.Background(), pod("new", "other").Obj(), pod("left", "db").Node(on).Obj(), nil)
		require.NoError(t, err)
		require.Equal(t, want, hint, on)
	}
	s.has.Plans = true
	events, err = s.EventsToRegister(t.Context())
	require.NoError(t, err)
	require.Len(t, events, 3)
	gvr, _ := schema.ParseResourceArg(string(events[2].Event.Resource))
	require.Equal(t, v1alpha1.SchemeGroupVersion.WithResource("placementplans"), *gvr)
	hint, err := events[2].QueueingHintFn(klog.Background(), pod("new", "other").Obj(), nil, nil)
	require.NoError(t, err)
	require.Equal(t, fwk.Queue, hint)
}
