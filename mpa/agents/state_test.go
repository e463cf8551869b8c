package agents_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// An agent with another's state recommends the same, also after a jump.
func TestKeep(t *testing.T) {
	for _, name := range append(agents.Names(), "fallback", "rate") {
		t.Run(name, func(t *testing.T) {
			agent := func() mpa.Stateful {
				switch name {
				case "fallback":
					return &agents.Fallback{First: agents.NewRateHPA(mpatest.Web(), 100), Second: agents.NewPair(mpatest.Web()), After: time.Minute}
				case "rate":
					return agents.NewRateHPA(mpatest.Web(), 100)
				}
				a, err := agents.Make(mpa.Spec{Name: name}, mpatest.Web(), nil)
				require.NoError(t, err)
				return a.(mpa.Stateful)
			}
			one := agent()
			d := rand.New(rand.NewPCG(3, 3))
			now := mpatest.Begin
			for i := range 3000 {
				now = now.Add(time.Minute)
				if i%700 == 699 {
					jump := -36 * time.Hour
					now = now.Add(jump)
					if s, ok := one.(mpa.Shifter); ok {
						s.Shift(jump)
					}
				}
				o := mpatest.Observation(now, 2+d.IntN(9), size, mpa.Resources{CPU: int64(d.IntN(1500)), Memory: int64(d.IntN(1 << 30))})
				if i%50 > 45 {
					o.Rate = mpa.Metric{}
				} else {
					o.Rate = mpa.Metric{Value: float64(d.IntN(1000)), Time: now}
				}
				if i%300 == 299 {
					o.Pods[0].Containers[0].Killed = now
					state, err := one.MarshalJSON()
					require.NoError(t, err)
					next := agent()
					require.NoError(t, next.UnmarshalJSON(state))
					again, err := next.MarshalJSON()
					require.NoError(t, err)
					require.JSONEq(t, string(state), string(again))
					require.Equal(t, one.Recommend(o), next.Recommend(o))
					one = next
					continue
				}
				r := one.Recommend(o)
				require.GreaterOrEqual(t, r.Replicas, int32(0))
				require.LessOrEqual(t, r.Replicas, int32(20))
			}
		})
	}
}

// After the clock went back, agents still learn and grow. Before the jump the load swings,
// so that an agent of any threshold has something to remember.
func TestAgentsAfterAJump(t *testing.T) {
	for _, name := range agents.Names() {
		if name == "static" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			agent, err := agents.Make(mpa.Spec{Name: name}, mpatest.Web(), nil)
			require.NoError(t, err)
			c, err := mpa.NewController(mpatest.Web(), agent, mpa.DefaultGuards())
			require.NoError(t, err)
			run := func(from time.Time, n int, use ...mpa.Resources) (grew bool) {
				for i := range n {
					use := use[i%len(use)]
					d := c.Decide(mpatest.Observation(from.Add(time.Duration(i)*time.Minute), 4, size, use))
					grew = grew || d.Wanted.Replicas > 4 || d.Wanted.Containers != nil && d.Wanted.Containers[0].Memory > mpatest.Size.Memory
				}
				return grew
			}
			require.False(t, run(mpatest.Begin.Add(90*24*time.Hour), 90,
				mpa.Resources{CPU: 400, Memory: 500 << 20}, mpa.Resources{CPU: 200, Memory: 500 << 20}))
			require.True(t, run(mpatest.Begin, 90, mpa.Resources{CPU: 1900, Memory: 1500 << 20}))
		})
	}
}

// An agent whose times were shifted by whole weeks recommends what it would without the jump.
func TestShiftKeepsAges(t *testing.T) {
	const jump = -13 * 7 * 24 * time.Hour
	for _, name := range agents.Names() {
		t.Run(name, func(t *testing.T) {
			still, err := agents.Make(mpa.Spec{Name: name}, mpatest.Web(), nil)
			require.NoError(t, err)
			jumped, err := agents.Make(mpa.Spec{Name: name}, mpatest.Web(), nil)
			require.NoError(t, err)
			d := rand.New(rand.NewPCG(5, 5))
			now := mpatest.Begin.Add(-jump)
			for i := range 600 {
				now = now.Add(time.Minute)
				use := mpa.Resources{CPU: 100 + d.Int64N(1500), Memory: d.Int64N(1 << 30)}
				observe := func(at time.Time) *mpa.Observation {
					o := mpatest.Observation(at, 4+i/60%3, size, use)
					o.Rate = mpa.Metric{Value: float64(use.CPU), Time: at}
					return o
				}
				then := now
				if i == 300 {
					mpa.Shift(jumped, jump)
				}
				if i >= 300 {
					then = now.Add(jump)
				}
				require.Equal(t, still.Recommend(observe(now)), jumped.Recommend(observe(then)), i)
			}
		})
	}
}

// The second agent answers once the first has had no opinion for long enough, and has
// learned meanwhile.
func TestFallback(t *testing.T) {
	second := agents.NewHPA(mpatest.Web(), agents.DefaultHPA())
	f := &agents.Fallback{First: agents.NewRateHPA(mpatest.Web(), 100), Second: second, After: 3 * time.Minute}
	source := func(after time.Duration, rate bool) string {
		o := mpatest.Observation(mpatest.Begin.Add(after), 4, size, mpa.Resources{CPU: 950})
		if rate {
			o.Rate = mpa.Metric{Value: 400, Time: o.Time}
		}
		r := f.Recommend(o)
		if r.Source == "hpa" {
			assert.Contains(t, r.Reason, "hpa-rps has had no opinion for")
		}
		return r.Source
	}
	assert.Equal(t, "hpa-rps", source(0, true))
	assert.Equal(t, "hpa-rps", source(time.Minute, false))
	assert.Equal(t, "hpa-rps", source(2*time.Minute, false))
	assert.Equal(t, "hpa", source(3*time.Minute+time.Second, false))
	assert.Equal(t, "hpa-rps", source(4*time.Minute, true))
	assert.Equal(t, "hpa-rps", source(5*time.Minute, false))
}
