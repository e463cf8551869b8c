package agents_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

const mi = 1 << 20

// A night is a workload of four pods that is sized by use, and whose template asks for 1 core
// and 1 GiB.
type night struct {
	*agents.Usage
	o   *mpa.Observation
	now mpa.Resources
}

func newNight(cpu, memory int64) *night {
	n := &night{Usage: agents.NewUsage(mpatest.Web()), now: size}
	n.o = mpatest.Observation(mpatest.Begin, 4, size, mpa.Resources{CPU: 20, Memory: 50 * mi})
	n.o.Use = &mpa.Use{
		Generation: 1, Midnight: mpatest.Begin.Truncate(24 * time.Hour), Template: []mpa.TemplateSize{{Request: size}},
		Sizes: []mpa.UseSize{{Resources: mpa.Resources{CPU: cpu, Memory: memory}, CPUReason: "use", MemoryReason: "use", Days: 28, MemoryDays: 28}},
	}
	return n
}

// decide carries the recommendation out.
func (n *night) decide() mpa.Recommendation {
	r := n.Recommend(n.o)
	if r.Containers != nil {
		n.set(r.Containers[0])
	}
	return r
}

func (n *night) set(r mpa.Resources) {
	n.now = r
	for i := range n.o.Pods {
		n.o.Pods[i].Containers[0].Request = r
	}
}

// next is the same a day later, with these sizes.
func (n *night) next(cpu, memory int64) {
	n.o.Time = n.o.Time.Add(24 * time.Hour)
	n.o.Use.Midnight = n.o.Use.Midnight.Add(24 * time.Hour)
	n.o.Use.Sizes[0].Resources = mpa.Resources{CPU: cpu, Memory: memory}
}

