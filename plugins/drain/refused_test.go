package drain

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// What is refused is no move, and the next chain leaves that workload alone.
func TestRefusedMoveDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		w.nodes["c"] = nil
		w.add("q-1", "q", "2", "c")
		w.staying["q-1"] = true // db, or it, makes room
		w.refuses["db-1"] = errors.New("a limit")
		w.run(time.Second)
		require.Empty(t, w.evicted)
		require.Empty(t, w.evictedAt)
		w.staying["q-1"] = false
		w.run(2 * time.Minute)
		require.Equal(t, []string{"q-1"}, w.evicted)
		require.Equal(t, []string{"c"}, w.where("large-1"))
		require.Len(t, w.evictedAt, 1)
		w.requireNothingHeld()
	})
}

// Refusal implements [Cluster]: a pod that is named, or one that has no room beside all pods that are there.
func (w *world) Refusal(_ context.Context, gone []*v1.Pod, places ...kube.Place) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, place := range places {
		used := place.Pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		for _, p := range w.pods {
			if p.Spec.NodeName == place.Node && !slices.ContainsFunc(gone, func(g *v1.Pod) bool { return g.UID == p.UID }) {
				used += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			}
		}
		switch why := w.unfit[place.Pod.Name]; {
		case why != "":
			return why
		case used > 4000:
			return place.Pod.Name + ": Insufficient cpu on " + place.Node
		}
	}
	return ""
}

// Two pods leave one node one after the other: the first, which has its replacement, may still be ending.
func TestTwoLeaveOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, policy.RepairEnabled)
		w.nodes["a"], w.nodes["b"], w.nodes["c"] = nil, nil, nil
		w.add("p-1", "p", "1500m", "a")
		w.add("q-1", "q", "1500m", "a")
		w.add("r-1", "r", "2500m", "b")
		w.add("s-1", "s", "2500m", "c")
		w.staying["r-1"], w.staying["s-1"] = true, true
		w.dies = 20 * time.Second
		w.add("large-1", "large", "3500m", "")
		w.run(40 * time.Second)
		require.ElementsMatch(t, []string{"p-1", "q-1"}, w.evicted)
		require.Equal(t, []string{"a"}, w.where("large-1"))
		w.requireNothingHeld()
	})
}

// A pod whose replacement a filter refuses is not evicted, and the next chain leaves its workload alone.
func TestUnfitReplacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		w.unfit["db-1"] = "InterPodAffinity: no"
		w.run(10 * time.Second)
		require.Empty(t, w.evicted)
		w.nodes["c"] = nil
		w.add("q-1", "q", "2", "c")
		w.run(2 * time.Minute)
		require.Equal(t, []string{"q-1"}, w.evicted)
		require.Equal(t, []string{"c"}, w.where("large-1"))
		w.requireNothingHeld()
	})
}

// A node that no longer takes the waiting pod costs no eviction.
func TestUnfitPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		w.unfit["large-1"] = "TaintToleration: no"
		w.run(2 * time.Minute)
		require.Empty(t, w.evicted)
		require.Empty(t, w.chains)
		w.requireNothingHeld()
	})
}

// A pod that came while no search was allowed is tried once one is.
func TestSearchIsMadeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		w.add("huge-1", "huge", "3500m", "") // comes first, and there is no chain for it
		w.nextSearch = time.Now().Add(3 * time.Second)
		w.run(time.Second)
		require.Empty(t, w.evicted)
		w.run(15 * time.Second)
		require.Equal(t, []string{"db-1"}, w.evicted)
		w.run(time.Minute)
		w.requireNothingHeld()
	})
}

// What a search costs is the processor's time: on a machine that is busy with others the next one follows at once.
func TestSearchesShareTheProcessor(t *testing.T) {
	for _, tt := range []struct {
		name string
		cpu  float64 // s
		next time.Duration
	}{
		{"a busy machine", .001, 10 * time.Millisecond},
		{"a large search", .3, 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := stuckWorld(t, policy.RepairEnabled)
				synctest.Wait() // the policy is taken up in its own goroutine, which asks the clock
				used, clock := 0., time.Now()
				w.used = func() float64 { used += tt.cpu; return used }
				w.now = func() time.Time { clock = clock.Add(time.Second); return clock } // as long as it takes
				w.find(w.pods["large-1"], []string{"a"}, 8, w.NotEvictable())
				require.Equal(t, tt.next, w.nextSearch.Sub(clock).Round(time.Millisecond))
			})
		})
	}
}

// An eviction whose answer was lost, and which did not happen, ends the chain long before a replacement would be late.
func TestEvictionThatDidNotHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		w.deaf = true
		w.run(lostAnswerTimeout - time.Second)
		require.Len(t, w.chains, 1, "an informer may be late")
		w.run(3 * time.Second)
		require.Empty(t, w.chains)
		require.Equal(t, []string{"a", ""}, w.where("db-1", "large-1"))
		w.requireNothingHeld()
	})
}

// A pod for which there was no chain is looked at again after a while.
func TestTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		w.staying["db-1"] = true
		w.run(10 * time.Second)
		require.Empty(t, w.evicted)
		w.staying["db-1"] = false // a budget allows it again: no event of the scheduler says so
		w.run(2 * time.Minute)
		require.Equal(t, []string{"a"}, w.where("large-1"))
		w.requireNothingHeld()
	})
}
