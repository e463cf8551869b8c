package mpa_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// safe runs a scenario and checks every decision.
func safe(t *testing.T, data []byte, steps int) (acted int) {
	t.Helper()
	c := &cluster{tape: &tape{data}, now: mpatest.Begin, replicas: 4, sizes: make([]mpa.Resources, 0, 4), made: size}
	target, guards := mpatest.Web(), mpa.DefaultGuards()
	spec := target.Containers[0]
	if c.upTo(3) == 0 {
		target.Containers[0].Max = mpa.Resources{}
		spec = target.Containers[0]
	}
	names := append(agents.Names(), "wild")
	name := names[c.upTo(len(names))]
	agent := func() mpa.Agent {
		first, err := agents.Make(mpa.Spec{Name: name}, target, nil)
		if err != nil {
			return &told{}
		}
		return &agents.Fallback{First: first, Second: agents.NewHPA(target, agents.DefaultHPA()), After: time.Minute}
	}
	controller := func(a mpa.Agent) *mpa.Controller {
		k, err := mpa.NewController(target, a, guards)
		require.NoError(t, err)
		return k
	}
	one, other := agent(), agent()
	main, twin := controller(one), controller(other)
	keeper, restored := &told{}, (*mpa.Controller)(nil)
	restored = controller(keeper)
	var scaled, resized, onlyCPU []time.Time
	type peak struct {
		at     time.Time
		memory int64
	}
	var peaks []peak
	for range steps {
		if len(c.data) == 0 {
			break
		}
		o, forbidden := c.observe()
		if wild, ok := one.(*told); ok {
			wild.next = mpa.Recommendation{
				Replicas:   []int32{0, 1, 3, 7, 19, 40, -7, math.MaxInt32, math.MinInt32}[c.upTo(9)],
				Containers: []mpa.Resources{{CPU: []int64{0, 1, 700, 1400, 5000, -9, math.MaxInt64}[c.upTo(7)], Memory: int64(c.upTo(40)-2) << 28}},
			}
			if c.upTo(9) == 0 {
				wild.next.Containers = make([]mpa.Resources, 3)
			}
			other.(*told).next = wild.next
		}
		if c.upTo(4) == 0 { // another controller takes over
			var m mpa.Memory
			require.NoError(t, json.Unmarshal(jsonOf(t, main.Memory()), &m))
			restored = controller(keeper)
			require.NoError(t, restored.Restore(m))
		}
		if last := main.Memory().Time; !last.IsZero() && (o.Time.Before(last) || o.Time.After(last.Add(guards.Gap))) {
			forbidden = "the clock jumped"
		}
		d := main.Decide(o)
		require.NotEmpty(t, d.Reason+fmt.Sprint(d.Guards))
		require.Equal(t, string(jsonOf(t, d)), string(jsonOf(t, twin.Decide(o))), "the same observations")
		keeper.next = d.Recommended
		require.Equal(t, string(jsonOf(t, d)), string(jsonOf(t, restored.Decide(o))), "the same memory")
		require.LessOrEqual(t, len(jsonOf(t, main.Memory())), 8<<10)

		if forbidden == "" { // an implausible observation gives no peak
			for _, p := range o.Pods {
				for _, k := range p.Containers {
					if k.Name == spec.Name && !p.Deleting && k.Usage.Known(o.Time, guards.MaxAge) {
						peaks = append(peaks, peak{c.now, k.Usage.Memory})
					}
				}
			}
		}
		a := d.Action
		switch {
		case (forbidden == "no usage" || forbidden == "stale usage" || forbidden == "usage of the future") && a != nil: // a recent kill may allow more memory
			require.True(t, slices.ContainsFunc(o.Pods, func(p mpa.Pod) bool {
				return slices.ContainsFunc(p.Containers, func(k mpa.Container) bool { return mpa.Metric{Time: k.Killed}.Known(o.Time, guards.MaxAge) })
			}), "%+v", d)
			require.Zero(t, a.Replicas)
			require.True(t, a.Containers[0].CPU == present(o).CPU && a.Containers[0].Memory > present(o).Memory, "%+v", d)
		case forbidden != "":
			require.Nil(t, a, "%s: %+v", forbidden, d)
		}
		if a != nil {
			acted++
			require.NotEqual(t, a.Replicas != 0, a.Containers != nil, "one dimension at a time")
			if a.Replicas != 0 {
				require.True(t, a.Replicas >= target.Replicas.Min && a.Replicas <= target.Replicas.Max, "%+v", d)
				require.Equal(t, a.Replicas, d.Next.Replicas)
				if a.Replicas < o.Replicas {
					scaled = append(scaled, c.now)
				}
			} else {
				now, next := present(o), a.Containers[0]
				require.Len(t, a.Containers, 1)
				require.Equal(t, mpa.State{Replicas: o.Replicas, Containers: a.Containers}, d.Next)
				switch {
				case next.Max(now) == next: // growth in place has no budget
				case next.Memory == now.Memory:
					onlyCPU = append(onlyCPU, c.now)
				default:
					resized = append(resized, c.now)
				}
				for _, r := range [][2]int64{{now.CPU, next.CPU}, {now.Memory, next.Memory}} {
					require.InDelta(t, r[0], r[1], guards.Step*float64(r[0])+1, "%+v", d)
				}
				inside := spec.Clamp(now)
				require.True(t, between(next.CPU, now.CPU, inside.CPU) || spec.Clamp(next).CPU == next.CPU, "%+v", d)
				require.True(t, between(next.Memory, now.Memory, inside.Memory) || spec.Clamp(next).Memory == next.Memory, "%+v", d)
				if next.Memory < now.Memory {
					most := int64(0)
					for _, p := range peaks {
						if p.at.After(c.now.Add(-guards.PeakWindow)) {
							most = max(most, p.memory)
						}
					}
					require.GreaterOrEqual(t, float64(next.Memory), guards.Headroom*float64(most)-1, "%+v", d)
				}
			}
		}
		c.do(a)
	}
	require.LessOrEqual(t, most(scaled), guards.ReplicaChanges/2)
	require.LessOrEqual(t, most(resized), guards.RequestChanges)
	require.LessOrEqual(t, most(onlyCPU), guards.CPUChanges/2)
	return acted
}

