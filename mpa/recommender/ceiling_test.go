package recommender

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// A resource without a ceiling is left out of the status, which an amount of zero would show as one.
func TestCeilingOfOneResourceInTheStatus(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	target := mpa.Target{Containers: []mpa.ContainerSpec{{Name: "app", CPU: true, Memory: true}}}
	for amount, ceiling := range map[string]mpa.Resources{"memory": {Memory: 1 << 30}, "cpu": {CPU: 1500}} {
		memory := mpa.Memory{Time: now, Containers: []mpa.ContainerMemory{{Name: "app", Ceiling: ceiling, CeilingTime: now}}}
		var o v1alpha1.MultidimPodAutoscaler
		o.Status.Memory = remembered(memory)
		text, err := json.Marshal(o.Status.Memory.Containers[0].Ceiling)
		require.NoError(t, err)
		var amounts map[string]any
		require.NoError(t, json.Unmarshal(text, &amounts))
		assert.Len(t, amounts, 2, "%s", text)
		assert.Contains(t, amounts, amount)
		assert.Equal(t, memory.Containers, memoryOf(&o, &target).Containers)
	}
}
