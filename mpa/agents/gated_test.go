package agents_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// at has what gates measure of n pods at a second.
func at(seconds, n int, inside, rate float64) *mpa.Observation {
	now := mpatest.Begin.Add(time.Duration(seconds) * time.Second)
	o := mpatest.Observation(now, n, size, mpa.Resources{CPU: int64(10 * rate / float64(n)), Memory: 200 << 20})
	m := func(v float64) mpa.Metric { return mpa.Metric{Value: v, Time: now} }
	o.Gates = mpa.Gates{Limit: 50, Inside: m(inside), Waiting: m(0), Rate: m(rate), Failed: m(0)}
	o.Rate, o.Throughput = m(rate), m(rate)
	return o
}

// Worked out by Knative's rules: ⌈mean ÷ target⌉, in panic from twice the pods' share on, never
// down for a minute after it, and by half at most.
func TestKPA(t *testing.T) {
	type step struct {
		seconds, pods int
		inside        float64
		want          int32
	}
	for _, test := range []struct {
		name  string
		cfg   agents.KPAConfig
		rate  bool
		steps []step
	}{
		{"soft target 100, of which 70", agents.KPAConfig{}, false, []step{
			{0, 1, 69, 2}, // bounds begin at 2
			{2, 2, 211, 2},
			{4, 2, 210, 3}, // (69 + 211 + 210) ÷ 3 = 163 → 3; below 4, no panic
		}},
		{"containerConcurrency 10, of which 7", agents.KPAConfig{Limit: 10}, false, []step{
			{0, 1, 6, 2},
			{2, 2, 100, 8},    // (6 + 100) ÷ 2 = 53 → 8, in panic
			{8, 8, 0, 8},      // 53 fell out of six seconds, not of the minute: 35 → 6, but panic
			{60, 8, 0, 8},     // within a minute of the panic at 2
			{63, 8, 0, 4},     // half of 8
			{71, 4, 13.9, 2},  // (0 + 0 + 13.9) ÷ 3 → 1, half of 4
			{200, 2, 14.1, 3}, // nothing else in the minute: 14.1 ÷ 7 → 3
		}},
		{"200 requests per second, of which 140", agents.KPAConfig{Rate: true}, true, []step{
			{0, 1, 139, 2},
			{2, 2, 800, 4}, // 469.5 ÷ 140 → 4 = 2 × 2 pods: panic
			{4, 4, 100, 4},
		}},
		{"a target of one's own", agents.KPAConfig{Target: 20}, false, []step{{0, 1, 41, 3}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			agent := agents.NewKPA(mpatest.Web(), test.cfg)
			for _, s := range test.steps {
				o := at(s.seconds, s.pods, s.inside, 1)
				if test.rate {
					o = at(s.seconds, s.pods, 1, s.inside)
				}
				r := agent.Recommend(o)
				assert.Equal(t, s.want, r.Replicas, "second %d: %s", s.seconds, r.Reason)
				assert.Equal(t, test.cfg.Limit, r.Limit)
			}
		})
	}
	none := agents.NewKPA(mpatest.Web(), agents.KPAConfig{}).Recommend(mpatest.Observation(mpatest.Begin, 3, size, usage))
	assert.Zero(t, none.Replicas)
	assert.Contains(t, none.Reason, "no gate measures")
}

// 10 ms of cpu and 40 ms of waiting on one core: the rate and the limit of a pod follow, and
// fewer replicas have to be enough for a minute.
func TestCapacityLearns(t *testing.T) {
	target := mpatest.Web()
	target.SLO, target.Limit = mpa.SLO{Percentile: 95, Latency: 1}, mpa.Range{Min: 1, Max: 310}
	agent := agents.NewCapacity(target)
	first := agent.Recommend(at(0, 4, 8, 150))
	assert.Zero(t, first.Replicas, "nothing is known yet")
	assert.Equal(t, int32(10), first.Limit)
	var r mpa.Recommendation
	for s := 15; s <= 300; s += 15 {
		r = agent.Recommend(at(s, 4, 8, 150))
	}
	known, ok := agent.Known()
	require.True(t, ok)
	assert.InEpsilon(t, .01, known.Demand.Value, .01)
	assert.InDelta(t, .85*100, known.PodRate, 12)
	assert.InDelta(t, 10, r.Limit, 4)
	assert.Equal(t, int32(2), r.Replicas, r.Reason)
	up := agent.Recommend(at(330, 4, 8, 900)).Replicas
	assert.Greater(t, up, int32(9), "20 seconds count where they are more than the minute")
	assert.Equal(t, up, agent.Recommend(at(345, 4, 8, 100)).Replicas, "down later")

	target.Limit = mpa.Range{}
	free := agents.NewCapacity(target)
	for s := 0; s <= 300; s += 15 {
		r = free.Recommend(at(s, 4, 8, 150))
	}
	assert.Equal(t, mpa.Recommendation{Replicas: 2, Source: "capacity", Reason: r.Reason}, r, "no limit where nothing takes one")
}

