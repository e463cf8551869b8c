package drain

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// A pod that does not end is waited for no longer than the ceiling and two minutes, whatever its grace is
// by then.
func TestPodDoesNotEnd(t *testing.T) {
	for _, seconds := range []int64{900, 100_000_000, math.MaxInt64, 9_223_372_037} {
		synctest.Test(t, func(t *testing.T) {
			w := stuckWorld(t, policy.RepairEnabled)
			w.dies = 1000 * time.Hour
			w.run(time.Second)
			require.Equal(t, []string{"db-1"}, w.evicted)
			for _, c := range w.chains {
				c.moves[0].moved.pod.Spec.TerminationGracePeriodSeconds = &seconds
				require.Equal(t, 17*time.Minute, c.moves[0].timeout())
				require.Equal(t, 30*time.Second+replacementTimeout, c.moves[0].within, "it has begun")
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		w.dies, w.barren = 1000*time.Hour, true
		w.pods["db-1"].Spec.TerminationGracePeriodSeconds = new(int64(900))
		w.run(time.Second)
		require.Len(t, w.chains, 1)
		w.pods["db-1"].DeletionGracePeriodSeconds = new(int64(math.MaxInt64))
		w.run(17 * time.Minute)
		require.Equal(t, []string{"db-1"}, w.evicted)
		require.Empty(t, w.chains)
		w.requireNothingHeld()
	})
}
