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
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/train"
)

// scenarios are windows of a part to train on: days that overlap by half, or the whole of
// a shorter span, or fill-ups as they are.
func scenarios(traces []*trace.Trace, spans []span) []*trace.Trace {
	var cut []span
	var whole []*trace.Trace
	for _, s := range spans {
		if s.whole {
			whole = append(whole, traces[s.trace])
			continue
		}
		length := min(s.until-s.from, day)
		for from := s.from; from+length <= s.until+1; from += length / 2 {
			cut = append(cut, span{trace: s.trace, from: from, until: from + length})
		}
	}
	for _, s := range cut {
		whole = append(whole, traces[s.trace].Window(s.from, s.until, nil))
	}
	return whole
}

// starts are the policies that trainings of a method begin with, in turn: Best-Fit, and the
// shipped files that its features can express. A list without one means anywhere.
func (m method) starts(fixed bool) []*policy.Object {
	var list []*policy.Object
	if m.model == policy.RuleModel {
		return []*policy.Object{ruleObject(rule.Settings{Choice: rule.Choice{Name: "mostallocated"}})}
	}
	if o := m.bestFit(); o != nil {
		list = append(list, o)
	}
	all := m
	if all.features == nil {
		all.features = policy.ModelOf(m.model).Learns(m.knowledge, fixed)
	}
	return append(list, all.files()...)
}

// files are the shipped files that the features of a method can express.
func (m method) files() (list []*policy.Object) {
	for _, f := range policy.ShippedFiles() {
		s := f.Object.Spec
		know, _ := binpack.ParseKnowledge(s.Knowledge)
		if s.Model == m.model && (know == m.knowledge || know == binpack.K0 && len(s.Parameters) == 0) && says(m.features, &s) {
			list = append(list, f.Object)
		}
	}
	return list
}

// says reports whether the learned features include all of a file, and the file has all
// learned parameters.
func says(learned []string, s *policy.Spec) bool {
	model := policy.ModelOf(s.Model)
	for _, name := range learned {
		if _, ok := model.Parameter(name); ok {
			if _, ok = s.Parameters[name]; !ok {
				return false
			}
		}
	}
	for name := range s.Parameters {
		if !slices.Contains(learned, name) {
			return false
		}
	}
	return !slices.ContainsFunc(s.Features, func(name string) bool { return !slices.Contains(learned, name) })
}

// bestFit is Best-Fit as a linear policy of a method; nil where its features cannot express it.
func (m method) bestFit() *policy.Object {
	o := &policy.Object{APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: "bestfit"}}
	o.Spec = policy.Spec{FeatureVersion: policy.FeatureVersion, Model: m.model, Knowledge: m.knowledge.String(), Features: m.features}
	for _, name := range m.features {
		o.Spec.Weights = append(o.Spec.Weights, map[string]float64{"mean": 1, "empty": -1}[name])
	}
	parameter := func(name string) bool {
		_, ok := policy.ModelOf(m.model).Parameter(name)
		return ok
	}
	if m.model != "linear" || !slices.Contains(m.features, "mean") || slices.ContainsFunc(m.features, parameter) {
		return nil
	}
	return o
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

// learn trains a policy by a method, from start or from anywhere where it is nil.
func (r *run) learn(ctx context.Context, m method, seed uint64, start *policy.Object) (*policy.Object, error) {
	name := fmt.Sprintf("%s-%d", m.file(), seed)
	traces := scenarios(r.traces, r.split.train)
	if r.fixed() && !fillUps(r.traces) {
		traces = tightened(traces)
	}
	if m.knowledge.Forecast() {
		traces = wrong(traces, r.cfg.Seed)
	}
	cfg := train.Config{
		Traces: traces, Model: m.model, Knowledge: m.knowledge, Features: m.features, Start: start, Rules: r.cfg.Target.space(r.traces[0].Instance),
		Evaluations: r.cfg.Evaluations, Seed: seed, Workers: r.cfg.Workers, Risk: train.DefaultRisk,
		Retry: r.fixed() && !fillUps(r.traces), OwnHistory: true, Name: r.cfg.Name,
		Progress: func(s train.Stats) { r.progress(s.Evaluations, name) },
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
	// perEvaluation is the number of windows that an evaluation replays; they change every renew
	// generations.
	perEvaluation = 2
	renew         = 5
)
