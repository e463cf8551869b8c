package learned_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// A life is a workload whose recommendations are carried out at once. A request costs 10 ms
// of cpu unless cost says otherwise.
type life struct {
	agent    *learned.Agent
	now      time.Time
	replicas int32
	size     mpa.Resources
	memory   int64
	cost     float64
	served   float64 // share of the rate
	killed   time.Time
}

func newLife() *life {
	return &life{
		agent: learned.New(mpatest.Web(), learned.Defaults()), now: mpatest.Begin, replicas: 4,
		size: mpa.Resources{CPU: 1000, Memory: 1 << 30}, memory: 200 << 20, cost: .01, served: 1,
	}
}

func (l *life) observe(rate, latency float64) *mpa.Observation {
	l.now = l.now.Add(15 * time.Second)
	cores := min(rate*l.served*l.cost, l.cores())
	o := mpatest.Observation(l.now, int(l.replicas), l.size, mpa.Resources{CPU: int64(1000 * cores / float64(l.replicas)), Memory: l.memory})
	o.Pods[0].Containers[0].Killed = l.killed
	o.Rate, o.Latency = mpa.Metric{Value: rate, Time: l.now}, mpa.Metric{Value: latency, Time: l.now}
	o.Throughput = mpa.Metric{Value: rate * l.served, Time: l.now}
	return o
}

func (l *life) cores() float64 { return float64(l.replicas) * float64(l.size.CPU) / 1000 }

func (l *life) live(d time.Duration, rate, latency float64) {
	for end := l.now.Add(d); l.now.Before(end); {
		r := l.agent.Recommend(l.observe(rate, latency))
		if r.Replicas != 0 {
			l.replicas = mpatest.Web().Replicas.Clamp(r.Replicas)
		}
		if r.Containers != nil {
			l.size = mpatest.Web().Containers[0].Clamp(r.Containers[0])
		}
	}
}

