package agents_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

var limitSpec = agents.LimitSpec{Learner: capacity.Default, Min: 1, Max: 310, Initial: 10}

func newLimits(t *testing.T) *agents.Limits {
	t.Helper()
	target := mpatest.Web()
	target.SLO = mpa.SLO{Percentile: 95, Latency: 1}
	l, err := agents.NewLimits(target, limitSpec)
	require.NoError(t, err)
	return l
}

// A trial is two pods whose limit follows what Limits wants, as by a gate.
type trial struct {
	limits  *agents.Limits
	seconds int
	limit   int32
	killed  time.Time
	// rate is answered by both pods at a limit, with so many inside, and failed is lost.
	pod func(limit int32) (inside, rate, failed float64)
}

func (r *trial) step() mpa.Recommendation {
	r.seconds += 15
	inside, rate, failed := r.pod(r.limit)
	o := at(r.seconds, 2, inside, rate)
	o.Gates.Limit, o.Gates.Failed.Value = r.limit, failed
	o.Pods[0].Containers[0].Killed = r.killed
	said := r.limits.Look(o)
	if k, _ := r.limits.Known(); k.Windows > 0 && said.Limit != 0 { // as Limited
		r.limit = said.Limit
	}
	return said
}

// The rate is that of the limit that is said: one that was worse, and is not wanted again, has none.
func TestLimitsRateOfTheLimit(t *testing.T) {
	r := &trial{limits: newLimits(t), limit: 10, pod: func(limit int32) (float64, float64, float64) {
		return min(8, 2*float64(limit)), min(150, 30*float64(limit)), 0
	}}
	r.limits.Remember([]agents.WorseLimit{{Time: mpatest.Begin, From: 3, Limit: 10, Reason: "it ran out of memory"}})
	var said mpa.Recommendation
	for range 30 {
		r.limit = 10 // as after a canary that was taken back
		said = r.step()
	}
	require.Equal(t, int32(3), said.Limit, said.Reason)
	known, _ := r.limits.Known()
	require.Greater(t, known.PodLimit, 3)
	assert.Less(t, known.PodRate, 3/.05, "three requests of 50 ms")
	assert.Greater(t, known.PodRate, 20.)
}

// 10 ms of cpu and 40 ms of waiting on one core: the limit follows. What is worse than before,
// by answers, by failures or by a kill, is taken back and not tried again until the demand of a
// request has changed.
func TestLimitsAreTakenBack(t *testing.T) {
	good := func(limit int32) (float64, float64, float64) {
		return min(8, 2*float64(limit)), min(150, 30*float64(limit)), 0
	}
	for name, test := range map[string]struct {
		bad  func(r *trial, from int32)
		want string
	}{
		"fewer answers of pods that are full": {func(r *trial, from int32) {
			r.pod = func(limit int32) (float64, float64, float64) {
				if limit != from {
					return 2 * float64(limit), 100, 0
				}
				return 8, 150, 0
			}
		}, `a pod that was full answered 50 ± 3.\d* requests/s, at 10 75 ±`},
		"failures": {func(r *trial, from int32) {
			r.pod = func(limit int32) (float64, float64, float64) {
				if limit != from {
					return 4, 150, 6
				}
				return 8, 150, 0
			}
		}, `3.85 % of the requests failed, at 10 0 %`},
		"so many that the guard goes lower first": {func(r *trial, from int32) {
			r.pod = func(limit int32) (float64, float64, float64) {
				if limit != from {
					return 4, 150, 50
				}
				return 8, 150, 0
			}
		}, `25 % of the requests failed, at 10 0 %`},
	} {
		t.Run(name, func(t *testing.T) {
			r := &trial{limits: newLimits(t), limit: 10, pod: good}
			test.bad(r, 10)
			var said mpa.Recommendation
			for range 60 {
				said = r.step()
			}
			require.Len(t, r.limits.Worse(), 1)
			worse := r.limits.Worse()[0]
			assert.Equal(t, int32(10), worse.From)
			assert.Less(t, worse.Limit, int32(10))
			assert.Regexp(t, test.want, worse.Reason)
			assert.Equal(t, int32(10), r.limit, "taken back, and not tried again")
			assert.Contains(t, said.Reason, worse.Reason)

			// A request takes twice the cpu: what was worse may be right.
			cpu := int64(2)
			for range 60 {
				r.seconds += 15
				o := at(r.seconds, 2, 8, 75)
				for i := range o.Pods {
					o.Pods[i].Containers[0].Usage.CPU *= cpu
				}
				o.Gates.Limit = r.limit
				said = r.limits.Look(o)
			}
			assert.NotContains(t, said.Reason, worse.Reason)
			assert.Empty(t, r.limits.Worse())
		})
	}
}

// A container that is killed after the limit was raised takes it back; one that was killed
// before does not.
func TestLimitsAfterAKill(t *testing.T) {
	r := &trial{limits: newLimits(t), limit: 2, pod: func(limit int32) (float64, float64, float64) {
		return 2 * float64(limit), min(150, 37*float64(limit)), 0
	}}
	r.killed = mpatest.Begin
	for r.limit == 2 && r.seconds < 3600 {
		r.step()
	}
	raised := r.limit
	require.Greater(t, raised, int32(2))
	r.step()
	require.Empty(t, r.limits.Worse())
	r.killed = mpatest.Begin.Add(time.Duration(r.seconds+1) * time.Second)
	r.step()
	require.Len(t, r.limits.Worse(), 1)
	assert.Contains(t, r.limits.Worse()[0].Reason, "ran out of memory")
	assert.Equal(t, int32(2), r.limit)
	for range 40 {
		r.step()
		require.Equal(t, int32(2), r.limit)
	}
}