func TestUsage(t *testing.T) {
	t.Run("sizes by use, not replicas", func(t *testing.T) {
		n := newNight(120, 300*mi)
		r := n.decide()
		require.Zero(t, r.Replicas)
		require.Equal(t, []mpa.Resources{{CPU: 120, Memory: 300 * mi}}, r.Containers)
		require.Equal(t, "app: cpu 120m (use), memory 300Mi (use); 28 days up to 2026-03-02", r.Reason)
	})
	t.Run("a dead band for each resource", func(t *testing.T) {
		n := newNight(120, 300*mi)
		n.decide()
		n.next(131, 329*mi) // cpu +9.2 %, memory +9.7 %
		require.Equal(t, mpa.Resources{CPU: 120, Memory: 300 * mi}, n.decide().Containers[0])
		n.next(131, 330*mi)
		require.Equal(t, mpa.Resources{CPU: 120, Memory: 330 * mi}, n.decide().Containers[0])
	})
	t.Run("only with a new midnight", func(t *testing.T) {
		n := newNight(120, 300*mi)
		n.decide()
		n.o.Use.Sizes[0].Resources = mpa.Resources{CPU: 500, Memory: 700 * mi}
		require.Equal(t, mpa.Resources{CPU: 120, Memory: 300 * mi}, n.decide().Containers[0])
		n.next(500, 700*mi)
		require.Equal(t, mpa.Resources{CPU: 500, Memory: 700 * mi}, n.decide().Containers[0])
	})
	t.Run("use above the request grows it", func(t *testing.T) {
		require.Equal(t, mpa.Resources{CPU: 2500, Memory: 3 << 30}, newNight(2500, 3<<30).decide().Containers[0])
	})
	t.Run("not below what runs", func(t *testing.T) {
		n := newNight(120, 300*mi)
		n.o.Pods[2].Containers[0].Usage.Memory = 400 * mi
		require.InDelta(t, 460*mi, n.decide().Containers[0].Memory, 1)
	})
	t.Run("the limit stays, and bounds the request", func(t *testing.T) {
		n := newNight(2500, 3<<30)
		n.o.Use.Template[0].Limit = mpa.Resources{CPU: 2000, Memory: 2 << 30}
		require.Equal(t, mpa.Resources{CPU: 1999, Memory: 2 << 30}, n.decide().Containers[0], "not Guaranteed")
		n.next(2500, 1<<30)
		require.Equal(t, mpa.Resources{CPU: 1999, Memory: 1 << 30}, n.decide().Containers[0], "within the dead band")
	})
	t.Run("no container", func(t *testing.T) {
		n := newNight(120, 300*mi)
		n.Usage, n.o.Use.Template, n.o.Use.Sizes = agents.NewUsage(mpa.Target{}), nil, nil
		require.Equal(t, "the spec lists no container", n.decide().Reason)
	})
	t.Run("too few days", func(t *testing.T) {
		n := newNight(0, 0)
		require.Equal(t, size, n.decide().Containers[0], "by request")
		n = newNight(120, 300*mi)
		n.decide()
		n.next(0, 0) // the history was deleted, and begins again
		require.Equal(t, mpa.Resources{CPU: 120, Memory: 300 * mi}, n.decide().Containers[0])
		n = newNight(0, 0)
		n.set(mpa.Resources{CPU: 3000, Memory: 2 << 30}) // by another algorithm
		require.Equal(t, mpa.Resources{CPU: 3000, Memory: 2 << 30}, n.decide().Containers[0], "nothing shrinks without data")
	})
	t.Run("no sizes", func(t *testing.T) {
		n := newNight(120, 300*mi)
		sizes := n.o.Use.Sizes
		n.o.Use.Sizes, n.o.Use.Midnight, n.o.Use.Missing = nil, time.Time{}, "Prometheus is away"
		r := n.decide()
		require.Nil(t, r.Containers)
		require.Equal(t, "there is no history yet: Prometheus is away", r.Reason)
		n.o.Use.Sizes, n.o.Use.Midnight, n.o.Use.Missing = sizes, mpatest.Begin.Truncate(24*time.Hour), ""
		n.decide()
		n.o.Use.Sizes, n.o.Use.Missing = nil, "Prometheus is away"
		r = n.decide()
		require.Equal(t, mpa.Resources{CPU: 120, Memory: 300 * mi}, r.Containers[0])
		require.Contains(t, r.Reason, "the sizes stay: Prometheus is away")
	})
	t.Run("no request", func(t *testing.T) {
		n := newNight(120, 300*mi)
		n.o.Use.Template[0].Request.CPU = 0
		n.set(mpa.Resources{Memory: 1 << 30})
		require.Equal(t, mpa.Resources{Memory: 300 * mi}, n.decide().Containers[0])
	})
	t.Run("Guaranteed pods", func(t *testing.T) {
		n := newNight(120, 300*mi)
		n.o.Use.Fixed = "its pods are Guaranteed"
		r := n.decide()
		require.Nil(t, r.Containers)
		require.Equal(t, "left alone: its pods are Guaranteed", r.Reason)
	})
	t.Run("a reason that comes later", func(t *testing.T) {
		n := newNight(120, 300*mi)
		require.EqualValues(t, 120, n.decide().Containers[0].CPU)
		n.o.Use.Fixed = "an autoscaler of shares"
		r := n.decide()
		require.Equal(t, size, r.Containers[0])
		require.Equal(t, "back to the template: an autoscaler of shares", r.Reason)
		require.Nil(t, n.decide().Containers)
		n.o.Use.Fixed = ""
		require.EqualValues(t, 120, n.decide().Containers[0].CPU)
	})
}

