package phases

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// constant returns a window of an hour of constant load, with a change of each sample.
func constant(change func(i int, s *Sample)) Window {
	var w Window
	step := space(time.Hour)
	for at := time.Hour - step; at >= 0; at -= step {
		s := Sample{
			Time: start.Add(-at), Rate: 20, Cores: 1, Latency: .3, Memory: 200 << 20, Replicas: 4,
			Request: mpa.Resources{CPU: 500, Memory: 512 << 20},
		}
		if change != nil {
			change(len(w), &s)
		}
		w = append(w, s)
	}
	return w
}

func promise() mpa.Target {
	c := mpa.ContainerSpec{Name: "a", Min: mpa.Resources{CPU: 50, Memory: 64 << 20}, Max: mpa.Resources{CPU: 4000, Memory: 8 << 30}, CPU: true, Memory: true}
	return mpa.Target{SLO: mpa.SLO{Percentile: 95, Latency: 1}, Replicas: mpa.Range{Min: 1, Max: 20}, Containers: []mpa.ContainerSpec{c}}
}

var makers = Makers{pair, candidate, 3 * time.Minute}

// What cannot be simulated is said, and what can be gives the same figures again.
func TestVerdict(t *testing.T) {
	judge := func(w Window, target mpa.Target) mpa.Verdict {
		return w.Judge(start, time.Hour, target, mpa.DefaultGuards(), makers)
	}
	v := judge(constant(nil), promise())
	require.Equal(t, v, judge(constant(nil), promise()))
	require.Equal(t, mpa.Verdict{Time: start, Rules: 1, Candidate: v.Candidate, Runs: runs}, v)
	require.InDelta(t, .7, v.Candidate, .3, "cheaper, as on generated scenarios")
	starved := Makers{pair, func(mpa.Target) mpa.Agent { return starver{} }, time.Minute}
	v = constant(nil).Judge(start, time.Hour, promise(), mpa.DefaultGuards(), starved)
	require.Equal(t, runs, v.CandidateBroken)
	require.Greater(t, v.Candidate, 2.)

	require.Contains(t, judge(nil, promise()).Missing, "the rate is known for 0 % of the window, want 90 %")
	require.Contains(t, judge(constant(nil)[40:], promise()).Missing, "the rate is known for 89 % of the window")
	require.Empty(t, judge(constant(nil)[30:], promise()).Missing)
	every := constant(nil)
	var sparse Window // each minute, of a recommender that decides as often
	for i := 0; i < len(every); i += 6 {
		sparse = append(sparse, every[i])
	}
	require.Empty(t, judge(sparse, promise()).Missing)
	silent := promise()
	silent.SLO = mpa.SLO{}
	require.Contains(t, judge(every, silent).Missing, "no latency is promised")
	late := constant(func(_ int, s *Sample) { s.Cores, s.Latency = 0, 0 })
	require.Contains(t, judge(late, promise()).Missing, "cpu per request is not known")
	busy := constant(func(_ int, s *Sample) { s.Rate, s.Replicas = 5000, 2 })
	require.Contains(t, judge(busy, promise()).Missing, "1.8e+07 requests are too many")
}

// Verdicts on what was observed while the rules acted foretell what the candidate does on
// the true application.
func TestForetells(t *testing.T) {
	g, err := sim.NewGenerator("train", "")
	require.NoError(t, err)
	for _, seed := range []uint64{304, 310} {
		_, _, decisions := simulated(t, mpa.OfflineTraining, seed, candidate)
		require.Equal(t, mpa.LearningPhases(), phasesIn(decisions), "%d", seed)
		scenario, err := g.Generate(seed)
		require.NoError(t, err)
		var results []sim.Result
		for _, a := range []mpa.Agent{pair(scenario.App.Target), candidate(scenario.App.Target)} {
			cfg := scenario.Config(seed)
			cfg.Agent = a
			r, err := sim.Run(t.Context(), cfg)
			require.NoError(t, err)
			results = append(results, r)
		}
		want := results[1].Objective(scenario.App.Target.SLO, &results[0])
		sum, n := 0., 0.
		for _, d := range decisions {
			if l := d.Recommended.Learning; l != nil && l.Verdict != nil {
				sum, n = sum+l.Verdict.Candidate, n+1
			}
		}
		require.InDelta(t, want, sum/n, .15, "%d", seed)
	}
}

