package kube_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// sizedPod is a pod of a Deployment with cores, on a node or nowhere.
func sizedPod(name, workload, cores, node string) *v1.Pod {
	p := podOf(name, ownedBy("Deployment", workload), requests("cpu", cores))
	p.Spec.NodeName = node
	return p
}

// chainWorld has two nodes of 4 cores: on a stand db with 3 and log with 1, on b web with 1.
// The chain moves db to b, and large with 3 cores follows to a.
func chainWorld(t *testing.T) (w *world, logs, web *v1.Pod, chain *kube.Chain) {
	w = newWorld(t)
	db := sizedPod("db-1", "db", "3", "a")
	logs, web = sizedPod("log-1", "log", "1", "a"), sizedPod("web-1", "web", "1", "b")
	w.SetNode(sized("a", 4), []*v1.Pod{db, logs})
	w.SetNode(sized("b", 4), []*v1.Pod{web})
	chain = kube.NewChain("PlacementPolicy/general make-room default/large-1", deadline, []kube.Place{
		{Pod: db, Node: "b"}, {Pod: sizedPod("large-1", "large", "3", ""), Node: "a"},
	}, "")
	w.Reserve(chain, 1000)
	return w, logs, web, chain
}

const dbToB, largeToA = "1 default/Deployment/db@cpu=3;", "1 default/Deployment/large@cpu=3;"

// All places are reserved at once, and closed to others at every step.
func TestChainIsCarriedOut(t *testing.T) {
	w, logs, web, chain := chainWorld(t)
	refused := func(cpu, node string) bool {
		k := w.Check(podOf("new", ownedBy("Deployment", "other"), requests("cpu", cpu)), time.Time{})
		return k != nil && k.Refusal(node) != ""
	}
	require.Equal(t, map[string]string{"a": largeToA, "b": dbToB}, w.reserved())
	require.Equal(t, kube.PlaceFree, w.PlaceOf(chain, 0))
	require.Equal(t, kube.PlaceOccupied, w.PlaceOf(chain, 1))
	require.True(t, w.Claimed("default/Deployment/db"))
	require.False(t, w.Claimed("default/Deployment/web"))
	require.True(t, refused("1", "b"))
	require.False(t, w.ledger.Columns().Fits(w.ledger.AppIndex(w.EnsureApp(web).Name()), w.ledger.MachineIndex("a")))

	// The replacement comes while the evicted pod still ends.
	w.Decide(sizedPod("db-2", "db", "3", ""), "b", &ledger.Decision{Cause: ledger.CausePlanned})
	require.Equal(t, kube.PlaceTaken, w.PlaceOf(chain, 0))
	require.Equal(t, kube.PlaceOccupied, w.PlaceOf(chain, 1))
	require.Equal(t, map[string]string{"a": largeToA}, w.reserved())
	w.SetNode(sized("a", 4), []*v1.Pod{logs})
	require.Equal(t, kube.PlaceFree, w.PlaceOf(chain, 1))
	require.True(t, refused("1", "a"), "who comes meanwhile does not take the place")
	w.Decide(sizedPod("large-1", "large", "3", ""), "a", &ledger.Decision{Cause: ledger.CausePlanned})
	require.Equal(t, kube.PlaceTaken, w.PlaceOf(chain, 1))
	require.Empty(t, w.reserved())
	require.Equal(t, []string{"b 1 taken", "a 1 taken"}, w.reasons())
	w.Release(chain, 1001)
	require.False(t, w.Active(chain))
	require.Empty(t, w.reasons())
}

// A plan has its workloads until its deadline: then chains may move their pods, and go on.
func TestPlanThatIsOver(t *testing.T) {
	for _, over := range []bool{false, true} {
		w, _, _, _ := chainWorld(t)
		chain := kube.NewChain("later", 3*deadline, []kube.Place{{Pod: sizedPod("o-1", "o", "500m", ""), Node: "b"}}, "")
		w.Reserve(chain, 1000)
		web, o := webOn(v1alpha1.PlannedNode{Node: "c", Pods: 1}), webOn(v1alpha1.PlannedNode{Node: "c", Pods: 1})
		o.Name = "o"
		w.SetPlans([]*kube.Plan{planOf(w.t, web, o)}, map[bool]float64{false: 1001, true: 2 * deadline}[over])
		require.Equal(t, !over, w.Claimed("default/Deployment/web"))
		require.Equal(t, over, w.Active(chain))
	}
}

