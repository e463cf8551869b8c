package ledger_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/durable/killtest"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A kill at any step of a rotation loses lines at most that were not written yet: what
// is there replays, and so does what the next scheduler appends.
func TestRotationKilled(t *testing.T) {
	noon := time.Unix(1.8e9, 0)
	kills := killtest.EachStep(t,
		func(string) {},
		func(dir string) error {
			log, err := ledger.OpenRotatingLog(filepath.Join(dir, "log"), ledger.Rotation{Bytes: 4 << 10, Files: 1})
			if err != nil {
				return err
			}
			s := newScene(t, seeded(11))
			from := 0
			for range 3 {
				for range 30 {
					s.step()
				}
				err = errors.Join(err, log.Check(noon), log.Write(s.events[from:]...))
				from = len(s.events)
				if !log.Full() {
					return errors.New("not full")
				}
				description := s.l.Describe(byUID)
				for _, e := range description {
					e.Time = s.time
				}
				err = errors.Join(err, log.Begin(noon, description), log.Prune())
			}
			return errors.Join(err, log.Close())
		},
		func(dir, next string) {
			path := filepath.Join(dir, "log")
			s := newScene(t, seeded(12))
			for range 30 {
				s.step()
			}
			for _, e := range s.events {
				e.Time += 1e9
			}
			log, err := ledger.OpenRotatingLog(path, ledger.Rotation{})
			require.NoError(t, err)
			require.NoError(t, log.Write(s.events...))
			require.NoError(t, log.Close())
			aside, err := durable.Aside(path)
			require.NoError(t, err)
			files := ledger.OpenFiles(append(aside, path)...)
			v, err := ledger.VerifyFiles(files)
			require.NoError(t, err, "killed before: %s", next)
			require.NoError(t, files.Close())
			require.Nil(t, v.First, "killed before: %s: %v", next, v.First)
			require.Zero(t, v.CutOff)
			require.Empty(t, v.Gaps)
			if next == "" {
				require.Equal(t, 3, v.Starts, "a file kept aside, and two in the other one")
			}
		})
	require.Equal(t, 21, kills)
}
