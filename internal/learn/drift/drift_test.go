package drift

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const week = 7 * 24 * 60 // values, one a minute

// noise is the deviation of the log that the package comment assumes.
const noise = .055

// A series is the log of something lognormal around 1, with a coefficient of
// correlation rho from one value to the next.
type series struct {
	rng     *rand.Rand
	rho, at float64
}

func newSeries(seed uint64, rho float64) *series {
	s := &series{rng: rand.New(rand.NewPCG(seed, 0)), rho: rho}
	s.at = s.rng.NormFloat64()
	return s
}

func (s *series) next() float64 {
	s.at = s.rho*s.at + math.Sqrt(1-s.rho*s.rho)*s.rng.NormFloat64()
	return noise * s.at
}

func defaults(t testing.TB) *PageHinkley {
	t.Helper()
	p, err := NewPageHinkley(Settings{DefaultDelta, DefaultLambda, DefaultReference})
	require.NoError(t, err)
	return p
}

func observe(t testing.TB, p *PageHinkley, x float64) Change {
	t.Helper()
	found, err := p.Observe(x)
	require.NoError(t, err)
	return found
}

// At most one a week. Noise with a longer memory is beyond what the defaults can take:
// the package comment says so.
func TestFalseAlarms(t *testing.T) {
	const weeks = 30
	for rho, bounds := range map[float64][2]int{0: {0, weeks}, .5: {0, weeks}, .8: {5 * weeks, 15 * weeks}} {
		alarms := 0
		for seed := range uint64(weeks) {
			s, p := newSeries(seed, rho), defaults(t)
			for range week {
				if observe(t, p, s.next()) != None {
					alarms++
				}
			}
		}
		t.Logf("correlation %v: %d false alarms in %d weeks", rho, alarms, weeks)
		require.GreaterOrEqual(t, alarms, bounds[0], rho)
		require.LessOrEqual(t, alarms, bounds[1], rho)
	}
}

// A change of a running series is found within 15 minutes in 95 of 100 runs: three hours
// without one, of which the first two are the reference, then the change.
func TestFinds(t *testing.T) {
	for _, rho := range []float64{0, .5} {
		for _, factor := range []float64{1.2, 1.4, .7} {
			t.Run(fmt.Sprintf("correlation=%v/factor=%v", rho, factor), func(t *testing.T) {
				want := Up
				if factor < 1 {
					want = Down
				}
				const runs = 400
				var delays []int
				early, within := 0, 0
				for seed := range uint64(runs) {
					s, p := newSeries(10_000+seed, rho), defaults(t)
					for range 3 * 60 {
						if observe(t, p, s.next()) != None {
							early++
						}
					}
					for minute := 1; minute <= 60; minute++ {
						if observe(t, p, s.next()+math.Log(factor)) == want {
							delays = append(delays, minute)
							break
						}
					}
				}
				slices.Sort(delays)
				for _, d := range delays {
					if d <= 15 {
						within++
					}
				}
				t.Logf("%d of %d found within 15 minutes, median %d, longest %d, %d false alarms before", within, runs, delays[len(delays)/2], delays[len(delays)-1], early)
				require.GreaterOrEqual(t, within, runs*95/100)
			})
		}
	}
}

// Median 3, MAD 1 (of 2, 1, 0, 1, 2, 1, 0, 997): z = (x − 3) ÷ 1.4826.
func watching(t testing.TB) *PageHinkley {
	t.Helper()
	p, err := NewPageHinkley(Settings{Delta: .5, Lambda: 10, Reference: 8})
	require.NoError(t, err)
	for _, x := range []float64{1, 2, 3, 4, 5, 2, 3, 1000} {
		require.False(t, p.Ready())
		require.Equal(t, None, observe(t, p, x))
	}
	require.True(t, p.Ready())
	return p
}

func TestSums(t *testing.T) {
	p := watching(t)
	require.Equal(t, None, observe(t, p, 3+2*1.4826))
	require.InDelta(t, 1.5, p.state.Up, 1e-12) // 2 − .5
	require.Zero(t, p.state.Down)
	require.Equal(t, None, observe(t, p, 3-1.4826))
	require.InDelta(t, 0, p.state.Up, 1e-12) // 1.5 − 1 − .5
	require.InDelta(t, .5, p.state.Down, 1e-12)
	require.Equal(t, None, observe(t, p, 1e300))
	require.InDelta(t, 5.5, p.state.Up, 1e-12) // clipped at 6
	require.Equal(t, Up, observe(t, p, 1e300)) // 11 > 10
	require.False(t, p.Ready(), "what follows is the new reference")
	p = watching(t)
	require.Equal(t, None, observe(t, p, -1e300))
	require.Equal(t, Down, observe(t, p, -1e300))
}

// Without spread there is no deviation: the detector waits for one and forgets what is old.
func TestConstantReference(t *testing.T) {
	p, err := NewPageHinkley(Settings{Delta: .5, Lambda: 10, Reference: 8})
	require.NoError(t, err)
	for range 100 {
		require.Equal(t, None, observe(t, p, 7))
	}
	require.False(t, p.Ready())
	require.Len(t, p.state.Reference, 8)
	for i := range 8 {
		observe(t, p, float64(i%4))
	}
	require.True(t, p.Ready())
	require.Less(t, p.state.Median, 7.)
}

func TestNotFinite(t *testing.T) {
	p := watching(t)
	w, err := NewRewardWatch(Thresholds{Window: 2, Mean: 0, Deviation: 1})
	require.NoError(t, err)
	before := p.state
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := p.Observe(x)
		require.ErrorContains(t, err, "drift: value is ")
		_, err = w.Observe(x)
		require.ErrorContains(t, err, "drift: reward is ")
	}
	require.Equal(t, before, p.state)
	require.Empty(t, w.rewards)
}

