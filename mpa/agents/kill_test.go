package agents_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// Of n pods one needs more memory than it has and is killed every five minutes until it has it: all
// agents that size memory give enough by the third kill, ten minutes after the first.
func TestOneKillOfMany(t *testing.T) {
	const have, need = 512 << 20, 1 << 30
	target := mpatest.Web()
	target.Replicas = mpa.Range{Min: 1, Max: 30}
	list := map[string]mpa.Agent{"learned": agents.NewLearned(target, learned.General().Values)}
	for _, name := range []string{"vpa", "hpa+vpa", "hpa-cpu+vpa-cpu", "autopilot", "predictive"} {
		a, err := agents.Make(mpa.Spec{Name: name}, target, nil)
		require.NoError(t, err)
		list[name] = a
	}
	for name, agent := range list {
		t.Run(name, func(t *testing.T) {
			c, err := mpa.NewController(target, agent, mpa.DefaultGuards())
			require.NoError(t, err)
			size, replicas := mpa.Resources{CPU: 1000, Memory: have}, 20
			var killed time.Time
			kills := 0
			begin := mpatest.Begin.Add(2 * time.Hour) // of the kills
			for now := mpatest.Begin; now.Before(begin.Add(30 * time.Hour)); now = now.Add(15 * time.Second) {
				o := mpatest.Observation(now, replicas, size, mpa.Resources{CPU: 500, Memory: 400 << 20})
				pod := &o.Pods[0].Containers[0]
				if since := now.Sub(begin); since >= 0 && size.Memory < need {
					if since%(5*time.Minute) == 0 {
						killed, kills = now.Add(-time.Second), kills+1
						t.Logf("kill after %v of %d MiB", since, size.Memory>>20)
					}
					o.Pods[0].Ready, o.Pods[0].ReadySince, pod.Usage = false, killed, mpa.Usage{}
				} else if since >= 0 {
					pod.Usage.Memory = need * 9 / 10
				}
				pod.Killed = killed
				if a := c.Decide(o).Action; a != nil && a.Containers != nil {
					size = a.Containers[0]
				} else if a != nil {
					replicas = int(a.Replicas)
				}
			}
			assert.Positive(t, kills, "nothing was too little")
			assert.LessOrEqual(t, kills, 3)
			assert.LessOrEqual(t, size.Memory, int64(3*need))
		})
	}
}
