package mpa_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

var size, usage = mpatest.Size, mpatest.Use

func TestController(t *testing.T) {
	want := func(replicas int32, containers ...mpa.Resources) mpa.Agent {
		return mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation {
			return mpa.Recommendation{Replicas: replicas, Containers: containers, Source: "test", Reason: "wished"}
		})
	}
	tests := []struct {
		name   string
		agent  mpa.Agent
		change func(o *mpa.Observation)
		action *mpa.Action
		guard  string // one of the decision's guards begins with it
	}{
		{name: "replicas grow", agent: want(6), action: &mpa.Action{Replicas: 6}},
		{name: "above the bounds", agent: want(600), action: &mpa.Action{Replicas: 20}, guard: "bounds: 600 replicas become 20"},
		{name: "below the bounds", agent: want(1), action: &mpa.Action{Replicas: 2}, guard: "bounds: 1 replicas become 2"},
		{name: "no opinion", agent: want(0), action: nil},
		{
			name: "a size grows by a step", agent: want(0, mpa.Resources{CPU: 3900}),
			action: &mpa.Action{Containers: []mpa.Resources{{CPU: 1500, Memory: 1 << 30}}}, guard: "step: app cpu",
		},
		{name: "in the dead band", agent: want(0, mpa.Resources{CPU: 1050, Memory: 1 << 30}), guard: "dead band: app cpu"},
		{
			name: "memory stays above what was used", agent: want(0, mpa.Resources{CPU: 1000, Memory: 100 << 20}),
			action: &mpa.Action{Containers: []mpa.Resources{{CPU: 1000, Memory: (512 << 20) * 6 / 5}}}, guard: "memory: app stays at 614 MiB",
		},
		{name: "replicas that no agent can mean", agent: want(-7), guard: "agent: -7 replicas are left out"},
		{name: "sizes that no agent can mean", agent: want(6, mpa.Resources{CPU: math.MaxInt64}), action: &mpa.Action{Replicas: 6}, guard: "agent: the sizes are left out"},
		{name: "sizes of other containers", agent: want(0, size, size), guard: "agent: the sizes are left out"},
		{
			name: "a little outside the bounds", agent: want(0),
			change: func(o *mpa.Observation) {
				for i := range o.Pods {
					o.Pods[i].Containers[0].Request.CPU = 4100
				}
			},
			action: &mpa.Action{Containers: []mpa.Resources{{CPU: 4000, Memory: 1 << 30}}}, guard: "bounds: app becomes 4000m",
		},
		{name: "replicas grow before sizes", agent: want(6, mpa.Resources{CPU: 1400}), action: &mpa.Action{Replicas: 6}, guard: "order: replicas first"},
		{
			name: "sizes shrink before replicas", agent: want(3, mpa.Resources{CPU: 700}),
			action: &mpa.Action{Containers: []mpa.Resources{{CPU: 700, Memory: 1 << 30}}},
		},
		{
			name: "memory first after a kill", agent: want(6, mpa.Resources{Memory: 1300 << 20}),
			change: func(o *mpa.Observation) { o.Pods[0].Containers[0].Killed = o.Time.Add(-time.Minute) },
			action: &mpa.Action{Containers: []mpa.Resources{{CPU: 1000, Memory: 1300 << 20}}}, guard: "order: more memory first",
		},
		{
			name: "no usage", agent: want(6), guard: "freshness: no usage",
			change: func(o *mpa.Observation) {
				for i := range o.Pods {
					o.Pods[i].Containers[0].Usage = mpa.Usage{}
				}
			},
		},
		{
			name: "stale usage", agent: want(6), guard: "freshness: no usage that is at most 2m0s old",
			change: func(o *mpa.Observation) {
				for i := range o.Pods {
					o.Pods[i].Containers[0].Usage.Time = o.Time.Add(-3 * time.Minute)
				}
			},
		},
		{
			name: "usage of the future", agent: want(6), guard: "freshness: no usage",
			change: func(o *mpa.Observation) {
				for i := range o.Pods {
					o.Pods[i].Containers[0].Usage.Time = o.Time.Add(time.Hour)
				}
			},
		},
		{
			name: "negative usage", agent: want(6), guard: "freshness: usage of pod web-1 is negative",
			change: func(o *mpa.Observation) { o.Pods[1].Containers[0].Usage.CPU = -1 },
		},
		{
			name: "a rate that is no number", agent: want(6), guard: "freshness: rate is not a number",
			change: func(o *mpa.Observation) { o.Rate = mpa.Metric{Value: math.NaN(), Time: o.Time} },
		},
		{name: "no pods", agent: want(6), guard: "freshness", change: func(o *mpa.Observation) { o.Pods = nil }},
		{name: "switched off", agent: want(6), guard: "bounds: 0 replicas", change: func(o *mpa.Observation) { o.Replicas = 0 }},
		{
			name: "a resize is under way", agent: want(3), guard: "pending: pod web-2 is being resized",
			change: func(o *mpa.Observation) {
				o.Pods[2].Resize, o.Pods[2].ResizeSince = mpa.Deferred, o.Time.Add(-time.Minute)
			},
		},
		{
			name: "a resize holds no more replicas up", agent: want(6), action: &mpa.Action{Replicas: 6},
			change: func(o *mpa.Observation) {
				o.Pods[2].Resize, o.Pods[2].ResizeSince = mpa.Deferred, o.Time.Add(-time.Minute)
			},
		},
		{
			name: "a resize that waits for long holds nothing up", agent: want(3), action: &mpa.Action{Replicas: 3},
			change: func(o *mpa.Observation) {
				o.Pods[2].Resize, o.Pods[2].ResizeSince = mpa.Deferred, o.Time.Add(-6*time.Minute)
			},
		},
		{
			name: "more than a node can give", agent: want(0, mpa.Resources{CPU: 1400}),
			change: func(o *mpa.Observation) {
				for i := range o.Pods {
					o.Pods[i].Resize, o.Pods[i].Containers[0].Request.CPU = mpa.Infeasible, 1500
				}
			},
			action: &mpa.Action{Containers: []mpa.Resources{{CPU: 1000, Memory: 1 << 30}}}, guard: "infeasible: app stays at 1000m",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := mpa.NewController(mpatest.Web(), tt.agent, mpa.DefaultGuards())
			require.NoError(t, err)
			o := mpatest.Observation(mpatest.Begin, 4, size, usage)
			if tt.change != nil {
				tt.change(o)
			}
			d := c.Decide(o)
			assert.Equal(t, tt.action, d.Action, "%+v", d)
			assert.NotEmpty(t, d.Reason)
			if tt.guard != "" {
				assert.Condition(t, func() bool {
					for _, g := range d.Guards {
						if len(g) >= len(tt.guard) && g[:len(tt.guard)] == tt.guard {
							return true
						}
					}
					return false
				}, "no guard %q in %q", tt.guard, d.Guards)
			}
		})
	}
}

