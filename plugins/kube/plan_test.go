package kube_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// deadline of the plans here, in seconds since 1970.
const deadline = 2000

func planObject(workloads ...v1alpha1.PlannedWorkload) *v1alpha1.PlacementPlan {
	return &v1alpha1.PlacementPlan{
		ObjectMeta: metav1.ObjectMeta{Name: "site"},
		Spec:       v1alpha1.PlacementPlanSpec{Mode: v1alpha1.PlanEnabled, Deadline: metav1.NewTime(time.Unix(deadline, 0)), Workloads: workloads},
	}
}

// webOn is the Deployment web with pods of 1 cpu on nodes.
func webOn(nodes ...v1alpha1.PlannedNode) v1alpha1.PlannedWorkload {
	return v1alpha1.PlannedWorkload{
		Namespace: "default", Kind: "Deployment", Name: "web", Nodes: nodes, Requests: map[string]resource.Quantity{"cpu": resource.MustParse("1")},
	}
}

func planOf(t *testing.T, workloads ...v1alpha1.PlannedWorkload) *kube.Plan {
	t.Helper()
	p, err := kube.NewPlan(planObject(workloads...), "")
	require.NoError(t, err)
	return p
}

func TestPlanIsChecked(t *testing.T) {
	on := func(node string, pods int32) v1alpha1.PlannedNode {
		return v1alpha1.PlannedNode{Node: node, Pods: pods}
	}
	good := func() *v1alpha1.PlacementPlan { return planObject(webOn(on("a", 1), on("b", 2))) }
	for _, tt := range []struct {
		want   string
		change func(*v1alpha1.PlacementPlanSpec)
	}{
		{`spec.mode "Soon": want DryRun or Enabled`, func(s *v1alpha1.PlacementPlanSpec) { s.Mode = "Soon" }},
		{"spec.deadline is missing", func(s *v1alpha1.PlacementPlanSpec) { s.Deadline = metav1.Time{} }},
		{"spec.workloads is empty", func(s *v1alpha1.PlacementPlanSpec) { s.Workloads = nil }},
		{"spec.workloads[1]: spec.workloads[0] is default/Deployment/web already", func(s *v1alpha1.PlacementPlanSpec) {
			s.Workloads = append(s.Workloads, s.Workloads[0])
		}},
		{"spec.workloads[0].namespace is missing", func(s *v1alpha1.PlacementPlanSpec) { s.Workloads[0].Namespace = "" }},
		{"spec.workloads[0].name is missing", func(s *v1alpha1.PlacementPlanSpec) { s.Workloads[0].Name = "" }},
		{"spec.workloads[0].kind is missing", func(s *v1alpha1.PlacementPlanSpec) { s.Workloads[0].Kind = "" }},
		{"spec.workloads[0].kind DaemonSet: its pods have their nodes", func(s *v1alpha1.PlacementPlanSpec) { s.Workloads[0].Kind = "DaemonSet" }},
		{"spec.workloads[0].requests.cpu -1: want 0 or more", func(s *v1alpha1.PlacementPlanSpec) {
			s.Workloads[0].Requests["cpu"] = resource.MustParse("-1")
		}},
		{"spec.workloads[0].nodes is empty", func(s *v1alpha1.PlacementPlanSpec) { s.Workloads[0].Nodes = nil }},
		{"spec.workloads[0].nodes[1].node is missing", func(s *v1alpha1.PlacementPlanSpec) { s.Workloads[0].Nodes[1].Node = "" }},
		{"spec.workloads[0].nodes[1].pods 0: want 1 to 10000", func(s *v1alpha1.PlacementPlanSpec) { s.Workloads[0].Nodes[1].Pods = 0 }},
		{"spec.workloads[0].nodes[1].node a: it is there twice", func(s *v1alpha1.PlacementPlanSpec) { s.Workloads[0].Nodes[1].Node = "a" }},
	} {
		p := good()
		tt.change(&p.Spec)
		_, err := kube.NewPlan(p, "")
		require.ErrorContains(t, err, tt.want)
	}
	p := good()
	p.Spec.Mode = ""
	plan, err := kube.NewPlan(p, "")
	require.NoError(t, err)
	require.False(t, plan.Enabled, "a plan begins without effect")
	p.Spec.Workloads[0].Kind = ""
	_, err = kube.NewPlan(p, "app")
	require.NoError(t, err)
}

func sized(name string, cores int64) *v1.Node {
	n := nodeOf(name)
	n.Status.Allocatable["cpu"] = *resource.NewQuantity(cores, resource.DecimalSI)
	return n
}

