package ddpg

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
	"github.com/sigma-scheduler/sigma/internal/learn/rl"
	"github.com/sigma-scheduler/sigma/mpa"
)

var target = mpa.Target{
	SLO: mpa.SLO{Percentile: 99, Latency: .2}, Replicas: mpa.Range{Min: 1, Max: 12},
	Containers: []mpa.ContainerSpec{{Name: "web", CPU: true, Memory: true}},
}

func size(cpu, memory int64) mpa.Resources { return mpa.Resources{CPU: cpu, Memory: memory} }

var begin = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// observed is a workload of two pods of a core and a GiB, half of which they use.
func observed(seconds int) *mpa.Observation {
	now := begin.Add(time.Duration(seconds) * time.Second)
	o := &mpa.Observation{Time: now, Replicas: 2, Rate: mpa.Metric{Value: 100, Time: now}, Throughput: mpa.Metric{Value: 100, Time: now}, Latency: mpa.Metric{Value: .1, Time: now}}
	for i := range 2 {
		o.Pods = append(o.Pods, mpa.Pod{Name: fmt.Sprint(i), Phase: mpa.Running, Ready: true, Containers: []mpa.Container{{
			Name: "web", Request: size(1000, 1<<30), Actual: size(1000, 1<<30),
			Usage: mpa.Usage{Resources: size(500, 1<<29), Time: now, Window: time.Minute},
		}}})
	}
	return o
}

func network(t *testing.T, inputs int) *nn.MLP[float32] {
	t.Helper()
	m, err := nn.NewMLP[float32](rand.New(rand.NewPCG(1, 0)), nn.Shape{Sizes: []int{inputs, 8, ActionSize}, Hidden: nn.ReLU, Output: nn.Tanh}, 0)
	require.NoError(t, err)
	return m
}

func seen(o *mpa.Observation) view {
	first := start{2, []mpa.Resources{size(1000, 1<<30)}}
	return first.look(o, &target, o.Requests(&target))
}

func TestState(t *testing.T) {
	o := observed(0)
	o.Replicas = 4
	o.Latency.Value = .4
	o.Throughput.Value = 80
	o.Pods[1].Containers[0].Usage = mpa.Usage{}
	v := seen(o)
	got := make([]float32, StateSize)
	v.state(50, got)
	want := []float64{0, 0, math.Ln2, .5, .5, .8, .5, math.Ln2, math.Ln2, .5}
	for i := range want {
		assert.InDelta(t, want[i], float64(got[i]), 1e-6, "number %d", i)
	}
}

// What is no number is as if it had not been measured: a state is finite.
func TestStateIsFinite(t *testing.T) {
	o := observed(0)
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		o.Rate.Value, o.Throughput.Value, o.Latency.Value = v, v, v
		seen := seen(o)
		state := make([]float32, StateSize)
		seen.state(50, state)
		for i, x := range state {
			assert.False(t, math.IsNaN(float64(x)) || math.IsInf(float64(x), 0), "%v: number %d is %v", v, i, x)
		}
		first := start{2, []mpa.Resources{size(1000, 1<<30)}}
		for _, r := range []Reward{Paper, Promise} {
			reward, _ := r.of(&seen, &target, &first)
			assert.False(t, math.IsNaN(reward) || math.IsInf(reward, 0), "%v: reward %v", v, reward)
		}
	}
}

