package sigma

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Of two profiles one carries out Rebalances. The other takes over when it fails or ends.
func TestTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		var under atomic.Int32
		begun := make(chan string, 10)
		profile := func(name string, fails <-chan error) (end func()) {
			ctx, cancel := context.WithCancel(t.Context())
			takeTurns(ctx, &busy, func(ctx context.Context) error {
				require.EqualValues(t, 1, under.Add(1), "one at a time")
				defer under.Add(-1)
				begun <- name
				select {
				case <-ctx.Done():
					return nil
				case err := <-fails:
					return err
				}
			})
			return cancel
		}
		next := func() string {
			select {
			case name := <-begun:
				return name
			case <-time.After(3 * takeOverEvery):
				return "nobody"
			}
		}
		fails := make(chan error)
		profile("first", fails)
		require.Equal(t, "first", next())
		end := profile("second", nil)
		require.Equal(t, "nobody", next())
		fails <- errors.New("no client")
		require.Equal(t, "second", next())
		end()
		require.Equal(t, "first", next())
	})
}
