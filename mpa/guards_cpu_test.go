package mpa_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// In an hour an agent wants more cpu and less in turn, and in the fourth minutes more memory and
// less. It is done at once. Half of a budget may shrink.
func TestCPUChanges(t *testing.T) {
	run := func(t *testing.T, g mpa.Guards, memory bool) (cpu, other int) {
		t.Helper()
		size, target := mpatest.Size, mpatest.Web()
		target.Containers[0].Max.CPU = 1 << 20
		minute := 0
		agent := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation {
			next := size
			switch swing := minute%8 < 4; {
			case memory && minute%4 == 0:
				next.Memory = map[bool]int64{true: 9, false: 8}[swing] << 27
			case size.CPU > 1000:
				next.CPU = 1000
			default:
				next.CPU = 1125
			}
			return mpa.Recommendation{Containers: []mpa.Resources{next}}
		})
		c, err := mpa.NewController(target, agent, g)
		require.NoError(t, err)
		for ; minute < 60; minute++ {
			d := c.Decide(mpatest.Observation(mpatest.Begin.Add(time.Duration(minute)*time.Minute), 4, size, mpatest.Use))
			if d.Action == nil {
				continue
			}
			if d.Action.Containers[0].Memory == size.Memory {
				cpu++
			} else {
				other++
			}
			size = d.Action.Containers[0]
			// The memory of the guards goes through JSON.
			text, err := json.Marshal(c.Memory())
			require.NoError(t, err)
			var m mpa.Memory
			require.NoError(t, json.Unmarshal(text, &m))
			require.NoError(t, c.Restore(m))
		}
		return cpu, other
	}
	g := mpa.DefaultGuards()
	cpu, other := run(t, g, false)
	assert.Equal(t, g.CPUChanges/2, cpu)
	assert.Zero(t, other)
	cpu, other = run(t, g, true)
	assert.Equal(t, g.CPUChanges/2, cpu, "others do not take from its budget")
	assert.Equal(t, g.RequestChanges/2, other, "nor it from theirs")

	// Guards of a journal from before it was known.
	var old mpa.Guards
	text, err := json.Marshal(g)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(text, &fields))
	delete(fields, "cpuChanges")
	text, err = json.Marshal(fields)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &old))
	cpu, other = run(t, old, false)
	assert.Equal(t, g.RequestChanges/2, cpu+other)
	g.CPUChanges = -1
	require.ErrorContains(t, g.Validate(), "cpuChanges -1")
}
