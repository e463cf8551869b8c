package kube_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

func on(node string, pods int32) v1alpha1.PlannedNode {
	return v1alpha1.PlannedNode{Node: node, Pods: pods}
}

// webPod is a pod of the Deployment web with 1 core, on a node or nowhere.
func webPod(name, node string) *v1.Pod {
	p := podOf(name, ownedBy("Deployment", "web"), labelled("app", "web"), requests("cpu", "1"))
	p.Spec.NodeName = node
	return p
}

// webs is what is reserved for the Deployment web.
func webs(pods int) string { return fmt.Sprintf("%d default/Deployment/web@cpu=1;", pods) }

// planned is a world with nodes a to d of 2 cores, and a plan of two pods of web on a and two
// on b, of which one stands on a.
func plannedWorld(t *testing.T) (*world, *kube.Plan) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.SetNode(sized(name, 2), nil)
	}
	plan := planOf(t, webOn(on("a", 2), on("b", 2)))
	w.SetPlans([]*kube.Plan{plan}, 1000)
	w.Decide(webPod("web-1", ""), "a", &ledger.Decision{Cause: ledger.CausePlanned})
	require.Equal(t, map[string]string{"a": webs(1), "b": webs(2)}, w.reserved())
	w.reasons()
	return w, plan
}

// Pods that lose their places are planned again, each cause within one review, with the same
// deadline. The others stay where they are planned.
func TestPlannedAgain(t *testing.T) {
	tainted := func(key string) func(*world) {
		return func(w *world) {
			b := sized("b", 2)
			b.Spec.Taints = []v1.Taint{{Key: key, Effect: v1.TaintEffectNoSchedule}}
			w.SetNode(b, nil)
		}
	}
	for name, tt := range map[string]struct {
		lose    func(*world)
		reasons []string
		want    map[string]string
		again   map[string]int32
	}{
		"the node goes": {func(w *world) { w.RemoveNode("b") }, nil, map[string]string{"a": webs(1), "c": webs(2)}, map[string]int32{"c": 2}},
		"cordoned": {func(w *world) {
			b := sized("b", 2)
			b.Spec.Unschedulable = true
			w.SetNode(b, nil)
		}, []string{"b 2 cordoned"}, map[string]string{"a": webs(1), "c": webs(2)}, map[string]int32{"c": 2}},
		"not heard from":          {tainted(v1.TaintNodeUnreachable), []string{"b 2 refused"}, map[string]string{"a": webs(1), "c": webs(2)}, map[string]int32{"c": 2}},
		"a taint of another kind": {tainted("team"), []string{"b 2 refused"}, map[string]string{"a": webs(1), "c": webs(2)}, map[string]int32{"c": 2}},
		"anti-affinity of a pod there": {func(w *world) {
			w.SetNode(sized("b", 2), []*v1.Pod{podOf("hermit", ownedBy("Deployment", "hermit"), apart("kubernetes.io/hostname", "app", "web"))})
		}, []string{"b 2 refused"}, map[string]string{"a": webs(1), "c": webs(2)}, map[string]int32{"c": 2}},
		"a rule about a pod there": {func(w *world) {
			w.SetRules([]*kube.Rule{rule(w.t, v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), Excludes: []v1alpha1.Exclusion{{PodSet: picks("app", "x")}}})})
			w.SetNode(sized("b", 2), []*v1.Pod{podOf("x-1", ownedBy("Deployment", "x"), labelled("app", "x"))})
		}, []string{"b 2 refused"}, map[string]string{"a": webs(1), "c": webs(2)}, map[string]int32{"c": 2}},
		"no room for one": {func(w *world) {
			w.SetNode(sized("b", 2), []*v1.Pod{sizedPod("x-1", "x", "1", "b")})
		}, []string{"b 1 no-room"}, map[string]string{"a": webs(1), "b": webs(1), "c": webs(1)}, map[string]int32{"c": 1}},
		"a rule": {func(w *world) {
			w.SetRules([]*kube.Rule{rule(w.t, v1alpha1.PlacementRuleSpec{PodSet: picks("app", "web"), MaxPerNode: new(int32(1))})})
		}, []string{"a 1 refused", "b 1 refused"}, map[string]string{"b": webs(1), "c": webs(1), "d": webs(1)}, map[string]int32{"c": 1, "d": 1}},
		"a node with pods that landed": {func(w *world) { w.RemoveNode("a") }, nil, map[string]string{"b": webs(2), "c": webs(2)}, map[string]int32{"c": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w, plan := plannedWorld(t)
			tt.lose(w)
			w.ReviewPlans(1001)
			require.Equal(t, tt.want, w.reserved())
			for n := range w.ledger.ReservedNodes() {
				require.InDelta(t, deadline, n.Reservations()[0].Until, 0)
				require.Equal(t, "PlacementPlan/site", n.Reservations()[0].By)
			}
			reasons := w.reasons()
			slices.Sort(reasons)
			require.Equal(t, tt.reasons, reasons)
			r := w.Report(plan)
			require.Equal(t, tt.again, r.ReplannedOn)
			require.Zero(t, r.NoNode+r.Cordoned+r.NoRoom+r.Refused)
			w.ReviewPlans(1002)
			require.Empty(t, w.reasons(), "nothing more is to be done")

			// What was planned again lands as planned, and the place that was lost stays closed.
			w.Decide(webPod("web-2", ""), "c", &ledger.Decision{Cause: ledger.CausePlanned})
			landed := w.Report(plan).Placed
			require.Equal(t, r.Placed+1, landed)
		})
	}
}

