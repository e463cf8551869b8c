package engine

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Compare compares with a picture of this moment.
func (l *lab) Compare(with *kube.Snapshot) []kube.Difference {
	_, synced := l.lastSync()
	return l.Engine.Compare(with, synced)
}

// picture is the lab's cluster as informers have it.
func (l *lab) picture() *kube.Snapshot {
	var nodes []*v1.Node
	var pods []*v1.Pod
	for name, n := range l.nodes {
		nodes = append(nodes, n)
		pods = append(pods, l.on[name]...)
	}
	return kube.NewSnapshot(nodes, pods)
}

// compare compares, lets a cycle run, and compares again.
func (l *lab) compare() []kube.Difference {
	l.Compare(l.picture())
	l.now = l.now.Add(settling + time.Second)
	l.sync()
	found := l.Compare(l.picture())
	require.Equal(l, float64(len(found)), l.gauge(l.metrics.divergence))
	return found
}

// street has pods of several kinds on three nodes.
func street(t *testing.T) *lab {
	l := newLab(t)
	for _, name := range []string{"a", "b", "c"} {
		l.node(name, 16)
	}
	l.SetPolicy(ledger.Primary, shipped(t, "kubernetes-k0"))
	for i := range 12 {
		l.place(pod(fmt.Sprint("web-", i), fmt.Sprint("app-", i%5)))
	}
	l.stand(pod("agent", "agent", ofDaemonSet), "a")
	l.sync()
	return l
}

func TestStateAgreesWithTheCluster(t *testing.T) {
	l := newLab(t)
	require.Empty(t, l.Compare(l.picture()), "a standby knows nothing")
	l = street(t)
	require.Empty(t, l.compare())

	// What the cluster does not show yet is assumed.
	assumed := pod("assumed", "app-1")
	v := l.rank(assumed)
	l.Reserve(assumed, "a", v)
	with := l.picture()
	all := kube.NewSnapshot([]*v1.Node{l.nodes["a"], l.nodes["b"], l.nodes["c"]}, append(slices.Concat(l.on["a"], l.on["b"], l.on["c"]), assumed))
	require.Len(t, l.state.cluster.Compare(with), 1, "deleted")
	require.Empty(t, l.state.cluster.Compare(all))
}

// A difference counts if a cycle that had to see it did not mend it. Then it is named, and
// the state is built again.
func TestStateDiffers(t *testing.T) {
	tests := []struct {
		name string
		do   func(l *lab)
		want kube.Difference
	}{
		{"pod that is gone", func(l *lab) {
			l.on["a"] = slices.DeleteFunc(l.on["a"], func(p *v1.Pod) bool { return p.Name == "lost" })
		}, kube.Difference{Node: "a", Pod: "uid lost", Ours: "here", Theirs: "gone"}},
		{"pod that ended", func(l *lab) {
			for _, p := range l.on["a"] {
				if p.Name == "lost" {
					p.Status.Phase = v1.PodSucceeded
				}
			}
		}, kube.Difference{Node: "a", Pod: "default/lost", Ours: "here", Theirs: "ended"}},
		{"pod that came", func(l *lab) { l.stand(pod("new", "web"), "b") }, kube.Difference{Node: "b", Pod: "default/new", Ours: "not here", Theirs: "here"}},
		{"pod elsewhere", func(l *lab) {
			l.on["a"] = slices.DeleteFunc(l.on["a"], func(p *v1.Pod) bool { return p.Name == "lost" })
			l.stand(pod("lost", "web"), "c")
		}, kube.Difference{Node: "c", Pod: "default/lost", Ours: "on a", Theirs: "here"}},
		{"node that shrank", func(l *lab) { l.node("c", 8) }, kube.Difference{
			Node: "c", Ours: "offers cpu=16,memory=64Gi", Theirs: "offers cpu=8,memory=32Gi",
		}},
		{"node that is gone", func(l *lab) { delete(l.nodes, "c") }, kube.Difference{Node: "c", Ours: "a node", Theirs: "gone"}},
		{"new node", func(l *lab) { l.node("d", 8) }, kube.Difference{Node: "d", Ours: "unknown", Theirs: "a node"}},
		{"cordon", func(l *lab) {
			n := l.nodes["c"].DeepCopy()
			n.Spec.Unschedulable = true
			l.nodes["c"] = n
		}, kube.Difference{Node: "c", Ours: "cordoned false", Theirs: "cordoned true"}},
		{"columns", func(l *lab) {
			columns := l.state.ledger.Columns()
			columns.Remove(columns.Contents(l.state.ledger.MachineIndex("a"))[0].App, l.state.ledger.MachineIndex("a"), nil)
		}, kube.Difference{Node: "a", Ours: "free ", Theirs: "free "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := street(t)
			l.stand(pod("lost", "web"), "a")
			l.sync()
			tt.do(l)
			clear(l.dirty) // no cycle hears of it
			require.Empty(t, l.Compare(l.picture()), "the first time it may be under way")
			require.Empty(t, l.Compare(l.picture()), "no cycle ran since")
			found := l.compare()
			require.NotEmpty(t, found)
			if tt.name == "columns" {
				found[0].Ours, found[0].Theirs = found[0].Ours[:5], found[0].Theirs[:5]
			}
			require.Contains(t, found, tt.want)

			l.sync() // builds the state again
			require.Equal(t, 1, l.counter(l.metrics.restarts))
			require.Empty(t, l.compare())
			l.place(pod("after", "web"))
			l.verify()
		})
	}
}

// The state is not built again and again for what that does not mend.
func TestStateDiffersForLong(t *testing.T) {
	l := street(t)
	other := kube.NewSnapshot(nil, nil)
	for range 90 {
		l.Compare(other)
		l.now = l.now.Add(time.Minute)
		l.sync()
	}
	require.Equal(t, 2, l.counter(l.metrics.restarts))
	require.Equal(t, 3., l.gauge(l.metrics.divergence))
}

// A Sync that comes after the nodes were listed, and sees what happened since, does not make a difference
// count: node d was new at the first comparison, and at the second it had just gone.
func TestSyncAfterTheList(t *testing.T) {
	l := street(t)
	l.node("d", 8)
	with := l.picture()
	clear(l.dirty) // no cycle has seen it yet
	require.Empty(t, l.Compare(with))
	l.now = l.now.Add(time.Minute)
	_, synced := l.lastSync()
	delete(l.nodes, "d")
	l.sync()
	require.Empty(t, l.Engine.Compare(with, synced))
	require.Zero(t, l.gauge(l.metrics.divergence))
}

// The process compares on SIGUSR2.
func TestCompareOnSignal(t *testing.T) {
	l := street(t)
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0) // of an empty cluster
	refreshed := make(chan bool, 10)
	l.CompareWith(t.Context(), factory, func() { refreshed <- true })
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	seen := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.compared.since)
	}
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGUSR2))
	require.Eventually(t, func() bool { return seen() == 3 }, 30*time.Second, time.Millisecond)
	require.True(t, <-refreshed)
	l.mu.Lock()
	l.now = l.now.Add(settling + time.Second)
	l.mu.Unlock()
	l.sync()
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGUSR2))
	require.Eventually(t, func() bool { return l.gauge(l.metrics.divergence) == 3 }, 30*time.Second, time.Millisecond)
}