func TestAgent(t *testing.T) {
	t.Run("little slack while latency is low, more when it is not", func(t *testing.T) {
		l := newLife()
		l.live(3*time.Hour, 200, .05)
		calm := l.cores()
		assert.True(t, calm > 2.2 && calm < 3.6, "%v cores for 2 of work", calm)
		l.live(20*time.Minute, 200, .3) // of .2 promised
		assert.Greater(t, l.cores(), 1.1*calm)
	})
	t.Run("grows at once with a step", func(t *testing.T) {
		l := newLife()
		l.live(2*time.Hour, 100, .05)
		l.live(30*time.Second, 400, .05)
		assert.Greater(t, l.cores(), 4.0)
	})
	// Work for a backlog and for retries is no cost of a request, whether half of the requests are
	// given up or all are answered late.
	for name, served := range map[string]float64{"retries teach nothing": .5, "a backlog teaches nothing": 1} {
		t.Run(name, func(t *testing.T) {
			l := newLife()
			l.live(time.Hour, 100, .1)
			before, cost := l.cores(), memory(t, l.agent)["cost"].(float64)
			l.cost, l.served = .08, served
			for range 8 {
				l.agent.Recommend(l.observe(100, .5)) // of .2 promised; nothing is carried out
			}
			assert.InEpsilon(t, cost, memory(t, l.agent)["cost"], 1e-9)
			l.cost, l.served = .01, 1
			l.live(15*time.Minute, 100, .1)
			assert.Less(t, l.cores(), 1.6*before)
		})
	}
	// Pods smaller than one request needs are not helped by more of them: they become larger, as
	// far as they may.
	t.Run("bounded when nothing helps", func(t *testing.T) {
		l := newLife()
		l.cost, l.replicas, l.size.CPU = .2, 3, 500 // one request needs 4.6 cores to be in time
		for range 20 {
			l.agent.Recommend(l.observe(5, .19))
		}
		begin := l.now
		for range 400 {
			r := l.agent.Recommend(l.observe(5, 2)) // 1 core of work; nothing makes it faster
			if r.Replicas > l.replicas {
				assert.LessOrEqual(t, float64(r.Replicas), 1.6/(float64(l.size.CPU)/1000)+1, "pods of %v", l.size)
			}
			if r.Replicas != 0 {
				l.replicas = mpatest.Web().Replicas.Clamp(r.Replicas)
			}
			if r.Containers != nil && l.now.Sub(begin) > time.Hour { // no larger ones for an hour
				l.size = mpatest.Web().Containers[0].Clamp(r.Containers[0])
			}
		}
		assert.LessOrEqual(t, l.replicas, int32(4))
		assert.Greater(t, l.size.CPU, int64(1000))
	})
	// Late at little cpu: more pods, and the slack is what it was.
	t.Run("something other than cpu runs short", func(t *testing.T) {
		l := newLife()
		l.live(4*time.Hour, 100, .1)
		pods, before := l.replicas, l.cores()/float64(l.replicas)
		l.live(20*time.Minute, 100, .3)
		assert.Greater(t, l.replicas, pods)
		l.live(10*time.Minute, 100, .19)
		assert.Less(t, l.cores()/float64(l.replicas), 1.2*before)
		// A peak each 6 minutes is no reason to go up and down.
		l.live(time.Minute, 150, .19)
		pods = l.replicas
		for range 4 {
			l.live(5*time.Minute, 110, .19)
			assert.Equal(t, pods, l.replicas)
			l.live(time.Minute, 150, .19)
			assert.Equal(t, pods, l.replicas)
		}
	})
	// What is late after a peak is its backlog.
	t.Run("a backlog is no shortage", func(t *testing.T) {
		l := newLife()
		l.live(2*time.Hour, 20, .1)
		pods := l.replicas
		l.live(time.Minute, 60, .1)
		l.live(8*time.Minute, 20, .3)
		assert.LessOrEqual(t, l.replicas, pods)
	})
	// What is given up is asked for again, and the pods work for it: they need more than the
	// demand, and for a while only.
	t.Run("a flood of retries", func(t *testing.T) {
		l := newLife()
		l.live(2*time.Hour, 100, .1)
		l.cost, l.served = .5, .2 // all pods are busy with what is given up
		l.live(3*time.Minute, 100, .9)
		assert.Greater(t, l.cores(), 5.0, "cores for 1 of work")
		for range 200 {
			l.live(15*time.Second, 100, .9)
			assert.LessOrEqual(t, float64(l.replicas), math.Ceil(1.6/(float64(l.size.CPU)/1000)+1))
		}
	})
	// Usage that is of another time than the rate says nothing of the cost of a request.
	t.Run("old usage beside a new rate", func(t *testing.T) {
		l, v := newLife(), learned.Defaults()
		for i, n := range learned.Numbers {
			if n.Name == "jumpGain" || n.Name == "trendAhead" {
				v[i] = 0 // a rate that swings is no matter here
			}
		}
		l.agent = learned.New(mpatest.Web(), v)
		l.live(time.Hour, 100, .1)
		calm := l.cores()
		for i := range 80 {
			rate := 100.0
			if i/4%2 == 1 {
				rate = 10
			}
			o := l.observe(rate, .1)
			for k := range o.Pods {
				u := &o.Pods[k].Containers[0].Usage
				u.CPU, u.Time = int64(1000/float64(l.replicas)), l.now.Add(-time.Minute)
			}
			if r := l.agent.Recommend(o); r.Replicas != 0 {
				l.replicas = r.Replicas
			} else if r.Containers != nil {
				l.size = r.Containers[0]
			}
		}
		assert.Less(t, l.cores(), 1.6*calm)
	})
	// While metrics come and go it holds more of what it began with.
	t.Run("metrics that come and go", func(t *testing.T) {
		l := newLife()
		l.live(2*time.Hour, 100, .1)
		calm := l.cores()
		l.now = l.now.Add(5 * time.Minute)
		o := l.observe(100, .1)
		o.Rate.Time = l.now.Add(-90 * time.Second)
		l.agent.Recommend(o)
		l.live(3*time.Minute, 100, .1)
		assert.Greater(t, l.cores(), max(2.8, 1.3*calm)) // .7 of the 4 it began with
		l.live(90*time.Minute, 100, .1)
		assert.Less(t, l.cores(), 1.2*calm)
	})
	// What it made smaller and had to make larger again, at the same demand, stays for a while.
	t.Run("no swing", func(t *testing.T) {
		l := newLife()
		turns, last, up := 0, l.cores(), true
		for i := range 4 * 60 * 4 {
			latency := .05
			if i/24%2 == 1 { // every 6 minutes
				latency = .4
			}
			l.live(15*time.Second, 100, latency)
			if now := l.cores(); now != last {
				if (now > last) != up {
					turns++
				}
				last, up = now, now > last
			}
		}
		assert.LessOrEqual(t, turns, 20, "in 4 hours")
	})
	t.Run("memory is raised when it is tight or ran out", func(t *testing.T) {
		l := newLife()
		l.live(2*time.Hour, 100, .1)
		l.memory = l.size.Memory - 1<<20
		small := l.size.Memory
		l.live(time.Minute, 100, .1)
		assert.Greater(t, l.size.Memory, small)
		small, l.killed = l.size.Memory, l.now
		l.live(time.Minute, 100, .1)
		assert.Greater(t, l.size.Memory, small)
	})
	// The pods that stay take over requests.
	t.Run("memory first, fewer pods next", func(t *testing.T) {
		l := newLife()
		l.replicas, l.memory = 12, 800<<20
		for range 1000 {
			o := l.observe(100, .1)
			o.Pods[1].Containers[0].Usage.Memory = 300 << 20 // memory sways
			r := l.agent.Recommend(o)
			if r.Replicas != 0 && r.Replicas < l.replicas {
				require.True(t, r.Containers == nil || r.Containers[0].Memory <= l.size.Memory, "%+v", r)
				l.replicas = r.Replicas
			}
			if r.Containers != nil {
				l.size = r.Containers[0]
			}
		}
		assert.Less(t, l.replicas, int32(12))
		assert.Greater(t, l.size.Memory, int64(1<<30))
	})
	t.Run("no opinion without cpu, pods or a promise", func(t *testing.T) {
		l := newLife()
		o := l.observe(100, .1)
		o.Pods = nil
		assert.Zero(t, l.agent.Recommend(o).Replicas)
		o = l.observe(100, .1)
		for i := range o.Pods {
			o.Pods[i].Containers[0].Usage = mpa.Usage{}
		}
		r := l.agent.Recommend(o)
		assert.Zero(t, r.Replicas)
		assert.Nil(t, r.Containers)
		target := mpatest.Web()
		target.SLO = mpa.SLO{}
		assert.Equal(t, "no latency is promised", learned.New(target, learned.Defaults()).Recommend(l.observe(100, .1)).Reason)
	})
}