// A node that has never been there is waited for, and so is one that is cordoned from the
// beginning.
func TestNodesToComeAreWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.SetNode(sized("a", 9), nil)
	closed := sized("b", 2)
	closed.Spec.Unschedulable = true
	w.SetNode(closed, nil)
	plan := planOf(t, webOn(on("b", 2), on("later", 2)))
	w.SetPlans([]*kube.Plan{plan}, 1000)
	require.Empty(t, w.reserved())
	require.Equal(t, kube.PlanReport{Pods: 4, NoNode: 2, Cordoned: 2}, w.Report(plan))
	w.SetNode(sized("b", 2), nil)
	w.SetNode(sized("later", 2), nil)
	w.ReviewPlans(1001)
	require.Equal(t, map[string]string{"b": webs(2), "later": webs(2)}, w.reserved())

	// The next version of the plan knows that it was there.
	w.RemoveNode("later")
	w.SetPlans([]*kube.Plan{planOf(t, webOn(on("b", 2), on("later", 2)))}, 1002)
	require.Equal(t, map[string]string{"a": webs(2), "b": webs(2)}, w.reserved())
}

// Pods without any place are the policy's, and the plan says why. Another try follows when
// more is lost, or after a while.
func TestNoPlaceToPlanAgain(t *testing.T) {
	w, plan := plannedWorld(t)
	full := func(name string) { w.SetNode(sized(name, 2), []*v1.Pod{sizedPod("x-"+name, "x", "2", name)}) }
	full("c")
	full("d")
	w.RemoveNode("b")
	w.ReviewPlans(1001)
	require.Equal(t, map[string]string{"a": webs(1)}, w.reserved())
	require.Equal(t, kube.PlanReport{Pods: 4, Placed: 1, Reserved: 1, HasRoom: 1, NoNode: 2}, w.Report(plan))
	w.SetNode(sized("d", 2), nil)
	w.ReviewPlans(1002)
	require.Equal(t, map[string]string{"a": webs(1)}, w.reserved(), "a try each second would cost too much")
	w.ReviewPlans(1011)
	require.Equal(t, map[string]string{"a": webs(1), "d": webs(2)}, w.reserved())
}

