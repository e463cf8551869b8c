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

// The limit is a third dimension: one changes at a time, a lower limit first and a higher
// one last.
func TestLimit(t *testing.T) {
	kill := func(o *mpa.Observation) { o.Pods[0].Containers[0].Killed = o.Time.Add(-time.Second) }
	for _, test := range []struct {
		name   string
		want   mpa.Recommendation
		has    int32
		bounds mpa.Range
		change func(o *mpa.Observation)
		action *mpa.Action
		guard  string
	}{
		{name: "lower", want: mpa.Recommendation{Limit: 8}, has: 20, action: &mpa.Action{Limit: 8}},
		{name: "lower before all else", want: mpa.Recommendation{Limit: 8, Replicas: 6}, has: 20, action: &mpa.Action{Limit: 8}, guard: "order: a lower limit first"},
		{name: "one where there was none is lower", want: mpa.Recommendation{Limit: 30, Replicas: 6}, action: &mpa.Action{Limit: 30}},
		{name: "higher after all else", want: mpa.Recommendation{Limit: 30, Replicas: 6}, has: 20, action: &mpa.Action{Replicas: 6}},
		{name: "higher", want: mpa.Recommendation{Limit: 30}, has: 20, action: &mpa.Action{Limit: 30}},
		{name: "above the bounds", want: mpa.Recommendation{Limit: 3000}, has: 20, action: &mpa.Action{Limit: 100}, guard: "bounds: a limit of 3000 becomes 100"},
		{name: "the same", want: mpa.Recommendation{Limit: 20}, has: 20},
		{name: "no gate", want: mpa.Recommendation{Limit: 8}, has: 20, bounds: mpa.Range{Min: -1}, guard: "bounds: a limit of 8 is left out"},
		{name: "none that can be", want: mpa.Recommendation{Limit: -3}, has: 20, guard: "bounds: a limit of -3 is left out"},
		{
			name: "lower for memory before more memory", has: 20, change: kill,
			want: mpa.Recommendation{Limit: 8, Containers: []mpa.Resources{{Memory: 1300 << 20}}}, action: &mpa.Action{Limit: 8},
		},
		{
			name: "without usage a kill lets it fall", want: mpa.Recommendation{Limit: 8}, has: 20, action: &mpa.Action{Limit: 8},
			change: func(o *mpa.Observation) { kill(o); blind(o) },
		},
		{
			name: "and not rise", want: mpa.Recommendation{Limit: 30}, has: 20,
			change: func(o *mpa.Observation) { kill(o); blind(o) },
		},
		{name: "a limit that cannot be", want: mpa.Recommendation{Limit: 8}, has: -2, guard: "freshness: the limit is -2"},
		{
			name: "a resize under way holds sizes, and no limit", want: mpa.Recommendation{Limit: 30}, has: 20, action: &mpa.Action{Limit: 30},
			change: func(o *mpa.Observation) { o.Pods[0].Resize, o.Pods[0].ResizeSince = mpa.InProgress, o.Time },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := mpatest.Web()
			target.Limit = mpa.Range{Min: 2, Max: 100}
			if test.bounds.Min < 0 {
				target.Limit = mpa.Range{}
			}
			c, err := mpa.NewController(target, mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation { return test.want }), mpa.DefaultGuards())
			require.NoError(t, err)
			o := mpatest.Observation(mpatest.Begin, 4, size, usage)
			o.Gates.Limit = test.has
			if test.change != nil {
				test.change(o)
			}
			d := c.Decide(o)
			assert.Equal(t, test.action, d.Action, "%+v", d)
			if test.guard != "" {
				require.NotEmpty(t, d.Guards)
				assert.Contains(t, d.Guards[len(d.Guards)-1], test.guard)
			}
		})
	}
	for _, bad := range []mpa.Range{{Min: 5, Max: 2}, {Max: 3}, {Min: -1, Max: 3}} {
		target := mpatest.Web()
		target.Limit = bad
		require.Error(t, target.Validate(), "%v", bad)
	}
}

func blind(o *mpa.Observation) {
	for i := range o.Pods {
		o.Pods[i].Containers[0].Usage = mpa.Usage{}
	}
}

// Two changes of the limit keep the cool-down, over a restart too. What was asked for and is
// not seen yet is not asked for again, unless it falls further.
func TestLimitPace(t *testing.T) {
	want := int32(30)
	target := mpatest.Web()
	target.Limit = mpa.Range{Min: 2, Max: 100}
	agent := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation { return mpa.Recommendation{Limit: want} })
	c, err := mpa.NewController(target, agent, mpa.DefaultGuards())
	require.NoError(t, err)
	at := func(seconds int, has int32) mpa.Decision {
		o := mpatest.Observation(mpatest.Begin.Add(time.Duration(seconds)*time.Second), 4, size, usage)
		o.Gates.Limit = has
		return c.Decide(o)
	}
	assert.Equal(t, &mpa.Action{Limit: 30}, at(0, 20).Action)
	text, err := json.Marshal(c.Memory())
	require.NoError(t, err)
	var memory mpa.Memory
	require.NoError(t, json.Unmarshal(text, &memory))
	c, err = mpa.NewController(target, agent, mpa.DefaultGuards())
	require.NoError(t, err)
	require.NoError(t, c.Restore(memory))
	d := at(15, 20)
	assert.Nil(t, d.Action)
	assert.Contains(t, d.Reason, "30 requests at once: asked for 15s ago")
	want = 40
	d = at(30, 30)
	assert.Nil(t, d.Action)
	assert.Contains(t, d.Reason, "the limit changed less than 1m0s ago")
	d = at(60, 30)
	assert.Equal(t, &mpa.Action{Limit: 40}, d.Action)
	assert.Equal(t, int32(40), d.Next.Limit)
	assert.Equal(t, int32(4), d.Next.Replicas)
}

// Replicas follow the load while gates have not taken the limit yet.
func TestReplicasDoNotWaitForALimit(t *testing.T) {
	target := mpatest.Web()
	target.Limit = mpa.Range{Min: 2, Max: 100}
	agent := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation { return mpa.Recommendation{Limit: 8, Replicas: 8} })
	c, err := mpa.NewController(target, agent, mpa.DefaultGuards())
	require.NoError(t, err)
	at := func(seconds int) mpa.Decision {
		o := mpatest.Observation(mpatest.Begin.Add(time.Duration(seconds)*time.Second), 4, size, usage)
		o.Gates.Limit = 0
		return c.Decide(o)
	}
	assert.Equal(t, &mpa.Action{Limit: 8}, at(0).Action)
	scaled := false
	for seconds := 15; seconds <= 180 && !scaled; seconds += 15 {
		d := at(seconds)
		scaled = d.Action != nil && d.Action.Replicas > 4
	}
	assert.True(t, scaled)
}
