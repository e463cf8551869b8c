package explain

import (
	"fmt"
	"os"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

// A Sizing explains why a workload was sized, or left as it is.
type Sizing struct {
	Object string    `json:"object"`
	From   string    `json:"from"` // file and line, or cluster
	Time   time.Time `json:"time,omitzero"`
	Agent  string    `json:"agent"` // in charge
	Off    bool      `json:"off"`   // recommends only
	// The observation.
	Observed sizingObserved `json:"observed"`
	// Source is the agent that recommended, Recommended its recommendation and Because
	// the reason. A cluster's status has only Wanted, the recommendation after the
	// guards.
	Source      string       `json:"source,omitempty"`
	Recommended *sizingState `json:"recommended,omitempty"`
	Because     string       `json:"because,omitempty"`
	Wanted      *sizingState `json:"wanted,omitempty"`
	// Learning is set where a policy passes through its phases.
	Learning *sizingLearning `json:"learning,omitempty"`
	Guards   []string        `json:"guards"`
	// Action: hold, scale or resize; its target To, and the reason.
	Action string       `json:"action"`
	To     *sizingState `json:"to,omitempty"`
	Reason string       `json:"reason"`
	// Last is the last change if the decision is to hold. Outcomes are those of the action
	// or of Last.
	Last     *sizingChange     `json:"last,omitempty"`
	Outcomes []journal.Outcome `json:"outcomes"`
	// Conditions of the object that are not as they should be.
	Conditions []string `json:"conditions,omitempty"`
}

type sizingObserved struct {
	Replicas   int32          `json:"replicas"`
	Ready      int32          `json:"ready"`
	Containers []containerUse `json:"containers,omitempty"`
	Rate       *float64       `json:"requests_per_second,omitempty"`
	Throughput *float64       `json:"answers_per_second,omitempty"`
	Latency    *float64       `json:"latency_seconds,omitempty"`
	Percentile float64        `json:"slo_percentile,omitempty"`
	Promised   float64        `json:"slo_latency_seconds,omitempty"`
}

// A containerUse is the mean use of one container over the pods with usage.
type containerUse struct {
	Name       string        `json:"name"`
	Pods       int           `json:"pods"` // with usage
	Use        mpa.Resources `json:"use"`
	Request    mpa.Resources `json:"request"`
	AgeSeconds float64       `json:"age_seconds"` // of the newest
}

type sizingState struct {
	Replicas   int32            `json:"replicas,omitempty"`
	Containers []sizedContainer `json:"containers,omitempty"`
	Limit      int32            `json:"limit,omitempty"` // requests at once in a pod
}

type sizedContainer struct {
	Name string `json:"name"`
	mpa.Resources
}

type sizingChange struct {
	Time   time.Time    `json:"time"`
	To     *sizingState `json:"to"`
	Reason string       `json:"reason"`
}

// SizingLogged explains the last decision in a journal up to a time; the zero time means
// the last of all. With change, it explains the last of these that changed something.
func SizingLogged(path string, until time.Time, change bool) (*Sizing, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	var setup, decider *journal.Setup
	var found, last *journal.Decided
	var verdict, judged *mpa.Verdict
	var outcomes []journal.Outcome
	line := 0
	r := journal.NewReader(path, file)
	for record, err := range r.Records() {
		if err != nil {
			return nil, err
		}
		switch {
		case record.Start != nil:
			if next := &record.Start.Setup; setup != nil && setup.Agent != next.Agent {
				verdict = nil // it was of another policy
			}
			setup = &record.Start.Setup
		case record.Outcome != nil:
			if last != nil && record.Outcome.Decided.Equal(last.Decision.Time) {
				outcomes = append(outcomes, *record.Outcome)
			}
		case !until.IsZero() && record.Decision.Decision.Time.After(until):
		default:
			if l := record.Decision.Decision.Recommended.Learning; l != nil && l.Verdict != nil {
				verdict = l.Verdict
			}
			if record.Decision.Decision.Action != nil {
				last, outcomes = record.Decision, nil
			} else if change {
				continue
			}
			found, decider, judged, line = record.Decision, setup, verdict, r.Line()
		}
	}
	if found == nil {
		what := "decision"
		if change {
			what = "change"
		}
		if !until.IsZero() {
			what += " up to " + until.Format(time.RFC3339Nano)
		}
		return nil, fmt.Errorf("%s has no %s", path, what)
	}
	e := ofDecided(decider, found)
	e.From = fmt.Sprintf("%s:%d", path, line)
	e.Learning = learningLogged(&decider.Target, found.Decision.Recommended.Learning, judged)
	e.Outcomes = append(e.Outcomes, outcomes...)
	if last != nil && last != found {
		e.Last = &sizingChange{last.Decision.Time, actionState(&decider.Target, last.Decision.Action), last.Decision.Reason}
	}
	return e, nil
}

func ofDecided(s *journal.Setup, found *journal.Decided) *Sizing {
	d := &found.Decision
	e := &Sizing{
		Object: s.Object, Time: d.Time, Agent: s.Agent.String(), Off: s.Target.Off, Observed: observedOf(&s.Target, &found.Observation),
		Source: d.Recommended.Source, Because: d.Recommended.Reason, Guards: append([]string{}, d.Guards...),
		Action: "hold", Reason: d.Reason, Outcomes: []journal.Outcome{},
	}
	if d.Recommended.Source != "" {
		e.Recommended = stateOf(&s.Target, d.Recommended.Replicas, d.Recommended.Containers)
	}
	if d.Wanted.Replicas != 0 {
		e.Wanted = stateOf(&s.Target, d.Wanted.Replicas, d.Wanted.Containers)
	}
	if d.Action != nil {
		e.To, e.Action = actionState(&s.Target, d.Action), "resize"
		switch {
		case d.Action.Limit != 0:
			e.Action = "limit"
		case d.Action.Replicas != 0:
			e.Action = "scale"
		}
	}
	return e
}

func actionState(t *mpa.Target, a *mpa.Action) *sizingState {
	s := stateOf(t, a.Replicas, a.Containers)
	s.Limit = a.Limit
	return s
}

func stateOf(t *mpa.Target, replicas int32, sizes []mpa.Resources) *sizingState {
	s := &sizingState{Replicas: replicas}
	for i, r := range sizes {
		if i < len(t.Containers) && r != (mpa.Resources{}) {
			s.Containers = append(s.Containers, sizedContainer{t.Containers[i].Name, r})
		}
	}
	return s
}

func observedOf(t *mpa.Target, o *mpa.Observation) sizingObserved {
	seen := sizingObserved{Replicas: o.Replicas, Percentile: t.SLO.Percentile, Promised: t.SLO.Latency}
	number := func(m mpa.Metric) *float64 {
		if m.Time.IsZero() || m.Value-m.Value != 0 { // absent, NaN or infinite
			return nil
		}
		return &m.Value
	}
	seen.Rate, seen.Throughput, seen.Latency = number(o.Rate), number(o.Throughput), number(o.Latency)
	for _, spec := range t.Containers {
		use := containerUse{Name: spec.Name}
		var newest time.Time
		for _, p := range o.Pods {
			for _, k := range p.Containers {
				if k.Name != spec.Name || p.Deleting || p.Phase == mpa.Ended {
					continue
				}
				use.Request = k.Request
				if !k.Usage.Time.IsZero() {
					use.Pods++
					use.Use = use.Use.Add(k.Usage.Resources)
					if k.Usage.Time.After(newest) {
						newest = k.Usage.Time
					}
				}
			}
		}
		if use.Pods > 0 {
			use.Use.CPU /= int64(use.Pods)
			use.Use.Memory /= int64(use.Pods)
			use.AgeSeconds = o.Time.Sub(newest).Seconds()
		}
		seen.Containers = append(seen.Containers, use)
	}
	for _, p := range o.Pods {
		if p.Ready && !p.Deleting && p.Phase == mpa.Running {
			seen.Ready++
		}
	}
	return seen
}
