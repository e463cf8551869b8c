package drain

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/engine"
)

// Pods of tenant a that fit nowhere are tried all the time, and take all the time that searches may take. The pod of another
// namespace gets its search all the same.
func TestTwoTenantsShareSearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		searches := 0.
		w.used = func() float64 { searches++; return searches / 10 } // a search is followed by none for a second
		var many []*v1.Pod
		for i := range 150 {
			p := w.add(fmt.Sprintf("a-%03d", i), "a", "4", "")
			p.Namespace = "a"
			many = append(many, p)
		}
		const bound = 2 * searchRetry
		for begin := time.Now(); time.Since(begin) < bound && len(w.evicted) == 0; {
			w.Activate(many...)
			w.run(time.Second)
		}
		require.Equal(t, []string{"db-1"}, w.evicted, "a chain begins for the pod of the other namespace")
		w.run(time.Minute)
		require.Equal(t, []string{"a"}, w.where("large-1"))
	})
}

// A namespace that has its turn and does not use it keeps the others off for a while only.
func TestTurnEnds(t *testing.T) {
	now := time.Now()
	l := newWaitingQueue()
	l.recordSearch("b", now)
	l.recordWait("a", now)
	require.False(t, l.isNext("b", now.Add(turnTimeout-1)))
	require.True(t, l.isNext("a", now.Add(turnTimeout-1)))
	require.True(t, l.isNext("b", now.Add(turnTimeout)))
}

// The last chain is for pods of another namespace, whether those of the first are under way or have left gaps.
func TestTwoTenantsShareChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		waits := func(i int) *v1.Pod {
			return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", UID: types.UID(fmt.Sprint(i))}}
		}
		for i := range maxOfNamespace {
			if p := waits(i); i == 0 {
				w.gaps[p.UID] = &gap{of: "a", pod: p}
			} else {
				w.chains[p.UID] = &chain{EvictionChain: &engine.EvictionChain{Pod: p}}
			}
		}
		large := w.pods["large-1"]
		large.Namespace = "a"
		w.run(time.Second)
		require.Empty(t, w.evicted)
		large.Namespace = "default"
		w.Activate(large)
		w.run(time.Second)
		require.Equal(t, []string{"db-1"}, w.evicted)
		clear(w.chains)
		clear(w.gaps)
	})
}

// So many pods of one namespace wait that there is no room for more: those of another take their places, and are tried
// with the first.
func TestTwoTenantsShareTheLine(t *testing.T) {
	pod := func(namespace string, i int) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: types.UID(fmt.Sprint(namespace, i))}}
	}
	l := newWaitingQueue()
	for i := range 10 * maxWaiting {
		l.add(pod("a", i))
	}
	for i := range maxWaiting {
		l.add(pod("b", i))
	}
	require.Equal(t, maxWaiting, l.count)
	require.Len(t, l.pods["b"], maxWaiting/2)
	by := map[string]int{}
	for _, p := range l.take(maxWoken) {
		by[p.Namespace]++
	}
	require.Equal(t, map[string]int{"a": maxWoken / 2, "b": maxWoken / 2}, by)
	l.recordSearch("a", time.Now())
	require.Equal(t, "b", l.take(1)[0].Namespace)
	require.Len(t, l.take(2*maxWaiting), maxWaiting-maxWoken-1)
	require.Empty(t, l.pods)
}