// After a jump the controller holds once. Then it continues, and earlier changes keep their
// age.
func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{-16 * time.Second, -30 * time.Minute, -72 * time.Hour, 11 * time.Minute, 72 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			less := mpatest.AgentFunc(func(o *mpa.Observation) mpa.Recommendation {
				return mpa.Recommendation{Replicas: o.Replicas - 1, Source: "test", Reason: "wished"}
			})
			guards := mpa.DefaultGuards()
			guards.CoolDown, guards.Patience = 0, 0
			c, err := mpa.NewController(mpatest.Web(), less, guards)
			require.NoError(t, err)
			now, replicas, changes, held := mpatest.Begin, 20, 0, 0
			for i := range 80 {
				now = now.Add(15 * time.Second)
				if i == 20 {
					now = now.Add(jump)
				}
				d := c.Decide(mpatest.Observation(now, replicas, size, usage))
				if i == 20 {
					assert.Contains(t, d.Guards[0], "clock: ")
				}
				if d.Action == nil {
					held++
					continue
				}
				replicas = int(d.Action.Replicas)
				changes++
			}
			assert.Equal(t, guards.ReplicaChanges/2, changes, "within 20 minutes")
			assert.Equal(t, 80-changes, held)
		})
	}
}

// A wild agent wants anything at any time. The workload carries actions out at once, in part
// or not at all.
func TestGuardsHold(t *testing.T) {
	for seed := range uint64(30) {
		d := rand.New(rand.NewPCG(seed, 1))
		target, guards := mpatest.Web(), mpa.DefaultGuards()
		wild := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation {
			return mpa.Recommendation{
				Replicas:   int32(d.IntN(100)) - 20,
				Containers: []mpa.Resources{{CPU: int64(d.IntN(9000)) - 500, Memory: int64(d.IntN(20<<10)-1<<10) << 20}},
			}
		})
		c, err := mpa.NewController(target, wild, guards)
		require.NoError(t, err)
		replicas, now, have := 4, mpatest.Begin, size
		peak := int64(0)
		var scaled, resized, onlyCPU []time.Time
		var back time.Time // of usage
		done := 0
		for range 2000 {
			now = now.Add(15 * time.Second)
			use := mpa.Resources{CPU: int64(d.IntN(1000)), Memory: int64(d.Float64() * float64(have.Memory))}
			o := mpatest.Observation(now, replicas, have, use)
			blind := d.IntN(100) == 0
			if blind {
				back = now
				for i := range o.Pods {
					o.Pods[i].Containers[0].Usage = mpa.Usage{}
				}
			} else {
				peak = max(peak, use.Memory)
			}
			a := c.Decide(o).Action
			if a == nil {
				continue
			}
			require.False(t, blind, "an action without data")
			before, sizeBefore := replicas, have
			if a.Replicas != 0 {
				require.Nil(t, a.Containers, "both dimensions at once")
				require.True(t, a.Replicas >= target.Replicas.Min && a.Replicas <= target.Replicas.Max)
				if replicas = int(a.Replicas); replicas < before {
					scaled = append(scaled, now)
				}
			} else {
				next, spec := a.Containers[0], target.Containers[0]
				require.True(t, next.CPU >= spec.Min.CPU && next.CPU <= spec.Max.CPU, "%+v", next)
				require.True(t, next.Memory >= spec.Min.Memory && next.Memory <= spec.Max.Memory, "%+v", next)
				require.InDelta(t, 1, float64(next.CPU)/float64(have.CPU), guards.Step+.01)
				if next.Memory < have.Memory {
					require.GreaterOrEqual(t, float64(next.Memory), math.Min(float64(have.Memory), guards.Headroom*float64(peak)-1))
				}
				done++
				switch {
				case next.Max(have) == next: // growth in place has no budget
				case next.Memory == have.Memory:
					onlyCPU = append(onlyCPU, now)
				default:
					resized = append(resized, now)
				}
				have = next
			}
			if !back.IsZero() && now.Sub(back) < guards.Patience {
				require.False(t, replicas < before || have.CPU < sizeBefore.CPU || have.Memory < sizeBefore.Memory, "shrunk after a gap")
			}
		}
		require.LessOrEqual(t, most(scaled), guards.ReplicaChanges/2)
		require.LessOrEqual(t, most(resized), guards.RequestChanges)
		require.LessOrEqual(t, most(onlyCPU), guards.CPUChanges/2)
		require.Greater(t, len(scaled)+done, 50, "hardly anything was done")
	}
}

