package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// What is held is reserved with the next cycle, beside the pods that stand by then, and released with
// another. The log gives the same decisions.
func TestHold(t *testing.T) {
	l := newLab(t)
	require.False(t, l.Decides())
	l.node("a", 4)
	l.node("b", 4)
	l.sync()
	require.True(t, l.Decides())
	db := l.stand(pod("db-1", "db", asks("cpu", "2")), "a")
	l.stand(pod("web-1", "web", asks("cpu", "1")), "b") // no cycle knows it
	until := seconds(l.now.Add(time.Hour))
	h := l.Hold("Rebalance/tidy", until, []kube.Place{{Pod: db, Node: "b"}})
	require.False(t, l.Holds("b"), "it is not yet told to anybody")
	require.Equal(t, "b", l.place(pod("db-2", "db", asks("cpu", "2"))).Ranked[0].Node)
	h2 := l.Hold("Rebalance/tidy", until, []kube.Place{{Pod: db, Node: "a"}})
	l.Release(h2) // before it began
	l.sync()
	require.False(t, l.Holds("a"))
	h3 := l.Hold("Rebalance/tidy", until, []kube.Place{{Pod: db, Node: "a"}})
	l.Release(h)
	l.sync()
	require.True(t, l.Holds("a"))
	require.True(t, l.Claimed(podspec.Group(db, l.opt.AppLabel)))
	l.Release(h3)
	require.False(t, l.Claimed(podspec.Group(db, l.opt.AppLabel)), "at once")
	require.True(t, l.Holds("a"), "with the next cycle")
	l.sync()
	require.False(t, l.Holds("a"))
	require.Equal(t, 1, l.verify().Causes[ledger.CausePlanned])
}

// A replacement has the node that the next decision would take, and nothing is decided or written.
func TestPrefer(t *testing.T) {
	l := newLab(t)
	for _, name := range []string{"a", "b", "c"} {
		l.node(name, 4)
	}
	db := l.stand(pod("db-1", "db", asks("cpu", "1")), "a")
	l.stand(pod("web-1", "web", asks("cpu", "2")), "c")
	l.sync()
	require.Equal(t, []string{"c", "b", "new"}, l.Prefer(db, []string{"b", "c", "new"}), "Best-Fit, and a node that is not known yet")
	h := l.Hold("Rebalance/tidy", seconds(l.now.Add(time.Hour)), []kube.Place{{Pod: pod("big-1", "big", asks("cpu", "2")), Node: "c"}})
	l.sync()
	require.Equal(t, []string{"b"}, l.Prefer(db, []string{"b", "c"}), "the room of c is reserved")
	l.Release(h)
	l.sync()
	require.Equal(t, "c", l.Prefer(db, []string{"b", "c"})[0])
	require.Equal(t, "c", l.place(pod("db-2", "db", asks("cpu", "1"))).Ranked[0].Node, "as a decision does")
	l.verify()
}

// What one profile reserves, the others of its process keep free too, until it is released.
func TestPeers(t *testing.T) {
	peers := &Peers{}
	var labs [2]*lab
	var db *v1.Pod
	for i := range labs {
		l := newLab(t, func(o *Options) { o.Peers = peers })
		l.node("a", 4)
		l.node("b", 4)
		db = l.stand(pod("db-1", "db", asks("cpu", "2"), func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "x", Controller: new(true)}}
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		}), "a")
		l.sync()
		labs[i] = l
	}
	l, other := labs[0], labs[1]
	refuses := func(node, cpu string) bool { // that node a has free, or b
		other.sync()
		k := other.Check(pod("new", "new", asks("cpu", cpu)))
		return k != nil && k.Refusal(node) != ""
	}
	until := seconds(l.now.Add(time.Hour))
	h := l.Hold("Rebalance/tidy", until, []kube.Place{{Pod: db, Node: "b"}})
	require.True(t, refuses("b", "4"))
	require.True(t, other.Claimed(podspec.Group(db, l.opt.AppLabel)))
	l.Release(h)
	require.False(t, refuses("b", "4"))

	l.SetPolicy(ledger.Primary, repairing(policy.RepairEnabled))
	l.stand(pod("web-1", "web", asks("cpu", "1500m")), "b")
	l.sync()
	r := l.FindRoom(pod("waits", "waits", asks("cpu", "3")), []string{"a", "b"}, 8, nil)
	require.NotNil(t, r)
	l.Begin(r, until)
	require.True(t, refuses("a", "2"))
	l.End(r)
	require.False(t, refuses("a", "2"))
	require.Empty(t, peers.twins)
	require.NoError(t, other.Close())
	l.Release(l.Hold("Rebalance/tidy", until, []kube.Place{{Pod: db, Node: "b"}}))
	require.Len(t, peers.engines, 1)
	l.verify()
	other.verify()
}
