package train

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/swarm"
)

// Join returns the policy with the least fitness on other traces among a trained one, those of earlier
// trainings of the same features, and the mean of all. The luck of one training is not that of another, so
// the mean is often the best. The provenance counts the evaluations of all trainings.
func Join(ctx context.Context, cfg Config, last *policy.Object, earlier []*policy.Object, validate []*trace.Trace) (*policy.Object, error) {
	cfg.Traces, cfg.Sample, cfg.Start, cfg.Features = validate, 0, nil, slices.Concat(last.Spec.Features, slices.Sorted(maps.Keys(last.Spec.Parameters)))
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	sp, err := newSpace(&cfg)
	if err != nil {
		return nil, err
	}
	members := append([]*policy.Object{last}, earlier...)
	var positions [][]float64
	for _, o := range members {
		x, err := sp.joins(o)
		if err != nil {
			return nil, err
		}
		positions = append(positions, x)
	}
	positions = append(positions, sp.mean(positions))
	ev, err := newEvaluator(ctx, &cfg, sp)
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(positions))
	tasks := make([]swarm.Task, len(positions))
	for i, x := range positions {
		tasks[i] = swarm.Task{Index: i, X: x}
	}
	err = swarm.Parallel(cfg.Workers, ev.objective)(ctx, tasks, func(t swarm.Task, value float64, _ ...float64) error {
		values[t.Index] = value
		return nil
	})
	if err != nil {
		return nil, err
	}
	best := 0
	for i, v := range values {
		if v < values[best] {
			best = i
		}
	}
	object := sp.object(positions[best])
	object.Metadata.Name = last.Metadata.Name
	object.Spec.Provenance, err = joined(members, positions, values, best, ev)
	return object, err
}

// Joins reports the first of some policies that is none of a training as cfg describes it.
func Joins(cfg Config, earlier []*policy.Object) error {
	if err := cfg.complete(); err != nil {
		return err
	}
	sp, err := newSpace(&cfg)
	if err != nil {
		return err
	}
	for _, o := range earlier {
		if _, err := sp.joins(o); err != nil {
			return err
		}
	}
	return nil
}

// joins is the position of a policy of another training.
func (sp *space) joins(o *policy.Object) ([]float64, error) {
	fail := func(what string, other, own any) ([]float64, error) {
		return nil, fmt.Errorf("policy %q: %s %v, the training has %v", o.Metadata.Name, what, other, own)
	}
	parameters := slices.Sorted(maps.Keys(o.Spec.Parameters))
	own := slices.Sorted(slices.Values(sp.parameters))
	switch {
	case o.Spec.Model != sp.model:
		return fail("model", o.Spec.Model, sp.model)
	case o.Spec.Knowledge != sp.knowledge.String():
		return fail("knowledge", o.Spec.Knowledge, sp.knowledge)
	case !slices.Equal(o.Spec.Features, sp.features):
		return fail("features", o.Spec.Features, sp.features)
	case !slices.Equal(parameters, own):
		return fail("parameters", parameters, own)
	}
	for _, key := range counted {
		if _, ok := o.Spec.Provenance[key].(int); !ok {
			return nil, fmt.Errorf("policy %q: spec.provenance.%s is missing", o.Metadata.Name, key)
		}
	}
	return sp.position(o)
}

// counted are the entries of a provenance that add up.
var counted = []string{"evaluations", "replays"}

// mean is the mean of positions, of which the weights are first scaled to a length of 1: the scale of a
// score does not count.
func (sp *space) mean(positions [][]float64) []float64 {
	out := make([]float64, len(positions[0]))
	for _, x := range positions {
		length := 0.
		for _, w := range x[:len(sp.features)] {
			length = math.Hypot(length, w)
		}
		for i, v := range x {
			if i < len(sp.features) {
				v /= max(length, 1e-9)
			}
			out[i] += v / float64(len(positions))
		}
	}
	return out
}

// joined is the provenance of the last training with those of all members.
func joined(members []*policy.Object, positions [][]float64, values []float64, best int, ev *evaluator) (map[string]any, error) {
	p := maps.Clone(members[0].Spec.Provenance)
	p["fitness"] = round(values[best]) // on the traces that decided
	for _, key := range counted {
		sum := 0
		for _, o := range members {
			sum += o.Spec.Provenance[key].(int) // joins has looked
		}
		p[key] = sum
	}
	var list []any
	for i := range positions {
		row := map[string]any{"fitness": round(values[i])}
		if i < len(members) {
			row["digest"], row["seed"] = members[i].Digest(), members[i].Spec.Provenance["seed"]
			if earlier, ok := members[i].Spec.Provenance["joined"].(map[string]any); ok {
				row["joined"] = earlier["policies"]
			}
		} else {
			row["mean"] = true
		}
		if i == best {
			row["chosen"] = true
		}
		list = append(list, row)
	}
	settings, err := ev.settings(ev.sp)
	if err != nil {
		return nil, err
	}
	var traces []any
	for _, t := range settings.Traces {
		traces = append(traces, map[string]any{"name": t.Name, "trace": t.Trace})
	}
	p["joined"] = map[string]any{"policies": list, "traces": traces}
	return p, nil
}