// A clock that is set back puts off no try.
func TestPlanAgainWithClockBack(t *testing.T) {
	w, _ := plannedWorld(t)
	full := func(name string) { w.SetNode(sized(name, 2), []*v1.Pod{sizedPod("x-"+name, "x", "2", name)}) }
	full("c")
	full("d")
	w.RemoveNode("b")
	w.ReviewPlans(1001)
	w.SetNode(sized("d", 2), nil)
	w.ReviewPlans(500)
	require.Equal(t, map[string]string{"a": webs(1), "d": webs(2)}, w.reserved())
}

// What is reserved for small pods makes way on a few nodes where that lets in a large one.
func TestSmallRepack(t *testing.T) {
	w := newWorld(t)
	for name, cores := range map[string]int64{"a": 3, "b": 1, "gone": 3} {
		w.SetNode(sized(name, cores), nil)
	}
	large := webOn(on("gone", 1))
	large.Name, large.Requests["cpu"] = "large", *sized("x", 3).Status.Allocatable.Cpu()
	plan := planOf(t, webOn(on("a", 1)), large)
	w.SetPlans([]*kube.Plan{plan}, 1000)
	w.reasons()
	w.RemoveNode("gone")
	w.ReviewPlans(1001)
	require.Equal(t, map[string]string{"a": "1 default/Deployment/large@cpu=3;", "b": webs(1)}, w.reserved())
	require.Equal(t, []string{"a 1 replanned"}, w.reasons())
	r := w.Report(plan)
	require.Equal(t, map[string]int32{"a": 1, "b": 1}, r.ReplannedOn)
	require.EqualValues(t, 2, r.Replanned())
}

// No more places are kept than pods can still come: others stand elsewhere.
func TestPlanKeepsWhatCanCome(t *testing.T) {
	w := newWorld(t)
	w.SetNode(sized("a", 20), nil)
	plan := planOf(t, webOn(on("a", 10)))
	var elsewhere []*v1.Pod
	for i := range 9 {
		elsewhere = append(elsewhere, webPod(fmt.Sprint("web-", i), "z"))
	}
	w.SetNode(sized("z", 20), elsewhere)
	w.SetPlans([]*kube.Plan{plan}, 1000)
	require.Equal(t, map[string]string{"a": webs(1)}, w.reserved())
	require.Equal(t, kube.PlanReport{Pods: 10, Reserved: 1, HasRoom: 1, Elsewhere: 9}, w.Report(plan))

	// Two go: their places are kept again. A place that another node lost is not.
	w.SetNode(sized("z", 20), elsewhere[2:])
	w.ReviewPlans(1001)
	require.Equal(t, map[string]string{"a": webs(3)}, w.reserved())
}

// The same cluster gives the same places, whatever the order of maps.
func TestPlannedAgainAlike(t *testing.T) {
	var first []string
	for range 5 {
		w := newWorld(t)
		var places, large []v1alpha1.PlannedNode
		for i := range 30 {
			name := fmt.Sprintf("n-%02d", i)
			w.SetNode(sized(name, int64(3+i%3)), []*v1.Pod{sizedPod(name, fmt.Sprint("db-", i%7), "1", name)})
			places = append(places, on(name, 1))
		}
		for i := range 5 {
			name := fmt.Sprintf("x-%d", i)
			w.SetNode(sized(name, 9), nil)
			large = append(large, on(name, 2))
		}
		bigger := webOn(large...)
		bigger.Name, bigger.Requests = "large", map[string]resource.Quantity{"cpu": resource.MustParse("4")}
		w.SetPlans([]*kube.Plan{planOf(t, webOn(places...), bigger)}, 1000)
		w.RemoveNode("x-1")
		w.RemoveNode("n-03")
		w.ReviewPlans(1001)
		require.NotEmpty(t, w.Report(w.Plans()[0]).ReplannedOn)
		if got := w.emitted(); first == nil {
			first = got
		} else {
			require.Equal(t, first, got)
		}
	}
}