// The state goes through JSON, and ages survive a jump of the clock of whole weeks.
func TestState(t *testing.T) {
	const jump = -13 * 7 * 24 * time.Hour
	one, jumped := newLife().agent, newLife().agent
	d := rand.New(rand.NewPCG(5, 5))
	now := mpatest.Begin
	for i := range 2000 {
		now = now.Add(15 * time.Second)
		rate, latency, use := 50+300*d.Float64(), .05+.3*d.Float64(), mpa.Resources{CPU: 100 + d.Int64N(900), Memory: d.Int64N(1 << 30)}
		kill := i%333 == 332
		observe := func(at time.Time) *mpa.Observation {
			o := mpatest.Observation(at, 4+i/60%3, mpa.Resources{CPU: 1000 + int64(i/90%3)*100, Memory: 1 << 30}, use)
			o.Rate, o.Throughput, o.Latency = mpa.Metric{Value: rate, Time: at}, mpa.Metric{Value: rate, Time: at}, mpa.Metric{Value: latency, Time: at}
			if kill {
				o.Pods[0].Containers[0].Killed = at
			}
			return o
		}
		then := now
		if i == 1000 {
			jumped.Shift(jump)
		}
		if i >= 1000 {
			then = now.Add(jump)
		}
		if i%100 == 99 {
			state, err := one.MarshalJSON()
			require.NoError(t, err)
			next := newLife().agent
			require.NoError(t, next.UnmarshalJSON(state))
			again, err := next.MarshalJSON()
			require.NoError(t, err)
			require.JSONEq(t, string(state), string(again))
			one = next
		}
		require.Equal(t, one.Recommend(observe(now)), jumped.Recommend(observe(then)), i)
	}
}