// The application that is simulated costs, waits and answers as the observed one.
func TestIdentified(t *testing.T) {
	target := promise()
	cfg, err := constant(nil).config(start, time.Hour, &target, mpa.DefaultGuards())
	require.NoError(t, err)
	g := cfg.App.Segments[0]
	require.InDelta(t, .05, g.CPU.Mean, 1e-12)
	require.InDelta(t, .3-2*.05*math.Log(20), g.Wait.Mean, 1e-9, "on half a core a request takes twice its cpu")
	require.Equal(t, float64(200<<20), cfg.App.Memory.Base)
	require.Equal(t, 20., cfg.Load.Peak())
	require.Equal(t, 5400., cfg.Seconds)
	require.Equal(t, 1800., cfg.Warmup)
	require.Len(t, cfg.Load.PerSec, 540)

	// Where the window begins without a sample, the first rate is the rate before it.
	cfg, err = constant(nil)[20:].config(start, time.Hour, &target, mpa.DefaultGuards())
	require.NoError(t, err)
	require.Equal(t, slices.Repeat([]float64{20}, 540), cfg.Load.PerSec)

	// Less than exponential demands would have: they vary less.
	quick := constant(func(_ int, s *Sample) { s.Latency = .15 })
	cfg, err = quick.config(start, time.Hour, &target, mpa.DefaultGuards())
	require.NoError(t, err)
	require.InDelta(t, .273, cfg.App.Segments[0].CPU.CV, .01)
	require.InDelta(t, .15, .1*tail(cfg.App.Segments[0].CPU.CV, 95), 1e-4)
	require.Zero(t, cfg.App.Segments[0].Wait.Mean)
	quick = constant(func(_ int, s *Sample) { s.Latency = .08 })
	cfg, err = quick.config(start, time.Hour, &target, mpa.DefaultGuards())
	require.NoError(t, err)
	require.InDelta(t, 0, cfg.App.Segments[0].CPU.CV, 1e-5)

	// Many requests on many pods: an equal part of both.
	target.Replicas = mpa.Range{Min: 30, Max: 1000}
	many := constant(func(_ int, s *Sample) { s.Rate, s.Cores, s.Replicas = 2000, 100, 400 })
	cfg, err = many.config(start, time.Hour, &target, mpa.DefaultGuards())
	require.NoError(t, err)
	require.Equal(t, 100., cfg.Load.Peak())
	require.Equal(t, int32(20), cfg.App.Replicas)
	require.Equal(t, mpa.Range{Min: 2, Max: 50}, cfg.App.Target.Replicas)
	require.InDelta(t, .05, cfg.App.Segments[0].CPU.Mean, 1e-12)

	// Two containers are one of the sum; a limit that one lacks, both lack.
	target = promise()
	target.Containers = append(target.Containers, mpa.ContainerSpec{Name: "b", Min: mpa.Resources{CPU: 10, Memory: 10}, Max: mpa.Resources{CPU: 100}, CPU: true})
	cfg, err = constant(nil).config(start, time.Hour, &target, mpa.DefaultGuards())
	require.NoError(t, err)
	require.Equal(t, []mpa.ContainerSpec{{
		Name: "window", Min: mpa.Resources{CPU: 60, Memory: 64<<20 + 10}, Max: mpa.Resources{CPU: 4100}, CPU: true,
	}}, cfg.App.Target.Containers)
}

// A window has one sample a step and drops the old ones; what is unknown, late or no number
// is none.
func TestWindow(t *testing.T) {
	target := promise()
	var w Window
	see := func(at time.Duration, change func(*mpa.Observation)) {
		o := &mpa.Observation{Time: start.Add(at), Replicas: 2}
		usage := mpa.Usage{Resources: mpa.Resources{CPU: 250, Memory: 70}, Time: o.Time}
		for _, name := range []string{"x", "y"} {
			o.Pods = append(o.Pods, mpa.Pod{Name: name, Phase: mpa.Running, Ready: true, Containers: []mpa.Container{
				{Name: "a", Request: mpa.Resources{CPU: 500, Memory: 100}, Usage: usage}, {Name: "not sized", Usage: usage},
			}})
		}
		o.Rate, o.Latency = mpa.Metric{Value: 10, Time: o.Time}, mpa.Metric{Value: .5, Time: o.Time}
		if change != nil {
			change(o)
		}
		w = w.with(o, &target, time.Hour)
	}
	see(0, nil)
	require.Equal(t, Window{{start, 10, .5, .5, 70, 2, mpa.Resources{CPU: 500, Memory: 100}}}, w)
	see(5*time.Second, func(o *mpa.Observation) { o.Rate.Value = 11 })
	require.Len(t, w, 1)
	require.Equal(t, 11., w[0].Rate)
	for _, unknown := range []func(*mpa.Observation){
		func(o *mpa.Observation) { o.Rate = mpa.Metric{} },
		func(o *mpa.Observation) { o.Rate.Value = math.NaN() },
		func(o *mpa.Observation) { o.Rate.Value = -1 },
		func(o *mpa.Observation) { o.Rate.Value = math.Inf(1) },
		func(o *mpa.Observation) { o.Rate.Time = o.Time.Add(-time.Hour) },
		func(o *mpa.Observation) { o.Pods = nil },
	} {
		see(20*time.Second, unknown)
		require.Len(t, w, 1)
	}
	for _, no := range []func(*mpa.Observation){
		func(o *mpa.Observation) { o.Latency.Value = 1.1 },
		func(o *mpa.Observation) { o.Latency.Value = math.NaN() },
		func(o *mpa.Observation) { o.Latency = mpa.Metric{} },
		func(o *mpa.Observation) { o.Throughput = mpa.Metric{Value: 9, Time: o.Time} },
	} {
		see(20*time.Second, no)
		require.Len(t, w, 2)
		require.Zero(t, w[1].Cores, "a backlog is no demand")
	}
	see(time.Hour+10*time.Second, nil)
	require.Len(t, w, 2)
	require.Equal(t, start.Add(20*time.Second), w[0].Time)
}
