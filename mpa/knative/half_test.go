package knative

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A canary that does no harm, and whose pods have little to do, gets half of the requests, and is then
// judged by what it does with these alone.
func TestCanaryGetsHalf(t *testing.T) {
	state, seen := begun(t)
	seen.Trial = trial(seen.Now, arm("web-1", 9000, 0, 900, 300), arm("web-2", 1000, 0, 20, 300))
	a := Decide(DefaultTiming(), state, seen)
	assert.True(t, a.State.Half, a.Reason)
	assert.Equal(t, seen.Now, a.State.Since)
	assert.Nil(t, a.Fields)
	seen.Service.Traffic = a.Traffic
	half := func(change func(*Seen)) Action {
		t.Helper()
		next := *seen
		next.Now = seen.Now.Add(10 * time.Minute)
		next.Trial = trial(next.Now, arm("web-1", 5000, 0, 1500, 300), arm("web-2", 5000, 0, 10, 300))
		change(&next)
		return Decide(DefaultTiming(), a.State, &next)
	}
	b := half(func(*Seen) {})
	assert.Equal(t, Promoted, b.State.Phase, b.Reason)
	assert.False(t, b.State.Half)
	b = half(func(s *Seen) { s.Trial = seen.Trial })
	assert.False(t, b.Write, "what was measured with a tenth")
	b = half(func(s *Seen) { s.Trial.Stable.Late, s.Trial.Stable.PodSeconds = 10, 290 })
	assert.False(t, b.Write, b.Reason)
	assert.Contains(t, b.Reason, "web-2 has 50 %")
	b = half(func(s *Seen) {
		s.Now = a.State.Since.Add(time.Hour)
		s.Trial.Time = metav1.NewMicroTime(s.Now)
		s.Trial.Stable.Late = 10
	})
	assert.Equal(t, Restoring, b.State.Phase, b.Reason)
	assert.Equal(t, only("web-1"), b.Traffic)
	assert.False(t, b.State.Half)
	b = half(func(s *Seen) { s.Trial.Canary.Lost = 50 })
	assert.Equal(t, Restoring, b.State.Phase, b.Reason)
	b = half(func(s *Seen) { s.Service.Traffic = split("web-1", 10) })
	assert.Equal(t, RolledBack, b.State.Phase, "others have changed it")
}
