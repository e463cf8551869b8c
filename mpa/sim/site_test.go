package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// watch simulates and shows every decision.
func watch(t *testing.T, cfg Config, look func(s *simulation, o *mpa.Observation, d mpa.Decision)) *simulation {
	t.Helper()
	cfg.Guards = mpa.DefaultGuards()
	s, err := newSimulation(&cfg)
	require.NoError(t, err)
	s.decisions = func(o *mpa.Observation, d mpa.Decision) { look(s, o, d) }
	require.NoError(t, s.run(t.Context()))
	return s
}

func flat(rate float64) loadsim.Load { return loadsim.Load{Step: 60, PerSec: []float64{rate}} }

// A new pod is pending while it starts, and has no usage until two scrapes of it are old
// enough to be visible.
func TestStartAndLag(t *testing.T) {
	site := DefaultSite()
	site.Start, site.Lag, site.Miss = loadsim.Dist{Mean: 100}, 20, 0
	once := mpatest.AgentFunc(func(o *mpa.Observation) mpa.Recommendation {
		if o.Time.Before(at(300)) {
			return mpa.Recommendation{}
		}
		return mpa.Recommendation{Replicas: 5}
	})
	const name = "web-00004"
	var asked, running, measured float64
	cfg := Config{App: webApp(), Load: flat(50), Seconds: 900, Seed: 5, Agent: once, Site: site}
	watch(t, cfg, func(s *simulation, o *mpa.Observation, d mpa.Decision) {
		if d.Action != nil {
			asked = s.e.Now()
		}
		for _, p := range o.Pods {
			u := p.Containers[0].Usage
			assert.False(t, u.Time.After(o.Time.Add(-20*time.Second)), "usage that is newer than its lag")
			if p.Name != name {
				continue
			}
			if p.Ready && running == 0 {
				running = s.e.Now()
			}
			assert.Equal(t, p.Ready, p.Phase == mpa.Running)
			if !u.Time.IsZero() && measured == 0 {
				measured = s.e.Now()
			}
		}
	})
	assert.Equal(t, 300.0, asked)
	assert.InDelta(t, 100, running-asked, 15, "within an interval")
	assert.InDelta(t, 15+20, measured-running, 15, "two scrapes, and their lag")
}

// A rate is that of a window however old it is: a step enters it bit by bit.
func TestWindowOfOldRates(t *testing.T) {
	site := DefaultSite()
	site.Lag = 100
	step := loadsim.Load{Step: 300, PerSec: []float64{10, 10, 90}}
	idle := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation { return mpa.Recommendation{} })
	last, rise := 0.0, 0.0
	watch(t, Config{App: webApp(), Load: step, Seconds: 900, Seed: 5, Agent: idle, Site: site}, func(_ *simulation, o *mpa.Observation, _ mpa.Decision) {
		if last > 0 {
			rise = max(rise, o.Rate.Value-last)
		}
		last = o.Rate.Value
	})
	assert.Greater(t, last, 70.0)
	assert.Less(t, rise, 30.0, "of 80, a quarter in 15 s")
}

// Without scrapes there are no actions.
func TestOutage(t *testing.T) {
	site := DefaultSite()
	site.Outages = [][2]float64{{600, 1500}}
	n := int32(4)
	restless := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation {
		n = 9 - n
		return mpa.Recommendation{Replicas: n}
	})
	var acted []float64
	held := 0
	watch(t, Config{App: webApp(), Load: flat(20), Seconds: 4500, Seed: 6, Agent: restless, Site: site}, func(s *simulation, o *mpa.Observation, d mpa.Decision) {
		if d.Action != nil {
			acted = append(acted, s.e.Now())
		}
		if s.e.Now() > 600+140 && s.e.Now() <= 1500 {
			held++
			assert.Nil(t, d.Action)
			assert.False(t, o.Rate.Known(o.Time, 2*time.Minute))
		}
	})
	assert.Greater(t, held, 40)
	assert.True(t, slices.ContainsFunc(acted, func(t float64) bool { return t < 600 }))
	assert.True(t, slices.ContainsFunc(acted, func(t float64) bool { return t > 1500 }))
}

// After a failed scrape the usage of a pod is older than that of others.
func TestMissedScrapes(t *testing.T) {
	site := DefaultSite()
	site.Miss = .2
	old := 0
	watch(t, Config{App: webApp(), Load: flat(50), Seconds: 1200, Seed: 7, Agent: agents.Static{}, Site: site}, func(_ *simulation, o *mpa.Observation, _ mpa.Decision) {
		newest := time.Time{}
		for _, p := range o.Pods {
			if u := p.Containers[0].Usage; u.Time.After(newest) {
				newest = u.Time
			}
		}
		for _, p := range o.Pods {
			if p.Containers[0].Usage.Time.Before(newest) {
				old++
			}
		}
	})
	assert.InDelta(t, .2*4*80, old, 30)
}

// A container that runs out of memory repeatedly restarts after longer and longer pauses. It
// is not measured while it does not run.
func TestCrashLoop(t *testing.T) {
	app := webApp()
	app.Memory.Base = 2 << 30 // of 1 GiB
	site := DefaultSite()
	site.Start = loadsim.Dist{Mean: 1}
	s := watch(t, Config{App: app, Load: flat(50), Seconds: 3600, Seed: 8, Agent: agents.Static{}, Site: site}, func(s *simulation, o *mpa.Observation, _ mpa.Decision) {
		for _, p := range o.Pods {
			if !p.Ready && s.e.Now() > 60 {
				assert.Zero(t, p.Containers[0].Usage)
				assert.False(t, p.Containers[0].Killed.IsZero())
			}
		}
	})
	// After 0, 10, 20, 40, 80, 160 and then 300 s, and a second for the start of each: 17
	// in an hour.
	assert.Equal(t, 4*17, s.result.Kills)
	assert.Greater(t, s.result.Violations, s.result.Requests*9/10)
	assert.Equal(t, s.e.Ready(), s.e.Pods(), "a pod that was killed left its slot")
}

