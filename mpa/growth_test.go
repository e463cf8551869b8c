package mpa_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// After an hour's budget of changes growth goes on, where it restarts no pod that works. What would
// shrink beside it is left out.
func TestGrowthBeyondTheBudget(t *testing.T) {
	const cpu, memory = 1000, 1 << 30
	recreate := mpa.DefaultGuards()
	recreate.CPUChanges = 0
	for name, test := range map[string]struct {
		guards mpa.Guards
		want   mpa.Recommendation
		killed bool
		action *mpa.Action
	}{
		"more replicas":              {mpa.DefaultGuards(), mpa.Recommendation{Replicas: 5}, false, &mpa.Action{Replicas: 5}},
		"fewer replicas":             {mpa.DefaultGuards(), mpa.Recommendation{Replicas: 3}, false, nil},
		"more cpu":                   {mpa.DefaultGuards(), resized(1400, memory), false, larger(1400, memory)},
		"less cpu":                   {mpa.DefaultGuards(), resized(800, memory), false, nil},
		"more memory":                {mpa.DefaultGuards(), resized(cpu, 5<<28), false, larger(cpu, 5<<28)},
		"less memory":                {mpa.DefaultGuards(), resized(cpu, 3<<28), false, nil},
		"more of one":                {mpa.DefaultGuards(), resized(1400, 3<<28), false, larger(1400, memory)},
		"new pods for more replicas": {recreate, mpa.Recommendation{Replicas: 5}, false, &mpa.Action{Replicas: 5}},
		"new pods for more cpu":      {recreate, resized(1400, memory), false, nil},
		"new pods for more memory":   {recreate, resized(cpu, 5<<28), false, nil},
		"new pods after a kill":      {recreate, resized(800, 5<<28), true, larger(cpu, 5<<28)},
	} {
		t.Run(name, func(t *testing.T) {
			agent := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation { return test.want })
			c, err := mpa.NewController(mpatest.Web(), agent, test.guards)
			require.NoError(t, err)
			m := mpa.Memory{Time: mpatest.Begin}
			for i := range 40 {
				at := mpatest.Begin.Add(time.Duration(i-44) * time.Minute)
				m.ReplicaChanges, m.RequestChanges = append(m.ReplicaChanges, at), append(m.RequestChanges, at)
				if i%2 == 0 {
					m.CPUChanges = append(m.CPUChanges, at)
				} else {
					at = at.Add(time.Second)
					m.RequestChanges, m.CPUChanges = append(m.RequestChanges, at), append(m.CPUChanges, at)
				}
			}
			require.NoError(t, c.Restore(m))
			now := mpatest.Begin.Add(15 * time.Second)
			o := mpatest.Observation(now, 4, mpa.Resources{CPU: cpu, Memory: memory}, mpa.Resources{CPU: 500, Memory: 100 << 20})
			if test.killed {
				o.Pods[0].Containers[0].Killed = now.Add(-time.Second)
			}
			d := c.Decide(o)
			require.Equal(t, test.action, d.Action, "%+v", d)
			if test.action == nil {
				assert.Contains(t, fmt.Sprint(d.Guards), "changes within an hour")
			}
		})
	}
}

func resized(cpu, memory int64) mpa.Recommendation {
	return mpa.Recommendation{Containers: []mpa.Resources{{CPU: cpu, Memory: memory}}}
}

func larger(cpu, memory int64) *mpa.Action {
	return &mpa.Action{Containers: []mpa.Resources{{CPU: cpu, Memory: memory}}}
}

// More memory after a kill is asked for once in a cool-down while no pod has it, and a still
// larger size at once. Each time that it is asked for, the updater's wait for the webhook begins
// again: repeated with each decision, it would never end.
func TestSizeAfterKillIsNotRepeated(t *testing.T) {
	now, wanted := mpatest.Begin, int64(640<<20)
	agent := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation { return resized(1000, wanted) })
	c, err := mpa.NewController(mpatest.Web(), agent, mpa.DefaultGuards())
	require.NoError(t, err)
	var asked []string
	for second := range 150 {
		if second == 100 {
			wanted += 64 << 20
		}
		at := now.Add(time.Duration(second) * time.Second)
		o := mpatest.Observation(at, 4, mpa.Resources{CPU: 1000, Memory: 512 << 20}, mpa.Resources{CPU: 500, Memory: 100 << 20})
		o.Pods[0].Containers[0].Killed = now.Add(-time.Second)
		if d := c.Decide(o); d.Action != nil {
			asked = append(asked, fmt.Sprintf("%ds %dMi", second, d.Action.Containers[0].Memory>>20))
		} else {
			assert.Contains(t, d.Reason, "not there yet", second)
		}
	}
	assert.Equal(t, []string{"0s 640Mi", "60s 640Mi", "100s 704Mi"}, asked)
}