// A chain that ends leaves nothing reserved, whatever ends it. Another one goes on.
func TestChainEnds(t *testing.T) {
	tainted := func(key string) func(*world, *kube.Chain) {
		return func(w *world, _ *kube.Chain) {
			b := sized("b", 4)
			b.Spec.Taints = []v1.Taint{{Key: key, Effect: v1.TaintEffectNoSchedule}}
			w.SetNode(b, []*v1.Pod{sizedPod("web-1", "web", "1", "b")})
		}
	}
	for _, tt := range []struct {
		name    string
		end     func(*world, *kube.Chain)
		reasons []string
		left    map[string]string // reserved; its places that still are
	}{
		{"given up", func(w *world, c *kube.Chain) { w.Release(c, 1001) }, []string{"a 1 withdrawn", "b 1 withdrawn"}, map[string]string{}},
		{"deadline", func(w *world, _ *kube.Chain) { w.ReviewPlans(deadline) }, []string{"a 1 deadline", "b 1 deadline"}, map[string]string{}},
		{"a plan for one of its workloads", func(w *world, _ *kube.Chain) {
			db := webOn(v1alpha1.PlannedNode{Node: "c", Pods: 1})
			db.Name = "db"
			w.SetPlans([]*kube.Plan{planOf(w.t, db)}, 1001)
		}, []string{"a 1 withdrawn", "b 1 withdrawn"}, map[string]string{}},
		{"the node goes", func(w *world, _ *kube.Chain) { w.RemoveNode("b") }, nil, map[string]string{"a": largeToA}},
		{"a foreign pod takes the room", func(w *world, _ *kube.Chain) {
			w.SetNode(sized("b", 4), []*v1.Pod{sizedPod("web-1", "web", "1", "b"), sizedPod("x-1", "x", "1", "b")})
		}, []string{"b 1 no-room"}, map[string]string{"a": largeToA}},
		{"a pod grows in place", func(w *world, _ *kube.Chain) {
			w.SetNode(sized("b", 4), []*v1.Pod{sizedPod("web-1", "web", "1500m", "b")})
		}, []string{"b 1 no-room"}, map[string]string{"a": largeToA}},
		{"cordoned", func(w *world, _ *kube.Chain) {
			b := sized("b", 4)
			b.Spec.Unschedulable = true
			w.SetNode(b, []*v1.Pod{sizedPod("web-1", "web", "1", "b")})
		}, []string{"b 1 cordoned"}, map[string]string{"a": largeToA}},
		{"not heard from", tainted(v1.TaintNodeUnreachable), []string{"b 1 refused"}, map[string]string{"a": largeToA}},
		{"a taint of another kind", tainted("team"), []string{"b 1 refused"}, map[string]string{"a": largeToA}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, _, _, chain := chainWorld(t)
			w.SetNode(sized("d", 4), nil)
			other := kube.NewChain("another", 2*deadline, []kube.Place{{Pod: sizedPod("o-1", "o", "1", ""), Node: "d"}}, "")
			w.Reserve(other, 1000)
			w.reasons()
			tt.end(w, chain)
			require.Equal(t, len(tt.left) > 0, w.Active(chain))
			tt.left["d"] = "1 default/Deployment/o@cpu=1;"
			require.Equal(t, tt.reasons, w.reasons())
			require.Equal(t, tt.left, w.reserved())
			require.Equal(t, kube.PlaceLost, w.PlaceOf(chain, 0))
			require.True(t, w.Active(other))
			w.Release(chain, 1002)
			require.Equal(t, map[string]string{"d": "1 default/Deployment/o@cpu=1;"}, w.reserved())
		})
	}
}

// A pod of the workload that stands on the node before is not the one that is to come.
func TestChainToWhereOthersStand(t *testing.T) {
	w := newWorld(t)
	db := sizedPod("db-1", "db", "3", "a")
	w.SetNode(sized("a", 4), []*v1.Pod{db})
	w.SetNode(sized("b", 8), []*v1.Pod{sizedPod("db-0", "db", "3", "b")})
	chain := kube.NewChain("x", deadline, []kube.Place{{Pod: db, Node: "b"}, {Pod: sizedPod("large-1", "large", "4", ""), Node: "a"}}, "")
	w.Reserve(chain, 1000)
	require.Equal(t, kube.PlaceFree, w.PlaceOf(chain, 0))
	w.SetNode(sized("b", 8), nil) // that one leaves
	require.Equal(t, kube.PlaceFree, w.PlaceOf(chain, 0))
	w.SetNode(sized("b", 8), []*v1.Pod{sizedPod("db-2", "db", "3", "b")})
	require.Equal(t, kube.PlaceTaken, w.PlaceOf(chain, 0))
}

// Plans that are set again leave the chains of other workloads alone.
func TestPlansLeaveChains(t *testing.T) {
	w, _, _, chain := chainWorld(t)
	w.SetPlans([]*kube.Plan{planOf(t, webOn(v1alpha1.PlannedNode{Node: "c", Pods: 1}))}, 1001)
	require.True(t, w.Active(chain))
	require.Len(t, w.Plans(), 1)
	require.Equal(t, map[string]string{"a": largeToA, "b": dbToB}, w.reserved())
}

// Several places on one node for one workload are taken one after the other.
func TestPlacesForAWorkload(t *testing.T) {
	w := newWorld(t)
	one, two := sizedPod("web-1", "web", "1", "a"), sizedPod("web-2", "web", "1", "a")
	stood := sizedPod("web-0", "web", "1", "b")
	w.SetNode(sized("a", 4), []*v1.Pod{one, two})
	w.SetNode(sized("b", 8), []*v1.Pod{stood})
	chain := kube.NewChain("Rebalance/tidy", deadline, []kube.Place{{Pod: one, Node: "b"}, {Pod: two, Node: "b"}}, "")
	w.Reserve(chain, 1000)
	require.Equal(t, map[string]string{"b": "2 default/Deployment/web@cpu=1;"}, w.reserved())
	first := sizedPod("web-3", "web", "1", "b")
	w.Decide(sizedPod("web-3", "web", "1", ""), "b", &ledger.Decision{Cause: ledger.CausePlanned})
	require.Equal(t, map[string]string{"b": "1 default/Deployment/web@cpu=1;"}, w.reserved())
	w.SetNode(sized("b", 8), []*v1.Pod{stood, first, sizedPod("web-4", "web", "1", "b")})
	require.Empty(t, w.reserved())
	w.Release(chain, 1001)
	require.False(t, w.Active(chain))
}
