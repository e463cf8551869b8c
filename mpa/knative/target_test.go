package knative

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// served is a Service with a limit of ours, for which another target was learned.
func served() *Seen {
	seen := fresh()
	f := Setting{8, 40}.Fields()
	v := &seen.Service
	v.Fields, v.Created.Fields, v.Ready.Fields = f, f, f
	seen.Target = &Revision{Name: "web-1", Fields: f, Version: "7"}
	seen.Learned = &Learned{Setting{8, 60}, .004}
	return seen
}

// alone is a trial of a Revision that is measured alone, over some minutes before now.
func alone(now time.Time, a v1alpha1.Arm, minutes int) *v1alpha1.Trial {
	return &v1alpha1.Trial{Since: metav1.NewMicroTime(now.Add(-time.Duration(minutes) * time.Minute)), Time: metav1.NewMicroTime(now), Stable: a, Canary: a}
}

// patched lets a Revision have what a patch says, as it is seen next.
func patched(seen *Seen, a Action) {
	f := seen.Target.Fields
	f.Annotations = maps.Clone(f.Annotations)
	for name, value := range a.Patch {
		if value == nil {
			delete(f.Annotations, name)
		} else {
			f.Annotations[name] = value.(string)
		}
	}
	seen.Target.Fields, seen.Service.Ready.Fields, seen.Service.Created.Fields = f, f, f
}

// tried is a target that is tried, of which was is what the Revision did before.
func tried(t *testing.T, was v1alpha1.Arm) (State, *Seen) {
	t.Helper()
	seen := served()
	a := Decide(DefaultTiming(), State{}, seen)
	require.Equal(t, Measuring, a.Stage, a.Reason)
	require.Nil(t, a.Fields)
	require.Nil(t, a.Traffic)
	seen.Now = seen.Now.Add(6 * time.Minute)
	seen.Trial = alone(seen.Now, was, 6)
	a = Decide(DefaultTiming(), a.State, seen)
	require.Equal(t, Writing, a.Stage, a.Reason)
	a = Decide(DefaultTiming(), a.State, seen)
	require.Equal(t, map[string]any{metric: "rps", target: "60", utilisation: used}, a.Patch)
	require.False(t, a.Write)
	patched(seen, a)
	a = Decide(DefaultTiming(), a.State, seen)
	require.Equal(t, Trying, a.Stage, a.Reason)
	kept, err := ReadState(a.State.String())
	require.NoError(t, err)
	require.Equal(t, a.State.String(), kept.String())
	seen.Trial = nil
	return kept, seen
}

// What comes is judged by what was before.
func TestTargetJudged(t *testing.T) {
	was := arm("web-1", 6000, 0, 60, 600)
	for _, tt := range []struct {
		name    string
		now     v1alpha1.Arm
		minutes int
		stage   Stage // empty = nothing is written
		reason  string
	}{
		{"no worse, with fewer pods", arm("web-1", 6000, 0, 66, 400), 6, Kept, "a pod answers 15 requests/s"},
		{"better", arm("web-1", 6000, 0, 6, 900), 6, Kept, "of its requests were lost or late"},
		{"too early", arm("web-1", 4000, 0, 40, 300), 4, "", "is compared with what it did before"},
		{"late, too early", arm("web-1", 4000, 0, 400, 300), 4, "", "is compared with what it did before"},
		{"late", arm("web-1", 6000, 0, 600, 400), 6, Back, "of Revision web-1 before"},
		{"lost, at once", arm("web-1", 500, 30, 0, 100), 1, Back, "it lost 30 of 500 requests"},
		{"few requests", arm("web-1", 50, 0, 0, 100), 6, "", "is compared with"},
		{"few requests for long", arm("web-1", 50, 0, 0, 100), 61, Back, "not judged within 1h"},
		{"not much worse, not shown", arm("web-1", 300, 0, 6, 100), 30, "", "is compared with"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state, seen := tried(t, was)
			seen.Now = seen.Now.Add(time.Duration(tt.minutes) * time.Minute)
			seen.Trial = alone(seen.Now, tt.now, tt.minutes)
			a := Decide(DefaultTiming(), state, seen)
			assert.Equal(t, tt.stage, a.Stage, a.Reason)
			assert.Contains(t, a.Reason, tt.reason)
			assert.Len(t, a.State.Worse, map[Stage]int{Back: 1}[tt.stage])
			if tt.stage != Back {
				return
			}
			b := Decide(DefaultTiming(), a.State, seen)
			assert.Equal(t, map[string]any{metric: "rps", target: "40", utilisation: used}, b.Patch)
			patched(seen, b)
			seen.Now = seen.Now.Add(time.Hour)
			b = Decide(DefaultTiming(), b.State, seen)
			assert.True(t, b.Write && b.Quiet && b.State.Target.Settled)
			b = Decide(DefaultTiming(), b.State, seen)
			assert.False(t, b.Write)
			assert.Contains(t, b.Reason, "not tried again")
		})
	}
}