func TestStateRefuses(t *testing.T) {
	state, err := newLife().agent.MarshalJSON()
	require.NoError(t, err)
	for field, value := range map[string]any{
		"beta": 99, "slot": 288, "cost": -1, "memory": []any{}, "fresh": -1, "detector": map[string]any{"cpu": map[string]any{"detector": nil}},
		"watches.cpu": map[string]any{"cpu": map[string]any{"count": 31}}, "watches.latency": map[string]any{"latency": map[string]any{"count": 61}},
	} {
		var all map[string]any
		require.NoError(t, json.Unmarshal(state, &all))
		if w, ok := value.(map[string]any); ok {
			all["watches"] = w
		} else {
			all[field] = value
		}
		text, err := json.Marshal(all)
		require.NoError(t, err)
		require.ErrorContains(t, newLife().agent.UnmarshalJSON(text), field)
	}
}

// Whatever is observed, the recommendation is a number.
func TestFinite(t *testing.T) {
	d := rand.New(rand.NewPCG(7, 7))
	l := newLife()
	odd := []float64{0, 1e-9, 1, 1e12, math.NaN(), math.Inf(1)}
	for range 3000 {
		o := l.observe(100, .1)
		o.Rate.Value, o.Latency.Value, o.Throughput.Value = odd[d.IntN(4)], odd[d.IntN(4)], odd[d.IntN(4)]
		r := l.agent.Recommend(o)
		require.GreaterOrEqual(t, r.Replicas, int32(0))
		require.LessOrEqual(t, r.Replicas, int32(20))
		for _, c := range r.Containers {
			require.True(t, c.CPU >= 0 && c.Memory >= 0)
		}
		_, err := l.agent.MarshalJSON()
		require.NoError(t, err)
	}
}

func BenchmarkRecommend(b *testing.B) {
	l := newLife()
	l.live(time.Hour, 100, .1)
	o := l.observe(100, .1)
	for b.Loop() {
		o.Time = o.Time.Add(15 * time.Second)
		for i := range o.Pods {
			o.Pods[i].Containers[0].Usage.Time = o.Time
		}
		o.Rate.Time, o.Latency.Time, o.Throughput.Time = o.Time, o.Time, o.Time
		l.agent.Recommend(o)
	}
}

// A rise is taken to go on only where no gap is behind it: after one it comes at once.
func TestJumpAfterGap(t *testing.T) {
	for gap, want := range map[time.Duration]bool{0: true, 3 * time.Minute: false, 15 * time.Minute: false} {
		l := newLife()
		l.live(20*time.Minute, 50, .05)
		l.now = l.now.Add(gap)
		l.live(time.Minute, 50, .05)
		reason := l.agent.Recommend(l.observe(200, .05)).Reason
		assert.Equal(t, want, strings.Contains(reason, "rising fast"), "%v: %s", gap, reason)
		l.live(3*time.Minute, 50, .05)
		reason = l.agent.Recommend(l.observe(200, .05)).Reason
		assert.Contains(t, reason, "rising fast", gap)
	}
}
