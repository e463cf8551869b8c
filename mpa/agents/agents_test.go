package agents_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

var size, usage = mpatest.Size, mpatest.Use

// A life is a workload of four pods with a given rate, at 10 ms of cpu a request, and a given
// latency. Recommendations are carried out at once.
type life struct {
	agent    mpa.Agent
	now      time.Time
	replicas int32
	size     mpa.Resources
	memory   int64
	killed   time.Time
	blind    bool
}

func (l *life) observe(rate, latency float64) *mpa.Observation {
	l.now = l.now.Add(15 * time.Second)
	cores := rate * .01
	o := mpatest.Observation(l.now, int(l.replicas), l.size, mpa.Resources{CPU: int64(1000 * cores / float64(l.replicas)), Memory: l.memory})
	for i := range o.Pods {
		if l.blind {
			o.Pods[i].Containers[0].Usage = mpa.Usage{}
		}
	}
	o.Pods[0].Containers[0].Killed = l.killed
	if !l.blind {
		o.Rate = mpa.Metric{Value: rate, Time: l.now}
		o.Throughput, o.Latency = o.Rate, mpa.Metric{Value: latency, Time: l.now}
	}
	return o
}

// live lets time pass and carries recommendations out.
func (l *life) live(d time.Duration, rate, latency float64) mpa.Recommendation {
	var r mpa.Recommendation
	for end := l.now.Add(d); l.now.Before(end); {
		r = l.agent.Recommend(l.observe(rate, latency))
		if r.Replicas != 0 {
			l.replicas = mpatest.Web().Replicas.Clamp(r.Replicas)
		}
		if r.Containers != nil {
			l.size = mpatest.Web().Containers[0].Clamp(r.Containers[0])
		}
	}
	return r
}

func (l *life) cores() float64 { return float64(l.replicas) * float64(l.size.CPU) / 1000 }

func newLife(agent mpa.Agent) *life {
	return &life{agent: agent, now: mpatest.Begin, replicas: 4, size: mpa.Resources{CPU: 1000, Memory: 1 << 30}, memory: 200 << 20}
}

func TestPredictive(t *testing.T) {
	t.Run("less slack while the latency is low, more when it is not", func(t *testing.T) {
		l := newLife(agents.NewPredictive(mpatest.Web()))
		l.live(3*time.Hour, 200, .05)
		calm := l.cores()
		assert.True(t, calm > 2 && calm < 2.6, "%v cores for 2 of work", calm)
		l.live(20*time.Minute, 200, .3) // of .2 promised
		assert.Greater(t, l.cores(), 1.1*calm)
	})
	t.Run("few large pods, not below the bounds", func(t *testing.T) {
		l := newLife(agents.NewPredictive(mpatest.Web()))
		l.live(6*time.Hour, 200, .15)
		assert.Equal(t, int32(2), l.replicas)
		assert.Greater(t, l.size.CPU, int64(1000))
	})
	t.Run("grows at once with a step", func(t *testing.T) {
		l := newLife(agents.NewPredictive(mpatest.Web()))
		l.live(2*time.Hour, 100, .05)
		l.live(30*time.Second, 400, .05)
		assert.Greater(t, l.cores(), 4.0)
	})
	t.Run("along a ramp it is ahead", func(t *testing.T) {
		l := newLife(agents.NewPredictive(mpatest.Web()))
		l.live(time.Hour, 100, .15)
		for rate := 100.0; rate < 300; rate += 2 {
			l.live(15*time.Second, rate, .15)
			if rate > 150 {
				assert.Greater(t, l.cores(), .01*rate)
			}
		}
	})
	t.Run("the day before is remembered", func(t *testing.T) {
		l := newLife(agents.NewPredictive(mpatest.Web()))
		for range 2 {
			l.live(12*time.Hour, 100, .15)
			l.live(12*time.Hour, 600, .15)
		}
		l.live(12*time.Hour-5*time.Minute, 100, .15)
		assert.Greater(t, l.cores(), 6.0, "five minutes before it rises again")
	})
	t.Run("more memory when that grows or runs out", func(t *testing.T) {
		l := newLife(agents.NewPredictive(mpatest.Web()))
		l.live(2*time.Hour, 100, .15)
		small := l.size.Memory
		assert.True(t, small > l.memory && small < 400<<20, small)
		l.memory = small - 1<<20
		l.live(time.Minute, 100, .15)
		assert.Greater(t, l.size.Memory, small)
		small = l.size.Memory
		l.killed = l.now
		l.live(time.Minute, 100, .15)
		assert.Greater(t, l.size.Memory, small)
	})
	t.Run("nothing is known, nothing is wanted", func(t *testing.T) {
		l := newLife(agents.NewPredictive(mpatest.Web()))
		l.live(time.Hour, 100, .15)
		l.blind = true
		r := l.live(time.Minute, 100, .15)
		assert.Zero(t, r.Replicas)
		assert.Nil(t, r.Containers)
		l.killed = l.now
		r = l.agent.Recommend(l.observe(100, .15))
		require.NotNil(t, r.Containers, "a kill is known")
		assert.Greater(t, r.Containers[0].Memory, l.size.Memory)
		assert.Equal(t, l.size.CPU, r.Containers[0].CPU)
	})
	t.Run("pods that are too few for something else than cpu", func(t *testing.T) {
		l := newLife(agents.NewPredictive(mpatest.Web()))
		l.live(6*time.Hour, 200, .15)
		require.Equal(t, int32(2), l.replicas)
		l.live(15*time.Minute, 200, .3)
		assert.Greater(t, l.replicas, int32(2))
	})
}