// Where nothing measures it, or others write, the Revision is again as it was.
func TestTargetEnds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Seen)
		reason string
		back   bool // there is something to write to the Revision
	}{
		{"not measured", func(s *Seen) { s.Now = s.Now.Add(13 * time.Minute) }, "nothing has measured it for 13m", true},
		{"measured before", func(s *Seen) {
			s.Now = s.Now.Add(13 * time.Minute)
			s.Trial = alone(s.Now, arm("web-1", 9000, 0, 0, 9), 30)
		}, "nothing has measured it", true},
		{"off", func(s *Seen) { s.Off = "mode Off writes nothing" }, "mode Off", true},
		{"another template", func(s *Seen) { s.Service.Base = "other" }, "is not that of the present template", true},
		{"a Revision of others", func(s *Seen) { s.Service.Created.Name = "web-2" }, "is not that of the present template", true},
		{"traffic of others", func(s *Seen) { s.Service.Traffic = only("web-1") }, "spec.traffic", true},
		{"a target of others", func(s *Seen) {
			s.Target.Fields = Fields{Limit: s.Target.Fields.Limit, Annotations: map[string]string{metric: "rps", target: "7"}}
		}, "others have changed metric or target", false},
		{"the former target, by others", func(s *Seen) { s.Target.Fields = Setting{8, 40}.Fields() }, "others have changed metric or target", false},
		{"gone", func(s *Seen) { s.Target = nil }, "Revision web-1 is gone", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state, seen := tried(t, arm("web-1", 6000, 0, 60, 600))
			tt.change(seen)
			a := Decide(DefaultTiming(), state, seen)
			require.Equal(t, Back, a.Stage, a.Reason)
			assert.Contains(t, a.Reason, tt.reason)
			assert.Equal(t, tt.back, Decide(DefaultTiming(), a.State, seen).Patch != nil)
			left := Forget(DefaultTiming(), a.State, seen)
			assert.Equal(t, tt.back, left.Patch != nil)
			assert.Equal(t, !tt.back, left.Drop)
		})
	}
}

// kept is a target that was kept.
func kept(t *testing.T) (State, *Seen) {
	t.Helper()
	state, seen := tried(t, arm("web-1", 6000, 0, 60, 600))
	seen.Now = seen.Now.Add(6 * time.Minute)
	seen.Trial = alone(seen.Now, arm("web-1", 6000, 0, 66, 400), 6)
	a := Decide(DefaultTiming(), state, seen)
	require.Equal(t, Kept, a.Stage, a.Reason)
	return a.State, seen
}

// has lets the Revision have a target by hand.
func has(seen *Seen, rate float64) {
	f := Setting{8, rate}.Fields()
	seen.Target.Fields, seen.Service.Ready.Fields, seen.Service.Created.Fields = f, f, f
}

// What a user undoes stays so, and is not tried again.
func TestTargetUndone(t *testing.T) {
	for name, site := range map[string]func(*testing.T) (State, *Seen){
		"while it is tried": func(t *testing.T) (State, *Seen) { t.Helper(); return tried(t, arm("web-1", 6000, 0, 60, 600)) },
		"when it was kept":  kept,
	} {
		t.Run(name, func(t *testing.T) {
			state, seen := site(t)
			has(seen, 40)
			a := Decide(DefaultTiming(), state, seen)
			require.Nil(t, a.Patch)
			require.Equal(t, Back, a.Stage, a.Reason)
			require.Len(t, a.State.Worse, 1)
			seen.Now = seen.Now.Add(time.Hour)
			a = Decide(DefaultTiming(), a.State, seen)
			assert.False(t, a.Write || a.Patch != nil)
			assert.Contains(t, a.Reason, "8 at once and 60 requests/s a pod are not tried again: others have changed")
		})
	}
}

// Of two targets a user may undo the last, or both.
func TestTargetUndoneToKept(t *testing.T) {
	for _, tt := range []struct {
		rate  float64
		stage Stage
		worse []float64
	}{{60, Kept, []float64{90}}, {40, Back, []float64{90, 60}}} {
		state, seen := kept(t)
		seen.Now, seen.Trial, seen.Learned = seen.Now.Add(time.Hour), nil, &Learned{Setting{8, 90}, .004}
		a := Decide(DefaultTiming(), state, seen)
		require.Equal(t, Measuring, a.Stage, a.Reason)
		seen.Now = seen.Now.Add(6 * time.Minute)
		seen.Trial = alone(seen.Now, arm("web-1", 6000, 0, 60, 600), 6)
		a = Decide(DefaultTiming(), a.State, seen)
		patched(seen, Decide(DefaultTiming(), a.State, seen))
		a = Decide(DefaultTiming(), a.State, seen)
		require.Equal(t, Trying, a.Stage, a.Reason)
		has(seen, tt.rate)
		a = Decide(DefaultTiming(), a.State, seen)
		assert.Equal(t, tt.stage, a.Stage, a.Reason)
		var worse []float64
		for _, w := range a.State.Worse {
			worse = append(worse, w.Rate)
		}
		assert.Equal(t, tt.worse, worse)
		assert.Nil(t, Decide(DefaultTiming(), a.State, seen).Patch)
	}
}

