package mpa_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// surge returns the replicas of ten pods over 10 minutes, whose load rises from 75 % to 180 %
// of their requests after one. disturb edits each observation.
func surge(t *testing.T, disturb func(o *mpa.Observation)) (replicas []int) {
	t.Helper()
	target := mpatest.Web()
	target.Replicas = mpa.Range{Min: 1, Max: 60}
	c, err := mpa.NewController(target, agents.NewHPA(target, agents.DefaultHPA()), mpa.DefaultGuards())
	require.NoError(t, err)
	n := 10
	for after := time.Duration(0); after < 10*time.Minute; after += 15 * time.Second {
		load := int64(7500)
		if after >= time.Minute {
			load = 18_000
		}
		o := mpatest.Observation(mpatest.Begin.Add(after), n, mpatest.Size, mpa.Resources{CPU: min(1000, load/int64(n)), Memory: 512 << 20})
		disturb(o)
		if a := c.Decide(o).Action; a != nil && a.Replicas != 0 {
			n = int(a.Replicas)
		}
		replicas = append(replicas, n)
	}
	return replicas
}

// A resize that waits or is under way in some pod does not keep the workload from more
// replicas, also where resizes follow each other in different pods.
func TestResizeLetsReplicasGrow(t *testing.T) {
	undisturbed := surge(t, func(*mpa.Observation) {})
	require.Greater(t, slices.Max(undisturbed), 20)
	for name, since := range map[string]func(o *mpa.Observation) time.Time{
		"one resize":       func(*mpa.Observation) time.Time { return mpatest.Begin },
		"a rolling resize": func(o *mpa.Observation) time.Time { return o.Time.Truncate(4 * time.Minute) },
	} {
		for _, state := range []mpa.Resize{mpa.InProgress, mpa.Deferred} {
			assert.Equal(t, undisturbed, surge(t, func(o *mpa.Observation) {
				o.Pods[0].Resize, o.Pods[0].ResizeSince = state, since(o)
			}), "%s, %s", name, state)
		}
	}
}

// A resize that was asked for, and that not all pods have yet, does not hold more replicas up
// either.
func TestAskedSizeLetsReplicasGrow(t *testing.T) {
	wanted := mpa.Recommendation{Containers: []mpa.Resources{{CPU: 1400, Memory: 1 << 30}}}
	c, err := mpa.NewController(mpatest.Web(), mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation { return wanted }), mpa.DefaultGuards())
	require.NoError(t, err)
	at := func(after time.Duration) mpa.Decision {
		return c.Decide(mpatest.Observation(mpatest.Begin.Add(after), 4, mpatest.Size, mpatest.Use))
	}
	require.NotNil(t, at(0).Action.Containers)
	wanted.Replicas = 8
	d := at(15 * time.Second)
	require.Equal(t, &mpa.Action{Replicas: 8}, d.Action, "%+v", d)
	wanted.Replicas = 2
	d = at(30 * time.Second)
	require.Nil(t, d.Action, "fewer replicas wait: %+v", d)
}

// odd returns the cpu request over an hour of ten pods that use up to 2600m and whose agent
// asks for 3000m. The node of the first few gives 1500m at most; the other pods are in the
// state others for so long after each resize.
func odd(t *testing.T, few int, others mpa.Resize, wait time.Duration) (sizes []int64) {
	t.Helper()
	target := mpatest.Web()
	target.Replicas = mpa.Range{Min: 10, Max: 10}
	c, err := mpa.NewController(target, mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation {
		return mpa.Recommendation{Containers: []mpa.Resources{{CPU: 3000, Memory: 1 << 30}}}
	}), mpa.DefaultGuards())
	require.NoError(t, err)
	size, had, since := mpatest.Size, mpatest.Size, mpatest.Begin
	for after := time.Duration(0); after < 59*time.Minute; after += 15 * time.Second {
		now := mpatest.Begin.Add(after)
		o := mpatest.Observation(now, 10, size, mpa.Resources{CPU: min(2600, size.CPU), Memory: 512 << 20})
		for i := range o.Pods {
			p := &o.Pods[i]
			k := &p.Containers[0]
			switch {
			case i < few && size.CPU > 1500:
				p.Resize, p.ResizeSince, k.Actual.CPU = mpa.Infeasible, since, min(had.CPU, 1500)
			case i >= few && size != had && now.Before(since.Add(wait)):
				p.Resize, p.ResizeSince, k.Actual = others, since, had
			}
			k.Usage.CPU = min(2600, k.Actual.CPU)
		}
		if a := c.Decide(o).Action; a != nil {
			size, had, since = a.Containers[0], size, now
		}
		sizes = append(sizes, size.CPU)
	}
	return sizes
}

// A pod whose node can never give it the size does not take the size from those that have
// it or that wait for it. Where no pod has it, all return to the size that nodes can give.
func TestInfeasiblePod(t *testing.T) {
	for name, sizes := range map[string][]int64{
		"one":                      odd(t, 1, mpa.NoResize, 0),
		"four":                     odd(t, 4, mpa.NoResize, 0),
		"one, and others are slow": odd(t, 1, mpa.InProgress, time.Minute),
		"one, and others wait":     odd(t, 1, mpa.Deferred, 8*time.Minute),
	} {
		assert.True(t, slices.IsSorted(sizes), "%s: nothing is taken back: %v", name, slices.Compact(sizes))
		assert.EqualValues(t, 3000, slices.Max(sizes), name)
	}
	assert.EqualValues(t, 3000, odd(t, 1, mpa.NoResize, 0)[40], "within 10 minutes")
	assert.Equal(t, []int64{1500, 2250, 1500}, slices.Compact(odd(t, 10, mpa.NoResize, 0)), "all ten")
}