// VPA leaves a request within its range alone, unless the container runs out of memory.
func TestVPAKill(t *testing.T) {
	for _, after := range []time.Duration{5 * time.Minute, 30 * time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			l := newLife(agents.NewVPA(mpatest.Web(), agents.DefaultVPA()))
			l.now = mpatest.Begin.Add(-time.Hour)
			l.memory = 800 << 20
			before := l.size.Memory
			l.live(after, 100, .1)
			require.Equal(t, before, l.size.Memory)
			l.killed = l.now
			l.live(time.Minute, 100, .1)
			assert.Greater(t, l.size.Memory, before)
		})
	}
}

// A pod reports its last kill for as long as it lives. An agent without memory ignores old
// kills; otherwise every new process would add memory once more.
func TestOldKills(t *testing.T) {
	for _, name := range []string{"vpa", "hpa+vpa", "autopilot", "predictive"} {
		t.Run(name, func(t *testing.T) {
			agent, err := agents.Make(mpa.Spec{Name: name}, mpatest.Web(), nil)
			require.NoError(t, err)
			l := newLife(agent)
			l.killed, l.memory = l.now.Add(-55*time.Minute), 800<<20
			before := l.size.Memory
			l.live(5*time.Minute, 100, .1)
			assert.Equal(t, before, l.size.Memory, "a kill of an hour ago")
			for range 2 {
				l.killed = l.now
				l.live(5*time.Minute, 100, .1)
			}
			assert.Greater(t, l.size.Memory, before, "more of them")
		})
	}
}

// The rate is polled every 30 s.
func TestRateHPAPolls(t *testing.T) {
	a := agents.NewRateHPA(mpatest.Web(), 10)
	l := newLife(a)
	assert.Equal(t, int32(6), a.Recommend(l.observe(60, 0)).Replicas)
	assert.Equal(t, int32(6), a.Recommend(l.observe(80, 0)).Replicas, "not yet asked for again")
	assert.Equal(t, int32(8), a.Recommend(l.observe(80, 0)).Replicas)
}

// An agent of the same kind continues with another's state.
func TestAgentsKeepTheirMemory(t *testing.T) {
	for _, name := range agents.Names() {
		t.Run(name, func(t *testing.T) {
			first, err := agents.Make(mpa.Spec{Name: name}, mpatest.Web(), nil)
			require.NoError(t, err)
			l := newLife(first)
			rate := func() float64 { return 200 + 150*math.Sin(l.now.Sub(mpatest.Begin).Hours()) }
			for range 1000 {
				l.live(15*time.Second, rate(), .15)
			}
			data, err := json.Marshal(first)
			require.NoError(t, err)
			second, err := agents.Make(mpa.Spec{Name: name}, mpatest.Web(), nil)
			require.NoError(t, err)
			require.NoError(t, second.(mpa.Stateful).UnmarshalJSON(data))
			for i := range 1000 {
				o := l.observe(rate(), .25)
				want := first.Recommend(o)
				require.Equal(t, fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", second.Recommend(o)), i)
				if want.Replicas != 0 {
					l.replicas = want.Replicas
				}
			}
		})
	}
}

// A learned agent is made from the weights with the digest in its spec.
func TestMake(t *testing.T) {
	require.Panics(t, func() {
		agents.Register(agents.Kind{Name: "hpa", Rule: func(mpa.Target) mpa.Agent { return agents.Static{} }})
	})
	require.Panics(t, func() { agents.Register(agents.Kind{Name: "neither"}) })
	defer agents.Register(agents.Kind{Name: "taught", Model: func(t mpa.Target, weights []byte) (mpa.Agent, error) {
		if string(weights) == "broken" {
			return nil, errors.New("no weights")
		}
		return agents.NewHPA(t, agents.DefaultHPA()), nil
	}})()
	loaded := agents.Weights{}
	one, broken := loaded.Add([]byte("one")), loaded.Add([]byte("broken"))
	for _, test := range []struct {
		spec   mpa.Spec
		loaded agents.Weights
		err    string
	}{
		{spec: mpa.Spec{Name: "hpa"}},
		{spec: mpa.Spec{Name: "taught", Digest: one}, loaded: loaded},
		{spec: mpa.Spec{Name: "hpa", Digest: one}, loaded: loaded, err: "agent hpa is a rule and has no weights, but sha256:"},
		{spec: mpa.Spec{Name: "taught", Digest: broken}, loaded: loaded, err: "agent taught, weights " + broken + ": no weights"},
		{spec: mpa.Spec{Name: "taught", Digest: one}, err: `agent taught: its weights are not loaded: "` + one + `" is asked for, none are loaded`},
		{spec: mpa.Spec{Name: "taught"}, loaded: loaded, err: `agent taught: its weights are not loaded: "" is asked for, sha256:`},
		{spec: mpa.Spec{Name: "hap"}, err: `unknown agent "hap": there are static, hpa`},
	} {
		_, err := agents.Make(test.spec, mpatest.Web(), test.loaded)
		if test.err == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, test.err)
		}
	}
}