// A pod that may let in only a few has the rate of these few: 3 requests of 50 ms are 60 a second at most.
func TestCapacityOfABoundLimit(t *testing.T) {
	target := mpatest.Web()
	target.SLO, target.Limit = mpa.SLO{Percentile: 95, Latency: 1}, mpa.Range{Min: 1, Max: 3}
	agent := agents.NewCapacity(target)
	var r mpa.Recommendation
	for s := 0; s <= 300; s += 15 {
		r = agent.Recommend(at(s, 4, 8, 150))
	}
	known, ok := agent.Known()
	require.True(t, ok)
	assert.Equal(t, 3, known.PodLimit)
	assert.Less(t, known.PodRate, 60., "%s", r.Reason)
	assert.Greater(t, known.PodRate, 30., "%s", r.Reason)
}

// A pod that has to let in more than is best has the rate of what it lets in: where each request beside another makes it take
// .05 more cpu, fifty at once are answered more slowly than ten. Another bound counts at once, also after a restart.
func TestCapacityOfALeastLimit(t *testing.T) {
	target := mpatest.Web()
	target.SLO = mpa.SLO{Percentile: 95, Latency: 2}
	var state []byte
	s := 0
	podRate := func(least int32, until int) float64 {
		target.Limit = mpa.Range{Min: least, Max: 310}
		agent := agents.NewCapacity(target)
		if state != nil {
			require.NoError(t, agent.UnmarshalJSON(state))
		}
		for ; s <= until; s += 15 {
			n := 1 + s/75*2
			net := capacity.Network{Demand: .01, Contention: .05, Wait: .04, Cores: 1}
			rate := net.Throughput(n)
			o := at(s, 4, 4*float64(n), 4*rate)
			for i := range o.Pods {
				o.Pods[i].Containers[0].Usage.CPU = int64(1000 * rate * net.Demand * (1 + net.Contention*float64(n-1)))
			}
			agent.Recommend(o)
		}
		var err error
		state, err = agent.MarshalJSON()
		require.NoError(t, err)
		known, ok := agent.Known()
		require.True(t, ok)
		require.InDelta(t, .05, known.Contention.Value, .02)
		require.GreaterOrEqual(t, known.PodLimit, int(least))
		return known.PodRate
	}
	free := podRate(1, 1500)
	require.Less(t, podRate(50, 1530), .85*free)
	require.InDelta(t, free, podRate(1, 1560), .1*free)
}

// What a pod uses beyond its request, or without one, is no bound: that is its limit, if it has one. Of
// pods that use 200 MiB for two requests at once, 250 hold two.
func TestCapacityBeyondTheMemoryRequest(t *testing.T) {
	for _, tt := range []struct {
		request, limit int64
		want, delta    float64
	}{{0, 0, 10, 4}, {64 << 20, 0, 10, 4}, {64 << 20, 2 << 30, 10, 4}, {64 << 20, 250 << 20, 2, 0}} {
		target := mpatest.Web()
		target.SLO, target.Limit = mpa.SLO{Percentile: 95, Latency: 1}, mpa.Range{Min: 1, Max: 310}
		agent := agents.NewCapacity(target)
		var r mpa.Recommendation
		for s := 0; s <= 300; s += 15 {
			o := at(s, 4, 8, 150)
			for i := range o.Pods {
				c := &o.Pods[i].Containers[0]
				c.Request.Memory, c.Actual.Memory, c.MemoryLimit = tt.request, tt.request, tt.limit
			}
			r = agent.Recommend(o)
		}
		assert.InDelta(t, tt.want, r.Limit, tt.delta, "%+v: %s", tt, r.Reason)
	}
}

// What is missing to learn of a pod is named.
func TestCapacityNamesTheMissingRequest(t *testing.T) {
	agent := agents.NewCapacity(mpatest.Web())
	o := at(0, 1, 8, 150)
	c := &o.Pods[0].Containers[0]
	c.Request.CPU, c.Actual.CPU = 0, 0
	assert.Contains(t, agent.Recommend(o).Reason, "resources.requests.cpu")
	o.Pods[0].Ready = false
	assert.Equal(t, "no pod is ready", agent.Recommend(o).Reason)
}

// Prometheus says what the mean of the last minute is, at each time: where requests begin to come, the
// first window is of one minute as its answers are, not of that minute and the idle one before it.
func TestCapacityBeginsWithLoad(t *testing.T) {
	target := mpatest.Web()
	target.SLO, target.Limit = mpa.SLO{Percentile: 95, Latency: 1}, mpa.Range{Min: 1, Max: 310}
	agent := agents.NewCapacity(target)
	for s := 0; s <= 60; s += 15 {
		o := at(s, 4, 8*float64(s)/60, 150*float64(s)/60)
		o.Gates.Window = time.Minute
		agent.Recommend(o)
	}
	known, ok := agent.Known()
	require.True(t, ok)
	require.Equal(t, 1, known.Windows)
	assert.InEpsilon(t, .01, known.Demand.Value, .01)
	assert.InDelta(t, .041, known.Wait.Value, .003)
}

