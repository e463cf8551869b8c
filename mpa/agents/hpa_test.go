package agents_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// A step is an observation and the recommended replicas.
type step struct {
	after    time.Duration // since the beginning
	replicas int           // that there are
	rate     float64       // requests per second
	want     int32
}

// The target is 10 requests per second and pod, so a rate shows what the agent wants before
// windows and limits.
func TestHPAOverTime(t *testing.T) {
	tests := []struct {
		name   string
		change func(cfg *agents.HPAConfig)
		steps  []step
	}{
		{
			name: "within the tolerance nothing changes",
			steps: []step{
				{0, 10, 109, 10},
				{15 * time.Second, 10, 91, 10},
				{30 * time.Second, 10, 111, 12},
			},
		},
		{
			name: "up at once, by the larger of 100 % and four pods in a period",
			steps: []step{
				{0, 2, 500, 6},
				{15 * time.Second, 6, 500, 12},
				{20 * time.Second, 12, 500, 12}, // what was added within 15 s counts
			},
		},
		{
			name: "down only to the most that was wanted in five minutes",
			steps: []step{
				{0, 10, 100, 10},
				{time.Minute, 10, 50, 10},
				{4 * time.Minute, 10, 30, 10},
				{5*time.Minute + time.Second, 10, 30, 5},
				{10 * time.Minute, 5, 30, 3},
			},
		},
		{
			name:   "the policy that changes least",
			change: func(cfg *agents.HPAConfig) { cfg.Up.Select = "Min" },
			steps:  []step{{0, 10, 500, 14}},
		},
		{
			name:   "a direction that is switched off",
			change: func(cfg *agents.HPAConfig) { cfg.Up.Select = "Disabled" },
			steps:  []step{{0, 10, 500, 10}},
		},
		{
			name:   "up only to the least that was wanted in the window",
			change: func(cfg *agents.HPAConfig) { cfg.Up.Stabilisation = time.Minute },
			steps: []step{
				{0, 10, 100, 10},
				{30 * time.Second, 10, 150, 10},
				{61 * time.Second, 10, 180, 15},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := agents.DefaultHPA()
			cfg.Utilisation, cfg.RatePerPod = 0, 10
			if tt.change != nil {
				tt.change(&cfg)
			}
			h := agents.NewHPA(mpa.Target{Replicas: mpa.Range{Min: 1, Max: 100}}, cfg)
			for i, s := range tt.steps {
				o := mpatest.Observation(mpatest.Begin.Add(s.after), s.replicas, size, usage)
				o.Rate = mpa.Metric{Value: s.rate, Time: o.Time}
				r := h.Recommend(o)
				assert.Equal(t, s.want, r.Replicas, "step %d: %s", i, r.Reason)
			}
		})
	}
}

// A missing metric shrinks nothing.
func TestHPAWithOneMetric(t *testing.T) {
	cfg := agents.DefaultHPA()
	cfg.RatePerPod = 10
	h := agents.NewHPA(mpatest.Web(), cfg)
	o := mpatest.Observation(mpatest.Begin, 10, size, mpa.Resources{CPU: 200})
	assert.Zero(t, h.Recommend(o).Replicas, "cpu alone would halve it")
	busy := mpatest.Observation(mpatest.Begin.Add(time.Minute), 10, size, mpa.Resources{CPU: 1000})
	assert.Equal(t, int32(13), h.Recommend(busy).Replicas, "cpu alone may let it grow")
}

// Each agent with the window keeps the target's stabilisation.
func TestStabilisation(t *testing.T) {
	for _, name := range []string{"hpa", "hpa-50", "hpa+vpa", "hpa-cpu+vpa-cpu"} {
		for window, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, 20 * time.Second: 20 * time.Second} {
			target := mpatest.Web()
			target.Stabilisation = window
			agent, err := agents.Make(mpa.Spec{Name: name}, target, nil)
			require.NoError(t, err)
			after := time.Duration(-1)
			for at := time.Duration(0); at < 10*time.Minute && after < 0; at += 10 * time.Second {
				if r := agent.Recommend(mpatest.Observation(mpatest.Begin.Add(at), 10, size, mpa.Resources{CPU: mpatest.Size.CPU / 10, Memory: mpatest.Size.Memory / 2})); r.Replicas < 10 {
					after = at
				}
			}
			assert.Equal(t, want, after, name)
		}
	}
	target := mpatest.Web()
	target.Stabilisation = -time.Second
	assert.ErrorContains(t, target.Validate(), "stabilisation")
}

// While a metric is missing the window may run empty; then the present replicas count.
func TestStabilisationAfterAGap(t *testing.T) {
	cfg := agents.DefaultHPA().At(80)
	cfg.RatePerPod = 100
	h := agents.NewHPA(mpatest.Web(), cfg)
	replicas := func(after time.Duration, rate float64) int32 {
		o := mpatest.Observation(mpatest.Begin.Add(after), 8, size, mpa.Resources{CPU: 50})
		if rate > 0 {
			o.Rate = mpa.Metric{Value: rate, Time: o.Time}
		}
		return h.Recommend(o).Replicas
	}
	assert.EqualValues(t, 8, replicas(0, 780))
	for after := 15 * time.Second; after < 10*time.Minute; after += 15 * time.Second {
		assert.Zero(t, replicas(after, 0))
	}
	assert.EqualValues(t, 8, replicas(10*time.Minute, 200))
	assert.EqualValues(t, 8, replicas(14*time.Minute, 200))
	assert.EqualValues(t, 2, replicas(15*time.Minute, 200))
}
