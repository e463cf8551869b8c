package drain

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// A scheduler that starts again counts what an earlier one has moved within the hour: it begins no chain that
// it could not finish. Where that cannot be counted, each eviction is still checked.
func TestMovesBeforeARestart(t *testing.T) {
	for _, tt := range []struct {
		name      string
		earlier   int
		uncounted error
		begins    bool // a chain of one
		moves     bool
	}{
		{"all are used up", 20, nil, false, false},
		{"one is left", 19, nil, true, true},
		{"they cannot be counted, and all are used up", 20, errors.New("no answer"), true, false},
		{"they cannot be counted, and one is left", 19, errors.New("no answer"), true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := stuckWorld(t, policy.RepairDisabled)
				w.earlier, w.uncounted = tt.earlier, tt.uncounted
				w.set(policy.RepairEnabled)
				synctest.Wait()
				w.cycle(w.pods["large-1"])
				require.Equal(t, tt.begins, !w.nextSearch.IsZero(), "it looks for a chain")
				w.run(10 * time.Minute)
				require.Equal(t, tt.moves, len(w.evicted) > 0)
				if !tt.moves { // an hour has passed
					w.mu.Lock()
					w.earlier, w.uncounted = 0, nil
					w.mu.Unlock()
					w.run(refusedPause + 3*time.Minute)
					require.Len(t, w.evicted, 1)
				}
				w.requireNothingHeld()
			})
		})
	}
}

// A count of long ago does not keep a pod from its chain.
func TestOldCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairDisabled)
		w.earlier = 20
		w.set(policy.RepairEnabled)
		synctest.Wait()
		time.Sleep(10 * time.Minute)
		w.earlier = 0
		w.run(time.Second)
		require.Len(t, w.evicted, 1)
		w.run(time.Minute)
		w.requireNothingHeld()
	})
}
