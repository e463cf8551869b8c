package mover

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// The second pod is evicted once the replacement of the first is ready.
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
				w.mu.Lock()
				ready := w.pods["new-1"].DeepCopy()
				ready.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
				w.pods["new-1"] = ready
				w.mu.Unlock()
			}
			w.run(50 * time.Second)
			require.Len(t, w.evicted, map[bool]int{true: 2, false: 1}[starts])
			w.requireNothingHeld()
		})
	}
}
