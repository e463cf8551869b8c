package scaling

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// The load rises for an hour by more steps than the hour's budget of changes: the pods follow it.
func TestGrowthHasNoBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("2 million requests an agent")
	}
	load, err := loadsim.Synthetic("ramp", map[string]string{"low": "10", "high": "400", "at": "0.5", "length": "1"}, 2.5, 1)
	require.NoError(t, err)
	pod := mpa.Resources{CPU: 1000, Memory: 1 << 30}
	app := sim.App{
		Name: "web",
		Service: loadsim.Service{
			Segments: []loadsim.Segment{{CPU: loadsim.Dist{Mean: .05, CV: 1}, Wait: loadsim.Dist{Mean: .01, CV: .5}, Memory: 1 << 20}},
			Workers:  64, Queue: 200, Timeout: 2, Retries: 1,
		},
		Memory: sim.Memory{Base: 200 << 20}, Replicas: 2, Request: pod,
		Target: mpa.Target{
			Replicas: mpa.Range{Min: 2, Max: 60}, SLO: mpa.SLO{Percentile: 99, Latency: .5},
			Containers: []mpa.ContainerSpec{{Name: "app", CPU: true, Memory: true, Min: pod, Max: pod}},
		},
	}
	for name, test := range map[string]struct {
		agent mpa.Agent
		most  float64 // % of the requests late or lost
	}{
		"learned": {agents.NewLearned(app.Target, learned.General().Values), .9},
		"hpa":     {agents.NewHPA(app.Target, agents.DefaultHPA()), 1},
		"hpa+vpa": {agents.NewPair(app.Target), .2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := sim.Run(t.Context(), sim.Config{
				App: app, Load: load, Seconds: 9000, Warmup: 3600, Seed: 1, Agent: test.agent, Guards: mpa.DefaultGuards(), Site: sim.DefaultSite(),
			})
			require.NoError(t, err)
			t.Logf("%+v", r)
			assert.LessOrEqual(t, 100*float64(r.Violations)/float64(r.Requests), test.most)
			assert.Greater(t, r.MostReplicaChanges, mpa.DefaultGuards().ReplicaChanges, "the load proves nothing")
		})
	}
}
