package knative

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// Annotation of a Service has the [State], and a label of the same name the name of the object that
// began it.
const Annotation = v1alpha1.GroupName + "/concurrency"

// A Phase is the progress of a Service towards the learned numbers.
type Phase string

// The phases.
const (
	// Observing: no change of ours is under way.
	Observing Phase = "Observing"
	// Canary: a Revision of ours gets a part of the requests.
	Canary Phase = "Canary"
	// Restoring: the former fields are back in the template, and the Revision of before has all
	// requests until one with them is ready.
	Restoring Phase = "Restoring"
	// Promoted and RolledBack: the end of the last canary.
	Promoted   Phase = "Promoted"
	RolledBack Phase = "RolledBack"
)

// Percent of the requests that a canary gets at first, and HalfPercent after it has done no
// harm: with a tenth, a pod has too little to do to show its capacity.
const (
	Percent     = 10
	HalfPercent = 50
)

// State is the memory of a Service. The zero value is that of a Service that was never
// written.
type State struct {
	// Object and UID of the MultidimPodAutoscaler.
	Object string `json:"object"`
	UID    string `json:"uid"`
	Phase  Phase  `json:"phase"`
	// Since is the begin of the phase.
	Since time.Time `json:"since"`
	// Half: the canary has half of the requests.
	Half bool `json:"half,omitempty"`
	// Stable is the Revision that had all requests before.
	Stable string `json:"stable,omitempty"`
	// Ours is the written setting, and Before the former fields, on a template of that Base.
	Ours   Setting `json:"ours"`
	Before Fields  `json:"before"`
	// Promoted is the setting promoted last, until its owner takes it back.
	Promoted *Setting `json:"promoted,omitempty"`
	Base     string   `json:"base,omitempty"`
	// Demand of a request when it began, in core-seconds.
	Demand float64 `json:"demand,omitempty"`
	Reason string  `json:"reason,omitempty"`
	// Worse are settings that were taken back, the oldest first.
	Worse []Worse `json:"worse,omitempty"`
	// Target of a Revision that lives, last.
	Target *Target `json:"target,omitempty"`
}