// reserved are the reservations, by node.
func (w *world) reserved() map[string]string {
	out := map[string]string{}
	for n := range w.ledger.ReservedNodes() {
		for _, r := range n.Reservations() {
			out[n.Name()] += fmt.Sprintf("%d %s;", r.Pods, r.App.Name())
		}
	}
	return out
}

// reasons are those of releases since the last call.
func (w *world) reasons() []string {
	var list []string
	for _, e := range w.events {
		if e.Kind == ledger.KindRelease {
			list = append(list, fmt.Sprint(e.Node, " ", e.Reserved.Pods, " ", e.Reserved.Reason))
		}
	}
	w.events = nil
	return list
}

// Reservations follow what stands, what there is room for, and the deadline.
func TestPlanIsSettled(t *testing.T) {
	w := newWorld(t)
	a, b := sized("a", 4), sized("b", 4)
	w.SetNode(a, nil)
	w.SetNode(b, nil)
	plan := planOf(t, webOn(v1alpha1.PlannedNode{Node: "a", Pods: 2}, v1alpha1.PlannedNode{Node: "b", Pods: 1}, v1alpha1.PlannedNode{Node: "later", Pods: 1}))
	w.SetPlans([]*kube.Plan{plan}, 1000)
	const one, two = "1 default/Deployment/web@cpu=1;", "2 default/Deployment/web@cpu=1;"
	require.Equal(t, map[string]string{"a": two, "b": one}, w.reserved())
	require.Equal(t, kube.PlanReport{Pods: 4, Reserved: 3, HasRoom: 3, NoNode: 1}, w.Report(plan))
	require.Empty(t, w.reasons())

	web := func(name string) *v1.Pod { return podOf(name, ownedBy("Deployment", "web"), requests("cpu", "1")) }
	first := web("web-1")
	w.Decide(first, "a", &ledger.Decision{Cause: ledger.CausePlanned})
	require.Equal(t, map[string]string{"a": one, "b": one}, w.reserved())
	require.Equal(t, []string{"a 1 taken"}, w.reasons())
	w.Undo(first) // the binding failed: its room is reserved again
	require.Equal(t, map[string]string{"a": two, "b": one}, w.reserved())
	w.Decide(first, "a", &ledger.Decision{Cause: ledger.CausePlanned})
	w.reasons()

	// A pod grows in place: it comes before what is reserved. It shrinks: there is room again.
	big := podOf("db-0", ownedBy("StatefulSet", "db"), requests("cpu", "3500m"))
	w.SetNode(b, []*v1.Pod{big})
	require.Equal(t, []string{"b 1 no-room"}, w.reasons())
	require.Equal(t, int32(1), w.Report(plan).NoRoom)
	w.SetNode(b, []*v1.Pod{podOf("db-0", ownedBy("StatefulSet", "db"), requests("cpu", "3"))})
	require.Equal(t, map[string]string{"a": one, "b": one}, w.reserved())

	// Cordons, and a node that goes and comes.
	cordoned := b.DeepCopy()
	cordoned.Spec.Unschedulable = true
	w.SetNode(cordoned, []*v1.Pod{big})
	require.Equal(t, []string{"b 1 cordoned"}, w.reasons())
	require.Equal(t, int32(1), w.Report(plan).Cordoned)
	w.RemoveNode("b")
	w.SetNode(b, nil)
	w.SetNode(sized("later", 4), nil)
	require.Equal(t, map[string]string{"a": one, "b": one, "later": one}, w.reserved())
	w.RemoveNode("later")
	require.Equal(t, map[string]string{"a": one, "b": one}, w.reserved())
	w.SetNode(sized("later", 4), nil)

	// The workload has all its pods, some elsewhere.
	w.SetNode(sized("c", 9), []*v1.Pod{web("web-2"), web("web-3"), web("web-4")})
	w.reasons()
	w.ReviewPlans(1001)
	require.Equal(t, []string{"a 1 elsewhere", "b 1 elsewhere", "later 1 elsewhere"}, w.reasons())
	require.Equal(t, kube.PlanReport{Pods: 4, Placed: 1, Elsewhere: 3}, w.Report(plan))
	w.SetNode(sized("c", 9), nil)
	w.ReviewPlans(1002)
	require.Len(t, w.reserved(), 3)

	w.reasons()
	w.ReviewPlans(deadline)
	require.Equal(t, []string{"a 1 deadline", "b 1 deadline", "later 1 deadline"}, w.reasons())
	w.ReviewPlans(1000)
	require.Len(t, w.reserved(), 3)
	w.reasons()
	w.SetPlans(nil, 1000)
	require.Equal(t, []string{"a 1 withdrawn", "b 1 withdrawn", "later 1 withdrawn"}, w.reasons())
}

