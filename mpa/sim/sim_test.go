package sim

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// webApp answers in 20 ms of cpu and 10 ms of waiting.
func webApp() App {
	return App{
		Name: "web",
		Service: loadsim.Service{
			Segments: []loadsim.Segment{{Name: "handler", CPU: loadsim.Dist{Mean: .02, CV: 1}, Wait: loadsim.Dist{Mean: .01, CV: .5}, Memory: 4 << 20}},
			Workers:  64, Queue: 200, Timeout: 2, Retries: 1,
		},
		Memory:   Memory{Base: 200 << 20, CachePerRequest: 2048, CacheMax: 100 << 20},
		Replicas: 4, Request: mpa.Resources{CPU: 1000, Memory: 1 << 30},
		Target: mpa.Target{
			SLO:      mpa.SLO{Percentile: 99, Latency: .25},
			Replicas: mpa.Range{Min: 1, Max: 40},
			Containers: []mpa.ContainerSpec{{
				Name: "web", CPU: true, Memory: true,
				Min: mpa.Resources{CPU: 250, Memory: 128 << 20}, Max: mpa.Resources{CPU: 8000, Memory: 8 << 30},
			}},
		},
	}
}

// daily is a day's swing in steps of a minute.
func daily(low, high float64) loadsim.Load {
	l := loadsim.Load{Step: 60}
	for i := range 1440 {
		l.PerSec = append(l.PerSec, low+(high-low)*(1-math.Cos(2*math.Pi*float64(i)/1440))/2)
	}
	return l
}

func simulate(t *testing.T, name string, cfg Config) Result {
	t.Helper()
	cfg.Guards, cfg.Site = mpa.DefaultGuards(), DefaultSite()
	r, err := RunAgent(t.Context(), cfg, name)
	require.NoError(t, err)
	return r
}

// An hour with a swing from 10 to 200 requests per second and back.
func TestAgents(t *testing.T) {
	load := daily(10, 200)
	load.Step = 2.5
	cfg := Config{App: webApp(), Load: load, Seconds: 3600, Seed: 1}
	results := map[string]Result{}
	for _, name := range Agents() {
		r := simulate(t, name, cfg)
		t.Logf("%-16s %+v", name, r)
		if name == "predictive" || name == "vpa" {
			assert.Equal(t, r, simulate(t, name, cfg), "same seed, another result")
		}
		assert.InEpsilon(t, 105*3600, r.Requests, .01)
		assert.True(t, r.CPUUtilisation > 0 && r.CPUUtilisation <= 1)
		if name != "oracle" {
			assert.LessOrEqual(t, r.MostReplicaShrinks, 6)
			assert.LessOrEqual(t, r.MostRequestShrinks, 18)
			assert.LessOrEqual(t, r.MostRequestChanges, 36)
			assert.LessOrEqual(t, r.MostCPUChanges, 30)
		}
		results[name] = r
	}
	oracle := results["oracle"]
	slo := cfg.App.Target.SLO
	assert.True(t, oracle.Kept(slo), "the oracle breaks the SLO")
	for name, r := range results {
		if name != "oracle" && r.Kept(slo) {
			assert.Less(t, oracle.Cost(), r.Cost(), "%s beats the oracle", name)
		}
	}
	assert.Greater(t, results["static"].Violations, 10*results["hpa"].Violations, "a fixed number of pods is enough: the load proves nothing")
}

// A leak ends in kills unless the requests grow with it.
func TestLeak(t *testing.T) {
	app := webApp()
	app.Memory.LeakPerRequest = 4096
	cfg := Config{App: app, Load: loadsim.Load{Step: 60, PerSec: []float64{100}}, Seconds: 4 * 3600, Seed: 2}
	static, grown := simulate(t, "static", cfg), simulate(t, "hpa+vpa", cfg)
	t.Logf("static %+v\nhpa+vpa %+v", static, grown)
	assert.Positive(t, static.Kills)
	assert.Less(t, grown.Kills, static.Kills)
}

// A resize that a node cannot give at once waits for room. One that it can never give is not
// tried again.
func TestResize(t *testing.T) {
	for name, test := range map[string]struct {
		node mpa.Resources
		want []mpa.Resize
	}{
		"room":     {mpa.Resources{CPU: 64_000, Memory: 64 << 30}, []mpa.Resize{mpa.InProgress, mpa.NoResize}},
		"deferred": {mpa.Resources{CPU: 4200, Memory: 64 << 30}, []mpa.Resize{mpa.Deferred}},
		"never":    {mpa.Resources{CPU: 1100, Memory: 64 << 30}, []mpa.Resize{mpa.Infeasible}},
	} {
		t.Run(name, func(t *testing.T) {
			app := webApp()
			site := DefaultSite()
			site.Resize = loadsim.Dist{Mean: 20}
			site.Nodes = []mpa.Resources{test.node, test.node, test.node, test.node}
			grow := mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation {
				return mpa.Recommendation{Containers: []mpa.Resources{{CPU: 1400}}, Reason: "more"}
			})
			s, err := newSimulation(&Config{App: app, Load: loadsim.Load{Step: 60, PerSec: []float64{10}}, Seconds: 300, Seed: 3, Agent: grow, Guards: mpa.DefaultGuards(), Site: site})
			require.NoError(t, err)
			seen := map[mpa.Resize]bool{}
			s.decisions = func(o *mpa.Observation, d mpa.Decision) {
				for _, p := range o.Pods {
					seen[p.Resize] = true
				}
			}
			require.NoError(t, s.run(t.Context()))
			for _, w := range test.want {
				assert.True(t, seen[w], "no pod was %q: %v", w, seen)
			}
			for i, free := range s.free {
				held := mpa.Resources{}
				for _, p := range s.pods {
					if p.node == i {
						held = held.Add(p.held())
					}
				}
				assert.Equal(t, site.Nodes[i], free.Add(held), "a node's room and what its pods hold")
			}
		})
	}
}