// A limit that somebody else set is not compared, and small changes are not worth one.
func TestLimitsOfOthers(t *testing.T) {
	r := &trial{limits: newLimits(t), limit: 10, pod: func(int32) (float64, float64, float64) { return 8, 150, 0 }}
	for range 20 {
		r.step()
	}
	found := r.limit
	r.pod = func(limit int32) (float64, float64, float64) { return 2 * float64(limit), 20, 0 }
	r.limit = 3 // a user's
	for range 12 {
		r.step()
		r.limit = 3
	}
	assert.Empty(t, r.limits.Worse())
	assert.Positive(t, found)
}

// A window in which the limit changed tells nothing.
func TestLimitsWindow(t *testing.T) {
	l := newLimits(t)
	windows := func() int {
		k, _ := l.Known()
		return k.Windows
	}
	for s, limit := 0, int32(10); s <= 90; s += 15 {
		if s == 30 {
			limit = 4
		}
		o := at(s, 2, 6, 150)
		o.Gates.Limit = limit
		l.Look(o)
		require.Equal(t, s/90, windows(), "second %d: a minute after the change", s)
	}
}

// What was learned survives a restart at any time: the same decisions go on.
func TestLimitsKeep(t *testing.T) {
	one, still := newLimits(t), newLimits(t)
	limit := int32(10)
	for i := range 100 {
		o := at(15*i, 2, 8, 140+float64(i%7))
		if limit != 10 {
			o = at(15*i, 2, 2*float64(limit), 90)
		}
		o.Gates.Limit = limit
		want := still.Look(o)
		require.Equal(t, want, one.Look(o), "observation %d", i)
		limit = max(1, want.Limit)
		if i%7 == 3 {
			state, err := json.Marshal(one)
			require.NoError(t, err)
			one = newLimits(t)
			require.NoError(t, json.Unmarshal(state, one))
		}
	}
	require.NotEmpty(t, still.Worse())
}

func TestBadLimits(t *testing.T) {
	for want, change := range map[string]func(*agents.LimitSpec){
		"unknown learner": func(s *agents.LimitSpec) { s.Learner = "guess" },
		"max: 0":          func(s *agents.LimitSpec) { s.Max = 0 },
		"min: 0":          func(s *agents.LimitSpec) { s.Min = 0 },
		"initial: 400":    func(s *agents.LimitSpec) { s.Initial = 400 },
		"memory share: 1": func(s *agents.LimitSpec) { s.MemoryShare = 1 },
	} {
		spec := limitSpec
		change(&spec)
		_, err := agents.NewLimits(mpatest.Web(), spec)
		require.ErrorContains(t, err, want)
	}
}

// A worse limit is taken back whatever the step, and where no pod is left to tell anything.
func TestLimitsAlwaysGoBack(t *testing.T) {
	l := newLimits(t)
	l.Remember([]agents.WorseLimit{{From: 10, Limit: 11, Reason: "it was worse"}})
	var said mpa.Recommendation
	for i := range 20 {
		o := at(15*(i+1), 2, 22, 100)
		o.Gates.Limit = 11
		said = l.Look(o)
	}
	assert.Equal(t, int32(10), said.Limit)
	assert.Contains(t, said.Reason, "it was worse")

	silent := at(315, 2, 0, 0)
	silent.Gates = mpa.Gates{Limit: 11}
	silent.Pods = nil
	said = l.Look(silent)
	assert.Equal(t, int32(10), said.Limit)
	silent.Gates.Limit = 0
	assert.Equal(t, int32(10), l.Look(silent).Limit)
}

// Pods without a limit get none before it is known how many requests they hold, and then no
// fewer than that.
func TestFirstLimit(t *testing.T) {
	for inside, want := range map[float64]int32{8: 10, 120: 90, 1000: 310} {
		l := newLimits(t)
		for i := range 12 {
			o := at(15*(i+1), 2, inside, 300)
			o.Gates.Limit = 0
			said := l.Look(o)
			if i < 11 {
				require.Zero(t, said.Limit)
				require.Contains(t, said.Reason, "the gates have no limit: what is inside is measured first")
				continue
			}
			assert.Equal(t, want, said.Limit)
			assert.Contains(t, said.Reason, "a first limit of")
		}
	}
}

// A kill counts from when the limit was asked for, as the first pods have it then, to a quarter
// of an hour after it was seen.
func TestLimitsLateKills(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration // the kill, after the limit was asked for
		lost  bool
	}{"before all pods have it": {20 * time.Second, true}, "late": {10 * time.Minute, true}, "too late": {20 * time.Minute, false}} {
		t.Run(name, func(t *testing.T) {
			l := newLimits(t)
			limit, asked := int32(2), 0
			kill := time.Time{}
			for i := 1; i < 150; i++ {
				o := at(15*i, 2, 2*float64(limit), min(150, 37*float64(limit)))
				o.Gates.Limit = limit
				if !kill.IsZero() && !kill.After(o.Time) {
					o.Pods[0].Containers[0].Killed = kill
				}
				said := l.Look(o)
				if limit == 2 && said.Limit > 2 {
					if asked == 0 {
						asked = i
						kill = o.Time.Add(test.after)
					}
					if i == asked+4 { // the last pod has it a minute later
						limit = said.Limit
					}
				}
			}
			require.NotZero(t, asked)
			worse := 0
			for _, w := range l.Worse() {
				if w.From == 2 {
					worse++
				}
			}
			assert.Equal(t, test.lost, worse > 0)
		})
	}
}