func between(v, a, b int64) bool { return v >= min(a, b) && v <= max(a, b) }

// present returns the size that a controller uses.
func present(o *mpa.Observation) mpa.Resources {
	return o.Requests(&mpa.Target{Containers: []mpa.ContainerSpec{{Name: "app"}}})[0]
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

// The guards hold for any observations, any recommendations and any fate of the actions.
// The same observations, or a restored memory, give the same decisions.
func TestSafety(t *testing.T) {
	acted := 0
	for seed := range uint64(60) {
		d := rand.New(rand.NewPCG(seed, 3))
		data := make([]byte, 6000)
		for i := range data {
			data[i] = byte(d.Uint32())
		}
		acted += safe(t, data, 400)
	}
	assert.Greater(t, acted, 1000)
	t.Logf("%d actions", acted)
}

func FuzzSafety(f *testing.F) {
	d := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		data := make([]byte, 600)
		for i := range data {
			data[i] = byte(d.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { safe(t, data, 100) })
}

// In mode Off the controller recommends, and neither acts nor counts changes.
func TestOff(t *testing.T) {
	target := mpatest.Web()
	target.Off = true
	want := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation {
		return mpa.Recommendation{Replicas: 60, Containers: []mpa.Resources{{CPU: 3900, Memory: 100 << 20}}, Source: "test", Reason: "wished"}
	})
	c, err := mpa.NewController(target, want, mpa.DefaultGuards())
	require.NoError(t, err)
	for i := range 40 {
		d := c.Decide(mpatest.Observation(mpatest.Begin.Add(time.Duration(i)*time.Minute), 4, size, usage))
		require.Nil(t, d.Action)
		require.Equal(t, mpa.State{Replicas: 20, Containers: []mpa.Resources{{CPU: 3900, Memory: (512 << 20) * 6 / 5}}}, d.Wanted)
		require.Equal(t, mpa.State{Replicas: 4, Containers: []mpa.Resources{size}}, d.Next)
		require.Contains(t, d.Guards, "off: nothing is done; 20 replicas would be asked for")
	}
	assert.Empty(t, c.Memory().ReplicaChanges)
}

// An action that was not carried out is not repeated at once.
func TestAskedAndNotDone(t *testing.T) {
	more := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation {
		return mpa.Recommendation{Replicas: 9, Source: "test", Reason: "wished"}
	})
	c, err := mpa.NewController(mpatest.Web(), more, mpa.DefaultGuards())
	require.NoError(t, err)
	var at []time.Duration
	for i := range 80 {
		after := time.Duration(i) * 15 * time.Second
		d := c.Decide(mpatest.Observation(mpatest.Begin.Add(after), 4, size, usage))
		if d.Action != nil {
			at = append(at, after)
		} else {
			require.Contains(t, d.Reason, "9 replicas: asked for")
		}
	}
	assert.Equal(t, []time.Duration{0, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute}, at)
}

