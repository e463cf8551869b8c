//go:build records

package evidence

import (
	"cmp"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// firstSeed is the first seed of a record: SEED, or one for development.
func firstSeed(t *testing.T, standard string) uint64 {
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), standard), 10, 64)
	require.NoError(t, err)
	return seed
}

// TestRecordMonths is the month of [TestMonth] on clusters of ten other seeds.
func TestRecordMonths(t *testing.T) {
	first := firstSeed(t, "101")
	for seed := first; seed < first+10; seed++ {
		m := newMonth(t, changing(t, seed, changeDay, monthDays, .35, 1.6), 30)
		m.run()
		a := m.account()
		share, gap := a.closed(a.first)
		name := "learned"
		if m.first == "" {
			name = free
		}
		t.Logf("seed %d: before the change %s; loop %.0f, %s %.0f, first %.0f, hindsight %.0f of %d policies; worst week %+.2f %%; change noticed on day %.2f; after it %.0f %% of a gap of %.1f %%; poison decided for %.1f h",
			seed, name, sum(a.loop), free, sum(a.free), sum(a.first), sum(a.hindsight), a.seen, a.worstWeek(), m.found/day, 100*share, gap, (m.rolledBack-m.poisoned)/hour)
	}
}

// TestRecordPromises learns from five days of a cluster, judges on three, and holds what is promised
// for the next seven, with a probability of 90 %, against what they bring.
func TestRecordPromises(t *testing.T) {
	const learn, judge, ahead, share = 5, 3, 7, .9
	first, kept := firstSeed(t, "301"), 0
	for seed := first; seed < first+20; seed++ {
		tr := generated(t, seed, learn+judge+ahead+1, 1.2)
		object, none, err := Learn(t.Context(), Lesson{
			History: tr.Window(0, learn*day, nil), Choose: 24 * time.Hour, InForce: free,
			Evaluations: 30, Seeds: 1, Seed: 1, Workers: 2, Name: "general",
		})
		require.NoError(t, err)
		candidate := byName(t, "bestfit") // where the free rule is best: the promise is then below 0
		if object != nil {
			candidate, err = object.Policy()
			require.NoError(t, err)
		}
		accounts := func(from float64, days int) (own, other Account) {
			begin := from - learn*day
			trial, err := NewTrial(tr.Window(begin, from+float64(days)*day+1, nil), byName(t, free), begin, from, day, days)
			require.NoError(t, err)
			own, err = trial.Run(candidate)
			require.NoError(t, err)
			other, err = trial.Run(byName(t, free))
			require.NoError(t, err)
			return own, other
		}
		own, other := accounts(learn*day, judge)
		promised := Promise(own, other, ahead, share, 1)
		own, other = accounts((learn+judge)*day, ahead)
		came := Saving(own, other, .95, 1).Mean
		holds := promised.Low <= came && came <= promised.High
		if holds {
			kept++
		}
		t.Logf("seed %d: promised %.2f %% (%.2f to %.2f), came %.2f %%, holds: %v %s", seed, promised.Mean, promised.Low, promised.High, came, holds, none)
	}
	t.Logf("%d of 20 hold", kept)
	require.GreaterOrEqual(t, kept, 16)
}