// most is the largest number of times within an hour.
func most(list []time.Time) int {
	n := 0
	for i := range list {
		j := i
		for j < len(list) && list[j].Before(list[i].Add(time.Hour)) {
			j++
		}
		n = max(n, j-i)
	}
	return n
}

// The same observations give the same decisions, for every agent.
func TestSameAgain(t *testing.T) {
	run := func(name string) (list []mpa.Decision) {
		agent, err := agents.Make(mpa.Spec{Name: name}, mpatest.Web(), nil)
		require.NoError(t, err)
		c, err := mpa.NewController(mpatest.Web(), agent, mpa.DefaultGuards())
		require.NoError(t, err)
		d := rand.New(rand.NewPCG(5, 6))
		replicas, have := 4, size
		for i := range 2000 {
			now := mpatest.Begin.Add(time.Duration(i) * time.Minute)
			load := 2500 * (1.2 + math.Sin(2*math.Pi*float64(i)/1440)) * (.9 + .2*d.Float64())
			o := mpatest.Observation(now, replicas, have, mpa.Resources{CPU: min(have.CPU, int64(load)/int64(replicas)), Memory: 300<<20 + int64(d.IntN(100<<20))})
			decision := c.Decide(o)
			list = append(list, decision)
			if a := decision.Action; a != nil && a.Replicas != 0 {
				replicas = int(a.Replicas)
			} else if a != nil {
				have = a.Containers[0]
			}
		}
		return list
	}
	for _, name := range agents.Names() {
		t.Run(name, func(t *testing.T) {
			first := run(name)
			require.Equal(t, first, run(name))
			acted := 0
			for _, d := range first {
				if d.Action != nil {
					acted++
				}
			}
			if name == "static" {
				assert.Zero(t, acted)
			} else {
				assert.Positive(t, acted)
			}
			t.Logf("%d actions in %d minutes", acted, len(first))
		})
	}
}

func TestTargetsThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(t *mpa.Target){
		"replicas 0 … 20":                    func(t *mpa.Target) { t.Replicas.Min = 0 },
		"slo.percentile 100":                 func(t *mpa.Target) { t.SLO.Percentile = 100 },
		"percentile and latency go together": func(t *mpa.Target) { t.SLO.Latency = 0 },
		"containers[0].name is empty":        func(t *mpa.Target) { t.Containers[0].Name = "" },
		"containers[0].max is below its min": func(t *mpa.Target) { t.Containers[0].Max.CPU = 1 },
	} {
		target := mpatest.Web()
		change(&target)
		_, err := mpa.NewController(target, agents.Static{}, mpa.DefaultGuards())
		require.ErrorContains(t, err, want)
	}
}