// The paper's reward is the same whether requests are answered or lost; the promise's
// is not.
func TestRewards(t *testing.T) {
	first := start{2, []mpa.Resources{size(1000, 1<<30)}}
	reward := func(r Reward, change func(o *mpa.Observation)) (float64, bool) {
		o := observed(0)
		change(o)
		v := seen(o)
		return r.of(&v, &target, &first)
	}
	for _, c := range []struct {
		name           string
		change         func(o *mpa.Observation)
		paper, promise float64
		skipped        bool
	}{
		// .3 · .5 + .7 · 1; late .01^2 = .01 of what is forgiven
		{"as promised", func(*mpa.Observation) {}, .85, -1, false},
		// SP = .5; late .01^.5 = .1, ten times what is forgiven: −.5 − ln(10.3)
		{"slow", func(o *mpa.Observation) { o.Latency.Value = .4 }, .5, -1 - math.Log(10.3), false},
		// half of what is forgiven fifty times: used = (.5 + .5·.0001) ÷ .01
		{"half is lost", func(o *mpa.Observation) { o.Throughput.Value = 50 }, .85, -1 - math.Log(1+50.005-.7), false},
		{"twice as many pods", func(o *mpa.Observation) { o.Replicas = 4 }, .85, -2, false},
		{"no measurement", func(o *mpa.Observation) {
			for i := range o.Pods {
				o.Pods[i].Containers[0].Usage = mpa.Usage{}
			}
		}, .7, -1 - math.Log(1+100-.7), true},
	} {
		paper, ok := reward(Paper, c.change)
		assert.InDelta(t, c.paper, paper, 1e-6, c.name)
		assert.Equal(t, !c.skipped, ok, c.name)
		promise, ok := reward(Promise, c.change)
		assert.InDelta(t, c.promise, promise, 1e-6, c.name)
		assert.True(t, ok)
	}
}

func TestActions(t *testing.T) {
	first := start{2, []mpa.Resources{size(1000, 1<<30)}}
	r := first.size([]float32{1, -1, -1}, &target)
	assert.Equal(t, mpa.Recommendation{Replicas: 2, Containers: []mpa.Resources{size(4000, 1<<28)}}, r)
	assert.EqualValues(t, 12, first.size([]float32{0, 0, 1}, &target).Replicas, "the target's bound")
	for _, action := range [][]float32{{0, 0, -1}, {.5, -.5, 0}, {-1, 1, .1111}} {
		r := first.size(action, &target)
		got := make([]float32, 3)
		first.action(&r, got)
		for i := range action {
			assert.InDelta(t, action[i], got[i], 1e-3)
		}
	}
}

// A network acts every 30 s, repeats in between, and goes on from its memory.
func TestNetwork(t *testing.T) {
	agent := New(target, network(t, StateSize))
	none := agent.Recommend(&mpa.Observation{Time: begin})
	assert.Zero(t, none.Replicas)
	a := agent.Recommend(observed(15))
	assert.NotZero(t, a.Replicas)
	late := observed(30)
	late.Latency.Value = 9
	assert.Equal(t, a, agent.Recommend(late))
	text, err := json.Marshal(agent)
	require.NoError(t, err)
	other := New(target, network(t, StateSize))
	require.NoError(t, json.Unmarshal(text, other))
	late = observed(45)
	late.Latency.Value = 9
	b := agent.Recommend(late)
	assert.NotEqual(t, a, b)
	assert.Equal(t, b, other.Recommend(late))
	agent.Shift(time.Hour)
	assert.Equal(t, b, agent.Recommend(observed(75)), "it keeps its age when the clock jumps")
	require.ErrorContains(t, other.UnmarshalJSON([]byte(`{"first":{"requests":[]}}`)), "first.requests: 0 containers, want 1")
}

func TestNetworkOfOtherSizes(t *testing.T) {
	data, err := network(t, StateSize).Encode()
	require.NoError(t, err)
	_, err = Parse("good.json", data)
	require.NoError(t, err)
	data, err = network(t, StateSize+1).Encode()
	require.NoError(t, err)
	_, err = Parse("other.json", data)
	require.ErrorContains(t, err, "other.json: ")
	require.ErrorContains(t, err, "sizes")
}

