package tune

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/train"
)

// scenarios are the windows to train on, each led in (see [ledIn]): built days and fill-ups once, recorded days so often
// that there are trainingDraws. Where the part that chooses also trains, it does so in draws that neither choose nor
// judge.
func (r *run) scenarios() (list []*trace.Trace) {
	var once, recorded []span
	for _, s := range r.split.train {
		from := s.from
		for _, until := range s.marks {
			one := span{trace: s.trace, from: from, until: until, marks: []float64{until}, whole: s.whole}
			if from = until; s.whole || r.isBuilt([]span{s}) {
				once = append(once, one)
			} else {
				recorded = append(recorded, one)
			}
		}
	}
	list = ledIn(r.traces, once, r.cfg.Seed, 0, 1)
	if len(recorded) == 0 {
		return list
	}
	first, count := 0, max(1, (trainingDraws-len(once)+len(recorded)-1)/len(recorded))
	if sameDay(r.split.train, r.split.validate) {
		first = 2 * r.draws(r.split.validate).count
	}
	for order := first; order < first+count; order++ {
		list = append(list, ledIn(r.traces, recorded, r.cfg.Seed, order, first+count)...)
	}
	return list
}

// wrong makes the forecasts of traces wrong, each in its own way: all by one factor, and
// each app by its own.
func wrong(traces []*trace.Trace, seed uint64) []*trace.Trace {
	var list []*trace.Trace
	for i, t := range traces {
		rng := rand.New(rand.NewPCG(seed, 1<<32+uint64(i)))
		factor := .6 * math.Pow(1.6/.6, rng.Float64())
		noise := rng.Float64()
		w, inst := *t, *t.Instance
		inst.Apps = slices.Clone(inst.Apps)
		for a := range inst.Apps {
			own := math.Exp(float64(noise*rng.NormFloat64()) - noise*noise/2)
			if e := inst.Apps[a].Expected; e > 0 {
				inst.Apps[a].Expected = max(1, math.Round(e*factor*own))
			}
		}
		w.Instance = &inst
		list = append(list, &w)
	}
	return list
}

// spare is the ratio of a training fleet to the peak volume of its window.
const spare = 1.02

// tightened are windows of a fixed fleet without the machines that their own peak does not
// need: where there is room for all, every policy places all, and there is nothing to learn.
func tightened(traces []*trace.Trace) []*trace.Trace {
	var list []*trace.Trace
	for _, t := range traces {
		keep := spare * peakShare(t)
		if keep > 0 && keep < 1 { // 0: no item has a demand
			w, inst := *t, *t.Instance
			inst.Machines = slices.Clone(inst.Machines)
			before := 0
			for i := range inst.Machines { // of lines with one machine each, every nth is removed
				n := inst.Machines[i].Count
				inst.Machines[i].Count = int(math.Ceil(float64(before+n)*keep)) - int(math.Ceil(float64(before)*keep))
				before += n
			}
			inst.Machines = slices.DeleteFunc(inst.Machines, func(m binpack.MachineLine) bool { return m.Count == 0 })
			w.Instance = &inst
			t = &w
		}
		list = append(list, t)
	}
	return list
}

// peakShare is the largest share of a fixed fleet that lives at one time, in the dimension
// that binds.
func peakShare(t *trace.Trace) float64 {
	peak := 0.
	for d := range t.Instance.Dimensions {
		capacity, used, most := 0., 0., 0.
		for _, m := range t.Instance.Machines {
			capacity += float64(m.Count) * float64(m.Capacity[d])
		}
		for _, e := range t.Events {
			demand := float64(e.Count) * float64(t.Instance.Apps[t.Requests[e.Request].App].Demand[d])
			if e.Kind == trace.Delete {
				demand = -demand
			}
			used += demand
			most = max(most, used)
		}
		if capacity > 0 {
			peak = max(peak, most/capacity)
		}
	}
	return peak
}

// learn trains a policy by a method.
func (r *run) learn(ctx context.Context, m method, seed uint64) (*policy.Object, error) {
	name := fmt.Sprintf("%s-%d", m.file(), seed)
	traces := r.scenarios()
	if r.fixed() && !fillUps(r.traces) {
		traces = tightened(traces)
	}
	if m.knowledge.Forecast() {
		traces = wrong(traces, r.cfg.Seed)
	}
	cfg := train.Config{
		Traces: traces, Model: m.model, Knowledge: m.knowledge, Features: m.features, Start: m.start, Rules: r.cfg.Target.space(r.traces[0].Instance),
		Evaluations: r.cfg.Evaluations, Seed: seed, Workers: r.cfg.Workers, Risk: train.DefaultRisk,
		Retry: r.fixed() && !fillUps(r.traces), OwnHistory: true, Name: r.cfg.Name,
		Progress: func(s train.Stats) { r.progress(s.Evaluations, name) },
	}
	if m.near {
		cfg.Optimizer, cfg.Reach, cfg.Particles = "cmaes", reach, particles
	}
	if len(traces) > perEvaluation {
		cfg.Sample, cfg.Renew = perEvaluation, renew
	}
	if r.cfg.Checkpoint != "" {
		cfg.Checkpoint = filepath.Join(r.cfg.Checkpoint, name+".checkpoint")
	}
	object, err := train.Run(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("training %s: %w", name, err)
	}
	r.finished()
	return object, nil
}

func (r *run) fixed() bool { return r.traces[0].Instance.Fleet == binpack.Fixed }

const (
	// trainingDraws is the least number of windows to train on: the gain on fewer is that of their sequence of events,
	// and not that of the cluster.
	trainingDraws = 8
	// perEvaluation is the most windows that an evaluation replays; they change every renew generations.
	perEvaluation = 8
	renew         = 5
	// A search near a file begins with steps of reach times the range of a weight, and has generations of particles.
	reach     = .1
	particles = 12
)
