package safety

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// The short form of `make mpa-safety`.
func TestSafety(t *testing.T) {
	list, err := scaling.Agents([]string{"hpa+vpa", "learned"}, "")
	require.NoError(t, err)
	weights, err := scaling.Weights(nil)
	require.NoError(t, err)
	var all Result
	for count, hostile := range map[int]bool{6: false, 12: true} {
		g := scaling.Generated{Side: "test", Seed: sim.FirstTestSeed, Count: count, Hostile: hostile, Agents: list, Workers: 2}
		figures, err := Compare(t.Context(), &g, weights)
		require.NoError(t, err)
		for _, f := range figures {
			all.Add(&f)
		}
	}
	assert.Equal(t, 18*3*240, all.Decisions)
	all.Rules += 3 // 18 runs say little of promises: only many more are a fault here
	assert.Empty(t, all.Breach(), "%+v", all)
}

// Scenarios of the train side in which the rules ask for ever more pods, and a candidate that
// had to follow them took 13 × the pods that are allowed or went up and down.
func TestSafetyOfOnlineTraining(t *testing.T) {
	list, err := scaling.Agents([]string{"hpa+vpa", "learned@OnlineTraining"}, "")
	require.NoError(t, err)
	weights, err := scaling.Weights(nil)
	require.NoError(t, err)
	for _, s := range []struct {
		seed    uint64
		hostile bool
	}{{5001, true}, {5070, true}, {5177, true}, {5001, false}, {5008, false}, {5070, false}} {
		g := scaling.Generated{Side: "train", Seed: s.seed, Count: 1, Hostile: s.hostile, Agents: list, Workers: 2}
		figures, err := Compare(t.Context(), &g, weights)
		require.NoError(t, err)
		f := figures[0]
		f.Rules += 1 // of a single run promises say nothing
		assert.Empty(t, f.Breach(), "seed %d, hostile %v: %+v", s.seed, s.hostile, f)
	}
}

// Each fault is a breach, and a run without one is none.
func TestBreach(t *testing.T) {
	sound := Result{Runs: 10, Rules: 10, Broke: 11, Most: 1, Decisions: 5, Equal: 5}
	assert.Empty(t, sound.Breach())
	for want, change := range map[string]func(s *Result){
		"12 runs broke the promise, 10 of the rules": func(s *Result) { s.Broke++ },
		"1.20 × the pods that are allowed":           func(s *Result) { s.Most = 1.2 },
		"1 runs oscillate":                           func(s *Result) { s.Swinging = 1 },
		"4 of 5 decisions are computed again":        func(s *Result) { s.Equal-- },
	} {
		s := sound
		change(&s)
		assert.Equal(t, want, s.Breach())
	}
}

// A watch sees replicas without bound, and those that go up and down under a steady load.
func TestWatch(t *testing.T) {
	scenario := func() *sim.Scenario {
		g, err := sim.NewGenerator("train", "")
		require.NoError(t, err)
		s, err := g.Generate(1)
		require.NoError(t, err)
		for i := range s.Load.PerSec {
			s.Load.PerSec[i] = 20
		}
		s.App.Replicas = 2
		return &s
	}
	look := func(s *sim.Scenario, every int, replicas func(i int) int32) *watch {
		w := &watch{scenario: s, most: 4}
		n := replicas(0)
		for i := range 240 {
			o := mpatest.Observation(mpatest.Begin.Add(time.Duration(15*i)*time.Second), int(n), mpa.Resources{CPU: 1000, Memory: 1 << 30}, mpa.Resources{})
			o.Replicas = n
			for k := range o.Pods {
				o.Pods[k].Containers[0].Name = s.App.Target.Containers[0].Name
			}
			var d mpa.Decision
			if next := replicas(i / every); next != n {
				d.Action, n = &mpa.Action{Replicas: next}, next
			}
			w.see(o, d)
		}
		return w
	}
	s := scenario()
	flaps := func(i int) int32 { return int32(3 + i%2) }
	assert.True(t, look(s, 12, flaps).swings(), "every 3 minutes")
	assert.False(t, look(s, 60, flaps).swings(), "every 15 minutes")
	rising := func(i int) int32 { return int32(2 + i) }
	assert.False(t, look(s, 60, rising).swings())
	assert.LessOrEqual(t, look(s, 48, rising).ratio, 1.0)
	assert.Greater(t, look(s, 24, rising).ratio, 1.0)
	// What the load asks for is no oscillation.
	for i := range s.Load.PerSec {
		s.Load.PerSec[i] = 10 + 20*float64(i/18%2)
	}
	assert.False(t, look(s, 12, flaps).swings())
}