func TestBound(t *testing.T) {
	rules := mpa.Recommendation{Replicas: 4, Containers: []mpa.Resources{size(1000, 1<<30)}}
	for _, c := range []struct {
		name   string
		n      int32
		each   mpa.Resources
		want   int32
		become mpa.Resources
	}{
		{"inside", 3, size(1500, 1<<30), 3, size(1500, 1<<30)},
		{"too much: fewer pods", 12, size(1000, 1<<30), 6, size(1000, 1<<30)},
		{"a large pod: as large as the band allows", 2, size(7000, 1<<30), 2, size(1500, 1<<30)},
		{"a tiny pod: as small, and more of them", 1, size(100, 1<<30), 4, size(500, 1<<30)},
		{"memory", 4, size(1000, 1<<20), 4, size(1000, 1<<30)},
		{"much memory", 4, size(1000, 1<<34), 4, size(1000, 3<<29)},
	} {
		got := within(mpa.Recommendation{Replicas: c.n, Containers: []mpa.Resources{c.each}}, rules, .5, 1000, &target)
		assert.Equal(t, c.want, got.Replicas, c.name)
		assert.Equal(t, c.become, got.Containers[0], c.name)
	}
	// Few replicas of pods that the candidate made four times as large are no more than the
	// rules' least, as they were at first.
	least := mpa.Recommendation{Replicas: 1, Containers: []mpa.Resources{size(4000, 1<<30)}}
	got := within(mpa.Recommendation{Replicas: 3, Containers: []mpa.Resources{size(1000, 1<<30)}}, least, .5, 1000, &target)
	assert.EqualValues(t, 1, got.Replicas)
	assert.EqualValues(t, 1000, got.Containers[0].CPU)
}

// fixed always wants the same.
type fixed mpa.Recommendation

func (f fixed) Recommend(*mpa.Observation) mpa.Recommendation { return mpa.Recommendation(f) }

func TestBand(t *testing.T) {
	rules := fixed{Replicas: 4, Source: "rules"}
	all := fixed{Replicas: 12, Containers: []mpa.Resources{size(1000, 1<<30)}}
	assert.EqualValues(t, 6, NewBand(target, all, rules).Recommend(observed(0)).Replicas)
	few := fixed{Replicas: 1, Containers: []mpa.Resources{size(1000, 1<<30)}}
	assert.EqualValues(t, 2, NewBand(target, few, rules).Recommend(observed(0)).Replicas)
	slow := observed(0)
	slow.Latency.Value = .15
	assert.EqualValues(t, 4, NewBand(target, few, rules).Recommend(slow).Replicas, "no less than the rules while latency is near the promise")
	assert.Equal(t, "rules", NewBand(target, fixed{}, rules).Recommend(observed(0)).Source, "without an opinion")
}

// A student that watches leaves the acting to the rules and marks what it saw; one that
// acts stays within the band, and learns from what was done.
func TestStudent(t *testing.T) {
	config := Tuned(0, 1)
	config.Warmup = 2
	learner, err := rl.New(config)
	require.NoError(t, err)
	var list []rl.Transition
	rules := fixed{Replicas: 4, Source: "rules"}
	student := &Student{Target: target, Learner: learner, Reward: Promise, Rules: rules, Watch: true, Seen: func(x *rl.Transition) { list = append(list, *x) }}
	for i := range 10 {
		assert.EqualValues(t, 4, student.Recommend(observed(15*i)).Replicas)
	}
	require.NoError(t, student.End())
	require.Len(t, list, 4)
	assert.Equal(t, rl.TimeLimit, list[3].End)
	assert.Equal(t, rl.Continues, list[2].End)
	assert.True(t, list[0].Demonstrated)
	assert.InDelta(t, 2./9-1, list[0].Action[2], 1e-6, "four replicas")
	assert.InDelta(t, -1, list[0].Reward, 1e-6)

	list = nil
	student = &Student{Target: target, Learner: learner, Reward: Promise, Rules: rules, Seen: student.Seen}
	for i := range 10 {
		r := student.Recommend(observed(15 * i))
		whole := float64(r.Replicas) * float64(r.Containers[0].CPU)
		assert.GreaterOrEqual(t, whole, 1999.)
		assert.LessOrEqual(t, whole, 6000.)
		if i > 1 && i%2 == 0 && i > 3 {
			assert.False(t, list[len(list)-1].Demonstrated)
		}
	}
	require.NoError(t, student.End())
	require.Len(t, list, 4)
}