func TestUsageAfterAKill(t *testing.T) {
	n := newNight(120, 300*mi)
	n.o.Pods[0].Containers[0].Killed = n.o.Time.Add(-time.Hour)
	require.EqualValues(t, 300*mi, n.decide().Containers[0].Memory, "a kill of before")
	n.o.Time = n.o.Time.Add(10 * time.Minute)
	n.o.Pods[3].Containers[0].Killed = n.o.Time.Add(-5 * time.Minute)
	r := n.decide()
	require.Equal(t, mpa.Resources{CPU: 120, Memory: 400 * mi}, r.Containers[0])
	require.Contains(t, r.Reason, "app ran out of memory")
	require.EqualValues(t, 400*mi, n.decide().Containers[0].Memory, "once")
	n.next(120, 300*mi)
	require.EqualValues(t, 400*mi, n.decide().Containers[0].Memory, "the next night remembers it")
	for range 28 {
		n.next(120, 300*mi)
		n.decide()
	}
	require.EqualValues(t, 300*mi, n.now.Memory, "28 days later it does not")
	n.o.Use.Template[0].Limit.Memory = 350 * mi
	n.o.Pods[3].Containers[0].Killed = n.o.Time
	r = n.decide()
	require.EqualValues(t, 350*mi, r.Containers[0].Memory)
	require.Contains(t, r.Reason, "its limit of 350Mi stays")
}

func TestUsageAfterAnEdit(t *testing.T) {
	n := newNight(120, 300*mi)
	n.decide()
	n.o.Use.Template[0].Request = mpa.Resources{CPU: 700, Memory: 2 << 30}
	r := n.decide()
	require.Equal(t, mpa.Resources{CPU: 700, Memory: 2 << 30}, r.Containers[0])
	require.Contains(t, r.Reason, "the template's requests were changed: left alone")
	n.next(130, 300*mi)
	require.EqualValues(t, 700, n.decide().Containers[0].CPU, "also the next night")

	other := agents.NewUsage(mpatest.Web()) // of a process without the journal
	other.Remember(n.Base())
	require.Contains(t, other.Recommend(n.o).Reason, "left alone")

	n.o.Use.Template[0].Request = size
	require.EqualValues(t, 130, n.decide().Containers[0].CPU, "the edit was undone")
	n.o.Use.Template[0].Request = mpa.Resources{CPU: 700, Memory: 2 << 30}
	require.EqualValues(t, 700, n.decide().Containers[0].CPU)
	n.o.Use.Generation = 2
	require.EqualValues(t, 130, n.decide().Containers[0].CPU, "the spec was changed")
}

// After the clock was set back, the sizes of earlier midnights count again.
func TestUsageAfterAJump(t *testing.T) {
	n := newNight(120, 300*mi)
	n.decide()
	const back = -50 * time.Hour
	n.Shift(back)
	n.o.Time, n.o.Use.Midnight = n.o.Time.Add(back), n.o.Use.Midnight.Add(-24*time.Hour)
	n.o.Use.Sizes[0].CPU = 500
	require.EqualValues(t, 500, n.decide().Containers[0].CPU)
}

func TestUsageKeep(t *testing.T) {
	n := newNight(120, 300*mi)
	n.decide()
	n.o.Time = n.o.Time.Add(time.Minute)
	n.o.Pods[1].Containers[0].Killed = n.o.Time
	n.decide()
	state, err := n.MarshalJSON()
	require.NoError(t, err)
	again := agents.NewUsage(mpatest.Web())
	require.NoError(t, again.UnmarshalJSON(state))
	n.o.Use.Sizes, n.o.Use.Missing = nil, "Prometheus is away"
	require.Equal(t, n.Recommend(n.o), again.Recommend(n.o))
	more := mpatest.Web()
	more.Containers = append(more.Containers, mpa.ContainerSpec{Name: "other"})
	require.ErrorContains(t, agents.NewUsage(more).UnmarshalJSON(state), "want 2 containers")
}

func TestTemplate(t *testing.T) {
	n := newNight(120, 300*mi)
	n.decide()
	n.o.Use.Template[0].Request = mpa.Resources{CPU: 123, Memory: 301 * mi}
	r := agents.Template{}.Recommend(n.o)
	require.Equal(t, []mpa.Resources{{CPU: 123, Memory: 301 * mi}}, r.Containers, "exact")
	n.o.Use = nil
	require.Nil(t, agents.Template{}.Recommend(n.o).Containers)
}
