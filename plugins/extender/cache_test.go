package extender

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// The first choice counts at once, before the cluster shows it.
func TestAssumes(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	d.view.setNode(node("c", 4))
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	require.Equal(t, "b", d.first(pod("db-1", "db"), "a", "b"))
	_, refused := d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Contains(t, refused, "a")

	// The cluster shows the same: nothing changes.
	d.view.setPod(at(pod("web-1", "web"), "a"))
	_, refused = d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Len(t, refused, 1)
	require.Len(t, d.view.assumed, 1)
	require.Empty(t, d.logged(ledger.KindPlace))
}

// Of one node the scheduler does not ask which is best: the pod goes there.
func TestAssumesTheOnlyNode(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	passed, _ := d.filter(pod("web-1", "web"), "b")
	require.Equal(t, []string{"b"}, passed)
	passed, _ = d.filter(pod("web-2", "web"), "a", "b")
	require.Equal(t, []string{"a"}, passed)
	passed, refused := d.filter(pod("web-3", "web"), "a", "b")
	require.Empty(t, passed)
	require.Len(t, refused, 2)
	decisions := d.logged(ledger.KindDecide)
	require.Len(t, decisions, 2)
	require.Equal(t, ledger.CauseSingle, decisions[1].Cause)
}

// An assumption that the cluster does not confirm expires.
func TestAssumptionExpires(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	d.view.setNode(node("c", 4))
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	d.now = d.now.Add(30 * time.Second)
	_, refused := d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Contains(t, refused, "a")
	d.now = d.now.Add(1)
	_, refused = d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Empty(t, refused)
	require.Empty(t, d.view.assumed)
	d.view.setPod(at(pod("web-1", "web"), "a")) // late, but it came
	_, refused = d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Contains(t, refused, "a")
	require.Len(t, d.logged(ledger.KindFailed), 1)
}

// A scheduler that asks about a pod again did not bind it.
func TestRetry(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	passed, _ := d.filter(pod("web-1", "web"), "a", "b")
	require.Equal(t, []string{"a", "b"}, passed, "it is not in its own way")
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	require.Len(t, d.view.assumed, 1)
	require.Len(t, d.logged(ledger.KindFailed), 1)
	require.Len(t, d.logged(ledger.KindArrive), 1)
	require.Len(t, d.logged(ledger.KindDecide), 2)
}

// The scheduler took another node than our first.
func TestBoundElsewhere(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	d.view.setNode(node("c", 4))
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	d.view.setPod(at(pod("web-1", "web"), "b"))
	passed, refused := d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Equal(t, []string{"a", "c"}, passed)
	require.Contains(t, refused, "b")
	require.Empty(t, d.view.assumed)
	place := d.logged(ledger.KindPlace)
	require.Len(t, place, 1)
	require.Equal(t, "b", place[0].Node)
}

// A pod that is bound already is asked about again, by a scheduler that lags: it
// stays where it is.
func TestAskedAboutBoundPod(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	d.view.setNode(node("c", 4))
	d.view.setPod(at(pod("web-1", "web"), "b"))
	d.filter(pod("db-1", "db"), "a", "b")
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	require.Empty(t, d.view.assumed)
	_, refused := d.filter(pod("web-2", "web"), "a", "b", "c")
	require.Contains(t, refused, "b")
	require.NotContains(t, refused, "a")
	d.logged(ledger.KindDecide)
}

func TestPodsGo(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	d.view.setNode(node("c", 4))
	free := func() bool {
		_, refused := d.filter(pod("new", "web"), "a", "b", "c")
		return len(refused) == 0
	}
	require.Equal(t, "a", d.first(pod("web-1", "web"), "a", "b"))
	require.False(t, free())
	d.view.removePod(pod("web-1", "web")) // deleted before it was bound
	require.True(t, free())

	bound := at(pod("web-2", "web"), "a")
	d.view.setPod(bound)
	require.False(t, free())
	d.view.removePod(bound)
	require.True(t, free())

	d.view.setPod(bound)
	ended := bound.DeepCopy()
	ended.Status.Phase = v1.PodSucceeded
	d.view.setPod(ended)
	require.True(t, free())
	d.view.setPod(ended) // its status may change once more
	require.True(t, free())

	d.view.setPod(pod("waits", "web")) // has no node
	require.True(t, free())
	require.Empty(t, d.view.pods)
	require.Empty(t, d.view.on)
	d.logged(ledger.KindDecide)
}

// A node goes with its pods and comes back with them.
func TestNodesGo(t *testing.T) {
	d := newDesk(t)
	d.oneWeb()
	d.view.setPod(at(pod("web-1", "web"), "a")) // seen before its node
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	refused := func() int {
		_, r := d.filter(pod("new", "web"), "a", "b")
		return len(r)
	}
	require.Equal(t, 1, refused())
	d.view.removeNode("a")
	_, why := d.filter(pod("new", "web"), "a", "b")
	require.Equal(t, map[string]string{"a": unknownNode}, why)
	require.Equal(t, map[string]int64{"a": 0, "b": 10}, d.prioritize(pod("other", "other"), "a", "b"))
	d.view.setNode(node("a", 4))
	require.Equal(t, 1, refused())
	d.logged(ledger.KindDecide)
}

// Deletions reach the handlers as what was last known.
func TestLast(t *testing.T) {
	p := pod("x", "web")
	require.Same(t, p, last(p))
	require.Same(t, p, last(cache.DeletedFinalStateUnknown{Key: "default/x", Obj: p}))
}

// With the informers: not ready before all there is was read.
func TestInformers(t *testing.T) {
	client := fake.NewClientset(node("a", 4), node("b", 4), at(pod("web-1", "web"), "a"))
	factory := informers.NewSharedInformerFactory(client, 0)
	d := newDesk(t)
	d.oneWeb()
	var err error
	d.Server, err = New(d.opt, factory)
	require.NoError(t, err)
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod("new", "web"), NodeNames: &[]string{"a", "b"}})
	require.NoError(t, err)
	for _, verb := range []string{"/filter", "/prioritize"} {
		status, text := d.post(verb, body)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, "nodes and pods are not read yet\n", string(text))
	}
	require.Error(t, d.Ready())
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	factory.Start(ctx.Done())
	require.Eventually(t, func() bool { return d.Ready() == nil }, 10*time.Second, time.Millisecond)
	refused := func() string {
		_, r := d.filter(pod("new", "web"), "a", "b")
		var names []string
		for name, why := range r {
			if why != unknownNode {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	eventually := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool { return refused() == want }, 10*time.Second, time.Millisecond, want)
	}
	require.Equal(t, "a", refused())
	pods := client.CoreV1().Pods("default")
	_, err = pods.Create(ctx, at(pod("web-2", "web"), "b"), metav1.CreateOptions{})
	require.NoError(t, err)
	eventually("a b")
	require.NoError(t, pods.Delete(ctx, "web-1", metav1.DeleteOptions{}))
	eventually("b")
	require.NoError(t, client.CoreV1().Nodes().Delete(ctx, "b", metav1.DeleteOptions{}))
	eventually("")
	_, err = client.CoreV1().Nodes().Create(ctx, node("b", 8), metav1.CreateOptions{})
	require.NoError(t, err)
	eventually("b")
}
