package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// gated runs an application before whose pods are gates, and returns what an agent saw.
func gated(t *testing.T, cfg Config, agent func(o *mpa.Observation) mpa.Recommendation) ([]*mpa.Observation, Result) {
	t.Helper()
	cfg.Gates, cfg.Guards, cfg.Agent = true, mpa.DefaultGuards(), mpatest.AgentFunc(agent)
	if cfg.Site.Nodes == nil {
		cfg.Site = DefaultSite()
		cfg.Site.Lag, cfg.Site.Miss = 0, 0
	}
	var seen []*mpa.Observation
	cfg.Decided = func(o *mpa.Observation, _ mpa.Decision) { seen = append(seen, o) }
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	return seen, r
}

func stay(*mpa.Observation) mpa.Recommendation { return mpa.Recommendation{Reason: "nothing"} }

// Gates measure what Little's law says, of the last interval alone.
func TestGatesMeasure(t *testing.T) {
	app := webApp()
	seen, _ := gated(t, Config{App: app, Load: loadsim.Load{Step: 600, PerSec: []float64{100, 20}}, Seconds: 1200, Seed: 1}, stay)
	var inside, rate float64
	for _, o := range seen[4:20] {
		require.False(t, o.Gates.Inside.Time.IsZero())
		inside, rate = inside+o.Gates.Inside.Value/16, rate+o.Gates.Rate.Value/16
	}
	assert.InEpsilon(t, 100, rate, .05)
	assert.InEpsilon(t, 100*.035, inside, .3, "20 ms of cpu and 10 ms of waiting, and some queueing")
	at := seen[40] // 15 s after the change
	assert.Equal(t, at.Time, at.Gates.Rate.Time)
	assert.InDelta(t, 20, at.Gates.Rate.Value, 6, "the last interval alone")
	assert.Greater(t, at.Rate.Value, 60., "a minute's mean")
	assert.Equal(t, int32(64), at.Gates.Limit)
	assert.Zero(t, at.Gates.Failed.Value)
}

// The controller changes the limit of pods that run, of those that begin later, and never
// without a gate.
func TestLimitByAction(t *testing.T) {
	app := webApp()
	app.Front, app.Timeout, app.Retries = 10_000, 0, 0
	app.Clients = 50
	app.Target.Limit = mpa.Range{Min: 2, Max: 30}
	agent := func(o *mpa.Observation) mpa.Recommendation {
		switch o.Time.Sub(epoch).Minutes() {
		case 5:
			return mpa.Recommendation{Limit: 1, Reason: "less"}
		case 10:
			return mpa.Recommendation{Limit: 5, Replicas: 6, Reason: "more"} // replicas first
		}
		if m := o.Time.Sub(epoch).Minutes(); m > 10 {
			return mpa.Recommendation{Limit: 5, Replicas: 6, Reason: "more"}
		}
		return stay(o)
	}
	cfg := Config{App: app, Load: loadsim.Load{Step: 60, PerSec: []float64{0}}, Seconds: 1200, Seed: 1}
	seen, r := gated(t, cfg, agent)
	inside := map[float64]float64{}
	for _, o := range seen {
		inside[o.Time.Sub(epoch).Minutes()] = o.Gates.Inside.Value
	}
	assert.InDelta(t, 50, inside[4], .01, "no limit binds")
	assert.InDelta(t, 2*4, inside[7], .01, "1 becomes 2, in each of four pods")
	assert.InDelta(t, 5*6, inside[20], .01)
	assert.Equal(t, 2, r.LimitChanges)
	assert.Equal(t, 1, r.ReplicaChanges)

	cfg.App.Target.Limit = mpa.Range{}
	_, r = gated(t, cfg, agent)
	assert.Zero(t, r.LimitChanges, "nothing holds a limit")
}

// A limit is what keeps the memory: without it the pods die again and again.
func TestLimitKeepsMemory(t *testing.T) {
	app := webApp()
	app.Segments[0].Memory = 64 << 20
	app.Front, app.Clients, app.Retries, app.Workers = 10_000, 100, 0, 0
	app.Target.Limit = mpa.Range{Min: 1, Max: 300}
	cfg := Config{App: app, Load: loadsim.Load{Step: 60, PerSec: []float64{0}}, Seconds: 900, Seed: 1}
	seen, free := gated(t, cfg, stay)
	assert.Greater(t, free.Kills, 4)
	failed := 0.0
	for _, o := range seen {
		failed += o.Gates.Failed.Value
	}
	assert.Positive(t, failed, "those that died with a pod have failed")
	cfg.Warmup = 60
	seen, held := gated(t, cfg, func(*mpa.Observation) mpa.Recommendation {
		return mpa.Recommendation{Limit: 8, Reason: "memory"}
	})
	assert.Zero(t, held.Kills, "none after the first decisions")
	assert.Zero(t, seen[len(seen)-1].Gates.Failed.Value)
}

// Requests may change at a time without a rollout: no pod is replaced.
func TestUpdateAtOnce(t *testing.T) {
	app := webApp()
	var minutes []Minute
	cfg := Config{
		App: app, Load: loadsim.Load{Step: 60, PerSec: []float64{50}}, Seconds: 1200, Seed: 1,
		Updates: []Update{{At: 600, CPU: 3, Memory: 2, Wait: 1, AtOnce: true}},
		Record:  func(m Minute) { minutes = append(minutes, m) },
	}
	seen, r := gated(t, cfg, stay)
	assert.InEpsilon(t, 3, minutes[15].CPUUsed/minutes[8].CPUUsed, .1)
	assert.InEpsilon(t, 3, minutes[10].CPUUsed/minutes[8].CPUUsed, .2, "from then on")
	assert.Equal(t, seen[3].Pods[0].Name, seen[len(seen)-1].Pods[0].Name)
	assert.Zero(t, r.ReplicaChanges+r.Kills)
}

// A collector lets garbage lie and takes more cpu near the limit, so that an optimum lies
// inside.
func TestCollector(t *testing.T) {
	app := webApp()
	app.Segments[0].Memory, app.Memory, app.Replicas, app.Front = 32<<20, Memory{Base: 100 << 20, Collector: true}, 1, 10_000
	app.Timeout, app.Retries = 0, 0
	run := func(clients int) (perRequest, memory float64) {
		app.Clients = clients
		seen, r := gated(t, Config{App: app, Load: loadsim.Load{Step: 60, PerSec: []float64{0}}, Seconds: 600, Seed: 1}, stay)
		require.Zero(t, r.Kills)
		o := seen[len(seen)-1]
		use := o.Pods[0].Containers[0].Usage
		return float64(use.CPU) / 1000 / o.Throughput.Value, float64(use.Memory) / float64(app.Request.Memory)
	}
	far, little := run(4)
	near, much := run(25)
	assert.InEpsilon(t, .02, far, .05)
	assert.InEpsilon(t, .02*2.4, near, .15, "1 + 1.5 · (.88 − .6) ÷ .3")
	assert.InEpsilon(t, 1.4*(100.+4*32)/1024, little, .1)
	assert.InEpsilon(t, (100.+25*32)/1024, much, .05)
}
