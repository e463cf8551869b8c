package drain

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// Workload implements [Cluster].
func (w *world) Workload(pod *v1.Pod) (list []*v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		if controllerOf(p) == controllerOf(pod) {
			list = append(list, p)
		}
	}
	return list
}

// becomeReady makes a pod ready.
func (w *world) becomeReady(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ready := w.pods[name].DeepCopy()
	ready.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	w.pods[name] = ready
}

// The second pod is evicted once the replacement of the first is ready, by this chain or by another one.
func TestSecondMoveWaits(t *testing.T) {
	for _, starts := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := inTwo(t)
			w.barren = true
			w.run(10 * time.Second)
			require.Len(t, w.evicted, 1)
			w.barren = false
			w.unready(w.add("new-1", w.evicted[0][:1], "1500m", ""))
			w.run(2 * time.Minute)
			require.NotEmpty(t, w.where("new-1")[0])
			require.Len(t, w.evicted, 1, "its replacement is not ready")
			if starts {
				w.becomeReady("new-1")
			}
			w.run(50 * time.Second)
			require.Len(t, w.evicted, map[bool]int{true: 2, false: 1}[starts])
			if !starts {
				w.add("other-1", "other", "3500m", "")
				w.run(5 * time.Minute)
				require.Empty(t, w.chains)
				require.Len(t, w.evicted, 1, "another chain begins while the replacement of the last one is not ready")
				w.becomeReady("new-1")
				w.run(2 * time.Minute)
				require.Greater(t, len(w.evicted), 1)
			}
			w.requireNothingHeld()
		})
	}
}

// Where the place of a replacement is lost, it is awaited wherever it comes, for an hour at most; and not
// where its workload is gone.
func TestReplacementIsAwaited(t *testing.T) {
	for _, tt := range []struct {
		name   string
		meddle func(w *world, app string)
		after  time.Duration // before which no second pod is evicted
	}{
		{"it comes elsewhere", func(w *world, app string) { w.add("new-1", app, "1500m", "e") }, 0},
		{"it comes elsewhere and is not ready", func(w *world, app string) { w.unready(w.add("new-1", app, "1500m", "e")) }, workloadPause},
		{"it does not come", func(*world, string) {}, workloadPause},
		{"the workload is gone", func(w *world, app string) { w.remove(app + "-0") }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := inTwo(t)
				w.nodes["d"], w.nodes["e"] = nil, nil
				for name, cores := range map[string]string{"q-0": "1500m", "r-0": "1500m", "full-d": "1"} {
					w.add(name, name[:1], cores, "d")
					w.staying[name] = true
				}
				w.add("full-e", "full", "2500m", "e")
				w.add("more-e", "more", "1500m", "e")
				w.staying["full-e"], w.staying["more-e"] = true, true
				w.barren = true
				w.cycle(w.pods["large-1"])
				synctest.Wait()
				require.Len(t, w.evicted, 1)
				begun := time.Now()
				w.run(10 * time.Second)
				w.remove("more-e") // e has room for the replacement
				target := w.chains["large-1"].Moves[0].To
				w.add("foreign-1", "foreign", "1", target)
				w.staying["foreign-1"] = true
				w.sync()
				w.run(2 * time.Second)
				require.Empty(t, w.chains)
				w.barren = false
				tt.meddle(w, w.evicted[0][:1])
				w.sync()
				for len(w.evicted) == 1 && time.Since(begun) < 2*workloadPause {
					w.run(10 * time.Second)
				}
				require.Len(t, w.evicted, 2)
				require.GreaterOrEqual(t, time.Since(begun), tt.after)
				require.Less(t, time.Since(begun), tt.after+3*time.Minute)
				w.run(time.Minute)
				w.requireNothingHeld()
			})
		})
	}
}

// A chain ends a minute after its pod is gone where no replacement is made, and after 15 seconds where one fits on no node. The
// pod that waits keeps no room meanwhile, and no other chain moves pods of the namespace until a replacement is ready.
func TestReplacementMissing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cores string // of the replacement; "" = there is none
		lasts time.Duration
	}{
		{"it is not made", "", missingTimeout},
		{"it fits on no node", "5", strandedTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := inTwo(t)
				w.barren = true
				w.cycle(w.pods["large-1"])
				synctest.Wait()
				require.Len(t, w.evicted, 1)
				if tt.cores != "" {
					p := w.add("new-1", w.evicted[0][:1], tt.cores, "")
					p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
				}
				w.run(w.dies + tt.lasts - 2*time.Second)
				require.Len(t, w.chains, 1)
				w.run(5 * time.Second)
				require.Empty(t, w.chains)
				require.Len(t, w.gaps, 1)
				require.Len(t, w.evicted, 1)
				w.requireNothingHeld()
			})
		})
	}
}
