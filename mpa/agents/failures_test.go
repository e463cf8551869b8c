package agents_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// failing has two pods that answer 150 requests a second and hold 8, from a limit of 4 on, of which a
// share fails.
func failing(share func(minute int, limit int32) float64) *trial {
	r := &trial{limit: 10}
	r.pod = func(limit int32) (inside, rate, failed float64) {
		inside, rate = min(8, 2*float64(limit)), min(150, 37*float64(limit))
		s := share(r.seconds/60, limit)
		return inside, rate * (1 - s), rate * s
	}
	return r
}

// minutes runs so many, keeps the state in JSON at times, and returns for how many the limit was below one.
func (r *trial) minutes(t *testing.T, n int, limit int32) (below float64) {
	for range 4 * n {
		if r.step(); r.limit < limit {
			below += .25
		}
		if r.seconds%420 != 0 {
			continue
		}
		text, err := json.Marshal(r.limits)
		require.NoError(t, err)
		r.limits = newLimits(t)
		require.NoError(t, json.Unmarshal(text, r.limits))
	}
	return below
}

// What the pods call is down: a lower limit is tried and does not help. The limit goes back to what
// it was while the outage lasts, and after it, however long it is.
func TestLimitsInAnOutage(t *testing.T) {
	for minutes, shares := range map[int][]float64{1: {.3}, 3: {.06, 1}, 30: {.06, .3, 1}, 200: {.3}} {
		for _, share := range shares {
			t.Run(fmt.Sprint(minutes, share), func(t *testing.T) {
				const before = 30
				r := failing(func(minute int, _ int32) float64 {
					if minute >= before && minute < before+minutes {
						return share
					}
					return 0
				})
				r.limits = newLimits(t)
				r.minutes(t, before, 0)
				was := r.limit
				require.GreaterOrEqual(t, was, int32(4))
				r.minutes(t, min(minutes, 15), 0)
				if minutes > 15 {
					// It looks again after an hour, and after two more.
					assert.LessOrEqual(t, r.minutes(t, minutes-15, was), float64(minutes/60)*8, "while it lasts")
					assert.Contains(t, r.step().Reason, fmt.Sprintf("%.3g %% of the requests failed, and no fewer at a lower limit", 100*share))
				}
				r.minutes(t, 15, 0)
				if minutes > 15 {
					assert.Equal(t, was, r.limit)
				}
				r.minutes(t, 90, 0)
				assert.Equal(t, was, r.limit, "%v", r.limits.Worse())
			})
		}
	}
}

// Too many inside are the cause: the limit stays below that, but for a trial after an hour; so does one
// that pods were killed at.
func TestLimitsTooHigh(t *testing.T) {
	for name, share := range map[string]func(limit float64) float64{
		"requests become too late": func(limit float64) float64 { return map[bool]float64{true: .88}[limit > 6] },
		"a pod holds four":         func(limit float64) float64 { return max(0, 1-4/limit) },
		"gradually":                func(limit float64) float64 { return min(1, max(0, (limit-6)/20)) },
	} {
		for _, high := range []int32{12, 100} {
			t.Run(fmt.Sprint(name, high), func(t *testing.T) {
				r := failing(func(minute int, limit int32) float64 {
					if minute < 30 {
						return 0
					}
					return share(float64(limit))
				})
				r.limits = newLimits(t)
				r.minutes(t, 30, 0)
				r.limit = high // somebody sets it
				r.minutes(t, 15, 0)
				bad := 0
				for range 90 {
					r.minutes(t, 1, 0)
					if share(float64(r.limit)) > .05 {
						bad++
					}
				}
				require.LessOrEqual(t, bad, 4, r.limit)
			})
		}
	}
	t.Run("killed", func(t *testing.T) {
		r := failing(func(minute int, _ int32) float64 { return map[bool]float64{true: .5}[minute >= 30] })
		r.limits = newLimits(t)
		r.minutes(t, 30, 0)
		r.killed = mpatest.Begin.Add(29*time.Minute + 30*time.Second)
		r.minutes(t, 20, 0)
		require.Equal(t, int32(1), r.limit)
	})
}

