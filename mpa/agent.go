package mpa

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// An Agent says how many replicas of what size a workload should have. It may
// remember what it saw: it is asked once for each observation, in order of time.
type Agent interface {
	Recommend(o *Observation) Recommendation
}

// A Recommendation is what an agent would like, before any guard.
type Recommendation struct {
	// Replicas wanted; 0 = no opinion.
	Replicas int32 `json:"replicas,omitempty"`
	// Containers are the requests wanted, in the order of the spec's containers;
	// nil = no opinion, as is a resource of 0.
	Containers []Resources `json:"containers,omitempty"`
	// Source is the agent, or the part of it, that speaks.
	Source string `json:"source"`
	// Reason why, or why not, in a few words.
	Reason string `json:"reason"`
}

// A Target is what a workload promises and what it may have.
type Target struct {
	SLO        SLO             `json:"slo"`
	Replicas   Range           `json:"replicas"`
	Containers []ContainerSpec `json:"containers"`
	// Stabilisation is how long fewer replicas have to be enough before there are
	// fewer; 0 = what the agent takes by itself.
	Stabilisation time.Duration `json:"stabilisationNanoseconds,omitempty"`
	// Off says what would be done, and does nothing.
	Off bool `json:"off,omitempty"`
}

// An SLO is what the workload promises. A zero part promises nothing.
type SLO struct {
	// Percentile of latency, 0 … 100, and what it has to stay below, in seconds.
	Percentile float64 `json:"percentile,omitempty"`
	Latency    float64 `json:"latency,omitempty"`
	// Throughput in requests per second that has to be answered while it is asked for.
	Throughput float64 `json:"throughput,omitempty"`
}

// A Range of replicas, both ends included.
type Range struct {
	Min int32 `json:"min"`
	Max int32 `json:"max"`
}

// Clamp is the nearest number in the range.
func (r Range) Clamp(n int32) int32 { return min(r.Max, max(r.Min, n)) }

// A ContainerSpec is what one container may have.
type ContainerSpec struct {
	Name string `json:"name"`
	// Min and Max of its requests; a Max of 0 has no limit.
	Min Resources `json:"min"`
	Max Resources `json:"max"`
	// CPU and Memory say which requests may be changed.
	CPU    bool `json:"cpu"`
	Memory bool `json:"memory"`
}

// Clamp is the nearest size within the bounds.
func (c ContainerSpec) Clamp(r Resources) Resources {
	r = r.Max(c.Min)
	if c.Max.CPU > 0 {
		r.CPU = min(r.CPU, c.Max.CPU)
	}
	if c.Max.Memory > 0 {
		r.Memory = min(r.Memory, c.Max.Memory)
	}
	return r
}

// Validate reports the first thing that is wrong with a target.
func (t *Target) Validate() error {
	switch s := t.SLO; {
	case !(s.Percentile >= 0 && s.Percentile < 100):
		return fmt.Errorf("slo.percentile %v: want 0 to below 100", s.Percentile)
	case !(s.Latency >= 0) || !(s.Throughput >= 0):
		return fmt.Errorf("slo.latency %v, slo.throughput %v: want at least 0", s.Latency, s.Throughput)
	case (s.Percentile > 0) != (s.Latency > 0):
		return fmt.Errorf("slo: percentile and latency go together")
	}
	if r := t.Replicas; r.Min < 1 || r.Max < r.Min {
		return fmt.Errorf("replicas %d … %d: want 1 ≤ min ≤ max", r.Min, r.Max)
	}
	if t.Stabilisation < 0 {
		return fmt.Errorf("stabilisation %v: want at least 0", t.Stabilisation)
	}
	for i, c := range t.Containers {
		switch {
		case c.Name == "":
			return fmt.Errorf("containers[%d].name is empty", i)
		case slices.ContainsFunc(t.Containers[:i], func(o ContainerSpec) bool { return o.Name == c.Name }):
			return fmt.Errorf("containers[%d].name %q is listed twice", i, c.Name)
		case c.Min.CPU < 0 || c.Min.Memory < 0:
			return fmt.Errorf("containers[%d].min is negative", i)
		case c.Max.CPU != 0 && c.Max.CPU < c.Min.CPU || c.Max.Memory != 0 && c.Max.Memory < c.Min.Memory:
			return fmt.Errorf("containers[%d].max is below its min", i)
		}
	}
	return nil
}