// A plan that is not enabled reserves nothing, and says what there is room for.
func TestPlanNotEnabled(t *testing.T) {
	w := newWorld(t)
	w.SetNode(sized("a", 2), nil)
	object := planObject(webOn(v1alpha1.PlannedNode{Node: "a", Pods: 3}))
	object.Spec.Mode = v1alpha1.PlanDryRun
	plan, err := kube.NewPlan(object, "")
	require.NoError(t, err)
	w.SetPlans([]*kube.Plan{plan}, 1000)
	require.Empty(t, w.reserved())
	require.Equal(t, kube.PlanReport{Pods: 3, HasRoom: 2, NoRoom: 1}, w.Report(plan))

	// What another plan has reserved is no room.
	db := webOn(v1alpha1.PlannedNode{Node: "a", Pods: 1})
	db.Name = "db"
	first := planObject(db)
	first.Name = "first"
	enabled, err := kube.NewPlan(first, "")
	require.NoError(t, err)
	w.SetPlans([]*kube.Plan{enabled, plan}, 1000)
	require.Len(t, w.reserved(), 1)
	require.Equal(t, kube.PlanReport{Pods: 3, HasRoom: 1, NoRoom: 2}, w.Report(plan))
}

// What is reserved is closed to all other pods, and to them only where they would fit without
// it. Preemption sees the room that a victim leaves.
func TestReservationsCloseNodes(t *testing.T) {
	w := newWorld(t)
	stands := podOf("db-0", ownedBy("StatefulSet", "db"), requests("cpu", "1"))
	w.SetNode(sized("a", 4), []*v1.Pod{stands})
	w.SetNode(sized("b", 4), nil)
	w.SetPlans([]*kube.Plan{planOf(t, webOn(v1alpha1.PlannedNode{Node: "a", Pods: 2}))}, 1000)
	other := func(cpu string) *v1.Pod { return podOf("new", ownedBy("Deployment", "other"), requests("cpu", cpu)) }
	refuses := func(p *v1.Pod, node string) string {
		k := w.Check(p, time.Time{})
		if k == nil {
			return ""
		}
		return k.Refusal(node)
	}
	const why = "PlacementPlan/site: cpu is reserved for other pods"
	require.Empty(t, refuses(other("1"), "a"))
	require.Equal(t, why, refuses(other("1500m"), "a"))
	require.Equal(t, why, refuses(other("3"), "a"))
	require.Empty(t, refuses(other("3500m"), "a"), "it is too large without the reservation too: the other filters say so")
	nominated := other("1500m")
	nominated.Status.NominatedNodeName = "a"
	require.Empty(t, refuses(nominated, "a"), "preemption made room there")
	require.Empty(t, refuses(other("4"), "b"))
	require.Empty(t, refuses(podOf("web-9", ownedBy("Deployment", "web"), requests("cpu", "3")), "a"), "it is for this one")

	k := w.Check(other("2"), time.Time{})
	less := k.Clone()
	w.Adjust(less, stands, "a", -1)
	require.Empty(t, less.Refusal("a"))
	require.Equal(t, why, k.Refusal("a"), "a copy was changed")
	w.Adjust(less, stands, "a", 1)
	require.Equal(t, why, less.Refusal("a"))

	require.True(t, w.HasReservation("a"))
	require.False(t, w.HasReservation("b"))

	// A check is of its moment: filters ask it at the same time as others change what is reserved.
	w.SetPlans(nil, 1001)
	require.Empty(t, refuses(other("2"), "a"))
	require.Equal(t, why, k.Refusal("a"))
}

// A rule about pods that are still to come holds too.
func TestReservationsAndRules(t *testing.T) {
	w := newWorld(t)
	w.SetNode(sized("a", 4), nil)
	w.SetNode(sized("b", 4), nil)
	w.SetPlans([]*kube.Plan{planOf(t, webOn(v1alpha1.PlannedNode{Node: "a", Pods: 1}))}, 1000)
	w.SetNode(sized("b", 4), []*v1.Pod{podOf("web-1", ownedBy("Deployment", "web"), labelled("app", "web"), requests("cpu", "1"))})
	hermit := podOf("hermit", ownedBy("Deployment", "hermit"), apart("kubernetes.io/hostname", "app", "web"))
	require.Empty(t, w.Check(podOf("x", ownedBy("Deployment", "x")), time.Time{}).Refusal("a"))
	w.SetPlans([]*kube.Plan{planOf(t, webOn(v1alpha1.PlannedNode{Node: "a", Pods: 1}, v1alpha1.PlannedNode{Node: "b", Pods: 1}))}, 1000)
	require.Equal(t, "PlacementPlan/site: room is reserved for pods that exclude this one", w.Check(hermit, time.Time{}).Refusal("a"))
}