// Failures of another cause may hide those of the limit: it looks again.
func TestLimitsTooHighAfterAnOutage(t *testing.T) {
	r := failing(func(minute int, limit int32) float64 {
		switch {
		case minute < 30:
			return 0
		case minute < 50:
			return 1
		}
		return map[bool]float64{true: .5}[limit > 3]
	})
	r.limits = newLimits(t)
	r.minutes(t, 120, 0)
	require.LessOrEqual(t, r.limit, int32(3))
	require.GreaterOrEqual(t, r.minutes(t, 60, 4), 58.)
}

// A clock that goes back in the middle changes nothing, nor does a kill in the time to come.
func TestLimitsInAnOutageOfTheClock(t *testing.T) {
	for name, step := range map[string]func(r *trial){
		"back": func(r *trial) {
			if r.seconds == 32*60 {
				r.seconds -= 600
				r.limits.Shift(-10 * time.Minute)
			}
		},
		"a kill to come": func(r *trial) { r.killed = mpatest.Begin.Add(1000 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			down := false
			r := failing(func(minute int, _ int32) float64 {
				down = down || minute >= 30
				return map[bool]float64{true: .3}[down]
			})
			r.limits = newLimits(t)
			r.minutes(t, 29, 0)
			was := r.limit
			for range 15 {
				r.minutes(t, 1, 0)
				step(r)
			}
			require.Zero(t, r.minutes(t, 20, was))
		})
	}
}

// The pods fail from the first look on: they keep the limit that they have.
func TestLimitsFailFromTheBeginning(t *testing.T) {
	r := failing(func(int, int32) float64 { return .3 })
	l := newLimits(t)
	r.limits = l
	r.limit = 40
	agent := agents.Limited{Agent: mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation { return mpa.Recommendation{} }), Limits: l, Asks: true}
	for range 4 * 15 {
		r.seconds += 15
		inside, rate, failed := r.pod(r.limit)
		o := at(r.seconds, 2, inside, rate)
		o.Gates.Limit, o.Gates.Failed.Value = r.limit, failed
		if said := agent.Recommend(o); said.Limit > 0 {
			r.limit = said.Limit
		}
	}
	require.Equal(t, int32(40), r.limit)
}

// A service that the pods call fails again and again: ten minutes after the last time the limit is as it
// was, and until then it is lower for less than two thirds of the time.
func TestLimitsInOutagesThatComeAndGo(t *testing.T) {
	const before, hours = 30, 2
	for _, test := range []struct{ down, every int }{{1, 5}, {2, 7}, {3, 10}, {3, 30}} {
		for _, share := range []float64{.1, 1} {
			t.Run(fmt.Sprint(test, share), func(t *testing.T) {
				r := failing(func(minute int, _ int32) float64 {
					if minute >= before && minute < before+60*hours && (minute-before)%test.every < test.down {
						return share
					}
					return 0
				})
				r.limits = newLimits(t)
				r.minutes(t, before, 0)
				was := r.limit
				low := r.minutes(t, 60*hours, was)
				t.Logf("%v of %d minutes below %d", low, 60*hours, was)
				assert.Less(t, low, 60.*hours*2/3)
				r.minutes(t, 10, 0)
				assert.Zero(t, r.minutes(t, 60, was), "%v", r.limits.Worse())
			})
		}
	}
}

// Failures that begin by chance with a change of the limit take it back, and not for ever.
func TestLimitsChangedInAnOutage(t *testing.T) {
	for _, long := range []float64{1, 2.5, 20} {
		t.Run(fmt.Sprint(long), func(t *testing.T) {
			since, was := 0, int32(10)
			r := failing(func(int, int32) float64 { return 0 })
			calm := r.pod
			r.pod = func(limit int32) (inside, rate, failed float64) {
				if since == 0 && limit != was {
					since = r.seconds
				}
				if inside, rate, failed = calm(limit); since > 0 && float64(r.seconds-since) < 60*long {
					return inside, .7 * rate, .3 * rate
				}
				return inside, rate, failed
			}
			r.limits = newLimits(t)
			r.minutes(t, 30, 0)
			require.Positive(t, since, "the limit did not change")
			calmly := failing(func(int, int32) float64 { return 0 })
			calmly.limits = newLimits(t)
			calmly.minutes(t, 120, 0)
			r.minutes(t, 90, 0)
			assert.Equal(t, calmly.limit, r.limit, "%v", r.limits.Worse())
		})
	}
}