// A rate that kept the promise before is none of requests that became too slow for it.
func TestCapacityForgetsTheRateOfBefore(t *testing.T) {
	target := mpatest.Web()
	target.SLO, target.Limit = mpa.SLO{Percentile: 95, Latency: .3}, mpa.Range{Min: 1, Max: 310}
	agent := agents.NewCapacity(target)
	for s := 0; s <= 300; s += 15 {
		agent.Recommend(at(s, 4, 8, 150))
	}
	known, ok := agent.Known()
	require.True(t, ok)
	require.Positive(t, known.PodRate)
	var r mpa.Recommendation
	for s := 315; s <= 600; s += 15 { // half a second of cpu
		o := at(s, 4, 8, 6)
		for i := range o.Pods {
			o.Pods[i].Containers[0].Usage.CPU = 750
		}
		r = agent.Recommend(o)
	}
	assert.Contains(t, r.Reason, "even few requests take longer than 0.3 s")
	known, ok = agent.Known()
	require.True(t, ok)
	assert.InDelta(t, .5, known.Demand.Value, .01)
	assert.Zero(t, known.PodRate)
}

// Two requests at once of 10 ms of cpu and 40 ms of waiting are 40 a second, whatever the core could
// do with more. Other bounds count at once, also for an agent that goes on from a state.
func TestCapacityKeepsTheRateToTheBounds(t *testing.T) {
	target := mpatest.Web()
	target.SLO = mpa.SLO{Percentile: 95, Latency: 1}
	var state []byte
	podRate := func(most int32) float64 {
		target.Limit = mpa.Range{Min: 1, Max: most}
		agent := agents.NewCapacity(target)
		if state != nil {
			require.NoError(t, agent.UnmarshalJSON(state))
		}
		for s := 0; s <= 300; s += 15 {
			agent.Recommend(at(s, 4, 8, 150))
		}
		var err error
		state, err = agent.MarshalJSON()
		require.NoError(t, err)
		known, ok := agent.Known()
		require.True(t, ok)
		require.LessOrEqual(t, known.PodLimit, int(most))
		return known.PodRate
	}
	free := podRate(310)
	require.InDelta(t, .85*100, free, 12)
	require.Less(t, podRate(2), 40.)
	require.Less(t, podRate(1), 20.)
	require.InDelta(t, free, podRate(310), 3)
}

// Agents of gates keep what they know over a restart, at any time, and after a jump.
func TestGatedKeep(t *testing.T) {
	for _, name := range agents.GatedNames() {
		t.Run(name, func(t *testing.T) {
			target := mpatest.Web()
			target.SLO, target.Limit = mpa.SLO{Percentile: 95, Latency: 1}, mpa.Range{Min: 2, Max: 100}
			agent := func() mpa.Stateful {
				a, err := agents.Make(mpa.Spec{Name: name}, target, nil)
				require.NoError(t, err)
				return a.(mpa.Stateful)
			}
			one, still := agent(), agent()
			d := rand.New(rand.NewPCG(3, 3))
			jump := time.Duration(0)
			for i := range 1500 {
				rate := 100 + 50*d.Float64()
				if i > 700 {
					rate *= 3
				}
				o := at(15*i, 3+i/400, rate*(.03+.01*d.Float64()), rate)
				if i%97 == 0 {
					o.Gates = mpa.Gates{}
				}
				want := still.Recommend(o)
				if i == 1000 {
					jump = -36 * time.Hour
					one.(mpa.Shifter).Shift(jump)
				}
				if i%250 == 249 {
					state, err := json.Marshal(one)
					require.NoError(t, err)
					next := agent()
					require.NoError(t, json.Unmarshal(state, next))
					again, err := json.Marshal(next)
					require.NoError(t, err)
					require.JSONEq(t, string(state), string(again))
					one = next
				}
				require.Equal(t, want, one.Recommend(moved(o, jump)), "observation %d", i)
				require.LessOrEqual(t, want.Replicas, int32(20))
				require.LessOrEqual(t, want.Limit, int32(100))
			}
		})
	}
}

// moved is an observation by a clock that jumped.
func moved(o *mpa.Observation, d time.Duration) *mpa.Observation {
	n := *o
	n.Time = n.Time.Add(d)
	n.Pods = append([]mpa.Pod{}, o.Pods...)
	for i := range n.Pods {
		n.Pods[i].Containers = append([]mpa.Container{}, n.Pods[i].Containers...)
		n.Pods[i].Containers[0].Usage.Time = n.Pods[i].Containers[0].Usage.Time.Add(d)
	}
	for _, m := range []*mpa.Metric{&n.Rate, &n.Throughput, &n.Gates.Inside, &n.Gates.Waiting, &n.Gates.Rate, &n.Gates.Failed} {
		if !m.Time.IsZero() {
			m.Time = m.Time.Add(d)
		}
	}
	return &n
}
