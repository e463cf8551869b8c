package capacity

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGuard(t *testing.T) {
	tell := func(g *Guard, limit, inside, share, failed float64) {
		g.Tell(Window{
			Length: Some(1), Limit: Some(limit), Inside: Some(inside), Answered: Some(100), Failed: Some(failed), Memory: Some(share), MemoryLimit: Some(1.),
		})
	}
	var g Guard
	require.True(t, math.IsInf(g.Most(), 1))
	require.Empty(t, g.Reason())
	tell(&g, 4, 4, .4, 0) // 4 · .85 ÷ .4
	require.InDelta(t, 8, g.Most(), 0)
	tell(&g, 8, 8, .6, 0) // 8 · .85 ÷ .6 = 11.3: the window at 4 is not near 8
	require.InDelta(t, 11, g.Most(), 0)
	tell(&g, 8, 8, .55, 0) // the largest counts
	require.InDelta(t, 11, g.Most(), 0)
	require.Contains(t, g.Reason(), "7.5 % of the memory limit")
	tell(&g, 10, 10, .5, 60) // failed: 7
	require.InDelta(t, 7, g.Most(), 0)
	require.Contains(t, g.Reason(), "failed at 10")
	tell(&g, 7, 7, .2, 0)
	require.InDelta(t, 7, g.Most(), 0, "until drift")
	g.Drift()
	require.True(t, math.IsInf(g.Most(), 1))
	// Nothing can be said where the memory limit is missing, or nothing is inside.
	g.Tell(Window{Length: Some(1), Limit: Some(5), Inside: Some(5), Answered: Some(1), Memory: Some(5)})
	require.True(t, math.IsInf(g.Most(), 1))
	tell(&g, 5, 0, .5, 0)
	require.InDelta(t, 1, g.Most(), 0)
}

// Failures that a lower limit does not halve bound nothing while they last, where the memory
// cannot be their cause.
func TestGuardOtherCause(t *testing.T) {
	type window struct{ limit, answered, failed, share float64 }
	unknown := math.Inf(1)
	for name, test := range map[string]struct {
		windows []window
		killed  bool
		most    float64
	}{
		"a lower limit halves them":           {[]window{{20, 100, 25, .1}, {14, 100, 9, .1}}, false, 9},
		"it ends them":                        {[]window{{20, 100, 25, .1}, {14, 100, 0, .1}}, false, 14},
		"it does not":                         {[]window{{20, 100, 25, .1}, {14, 100, 20, .1}}, false, unknown},
		"nor below a twentieth":               {[]window{{20, 1000, 60, .1}, {14, 1000, 40, .1}}, false, unknown},
		"too few failed to tell":              {[]window{{20, 20, 5, .1}, {14, 12, 3, .1}}, false, 9},
		"they last":                           {[]window{{20, 100, 25, .1}, {14, 100, 20, .1}, {20, 100, 25, .1}, {20, 100, 15, .1}}, false, unknown},
		"they end":                            {[]window{{20, 100, 25, .1}, {14, 100, 20, .1}, {20, 100, 0, .1}}, false, unknown},
		"others begin":                        {[]window{{20, 100, 25, .1}, {14, 100, 20, .1}, {20, 100, 0, .1}, {30, 100, 25, .1}}, false, 21},
		"many more fail":                      {[]window{{20, 100, 6, .1}, {14, 100, 6, .1}, {20, 100, 25, .1}}, false, 14},
		"the memory is full":                  {[]window{{20, 100, 25, .1}, {14, 100, 20, .86}}, false, 9},
		"it was full":                         {[]window{{20, 100, 25, .86}, {14, 100, 20, .1}}, false, 9},
		"it is not known":                     {[]window{{20, 100, 25, math.NaN()}, {14, 100, 20, math.NaN()}}, false, 9},
		"the pod ran out of it between looks": {[]window{{20, 100, 25, .1}, {14, 100, 20, .1}}, true, 9},
	} {
		t.Run(name, func(t *testing.T) {
			var g Guard
			for _, x := range test.windows {
				w := Window{Length: Some(1), Limit: Some(x.limit), Answered: Some(x.answered), Failed: Some(x.failed), Killed: test.killed}
				if !math.IsNaN(x.share) {
					w.Memory, w.MemoryLimit = Some(x.share), Some(1.)
				}
				g.Tell(w)
			}
			assert.InDelta(t, test.most, g.Most(), 0, g.Reason())
		})
	}
}

// What a pod calls is down for ten windows: afterwards the default finds the limit again.
func TestLimitAfterAnOutage(t *testing.T) {
	l, err := New(Default, DefaultSettings())
	require.NoError(t, err)
	m := Network{Demand: .01, Wait: .2, Cores: 1}
	run := func(trials int, failing float64) int {
		for range trials {
			w := exact(m, l.Next(), 10)
			w.Memory, w.MemoryLimit = Some(.1), Some(1.)
			w.Failed = Some(w.Answered.Number * failing)
			w.Answered.Number -= w.Failed.Number
			l.Tell(w)
		}
		return l.Next()
	}
	before := run(20, 0)
	require.Greater(t, before, 20)
	require.GreaterOrEqual(t, run(10, .3), before/4, "not lower with each window")
	require.InDelta(t, before, run(10, 0), .1*float64(before))
}

// A guard lets a pod take the share of its memory that it is told.
func TestGuardShare(t *testing.T) {
	for share, want := range map[float64]float64{0: 8, .5: 5, .95: 9} {
		l, err := New(Default, Settings{Min: 1, Max: 310, Initial: 10, Share: share})
		require.NoError(t, err)
		l.Tell(Window{Time: time.Unix(60, 0), Length: Some(60), Limit: Some(4), Inside: Some(4), Answered: Some(600), Memory: Some(40), MemoryLimit: Some(100)})
		require.InDelta(t, want, Most(l), 0, "%v of the memory, of which 4 requests take .4", share)
	}
	_, err := New(Default, Settings{Min: 1, Max: 310, Initial: 10, Share: .96})
	require.ErrorContains(t, err, "memory share: 0.96, want 0 to 0.95")
}
