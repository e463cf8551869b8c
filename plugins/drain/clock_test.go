package drain

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

// The machine's clock is set while a chain is under way. Set back, it changes nothing: the chain
// waits by a clock that cannot be set. Set forward beyond the deadline of its reservations, it ends the chain, and the pods
// stand as after any other end.
func TestClockIsSet(t *testing.T) {
	for _, tt := range []struct {
		by    time.Duration
		where []string // db-1, db-new-1, large-1, a second later
		ends  string   // the reservation of large
	}{
		{-time.Hour, []string{"gone", "b", "a"}, ledger.ReleaseTaken},
		{-48 * time.Hour, []string{"gone", "b", "a"}, ledger.ReleaseTaken},
		{time.Hour, []string{"gone", "b", "a"}, ledger.ReleaseDeadline},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := stuckWorld(t, policy.RepairEnabled)
			w.run(time.Second)
			require.Len(t, w.evicted, 1)
			w.skew.Store(int64(tt.by))
			w.run(time.Minute)
			require.Equal(t, tt.where, w.where("db-1", "db-new-1", "large-1"))
			w.requireNothingHeld()
			last := ""
			for _, e := range ledgertest.Events(t, w.log, ledger.KindRelease) {
				last = e.Reserved.Reason
			}
			require.Equal(t, tt.ends, last)
		})
	}
}
