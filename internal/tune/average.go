package tune

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// averages reports a method whose trainings are averaged: weighted sums without parameters, in an open
// fleet whose items leave. The result of training on a few hours is mostly luck, and the luck of one
// training is not that of another.
func (r *run) averages(m method) bool {
	return !r.fixed() && !fillUps(r.traces) && m.model == "linear" && m.features != nil && !slices.ContainsFunc(m.features, func(name string) bool {
		_, ok := policy.ModelOf(m.model).Parameter(name)
		return ok
	})
}

// average trains a method, once from each start, and averages the results and the shipped files that
// the method can express.
func (r *run) average(ctx context.Context, m method, starts []*policy.Object) (*candidate, error) {
	var members []*policy.Object
	for i, start := range starts {
		object, err := r.learn(ctx, m, r.cfg.Seed+uint64(i), start)
		if err != nil {
			return nil, err
		}
		members = append(members, object)
	}
	c := candidate{name: m.String() + ", average", kind: trained, object: mean(m, slices.Concat(members, m.files()))}
	var err error
	c.policy, err = c.object.Policy()
	return &c, err
}

// mean is the policy with the mean of the weights of some, each first scaled to a length of 1. It has
// the provenance of the first, and the digests of all.
func mean(m method, all []*policy.Object) *policy.Object {
	o := *all[0]
	o.Spec.Features, o.Spec.Weights = m.features, make([]float64, len(m.features))
	o.Spec.Provenance = maps.Clone(o.Spec.Provenance)
	var of []any
	for _, member := range all {
		of = append(of, member.Digest())
		length := 0.
		for _, w := range member.Spec.Weights {
			length = math.Hypot(length, w)
		}
		for i, name := range member.Spec.Features {
			o.Spec.Weights[slices.Index(m.features, name)] += member.Spec.Weights[i] / max(length, 1e-9) / float64(len(all))
		}
	}
	for i := range o.Spec.Weights {
		o.Spec.Weights[i] = round(o.Spec.Weights[i])
	}
	o.Spec.Provenance["average"] = of
	return &o
}
