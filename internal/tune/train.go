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

// scenarios are windows of a part to train on: days that overlap by half, or the whole of
// what is shorter.
func scenarios(traces []*trace.Trace, spans []span) []*trace.Trace {
	var cut []span
	for _, s := range spans {
		length := min(s.until-s.from, day)
		for from := s.from; from+length <= s.until+1; from += length / 2 {
			cut = append(cut, span{trace: s.trace, from: from, until: from + length})
		}
	}
	return windows(traces, cut)
}

// bestFit is Best-Fit as a linear policy of a method; nil where its features cannot say it.
func (m method) bestFit() *policy.Object {
	o := &policy.Object{APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: "bestfit"}}
	o.Spec = policy.Spec{FeatureVersion: policy.FeatureVersion, Model: m.model, Knowledge: m.knowledge.String(), Features: m.features}
	for _, name := range m.features {
		o.Spec.Weights = append(o.Spec.Weights, map[string]float64{"mean": 1, "empty": -1}[name])
	}
	if m.model != "linear" || !slices.Contains(m.features, "mean") {
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

// learn trains a policy by a method on a part.
func (r *run) learn(ctx context.Context, m method, spans []span, seed uint64, start *policy.Object, name string) (*policy.Object, error) {
	traces := scenarios(r.traces, spans)
	if m.knowledge.Forecast() {
		traces = wrong(traces, r.cfg.Seed)
	}
	if start == nil {
		start = m.bestFit()
	}
	cfg := train.Config{
		Traces: traces, Model: m.model, Knowledge: m.knowledge, Features: m.features, Start: start,
		Evaluations: r.cfg.Evaluations, Seed: seed, Workers: r.cfg.Workers, Risk: train.DefaultRisk,
		Retry: r.fixed(), OwnHistory: true, Name: r.cfg.Name,
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
	// perEvaluation is how many windows an evaluation replays; they change every renew
	// generations.
	perEvaluation = 2
	renew         = 5
)
