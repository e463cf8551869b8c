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

// mostly returns the sizes over an hour of ten pods whose agent asks for 1000m and 8 GiB, where the
// nodes of most give 1 GiB at most. tenth edits the pods that are no part of those.
func mostly(t *testing.T, refused int, tenth func(p *mpa.Pod, since time.Time)) (sizes []mpa.Resources) {
	t.Helper()
	target := mpatest.Web()
	target.Replicas = mpa.Range{Min: 10, Max: 10}
	c, err := mpa.NewController(target, mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation {
		return mpa.Recommendation{Containers: []mpa.Resources{{CPU: 1000, Memory: 8 << 30}}}
	}), mpa.DefaultGuards())
	require.NoError(t, err)
	size, since := mpa.Resources{CPU: 1000, Memory: 1 << 30}, mpatest.Begin
	for after := time.Duration(0); after < 50*time.Minute; after += 15 * time.Second {
		o := mpatest.Observation(mpatest.Begin.Add(after), 10, size, mpa.Resources{CPU: 500, Memory: 512 << 20})
		for i := range o.Pods {
			p := &o.Pods[i]
			p.Containers[0].Actual.Memory = min(size.Memory, 1<<30)
			switch {
			case i >= refused:
				tenth(p, since)
			case size.Memory > 1<<30:
				p.Resize, p.ResizeSince = mpa.Infeasible, since
			}
		}
		if a := c.Decide(o).Action; a != nil {
			size, since = a.Containers[0], o.Time
		}
		sizes = append(sizes, size)
	}
	return sizes
}

// Where most pods are refused, the size neither climbs on nor stays, whatever a single other pod
// waits for, and where one has more than they, it climbs no further than that.
func TestMostPodsAreInfeasible(t *testing.T) {
	waits := func(state mpa.Resize) func(*mpa.Pod, time.Time) {
		return func(p *mpa.Pod, since time.Time) {
			if p.Containers[0].Request.Memory > 1<<30 {
				p.Resize, p.ResizeSince = state, since
			}
		}
	}
	for name, c := range map[string]struct {
		tenth       func(*mpa.Pod, time.Time)
		first, last int64 // most memory at any time and at the end, in MiB
	}{
		"one is Deferred for good":   {waits(mpa.Deferred), 1536, 1024},
		"one is InProgress for good": {waits(mpa.InProgress), 1536, 1024},
		"one has 1m more": {func(p *mpa.Pod, since time.Time) {
			waits(mpa.Deferred)(p, since)
			p.Containers[0].Request.CPU++
			p.Containers[0].Actual.CPU++
		}, 1536, 1024},
		"one has the size": {func(p *mpa.Pod, _ time.Time) { p.Containers[0].Actual = p.Containers[0].Request }, 1536, 1536},
	} {
		sizes := mostly(t, 9, c.tenth)
		top := slices.MaxFunc(sizes, func(a, b mpa.Resources) int { return int(a.Memory>>20 - b.Memory>>20) })
		assert.Equal(t, c.first, top.Memory>>20, name)
		assert.Equal(t, c.last, sizes[len(sizes)-1].Memory>>20, name)
	}
}

// Each resource has a ceiling of its own, and one without is not written.
func TestCeilingOfOneResource(t *testing.T) {
	for name, edit := range map[string]func(i int, k *mpa.Container){
		"half have more cpu": func(i int, k *mpa.Container) { k.Actual.CPU += int64(i / 5) },
		"all have more cpu":  func(i int, k *mpa.Container) { k.Actual.CPU += int64(min(i, 1)) },
	} {
		c, err := mpa.NewController(mpatest.Web(), mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation {
			return mpa.Recommendation{Containers: []mpa.Resources{{CPU: 1400, Memory: 2 << 30}}}
		}), mpa.DefaultGuards())
		require.NoError(t, err)
		o := mpatest.Observation(mpatest.Begin, 10, mpatest.Size, mpatest.Use)
		refused := 5
		if name == "all have more cpu" {
			refused = 1
		}
		for i := range o.Pods {
			if i < refused {
				o.Pods[i].Resize = mpa.Infeasible
			}
			edit(i, &o.Pods[i].Containers[0])
		}
		d := c.Decide(o)
		require.Equal(t, []mpa.Resources{{CPU: 1400, Memory: 1 << 30}}, d.Action.Containers, name)
		assert.Equal(t, mpa.Resources{Memory: 1 << 30}, c.Memory().Containers[0].Ceiling, name)
	}
	o := mpatest.Observation(mpatest.Begin, 2, mpatest.Size, mpatest.Use)
	o.Pods[0].Resize = mpa.Infeasible
	o.Pods[1].Containers[0].Actual = mpa.Resources{CPU: 2000, Memory: 2 << 30}
	c, err := mpa.NewController(mpatest.Web(), mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation { return mpa.Recommendation{} }), mpa.DefaultGuards())
	require.NoError(t, err)
	c.Decide(o)
	assert.Zero(t, c.Memory().Containers[0].CeilingTime, "no ceiling has a time")
}
