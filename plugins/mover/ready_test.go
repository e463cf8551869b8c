package mover

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

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
			w.add("new-1", w.evicted[0][:1], "1500m", "").Status.Conditions = nil
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
		{"it comes elsewhere and is not ready", func(w *world, app string) { w.add("new-1", app, "1500m", "e").Status.Conditions = nil }, stillFor},
		{"it does not come", func(*world, string) {}, stillFor},
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
				for len(w.evicted) == 1 && time.Since(begun) < 2*stillFor {
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