// Worse is a setting that was taken back. It is not tried again on a template of the same base as long
// as a request takes about as much cpu.
type Worse struct {
	Setting
	Base   string    `json:"base"`
	Demand float64   `json:"demand,omitempty"`
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`
}

// mostWorse is the number that is remembered: an annotation is small.
const mostWorse = 8

// UnderWay reports whether something is written that has to be ended.
func (s *State) UnderWay() bool { return s.Phase == Canary || s.Phase == Restoring }

// ReadState reads an annotation; an empty one is the zero value.
func ReadState(text string) (State, error) {
	var s State
	if text == "" {
		return s, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return State{}, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	if !slices.Contains([]Phase{Observing, Canary, Restoring, Promoted, RolledBack}, s.Phase) {
		return State{}, fmt.Errorf("annotation %s: phase %q", Annotation, s.Phase)
	}
	if s.UnderWay() && (s.Stable == "" || s.Base == "") {
		return State{}, fmt.Errorf("annotation %s: phase %s without stable and base", Annotation, s.Phase)
	}
	if g := s.Target; g != nil && (!slices.Contains([]Stage{Measuring, Writing, Trying, Kept, Back}, g.Stage) || g.Revision == "" || g.Stage == Trying && g.Was == nil) {
		return State{}, fmt.Errorf("annotation %s: target in stage %q", Annotation, g.Stage)
	}
	for _, setting := range s.settings() {
		if err := setting.Check(); err != nil {
			return State{}, fmt.Errorf("annotation %s: %w", Annotation, err)
		}
	}
	return s, nil
}

// settings returns those that may be written or reported.
func (s *State) settings() []Setting {
	var list []Setting
	if s.UnderWay() || s.Ours != (Setting{}) { // empty if only targets were tried
		list = append(list, s.Ours)
	}
	if s.Promoted != nil {
		list = append(list, *s.Promoted)
	}
	if g := s.Target; g != nil {
		list = append(list, Setting{g.Limit, g.Tried})
		if g.Stage == Kept || g.Rate != 0 {
			list = append(list, Setting{g.Limit, g.Rate})
		}
	}
	return list
}

// String returns the annotation.
func (s *State) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // Check excludes floats that JSON lacks
	}
	return string(text)
}

// Traffic is one entry of a Service's traffic.
type Traffic struct {
	// Revision by its name; empty = the latest that is ready.
	Revision string
	Percent  int64
	Tag      string
}

// all returns the traffic of a Service that does not specify it.
func all() []Traffic { return []Traffic{{Percent: 100}} }

func split(stable string, percent int64) []Traffic {
	return []Traffic{{Revision: stable, Percent: 100 - percent}, {Percent: percent}}
}

// Percent of the requests that the canary has.
func (s *State) Percent() int64 {
	if s.Half {
		return HalfPercent
	}
	return Percent
}

func only(stable string) []Traffic { return []Traffic{{Revision: stable, Percent: 100}} }

func show(list []Traffic) string {
	var parts []string
	for _, t := range list {
		name := t.Revision
		name = cmp.Or(name, "the latest")
		if t.Tag != "" {
			name += " as " + t.Tag
		}
		parts = append(parts, fmt.Sprintf("%d %% to %s", t.Percent, name))
	}
	return strings.Join(parts, ", ")
}

// A Revision of the Service.
type Revision struct {
	Name   string
	Fields Fields
	// Service that it is of, by its label.
	Service string
	// Failed is the reason that it is not ready; empty = it is, or may become so.
	Failed string
	// Version of the object: a patch is refused if it has another one by then.
	Version string
}

// Service is the observed state of one.
type Service struct {
	// Settled: its status is about its present spec, and its latest Revision is ready or has failed.
	Settled bool
	// Owner is the controller of the Service, as kind and name; empty = no controller.
	Owner string
	// Named is the name that the template gives its Revision; empty = Knative names it.
	Named string
	// Fields of its template, and Base, a digest of the rest.
	Fields  Fields
	Base    string
	Traffic []Traffic
	// Created is the latest Revision, and Ready the latest that was ready.
	Created, Ready Revision
}

// Learned is the load that a pod of the present Revision serves.
type Learned struct {
	Setting
	Demand float64 // core-seconds a request
}

// Seen is the input of a decision.
type Seen struct {
	Now time.Time
	// Object and UID that decide.
	Object, UID string
	// Off is the reason that nothing may be applied; empty = it may.
	Off string
	// Passing: Off is no decision of the owner, so a kept target stays.
	Passing bool
	// Least is the smallest limit that the object allows.
	Least int64
	// Learned; nil = nothing yet.
	Learned *Learned
	Service Service
	// Trial of the canary next to the present Revision; nil = no trial. One older than MaxAge
	// is stale.
	Trial  *v1alpha1.Trial
	MaxAge time.Duration
	// Target is the Revision of the state's target; nil = it does not exist. Both sides of a
	// trial of a target are this Revision.
	Target *Revision
}

// Timing of a canary.
type Timing struct {
	// Ready is the longest time for a Revision to become ready.
	Ready time.Duration
	// Least and Longest bound the time for which two Revisions are compared.
	Least, Longest time.Duration
	// Pause between one and the next.
	Pause time.Duration
}

// DefaultTiming is that of the program.
func DefaultTiming() Timing {
	return Timing{Ready: 10 * time.Minute, Least: 5 * time.Minute, Longest: time.Hour, Pause: 10 * time.Minute}
}

// Check returns an error that names the field.
func (t Timing) Check() error {
	switch {
	case t.Ready < time.Second || t.Ready > 24*time.Hour:
		return fmt.Errorf("ready: %v, want 1s to 24h", t.Ready)
	case t.Least < 0 || t.Longest < t.Least+time.Minute || t.Longest > 7*24*time.Hour: // the first minute does not count
		return fmt.Errorf("least: %v, longest: %v, want 0s or more, and a minute longer to 168h", t.Least, t.Longest)
	case t.Pause < 0:
		return errors.New("pause: want 0s or more")
	}
	return nil
}