// After the way back the value that was tried is that of one that writes late, and later a user's.
func TestTargetSetByHand(t *testing.T) {
	state, seen := kept(t)
	seen.Off = "mode Off writes nothing"
	a := Decide(DefaultTiming(), state, seen)
	require.Equal(t, Back, a.Stage)
	patched(seen, Decide(DefaultTiming(), a.State, seen))
	has(seen, 60)
	b := Decide(DefaultTiming(), a.State, seen)
	require.NotNil(t, b.Patch, "a late write")
	patched(seen, b)
	seen.Now = seen.Now.Add(lateWrite)
	b = Decide(DefaultTiming(), a.State, seen)
	require.True(t, b.State.Target.Settled)
	has(seen, 60)
	b = Decide(DefaultTiming(), b.State, seen)
	assert.Nil(t, b.Patch, b.Reason)
	assert.False(t, b.Write)
}

// Without the class in the template, or with another limit, it is a Revision's; and none begins beside a canary.
func TestTargetOrRevision(t *testing.T) {
	for name, change := range map[string]func(*Seen){
		"another limit": func(s *Seen) { s.Learned.Limit = 12 },
		"no class": func(s *Seen) {
			f := Fields{Limit: new(int64(8)), Annotations: map[string]string{}}
			s.Service.Fields, s.Service.Created.Fields, s.Service.Ready.Fields = f, f, f
		},
	} {
		seen := served()
		change(seen)
		a := Decide(DefaultTiming(), State{}, seen)
		assert.Equal(t, Canary, a.State.Phase, name)
		assert.Empty(t, a.Stage, name)
	}
	state, seen := begun(t)
	seen.Learned.Rate = 60
	assert.Empty(t, Decide(DefaultTiming(), state, seen).Stage)
	seen = served()
	seen.UID = "another"
	state, _ = tried(t, arm("web-1", 6000, 0, 60, 600))
	assert.Equal(t, "OtherMPA", Decide(DefaultTiming(), state, seen).Refused)
	for _, text := range []string{`{"phase": "Observing", "target": {"stage": "Lost", "revision": "a"}}`, `{"phase": "Observing", "target": {"stage": "Kept"}}`, `{"phase": "Observing", "target": {"stage": "Trying", "revision": "a"}}`} {
		_, err := ReadState(text)
		require.ErrorContains(t, err, "target in stage")
	}
}

// What no Revision can have is not read: it would be said, and written.
func TestTargetOutOfRange(t *testing.T) {
	state, _ := kept(t)
	text := state.String()
	_, err := ReadState(text)
	require.NoError(t, err)
	for _, tt := range []struct{ from, to, reason string }{
		{`"tried":60`, `"tried":1e307`, "target: 1e+307 requests a second, want 0.01 to 1e+09"},
		{`"tried":60`, `"tried":-60`, "target: -60 requests a second"},
		{`"rate":60`, `"rate":1e307`, "target: 1e+307 requests a second"},
		{`"rate":60`, `"rate":0`, "target: 0 requests a second"},
		{`"rate":60`, `"rate":1e400`, "cannot unmarshal number 1e400"},
		{`"limit":8`, `"limit":1001`, "containerConcurrency: 1001, want 1 to 1000"},
		{`"ours":{"limit":0,"rate":0}`, `"ours":{"limit":8,"rate":1e307}`, "target: 1e+307 requests a second"},
		{`"ours":{"limit":0,"rate":0}`, `"ours":{"limit":8,"rate":40},"promoted":{"limit":8,"rate":1e307}`, "target: 1e+307 requests a second"},
	} {
		changed := strings.Replace(text, tt.from, tt.to, 1)
		require.NotEqual(t, text, changed, tt.from)
		_, err := ReadState(changed)
		require.ErrorContains(t, err, tt.reason, tt.to)
	}
}

// A quiet Service is not written again and again.
func TestTargetFewRequests(t *testing.T) {
	seen := served()
	var state State
	writes := 0
	for range 24 * time.Hour / (15 * time.Second) {
		seen.Now = seen.Now.Add(15 * time.Second)
		if _, since := state.Measured(); !since.IsZero() {
			age := seen.Now.Sub(since)
			seen.Trial = alone(seen.Now, arm("web-1", 60*age.Hours(), 0, 0, age.Seconds()), 0)
			seen.Trial.Since.Time = since
		}
		if a := Decide(DefaultTiming(), state, seen); a.Write {
			state = a.State
			writes++
			if a.Stage == Back {
				require.Equal(t, "too few requests within 1h0m0s to tell", a.Reason)
				require.True(t, a.State.Target.Few)
			}
		}
	}
	assert.Equal(t, 24, writes, "every hour one is begun or ended")
	assert.Empty(t, state.Worse)
}