// A detector that goes through JSON after every value says what one that does not says.
func TestRestart(t *testing.T) {
	s := newSeries(1, .5)
	kept := defaults(t)
	fresh, err := NewRewardWatch(Thresholds{Window: 5, Mean: -.03, Deviation: .06})
	require.NoError(t, err)
	data, rewards := []byte(`{"median":0,"deviation":0,"up":0,"down":0}`), []byte(`{"rewards":[]}`)
	alarms, retrain := 0, 0
	for i := range 1000 {
		x := s.next() + math.Log(1.4)*float64(i/250%2)
		restarted := defaults(t)
		require.NoError(t, json.Unmarshal(data, restarted))
		want := observe(t, kept, x)
		require.Equal(t, want, observe(t, restarted, x))
		if want != None {
			alarms++
		}
		data, err = json.Marshal(restarted)
		require.NoError(t, err)

		w, err := NewRewardWatch(Thresholds{Window: 5, Mean: -.03, Deviation: .06})
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(rewards, w))
		is, err := fresh.Observe(x)
		require.NoError(t, err)
		got, err := w.Observe(x)
		require.NoError(t, err)
		require.Equal(t, is, got)
		if is {
			retrain++
		}
		rewards, err = json.Marshal(w)
		require.NoError(t, err)
	}
	require.Positive(t, alarms)
	require.Positive(t, retrain)
	require.Less(t, retrain, 1000)
}

func TestRefusedStates(t *testing.T) {
	p := watching(t)
	before := p.state
	for data, want := range map[string]string{
		`{"deviation":-1}`:                  "drift: deviation: -1",
		`{"deviation":1,"reference":[1]}`:   "drift: reference: 1 values beside a deviation",
		`{"reference":[1,2,3,4,5,6,7,8,9]}`: "drift: reference: 9 values, want at most 8",
		`{"up":1}`:                          "drift: median, up and down: want 0 without a deviation",
		`{"deviation":1,"up":11}`:           "drift: up: 11, want 0 to 10",
		`{"deviation":1,"down":-1}`:         "drift: down: -1, want 0 to 10",
		`{"deviation":1,"left":1}`:          `drift: state: json: unknown field "left"`,
		`{"deviation":"1"}`:                 "drift: state: json: cannot unmarshal string",
		`{"deviation":1e999}`:               "drift: state: json: cannot unmarshal number",
		`{"deviation":1} {}`:                "drift: state: more than one JSON value",
		`{"deviation":`:                     "drift: state: unexpected EOF",
	} {
		require.ErrorContains(t, p.UnmarshalJSON([]byte(data)), want, data)
	}
	require.Equal(t, before, p.state)
	w, err := NewRewardWatch(Thresholds{Window: 2, Mean: 0, Deviation: 1})
	require.NoError(t, err)
	require.ErrorContains(t, w.UnmarshalJSON([]byte(`{"rewards":[1,2,3]}`)), "drift: rewards: 3, want at most 2")
	require.ErrorContains(t, w.UnmarshalJSON([]byte(`{"reward":[1]}`)), "unknown field")
}

func TestThresholds(t *testing.T) {
	w, err := NewRewardWatch(Thresholds{Window: 3, Mean: 1, Deviation: 3})
	require.NoError(t, err)
	for _, step := range []struct {
		reward float64
		want   bool
	}{
		{-9, false}, {1, false}, // the window is not full
		{1, true},  // mean −2.3
		{1, false}, // mean 1
		{2, false}, // 1, 1, 2
		{0, false}, // mean 1
		{0, true},  // mean 2/3
		{7, true},  // 0, 0, 7: mean 2.3, deviation 3.30
		{1, true},  // 0, 7, 1: mean 2.7, deviation 3.09
		{1, false}, // 7, 1, 1: mean 3, deviation 2.83
	} {
		got, err := w.Observe(step.reward)
		require.NoError(t, err)
		require.Equal(t, step.want, got, step)
	}
}

func TestRefusedSettings(t *testing.T) {
	for want, s := range map[string]Settings{
		"drift: delta: 0, want a number above 0": {0, 20, 120},
		"drift: delta: NaN":                      {math.NaN(), 20, 120},
		"drift: delta: 6, want less than 6":      {6, 20, 120},
		"drift: lambda: +Inf":                    {.75, math.Inf(1), 120},
		"drift: reference: 7, want 8 to 65536":   {.75, 20, 7},
	} {
		_, err := NewPageHinkley(s)
		require.ErrorContains(t, err, want)
	}
	for want, s := range map[string]Thresholds{
		"drift: window: 1, want 2 to 65536":          {1, 0, 1},
		"drift: mean: NaN, want a number":            {2, math.NaN(), 1},
		"drift: deviation: 0, want a number above 0": {2, 0, 0},
	} {
		_, err := NewRewardWatch(s)
		require.ErrorContains(t, err, want)
	}
}

// A detector that is told its reference finds at once what is six deviations off, and
// refuses a reference without a deviation.
func TestExpect(t *testing.T) {
	p, err := NewPageHinkley(Settings{Delta: 1.5, Lambda: 4.4, Reference: 8})
	require.NoError(t, err)
	require.NoError(t, p.Expect(2, .1))
	require.True(t, p.Ready())
	require.Equal(t, None, observe(t, p, 2.5))
	require.Equal(t, None, observe(t, p, 2))
	require.Equal(t, Down, observe(t, p, 1.4))
	for _, bad := range [][2]float64{{math.NaN(), 1}, {math.Inf(1), 1}, {0, 0}, {0, -1}, {0, math.Inf(1)}} {
		require.Error(t, p.Expect(bad[0], bad[1]))
	}
}