// agents by name, in the order that a comparison lists them.
var agents = []namedAgent{
	{"static", func(Target) (Agent, error) { return Static{}, nil }},
	{"hpa", func(t Target) (Agent, error) { return NewHPA(t, DefaultHPA()), nil }},
	{"hpa-70", func(t Target) (Agent, error) { return NewHPA(t, DefaultHPA().At(70)), nil }},
	{"hpa-50", func(t Target) (Agent, error) { return NewHPA(t, DefaultHPA().At(50)), nil }},
	{"vpa", func(t Target) (Agent, error) { return NewVPA(t, DefaultVPA()), nil }},
	{"hpa+vpa", func(t Target) (Agent, error) { return NewPair(t), nil }},
	{"hpa-cpu+vpa-cpu", func(t Target) (Agent, error) { return NewBadPair(t), nil }},
	{"autopilot", func(t Target) (Agent, error) { return NewAutopilot(t), nil }},
	{"predictive", func(t Target) (Agent, error) { return NewPredictive(t), nil }},
}

type namedAgent struct {
	name string
	make func(t Target) (Agent, error)
}

// Register adds an agent for [NewAgent] and [Agents] to know. It is called before
// either, from one goroutine, and panics when the name is taken.
func Register(name string, newAgent func(t Target) (Agent, error)) {
	if name == "" || slices.Contains(Agents(), name) {
		panic(fmt.Sprintf("mpa: there is an agent %q already", name))
	}
	agents = append(agents, namedAgent{name, newAgent})
}

// Agents lists the names that [NewAgent] takes.
func Agents() []string {
	names := make([]string, len(agents))
	for i, a := range agents {
		names[i] = a.name
	}
	return names
}

// NewAgent makes an agent with its defaults, by name.
func NewAgent(name string, t Target) (Agent, error) {
	for _, a := range agents {
		if a.name == name {
			return a.make(t)
		}
	}
	return nil, fmt.Errorf("unknown agent %q: there are %s", name, strings.Join(Agents(), ", "))
}

// A Fallback is two agents: the second decides once the first has had no opinion for
// some time. Both see everything, so that the second has learned when its turn comes.
type Fallback struct {
	First, Second Agent
	After         time.Duration
	spoke         time.Time // when First last had an opinion, or was first asked
	second        bool
}

// Active reports whether the last answer was the second's.
func (f *Fallback) Active() bool { return f.second }

// Recommend implements [Agent]. The source is that of the agent that speaks.
func (f *Fallback) Recommend(o *Observation) Recommendation {
	r, other := f.First.Recommend(o), f.Second.Recommend(o)
	if f.spoke.IsZero() || r.Replicas != 0 || r.Containers != nil {
		f.spoke = o.Time
	}
	silent := o.Time.Sub(f.spoke)
	if f.second = silent > 0 && silent >= f.After; f.second {
		other.Reason = fmt.Sprintf("%s has had no opinion for %v (%s): %s", r.Source, silent, r.Reason, other.Reason)
		return other
	}
	return r
}

// Static leaves everything as it is.
type Static struct{}

// Recommend implements [Agent].
func (Static) Recommend(*Observation) Recommendation {
	return Recommendation{Source: "static", Reason: "static sizes are never changed"}
}

// noOpinion is the answer of an agent that cannot tell.
func noOpinion(source, format string, args ...any) Recommendation {
	return Recommendation{Source: source, Reason: fmt.Sprintf(format, args...)}
}

// A timed value is one of a window.
type timed[T any] struct {
	time  time.Time
	value T
}

// since drops what is not after a time.
func since[T any](list []timed[T], t time.Time) []timed[T] {
	return slices.DeleteFunc(list, func(v timed[T]) bool { return !v.time.After(t) })
}