// A recorder changes nothing, and its minutes add up to the result.
func TestRecord(t *testing.T) {
	cfg := Config{App: webApp(), Load: loadsim.Load{Step: 60, PerSec: []float64{20, 60, 300, 0}}, Seconds: 1800, Warmup: 330, Seed: 4}
	plain := simulate(t, "hpa+vpa", cfg)
	var minutes []Minute
	cfg.Record = func(m Minute) { minutes = append(minutes, m) }
	assert.Equal(t, plain, simulate(t, "hpa+vpa", cfg))
	var seconds, requests, coreHours, used, violated float64
	var scalings, resizes, kills int
	last := cfg.Warmup
	for _, m := range minutes {
		length := m.Time - last
		last = m.Time
		seconds += length
		requests += m.Rate * length
		coreHours += m.CPU * length / 3600
		used += m.CPUUsed * length / 3600
		assert.True(t, m.CPUUsed <= m.CPU*1.01 && m.MemoryUsed <= m.Memory && m.Ready >= 1, m)
		assert.True(t, m.P50 <= m.P95 && m.P95 <= m.P99 || m.Rate == 0, m)
		if m.Violated {
			violated++
		}
		scalings, resizes, kills = scalings+m.Scalings, resizes+m.Resizes, kills+m.Kills
	}
	assert.Len(t, minutes, 25)
	assert.InEpsilon(t, 1470, seconds, .001)
	assert.InEpsilon(t, plain.Requests, requests, .001)
	assert.InEpsilon(t, plain.CoreHours, coreHours, .001)
	assert.InEpsilon(t, plain.CPUUtilisation*plain.CoreHours, used, .001)
	assert.InDelta(t, plain.ViolatingMinutes, violated, 0)
	assert.Positive(t, scalings)
	assert.Equal(t, [3]int{plain.ReplicaChanges, plain.RequestChanges, plain.Kills}, [3]int{scalings, resizes, kills})
}

// One pod gets ten times what it can answer. Most requests are lost, and no percentile of all
// requests but the lowest is a number, whatever those few took that were answered.
func TestLostRequestsCount(t *testing.T) {
	app := webApp()
	app.Replicas, app.Target.Replicas = 1, mpa.Range{Min: 1, Max: 1}
	cfg := Config{App: app, Load: loadsim.Load{Step: 60, PerSec: []float64{500}}, Seconds: 600, Warmup: 60, Seed: 5}
	lost := 0
	cfg.Record = func(m Minute) {
		if math.IsInf(m.P99, 1) {
			lost++
			assert.True(t, m.Violated)
		}
	}
	r := simulate(t, "static", cfg)
	t.Logf("%+v", r)
	assert.Greater(t, r.Lost, r.Requests/2)
	assert.LessOrEqual(t, r.Lost, r.Violations)
	assert.Less(t, r.P99, 4.1, "of answered requests: two tries of two seconds")
	forever := Seconds(math.Inf(1))
	assert.Equal(t, [3]Seconds{forever, forever, forever}, [3]Seconds{r.AllP50, r.AllP95, r.AllP99})
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var back Result
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, r, back)
	assert.Equal(t, 9, lost)

	cfg.Load.PerSec[0] = 10
	r = simulate(t, "static", cfg)
	require.Zero(t, r.Lost)
	assert.Equal(t, [3]Seconds{Seconds(r.P50), Seconds(r.P95), Seconds(r.P99)}, [3]Seconds{r.AllP50, r.AllP95, r.AllP99})
}

// Of a thousand requests six are late and six are lost: fewer than 99 % kept the promise, though
// neither number alone is too large.
func TestMinuteCountsLateAndLostTogether(t *testing.T) {
	cfg := Config{App: webApp()}
	for _, test := range []struct {
		late, lost int
		want       int
	}{{6, 6, 1}, {6, 4, 0}, {0, 10, 0}, {0, 11, 1}, {11, 0, 1}, {10, 0, 0}} {
		s := &simulation{cfg: &cfg}
		for i := range 1000 - test.lost {
			latency := .01
			if i < test.late {
				latency = 1
			}
			s.minute.Add(latency)
		}
		s.minuteFailed = int64(test.lost)
		s.endMinute(60, false)
		assert.Equal(t, test.want, s.result.ViolatingMinutes, "%+v", test)
		s.endMinute(120, false)
		assert.Equal(t, test.want, s.result.ViolatingMinutes, "a minute without requests")
	}
}
