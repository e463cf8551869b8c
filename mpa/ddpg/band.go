package ddpg

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
)

const (
	// bandShare is the reach of a band: the capacity of the pods together is at least half
	// and at most one and a half times that by the rules, and so is the size of a pod.
	bandShare = .5
	// calm is the share of the promised latency above which the candidate may not have less
	// than the rules.
	calm = .6
)

// A Band lets a candidate act within a band around the rules. The rules' memory of a pod is
// the least that the candidate's have: a killed pod is useless.
type Band struct {
	candidate, rules mpa.Agent
	target           mpa.Target
	edges            edges
}

// edges bound a candidate in addition to the present recommendation of the rules.
type edges struct {
	// First is the first size of the pods, which rules that do not size cpu keep; with the
	// candidate's present size their least replicas would be another capacity.
	First []mpa.Resources `json:"first,omitempty"`
}

// NewBand bounds a candidate by rules. Both see all observations.
func NewBand(t mpa.Target, candidate, rules mpa.Agent) *Band {
	return &Band{candidate: candidate, rules: rules, target: t}
}

// Recommend implements [mpa.Agent]. The rules recommend where the candidate has no
// opinion.
func (b *Band) Recommend(o *mpa.Observation) mpa.Recommendation {
	r, rules := b.candidate.Recommend(o), b.rules.Recommend(o)
	if r.Replicas == 0 || r.Containers == nil {
		return rules
	}
	return b.edges.bound(r, rules, o, &b.target)
}

// bound returns the nearest recommendation within the band.
func (e *edges) bound(r, rules mpa.Recommendation, o *mpa.Observation, t *mpa.Target) mpa.Recommendation {
	rules = complete(rules, o, t)
	if e.First == nil {
		e.First = o.Requests(t)
	}
	low := 1 - bandShare
	if o.Latency.Known(o.Time, maxAge) && o.Latency.Value > calm*t.SLO.Latency {
		low = 1
	}
	return within(r, rules, low, total(e.First).CPU, t)
}

// complete fills in the parts that rules leave unchanged; without pods it may leave sizes
// out.
func complete(r mpa.Recommendation, o *mpa.Observation, t *mpa.Target) mpa.Recommendation {
	if r.Replicas == 0 {
		r.Replicas = max(1, o.Replicas)
	}
	now := o.Requests(t)
	if r.Containers == nil {
		r.Containers = now
	}
	r.Containers = slices.Clone(r.Containers)
	for i := range r.Containers {
		if r.Containers[i].CPU == 0 && now != nil {
			r.Containers[i].CPU = now[i].CPU
		}
		if r.Containers[i].Memory == 0 && now != nil {
			r.Containers[i].Memory = now[i].Memory
		}
	}
	return r
}

// within bounds first the cpu of a pod, then the replicas, then the cpu again if whole
// pods do not meet the edges. low is the lower edge ÷ the capacity by the rules, first the cpu
// that pods had at first, in millicores.
func within(r, rules mpa.Recommendation, low float64, first int64, t *mpa.Target) mpa.Recommendation {
	if len(rules.Containers) != len(r.Containers) {
		return rules
	}
	size := float64(total(rules.Containers).CPU)
	whole := float64(rules.Replicas) * size
	if rules.Replicas <= t.Replicas.Min {
		whole = min(whole, float64(rules.Replicas)*float64(first))
	}
	least, greatest := low*whole, (1+bandShare)*whole
	wanted := float64(total(r.Containers).CPU)
	each := max((1-bandShare)*float64(first), min((1+bandShare)*float64(first), wanted))
	n := r.Replicas
	if float64(n)*each > greatest {
		n = max(t.Replicas.Min, int32(math.Floor(greatest/each)))
	} else if float64(n)*each < least {
		n = t.Replicas.Clamp(int32(min(1e6, math.Ceil(least/each))))
	}
	factor := max(least, min(greatest, float64(n)*each)) / (float64(n) * wanted)
	if n != r.Replicas || factor != 1 {
		r.Reason = fmt.Sprintf("%s, within the band of %s: %d replicas", r.Reason, rules.Source, rules.Replicas)
	}
	r.Replicas, r.Containers = n, slices.Clone(r.Containers)
	for i := range r.Containers {
		c := &r.Containers[i]
		c.CPU = max(1, mpa.Scale(c.CPU, factor))
		c.Memory = max(rules.Containers[i].Memory, min(c.Memory, mpa.Scale(rules.Containers[i].Memory, 1+bandShare)))
	}
	return r
}

// Shift implements [mpa.Shifter].
func (b *Band) Shift(d time.Duration) {
	mpa.Shift(b.candidate, d)
	mpa.Shift(b.rules, d)
}

// bandJSON is the state of a band.
type bandJSON struct {
	Candidate mpa.Agent `json:"candidate"`
	Rules     mpa.Agent `json:"rules"`
	Edges     *edges    `json:"edges"`
}

// MarshalJSON implements [mpa.Stateful].
func (b *Band) MarshalJSON() ([]byte, error) {
	return json.Marshal(bandJSON{b.candidate, b.rules, &b.edges})
}

// UnmarshalJSON implements [mpa.Stateful].
func (b *Band) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &bandJSON{b.candidate, b.rules, &b.edges})
}
