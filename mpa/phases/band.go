package phases

import (
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/mpa"
)

const (
	// band is by how much of the rules' capacity a candidate may differ in OnlineTraining.
	band = .5
	// mostWork × the work is the largest capacity that rules can impose on a candidate: rules
	// may request ever more pods that do not help. It is a little below the 1.6 that no agent
	// may exceed, since the work is an estimate.
	mostWork = 1.5
)

// banded bounds a candidate's recommendation to the band around the capacity by the rules. If
// the rules have no opinion, the present capacity counts, and nothing shrinks. Memory is only
// bounded from below: less than the candidate's request kills. work is the cores that the
// load needs, 0 = unknown.
func banded(o *mpa.Observation, t *mpa.Target, candidate, rules mpa.Recommendation, work float64) mpa.Recommendation {
	requests := o.Requests(t)
	if requests == nil || !opinion(&candidate) {
		return candidate
	}
	wanted, around := stateOf(o, t, requests, &candidate), stateOf(o, t, requests, &rules)
	least := 1 - band
	if !opinion(&rules) {
		least = 1
	}
	if work > 0 && around.cores() > 0 {
		least = min(least, mostWork*work/around.cores())
	}
	before := wanted.Replicas
	low, high := least*around.cores(), (1+band)*around.cores()
	if each := wanted.cores() / float64(wanted.Replicas); each > 0 {
		switch c := wanted.cores(); {
		case c < low:
			// Pods get more before they get smaller, so it is the larger size that counts.
			now := shape{1, requests}
			enough := t.Replicas.Clamp(int32(min(1e6, math.Ceil(low/max(each, now.cores())))))
			wanted.Replicas = max(wanted.Replicas, enough)
		case c > high:
			wanted.Replicas = t.Replicas.Clamp(max(1, int32(min(1e6, math.Floor(high/each)))))
		}
	}
	changed := wanted.Replicas != before
	bound := func(amount func(*mpa.Resources) *int64, most float64) {
		is, rule := wanted.total(amount), around.total(amount)
		to := min(most*rule, max(least*rule, is))
		if is == 0 || to == is {
			return
		}
		changed = true
		for i := range wanted.sizes {
			v := amount(&wanted.sizes[i])
			*v = mpa.Amount(math.Round(float64(*v) * to / is))
		}
	}
	bound(cpu, 1+band)
	bound(memory, math.Inf(1))
	if !changed {
		return candidate
	}
	out := candidate
	out.Replicas, out.Containers = wanted.Replicas, wanted.sizes
	out.Reason = fmt.Sprintf("%s; bounded to %d %% to %d %% of the %.3g cores that %s wants",
		candidate.Reason, int(100*least), int(100*(1+band)), around.cores(), rules.Source)
	return out
}

// A shape is the state that a recommendation leads to.
type shape struct {
	Replicas int32
	sizes    []mpa.Resources
}

func stateOf(o *mpa.Observation, t *mpa.Target, requests []mpa.Resources, r *mpa.Recommendation) shape {
	s := shape{t.Replicas.Clamp(o.Replicas), slices.Clone(requests)}
	if r.Replicas != 0 {
		s.Replicas = t.Replicas.Clamp(r.Replicas)
	}
	for i := range min(len(r.Containers), len(s.sizes)) {
		if c := r.Containers[i].CPU; c != 0 {
			s.sizes[i].CPU = c
		}
		if m := r.Containers[i].Memory; m != 0 {
			s.sizes[i].Memory = m
		}
	}
	return s
}

// total returns an amount over all pods.
func (s *shape) total(amount func(*mpa.Resources) *int64) float64 {
	sum := 0.0
	for i := range s.sizes {
		sum += float64(*amount(&s.sizes[i]))
	}
	return sum * float64(s.Replicas)
}

func (s *shape) cores() float64 { return s.total(cpu) / 1000 }

func cpu(r *mpa.Resources) *int64    { return &r.CPU }
func memory(r *mpa.Resources) *int64 { return &r.Memory }
