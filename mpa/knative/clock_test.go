package knative

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Where the clock goes back, what is under way is not left alone until it has caught up, and what was
// not to blame is not remembered.
func TestClockWentBack(t *testing.T) {
	for name, change := range map[string]func(*Seen){
		"before the canary":     func(s *Seen) { s.Now = start.Add(-time.Hour) },
		"it was not measured":   func(s *Seen) { s.Now, s.Trial = start.Add(-time.Hour), nil },
		"since it was measured": func(s *Seen) { s.Now = s.Trial.Time.Add(-13 * time.Minute) },
	} {
		t.Run("canary: "+name, func(t *testing.T) {
			state, seen := begun(t)
			change(seen)
			a := Decide(DefaultTiming(), state, seen)
			require.Equal(t, Restoring, a.State.Phase, a.Reason)
			assert.Contains(t, a.Reason, "the clock went back")
			assert.Empty(t, a.State.Worse)
		})
		t.Run("target: "+name, func(t *testing.T) {
			state, seen := tried(t, arm("web-1", 6000, 0, 60, 600))
			seen.Now = seen.Now.Add(time.Minute)
			seen.Trial = alone(seen.Now, arm("web-1", 1000, 0, 10, 100), 1)
			change(seen)
			a := Decide(DefaultTiming(), state, seen)
			require.Equal(t, Back, a.Stage, a.Reason)
			assert.Contains(t, a.Reason, "the clock went back")
			assert.Empty(t, a.State.Worse)
		})
	}
	state, seen := begun(t)
	seen.Service.Ready.Name, seen.Now = "web-1", start.AddDate(-1, 0, 0)
	assert.Contains(t, Decide(DefaultTiming(), state, seen).Reason, "it has not become ready within 10m")

	seen = fresh()
	ahead := State{Phase: RolledBack, Since: start.AddDate(1, 0, 0)}
	assert.True(t, Decide(DefaultTiming(), ahead, seen).Write, "no pause of a year")
	ahead.Since = start.Add(time.Minute)
	assert.Contains(t, Decide(DefaultTiming(), ahead, seen).Reason, "after a pause")
}

// A canary whose numbers never count long enough would be taken back as worse, each time.
func TestTimingRefused(t *testing.T) {
	require.NoError(t, DefaultTiming().Check())
	for name, change := range map[string]func(*Timing){
		"least: -1s":                   func(t *Timing) { t.Least = -time.Second },
		"least: 5m0s, longest: 5m59s":  func(t *Timing) { t.Longest = t.Least + 59*time.Second },
		"least: 5m0s, longest: 169h0m": func(t *Timing) { t.Longest = 169 * time.Hour },
		"ready: 0s":                    func(t *Timing) { t.Ready = 0 },
		"pause: want 0s":               func(t *Timing) { t.Pause = -1 },
	} {
		x := DefaultTiming()
		change(&x)
		require.ErrorContains(t, x.Check(), name)
	}
}
