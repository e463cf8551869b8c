package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/ledger"
)

// The columns are what a recount of the pods gives, whatever happened.
func TestColumnsAgainstRecount(t *testing.T) {
	for seed := range uint64(60) {
		s := newScene(t, seeded(seed))
		for range 120 {
			s.step()
			s.w.agree(t, s.l)
		}
	}
}

// agree requires that two ledgers answer alike, to the last bit.
func agree(tb testing.TB, a, b *ledger.Ledger, role ledger.Role, app int32, passed []int32) {
	tb.Helper()
	require.Equal(tb, a.Fits(app, nil), b.Fits(app, nil))
	infeasible, extra := a.Differ(app, passed)
	otherInfeasible, otherExtra := b.Differ(app, passed)
	require.Equal(tb, infeasible, otherInfeasible)
	require.Equal(tb, extra, otherExtra)
	for _, r := range []ledger.Role{role, ledger.BestFit} {
		ranked, err := a.Order(r, app, passed, len(passed), nil)
		require.NoError(tb, err)
		other, err := b.Order(r, app, passed, len(passed), nil)
		require.NoError(tb, err)
		require.Equal(tb, ranked, other)
	}
}

// pure drives a ledger and two that build their columns anew, one of them before
// every decision and one now and then.
func pure(s *scene, steps int) (decisions int) {
	always, sometimes := ledger.New(), ledger.New()
	fed := 0
	s.decided = func(role ledger.Role, app int32, passed []int32) {
		decisions++
		for ; fed < len(s.events); fed++ {
			require.NoError(s.tb, always.Apply(s.events[fed]))
			require.NoError(s.tb, sometimes.Apply(s.events[fed]))
		}
		always.Forget()
		if decisions%5 == 0 {
			sometimes.Forget()
		}
		agree(s.tb, s.l, always, role, app, passed)
		agree(s.tb, s.l, sometimes, role, app, passed)
	}
	for range steps {
		s.step()
	}
	return decisions
}

// When the columns are built changes no decision and no score.
func TestRebuildingChangesNothing(t *testing.T) {
	decisions := 0
	for seed := range uint64(150) {
		decisions += pure(newScene(t, seeded(1000+seed)), 150)
	}
	require.Greater(t, decisions, 3000)
}

// Nor does it when they were followed for so long that the journal has
// forgotten, nor with more shapes than a scorer tells apart.
func TestRebuildingChangesNothingLater(t *testing.T) {
	for seed := range uint64(4) {
		s := newScene(t, seeded(2000+seed))
		s.busy, s.demands = false, 40
		for range 150 {
			s.appComes()
		}
		for range 30 {
			s.nodeComes()
		}
		before := s.l.Columns()
		for range 7000 {
			s.step()
		}
		require.Same(t, before, s.l.Columns(), "they were built anew")
		require.Greater(t, before.Placements()+before.Departures(), uint64(1<<12), "the journal's length")
		require.Greater(t, pure(s, 300), 80)
	}
}

// FuzzLedger turns bytes into a cluster's life.
func FuzzLedger(f *testing.F) {
	for seed := range uint64(4) {
		d, data := seeded(seed), make([]byte, 400)
		for i := range data {
			data[i] = byte(d.IntN(256))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &bytesDice{data[:min(len(data), 600)]}
		s := newScene(t, d)
		for len(d.data) > 0 {
			pure(s, 20)
			s.w.agree(t, s.l)
		}
	})
}

// bytesDice reads numbers off a fuzzer's input, then zeros.
type bytesDice struct{ data []byte }

func (b *bytesDice) IntN(n int) int {
	if len(b.data) == 0 {
		return 0
	}
	x := int(b.data[0])
	b.data = b.data[1:]
	return x % n
}