// A pod whose resize waits for room is replaced on a node that has it: one at a time,
// and not the last.
func TestEvict(t *testing.T) {
	for _, test := range []struct {
		name     string
		nodes    []int64 // millicores
		replicas int32
		want     int
	}{
		{"room elsewhere", []int64{2100, 3000}, 2, 1},
		{"no room", []int64{2100, 1400}, 2, 0},
		{"the only pod", []int64{1100, 3000}, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			app := webApp()
			app.Replicas = test.replicas
			site := DefaultSite()
			site.Nodes = nil
			for _, cpu := range test.nodes {
				site.Nodes = append(site.Nodes, mpa.Resources{CPU: cpu, Memory: 64 << 30})
			}
			if test.name == "the only pod" {
				site.Nodes[0].CPU = 1500 // holds the request, next to what fills it
			}
			grow := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation {
				return mpa.Recommendation{Containers: []mpa.Resources{{CPU: 1500}}}
			})
			cfg := Config{App: app, Load: flat(20), Seconds: 1500, Seed: 9, Agent: grow, Site: site, Guards: mpa.DefaultGuards()}
			s, err := newSimulation(&cfg)
			require.NoError(t, err)
			if test.name == "the only pod" {
				s.free[0].CPU = 100 // of another workload
			}
			deferred, gone := 0, 0
			s.decisions = func(o *mpa.Observation, _ mpa.Decision) {
				for _, p := range o.Pods {
					if p.Resize == mpa.Deferred {
						deferred++
					}
				}
				gone = max(gone, int(o.Replicas)-s.e.Ready())
			}
			require.NoError(t, s.run(t.Context()))
			assert.Positive(t, deferred)
			assert.Equal(t, test.want, s.result.Evictions)
			assert.LessOrEqual(t, gone, 1)
			assert.Equal(t, int(test.replicas), s.e.Ready())
		})
	}
}

// The most changes in a sliding hour.
func TestWindow(t *testing.T) {
	var w window
	for _, at := range []float64{0, 1800, 3599, 3600, 5400, 9000} {
		w.add(at)
	}
	assert.Equal(t, 3, w.most)
}

// Train and test have nothing in common, and every scenario can be simulated.
func TestSplit(t *testing.T) {
	of := map[string]map[string]bool{}
	for _, side := range Sides() {
		names := map[string]bool{}
		s := split[side]
		assert.GreaterOrEqual(t, len(s.apps), 4)
		for _, a := range s.apps {
			names["app "+a.name] = true
			for _, g := range a.segments {
				names["profile "+g] = true
			}
			app, err := a.app()
			require.NoError(t, err)
			require.NoError(t, app.Target.Validate())
			inside := 0.0
			for _, g := range app.Segments {
				inside += g.Memory
			}
			full := app.Memory.Base + app.Memory.CacheMax + float64(app.Workers)*inside
			assert.Less(t, full, float64(app.Request.Memory), "%s: as given, a full pod runs out of memory", a.name)
		}
		for _, l := range s.loads {
			names["load "+l.file+l.family] = true
		}
		of[side] = names

		list, skipped, err := Scenarios(side, "")
		require.NoError(t, err)
		assert.NotEmpty(t, list)
		assert.Len(t, s.couple, len(list)+len(skipped))
		for _, sc := range list {
			cfg := sc.Config(1)
			cfg.Seconds, cfg.Warmup, cfg.Agent = 120, 0, agents.Static{}
			r, err := Run(t.Context(), cfg)
			require.NoError(t, err)
			assert.Positive(t, r.Requests)
		}
	}
	for name := range of["train"] {
		assert.NotContains(t, of["test"], name)
	}
	_, _, err := Scenarios("both", "")
	assert.ErrorContains(t, err, "train, test")
}

// A plan keeps the target's bounds, and no guard applies to it.
func TestPlan(t *testing.T) {
	app := webApp()
	app.Target.Replicas = mpa.Range{Min: 2, Max: 3}
	cfg := Config{App: app, Load: loadsim.Load{Step: 60, PerSec: []float64{5, 100, 5, 400}}, Seconds: 1200, Seed: 10, Agent: agents.Static{}, Site: DefaultSite(), Plan: &Plan{Size: 2000, Slack: 1, Room: 24}}
	both := 0
	s := watch(t, cfg, func(_ *simulation, _ *mpa.Observation, d mpa.Decision) {
		n := d.Recommended.Replicas
		assert.True(t, n >= 2 && n <= 3, n)
		spec := app.Target.Containers[0]
		assert.Equal(t, d.Recommended.Containers[0], spec.Clamp(d.Recommended.Containers[0]))
		if d.Action != nil && d.Action.Replicas != 0 && d.Action.Containers != nil {
			both++
		}
	})
	assert.Positive(t, both, "replicas and size at once")
	assert.Greater(t, s.result.MostRequestChanges, 12)
	assert.Positive(t, s.result.Requests-s.result.Violations)
}
