package knative

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// A Stage is the progress of a live Revision towards a learned target.
type Stage string

// The stages.
const (
	// Measuring: the Revision is measured as it is.
	Measuring Stage = "Measuring"
	// Writing: the Revision gets the target.
	Writing Stage = "Writing"
	// Trying: it has the target, and is measured again.
	Trying Stage = "Trying"
	// Kept: it does no worse with it.
	Kept Stage = "Kept"
	// Back: the former values return, or have returned.
	Back Stage = "Back"
)

// lateWrite is the longest time for which a former leader may still write an earlier
// decision.
const lateWrite = 2 * time.Minute

// scaling are the annotations of a Revision that may change while it lives.
var scaling = annotations[1:]

// Target holds the desired annotations of a live Revision. A stage is the desired state, not
// the last action: each step compares it with the Revision, so the next process continues
// with it.
type Target struct {
	Stage    Stage     `json:"stage"`
	Since    time.Time `json:"since"`
	Revision string    `json:"revision"`
	Limit    int64     `json:"limit"`
	// Rate of ours that the Revision has had before; 0 = no rate. Tried is the one to try.
	Rate  float64 `json:"rate,omitempty"`
	Tried float64 `json:"tried"`
	// Before are the annotations that the Revision was made with, of a template of that Base.
	Before map[string]string `json:"before,omitempty"`
	Base   string            `json:"base"`
	// Demand of a request when it began, in core-seconds.
	Demand float64 `json:"demand,omitempty"`
	// Was is the measurement of the Revision before.
	Was *v1alpha1.Arm `json:"was,omitempty"`
	// Settled: the Revision was seen in the state of the stage. Later changes are others'.
	Settled bool `json:"settled,omitempty"`
	// Few: it had too few requests to begin with, and the pause after it is longer.
	Few    bool   `json:"few,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Trying reports whether a target is under way, so that no canary begins.
func (s *State) Trying() bool {
	return s.Target != nil && slices.Contains([]Stage{Measuring, Writing, Trying}, s.Target.Stage)
}

// Measured returns the Revision whose requests are counted for a target, and since when; "" =
// no Revision.
func (s *State) Measured() (revision string, since time.Time) {
	if !s.UnderWay() && s.Target != nil && (s.Target.Stage == Measuring || s.Target.Stage == Trying) {
		return s.Target.Revision, s.Target.Since
	}
	return "", time.Time{}
}

// ours returns the annotations that scale by a rate.
func (g *Target) ours(rate float64) map[string]string {
	return scalingOf(Setting{g.Limit, rate}.Fields())
}

func scalingOf(f Fields) map[string]string {
	values := map[string]string{}
	for _, name := range scaling {
		if value, ok := f.Annotations[name]; ok {
			values[name] = value
		}
	}
	return values
}

// want returns the desired annotations of the Revision.
func (g *Target) want() map[string]string {
	switch {
	case g.Stage == Writing || g.Stage == Trying:
		return g.ours(g.Tried)
	case g.Stage != Back && g.Rate > 0:
		return g.ours(g.Rate)
	}
	return g.Before
}

// known reports whether the annotations are some of ours or, if former, those of before.
func (g *Target) known(has map[string]string, former bool) bool {
	return maps.Equal(has, g.ours(g.Tried)) || g.Rate > 0 && maps.Equal(has, g.ours(g.Rate)) || former && maps.Equal(has, g.Before)
}

// others reports whether another writer has changed the annotations.
func (g *Target) others(has map[string]string) bool {
	return g.Settled && !maps.Equal(has, g.want()) || !g.known(has, g.Rate == 0)
}

// patch returns the change of annotations of a Revision; nil removes one.
func (g *Target) patch(has map[string]string) map[string]any {
	values := map[string]any{}
	want := g.want()
	for _, name := range scaling {
		if value, ok := want[name]; ok {
			values[name] = value
		} else if _, had := has[name]; had {
			values[name] = nil
		}
	}
	return values
}

// made returns the fields that a Revision was made with, where a target of it was kept.
func (s *State) made(r Revision) Fields {
	g, f := s.Target, r.Fields
	if g == nil || g.Stage != Kept || g.Revision != r.Name {
		return f
	}
	out := Fields{Limit: f.Limit, Annotations: maps.Clone(g.Before)}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	if value, ok := f.Annotations[class]; ok {
		out.Annotations[class] = value
	}
	return out
}

// retarget begins to try a target on the Revision that serves: first it is measured as it is.
func retarget(s State, seen *Seen, limit int64) Action {
	v, l := &seen.Service, seen.Learned
	g := &Target{Revision: v.Ready.Name, Limit: limit, Tried: l.Rate, Before: scalingOf(v.Fields), Base: v.Base, Demand: l.Demand}
	if s.Target != nil && s.Target.Stage == Kept {
		g.Rate = s.Target.Rate
	}
	s.Object, s.UID, s.Target = seen.Object, seen.UID, g
	s.Phase = cmp.Or(s.Phase, Observing)
	return become(s, Measuring, seen.Now, fmt.Sprintf("Revision %s is measured before it gets the target %s", g.Revision, l.Target()))
}

// become returns the action that writes a new desired stage.
func become(s State, stage Stage, now time.Time, why string) Action {
	g := *s.Target
	g.Stage, g.Since, g.Reason = stage, now, why
	g.Settled, g.Few = maps.Equal(s.Target.want(), g.want()), false
	s.Target = &g
	return Action{Write: true, State: s, Stage: stage, Reason: why}
}

// retargeting advances the target of a live Revision; false = nothing to do for it.
func retargeting(t Timing, s State, seen *Seen) (Action, bool) {
	g, r := s.Target, seen.Target
	if g == nil {
		return Action{}, false
	}
	if g.Stage == Back && r == nil {
		return Action{}, false
	}
	if g.Stage != Back {
		if why := ended(s, seen); why != "" {
			return become(s, Back, seen.Now, why), true
		}
	}
	has := scalingOf(r.Fields)
	if g.Stage != Back && g.others(has) {
		return g.theirs(s, seen, has), true
	}
	written := maps.Equal(has, g.want())
	age := seen.Now.Sub(g.Since).Abs()
	switch {
	case g.Stage == Writing && written:
		return become(s, Trying, seen.Now, fmt.Sprintf("Revision %s has the target %s", g.Revision, Setting{g.Limit, g.Tried}.Target())), true
	case g.Stage == Writing && age >= t.Ready:
		return become(s, Back, seen.Now, fmt.Sprintf("Revision %s could not be written within %v", g.Revision, t.Ready)), true
	case g.Stage == Measuring || g.Stage == Trying:
		return compare(t, s, seen), true
	case written || g.Stage == Back && (g.Settled || !g.known(has, false)): // values set by others stay
		return Action{}, false
	}
	return Action{State: s, Patch: g.patch(has), Stage: g.Stage, Reason: g.Reason}, true
}

// settle records that the Revision was seen in the state of the last stage, once nobody can
// write late any more.
func settle(s State, seen *Seen) (Action, bool) {
	if s.Target == nil || s.Target.Settled || s.Trying() || seen.Target == nil || seen.Now.Sub(s.Target.Since).Abs() < lateWrite {
		return Action{}, false
	}
	g := *s.Target
	g.Settled = true
	s.Target = &g
	return Action{Write: true, Quiet: true, State: s, Stage: g.Stage, Reason: g.Reason}, true
}

// ended returns the reason to reset the Revision of a target; empty = no reason.
func ended(s State, seen *Seen) string {
	g, v := s.Target, &seen.Service
	switch {
	case seen.Target == nil:
		return fmt.Sprintf("Revision %s is gone", g.Revision)
	case seen.Off != "" && (!seen.Passing || s.Trying()):
		return seen.Off
	case v.Base != g.Base || v.Created.Name != g.Revision || v.Ready.Name != g.Revision:
		return fmt.Sprintf("Revision %s is not that of the present template", g.Revision)
	}
	if a, no := refusal(s, seen); no && s.Trying() {
		return a.Reason
	}
	return ""
}

// compare decides by the measurements of the Revision now and before.
func compare(t Timing, s State, seen *Seen) Action {
	g, trial := s.Target, seen.Trial
	age := seen.Now.Sub(g.Since).Abs()
	measured := g.Since
	of := trial != nil && trial.Canary.Revision == g.Revision && trial.Stable.Revision == g.Revision && !trial.Since.Time.Before(g.Since.Truncate(time.Microsecond))
	if of {
		measured = trial.Time.Time
	}
	if blind := seen.Now.Sub(measured); !of || blind.Abs() > seen.MaxAge {
		if -blind > t.Ready+seen.MaxAge {
			a := g.worse(s, seen, wentBack(blind))
			a.State.Worse = s.Worse // it is not to blame
			return a
		}
		if blind > t.Ready+seen.MaxAge || age >= t.Longest {
			return g.worse(s, seen, fmt.Sprintf("nothing has measured it for %v", min(max(blind, 0), age).Round(time.Second)))
		}
		return hold(s, "Revision %s is not measured at present", g.Revision)
	}
	long := trial.Time.Sub(trial.Since.Time) >= t.Least
	if g.Stage == Measuring {
		switch {
		case long && trial.Canary.Requests >= leastRequests:
			a := become(s, Writing, seen.Now, fmt.Sprintf("Revision %s gets the target %s", g.Revision, Setting{g.Limit, g.Tried}.Target()))
			a.State.Target.Was = &trial.Canary
			return a
		case age >= t.Longest:
			a := g.worse(s, seen, fmt.Sprintf("too few requests within %v to tell", t.Longest))
			a.State.Target.Few = true
			return a
		}
		return hold(s, "%s", g.Reason)
	}
	was := *g.Was
	was.Revision += " before"
	verdict, why := Judge(&v1alpha1.Trial{Stable: was, Canary: trial.Canary})
	switch {
	case verdict == Losing || verdict == WorseThan && long:
		return g.worse(s, seen, why)
	case (verdict == Better || verdict == Level) && long:
		a := become(s, Kept, seen.Now, why)
		a.State.Target.Rate, a.State.Target.Was, a.State.Target.Settled = g.Tried, nil, true
		return a
	case age >= t.Longest:
		return g.worse(s, seen, fmt.Sprintf("not judged within %v: %s", t.Longest, why))
	}
	return hold(s, "%s, and is compared with what it did before", g.Reason)
}

// worse resets the Revision to its former target, and remembers one that was tried.
func (g *Target) worse(s State, seen *Seen, why string) Action {
	if g.Stage == Trying {
		s.Worse = g.remember(s, seen, g.Tried, why)
	}
	stage := Back
	if g.Rate > 0 {
		stage = Kept
	}
	a := become(s, stage, seen.Now, why)
	a.State.Target.Was = nil
	return a
}

// remember adds a rate to the settings that were taken back.
func (g *Target) remember(s State, seen *Seen, rate float64, why string) []Worse {
	return keep(s.Worse, Worse{Setting: Setting{g.Limit, rate}, Base: g.Base, Demand: g.Demand, Time: seen.Now, Reason: why})
}

// theirs leaves the Revision as others have changed it, and remembers the values that they
// took back.
func (g *Target) theirs(s State, seen *Seen, has map[string]string) Action {
	why := fmt.Sprintf("others have changed metric or target of Revision %s", g.Revision)
	stage := Back
	if g.Rate > 0 && maps.Equal(has, g.ours(g.Rate)) {
		stage = Kept
	}
	if g.Stage != Kept {
		s.Worse = g.remember(s, seen, g.Tried, why)
	}
	if g.Rate > 0 && stage == Back {
		s.Worse = g.remember(s, seen, g.Rate, why)
	}
	a := become(s, stage, seen.Now, why)
	a.State.Target.Was, a.State.Target.Settled = nil, true
	return a
}