// Nothing shrinks just after usage is back, also if another controller has taken over.
// Usage that was never there does not count as missing.
func TestUsageComesBack(t *testing.T) {
	less := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation {
		return mpa.Recommendation{Replicas: 2, Containers: []mpa.Resources{{CPU: 600, Memory: 1 << 30}}, Source: "test", Reason: "wished"}
	})
	fresh := func() *mpa.Controller {
		c, err := mpa.NewController(mpatest.Web(), less, mpa.DefaultGuards())
		require.NoError(t, err)
		return c
	}
	at := func(after time.Duration) *mpa.Observation {
		return mpatest.Observation(mpatest.Begin.Add(after), 4, size, usage)
	}
	blind := func(after time.Duration) *mpa.Observation {
		o := at(after)
		for i := range o.Pods {
			o.Pods[i].Containers[0].Usage = mpa.Usage{}
		}
		return o
	}
	c := fresh()
	require.Nil(t, c.Decide(blind(0)).Action)
	require.NotNil(t, c.Decide(at(time.Minute)).Action, "it is the first usage")
	for after := 2 * time.Minute; after < 12*time.Minute; after += time.Minute {
		require.Nil(t, c.Decide(blind(after)).Action)
	}
	text, err := json.Marshal(c.Memory())
	require.NoError(t, err)
	var kept mpa.Memory
	require.NoError(t, json.Unmarshal(text, &kept))
	c = fresh()
	require.NoError(t, c.Restore(kept))
	for after := 12 * time.Minute; after < 16*time.Minute; after += 15 * time.Second {
		d := c.Decide(at(after))
		require.Nil(t, d.Action)
		require.Contains(t, d.Guards[len(d.Guards)-1], "freshness: usage was not seen ")
	}
	require.NotNil(t, c.Decide(at(16*time.Minute)).Action)

	// Usage missing at one observation was missing until the next.
	require.Nil(t, c.Decide(blind(18*time.Minute)).Action)
	require.Nil(t, c.Decide(at(26*time.Minute)).Action)
	require.Nil(t, c.Decide(at(30*time.Minute)).Action)
	require.NotNil(t, c.Decide(at(31*time.Minute)).Action)

	// Also after so long that no peak is remembered.
	after := 32 * time.Minute
	for ; after < 30*time.Hour; after += 5 * time.Minute {
		require.Nil(t, c.Decide(blind(after)).Action)
	}
	require.Nil(t, c.Decide(at(after)).Action)

	// A longer window takes longer to fill.
	long := func(after time.Duration) *mpa.Observation {
		o := at(after)
		o.Pods[2].Containers[0].Usage.Window = 15 * time.Minute
		return o
	}
	require.Nil(t, c.Decide(long(after+5*time.Minute)).Action)
	require.Nil(t, c.Decide(long(after+14*time.Minute)).Action)
	require.NotNil(t, c.Decide(long(after+15*time.Minute)).Action)
}

func TestMemoriesThatAreRefused(t *testing.T) {
	c, err := mpa.NewController(mpatest.Web(), agents.Static{}, mpa.DefaultGuards())
	require.NoError(t, err)
	require.ErrorContains(t, c.Restore(mpa.Memory{ReplicaChanges: []time.Time{mpatest.Begin}}), "changes without the time")
	require.ErrorContains(t, c.Restore(mpa.Memory{Time: mpatest.Begin, Containers: []mpa.ContainerMemory{{Name: "app", Peaks: []mpa.Peak{{Time: mpatest.Begin, Memory: -1}}}}}), "containers[0] app")
	// Times later than the memory's own are set to it; unknown containers are dropped.
	require.NoError(t, c.Restore(mpa.Memory{
		Time: mpatest.Begin, ReplicaChanges: []time.Time{mpatest.Begin.Add(time.Hour), mpatest.Begin.Add(-time.Minute)},
		Containers: []mpa.ContainerMemory{{Name: "gone"}, {Name: "app", Peaks: []mpa.Peak{{Time: mpatest.Begin, Memory: 5}}}},
	}))
	m := c.Memory()
	assert.Equal(t, []time.Time{mpatest.Begin.Add(-time.Minute), mpatest.Begin}, m.ReplicaChanges)
	assert.Equal(t, []mpa.ContainerMemory{{Name: "app", Peaks: []mpa.Peak{{Time: mpatest.Begin, Memory: 5}}}}, m.Containers)
}

func TestGuardsThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(g *mpa.Guards){
		"maxAge 0s":         func(g *mpa.Guards) { g.MaxAge = 0 },
		"gap 0s":            func(g *mpa.Guards) { g.Gap = 0 },
		"step NaN":          func(g *mpa.Guards) { g.Step = math.NaN() },
		"coolDown -1s":      func(g *mpa.Guards) { g.CoolDown = -time.Second },
		"headroom +Inf":     func(g *mpa.Guards) { g.Headroom = math.Inf(1) },
		"replicaChanges -1": func(g *mpa.Guards) { g.ReplicaChanges = -1 },
	} {
		g := mpa.DefaultGuards()
		change(&g)
		_, err := mpa.NewController(mpatest.Web(), agents.Static{}, g)
		require.ErrorContains(t, err, want)
	}
}
