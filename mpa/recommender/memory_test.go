package recommender

import (
	"encoding/json"
	"reflect"
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

// Every memory of the guards survives the way through the status and back.
func TestMemoryGoesThroughTheStatus(t *testing.T) {
	at := func(minutes int) time.Time { return time.Date(2026, 3, 1, 12, minutes, 0, 0, time.UTC) }
	target := mpa.Target{Containers: []mpa.ContainerSpec{{Name: "app", CPU: true, Memory: true}}}
	memory := mpa.Memory{
		Time: at(30), Blind: at(29), ReplicaChanges: []time.Time{at(1), at(2)}, RequestChanges: []time.Time{at(3)}, CPUChanges: []time.Time{at(3)},
		Asked: &mpa.Asked{Time: at(28), Action: mpa.Action{Replicas: 5}},
		Containers: []mpa.ContainerMemory{{
			Name: "app", Peaks: []mpa.Peak{{Time: at(4), Memory: 5 << 20}},
			Ceiling: mpa.Resources{CPU: 1500, Memory: 1 << 30}, CeilingTime: at(6),
		}},
	}
	for _, v := range []reflect.Value{reflect.ValueOf(memory), reflect.ValueOf(memory.Containers[0])} {
		for i := range v.NumField() {
			name := v.Type().Field(i).Name // there are no LimitChanges: TestNoLimitIsAskedFor
			require.Equal(t, name == "LimitChanges", v.Field(i).IsZero(), "the test leaves out %s", name)
		}
	}
	var o v1alpha1.MultidimPodAutoscaler
	o.Status.Memory = remembered(memory)
	o.Status.Recommendation = &v1alpha1.Recommendation{Time: micro(at(28)), Change: v1alpha1.ChangeReplicas, Replicas: 5}
	text, err := json.Marshal(&o)
	require.NoError(t, err)
	var back v1alpha1.MultidimPodAutoscaler
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, memory, memoryOf(&back, &target))
}
