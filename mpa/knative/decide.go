package knative

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// An Action is a change of a Service.
type Action struct {
	// Write: the Service gets State, and Fields and Traffic where they are not nil.
	Write   bool
	State   State // unused with Drop
	Fields  *Fields
	Traffic []Traffic
	Drop    bool // the annotation
	// Patch, in place of a write, sets annotations of Revision State.Target.Revision; nil
	// removes one.
	Patch map[string]any
	// Stage of the target that is written; empty = no target.
	Stage Stage
	// Quiet: the write is not reported to users.
	Quiet bool
	// Refused is one word for the reason that nothing may be written; empty = it may.
	Refused string
	// Reason of the action, or of taking none.
	Reason string
}

func hold(s State, format string, args ...any) Action {
	return Action{State: s, Reason: fmt.Sprintf(format, args...)}
}

func refuse(s State, word, format string, args ...any) Action {
	return Action{State: s, Refused: word, Reason: fmt.Sprintf(format, args...)}
}

const (
	// band is the least change of limit or rate that is worth a Revision, as a share.
	band = .1
	// moved is the factor of the demand from which on the workload is another one, e^.4.
	moved = 1.49
)

// Decide returns the next step. The state is the Service's own.
func Decide(t Timing, s State, seen *Seen) Action {
	switch {
	case s.Phase != "" && s.UID != seen.UID && (s.UnderWay() || s.Target != nil && s.Target.Stage != Back):
		return refuse(s, "OtherMPA", "MultidimPodAutoscaler %s has a Revision under way", s.Object)
	case s.Phase == Canary:
		return canary(t, s, seen)
	case s.Phase == Restoring:
		return restoring(s, seen)
	}
	if a, more := retargeting(t, s, seen); more {
		return a
	}
	if a, more := settle(s, seen); more {
		return a
	}
	return begin(t, s, seen)
}

// begin starts a canary if something better than the present setting was learned; if only
// another target was learned, the Revision that serves gets that.
func begin(t Timing, s State, seen *Seen) Action {
	v := &seen.Service
	if seen.Off != "" {
		return hold(s, "%s", seen.Off)
	}
	if a, no := refusal(s, seen); no {
		return a
	}
	if s.Phase == Promoted && v.Base == s.Base && !v.Fields.Equal(s.Ours.Fields()) {
		// The owner has taken it back.
		s.Worse, s.Promoted = remember(s, seen.Now, "its owner took it back"), nil
		s.Phase, s.Since, s.Reason = RolledBack, seen.Now, "the owner of the Service took it back"
		if left := leftOf(v.Fields, s); left != "" {
			s.Reason += ", but for the annotations " + left + " of the template, which are his to take away"
		}
		return Action{Write: true, State: s, Reason: s.Reason}
	}
	l := seen.Learned
	if l == nil {
		return hold(s, "what a pod takes is not known yet")
	}
	if err := l.Check(); err != nil {
		return refuse(s, "OutOfRange", "%v", err)
	}
	have, same := v.Fields, s.made(v.Ready).Equal(v.Fields)
	g := s.Target
	if g != nil && g.Stage == Kept {
		have = v.Ready.Fields
	}
	limited := near(float64(have.limit()), float64(l.Limit))
	if limited && near(have.rate(), l.Fields().rate()) { // both are rounded
		return hold(s, "the Service has what was learned")
	}
	for _, w := range s.Worse {
		if w.Base == v.Base && near(float64(w.Limit), float64(l.Limit)) && near(w.Rate, l.Rate) && !apart(w.Demand, l.Demand) {
			return hold(s, "%d at once and %s requests/s a pod are not tried again: %s", l.Limit, l.Target(), w.Reason)
		}
	}
	pause := t.Pause
	if g != nil && g.Few {
		pause = max(pause, t.Longest)
	}
	switch {
	case s.Phase != "" && seen.Now.Sub(s.Since).Abs() < t.Pause || g != nil && seen.Now.Sub(g.Since).Abs() < pause: // the clock may have been set back
		return hold(s, "the next one is tried after a pause of %v", pause)
	case !v.Settled || v.Created.Name == "" || v.Created.Name != v.Ready.Name:
		return hold(s, "a Revision of the Service itself is under way")
	case v.Ready.Failed != "":
		return hold(s, "Revision %s is not ready: %s", v.Ready.Name, v.Ready.Failed)
	case !same:
		return hold(s, "Revision %s does not have the values of the present template; another Revision of the template ends that", v.Ready.Name)
	case limited && have.limit() > 0 && have.Annotations[class] == kpa: // the annotation alone does not describe another class
		return retarget(s, seen, have.limit())
	}
	next := State{
		Object: seen.Object, UID: seen.UID, Phase: Canary, Since: seen.Now, Stable: v.Ready.Name,
		Ours: l.Setting, Before: v.Fields, Base: v.Base, Demand: l.Demand, Worse: s.Worse, Promoted: s.Promoted, Target: s.Target,
		Reason: fmt.Sprintf("%d at once and %s requests/s a pod get %d %% of the requests", l.Limit, l.Target(), Percent),
	}
	return Action{Write: true, State: next, Fields: new(l.Fields()), Traffic: split(v.Ready.Name, Percent), Reason: next.Reason}
}

// refusal returns the reason that a Service may not be written, and whether there is one.
func refusal(s State, seen *Seen) (Action, bool) {
	v := &seen.Service
	limit := v.Fields.limit()
	of, classed := v.Fields.Annotations[class]
	switch traffic := v.Traffic; {
	case v.Owner != "":
		return refuse(s, "OwnedByController", "metadata.ownerReferences: %s controls the Service, and would write over what is written here", v.Owner), true
	case s.Phase == "" && len(traffic) == 2 && (slices.Equal(traffic, split(traffic[0].Revision, Percent)) || slices.Equal(traffic, split(traffic[0].Revision, HalfPercent))):
		return refuse(s, "TrafficOfOthers", "spec.traffic: %s; it looks like a canary of ours whose annotation %s was taken away: set the traffic, and the numbers of the template, by hand", show(traffic), Annotation), true
	case len(traffic) > 1 || len(traffic) == 1 && (traffic[0].Revision != "" || traffic[0].Tag != "" || traffic[0].Percent != 100):
		return refuse(s, "TrafficOfOthers", "spec.traffic: %s; want all to the latest Revision, without a tag", show(traffic)), true
	case v.Named != "":
		return refuse(s, "RevisionNamed", "spec.template.metadata.name: %q; a new Revision needs another name than the one that there is", v.Named), true
	case classed && of != kpa: // an empty one is no default: no autoscaler handles it
		return refuse(s, "ForeignClass", "spec.template.metadata.annotations[%s]: %q knows no requests a second, want %s", class, of, kpa), true
	case limit < 0 || limit > MaxLimit:
		return refuse(s, "OutOfRange", "spec.template.spec.containerConcurrency: %d, want 0 to %d", limit, MaxLimit), true
	case limit == 1 && seen.Least <= 1 && (s.Promoted == nil || s.Promoted.Limit != 1):
		return refuse(s, "OneAtOnce", "spec.template.spec.containerConcurrency: 1 is kept, as the program may not be safe for two requests at once; concurrency.min above 1 says that it is"), true
	}
	return Action{}, false
}

// leftOf names the annotations that are still as we wrote them and as they were not before.
func leftOf(f Fields, s State) string {
	former := f.back(s.Ours.Fields(), s.Before)
	var names []string
	for _, name := range annotations {
		if f.Annotations[name] != former.Annotations[name] {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func near(a, b float64) bool { return math.Abs(a-b) < band*max(a, b) || a == b }

// apart reports whether two demands are those of two workloads; false if one is unknown.
func apart(a, b float64) bool { return a > 0 && b > 0 && max(a/b, b/a) > moved }

// remember adds ours to the settings that were taken back.
func remember(s State, now time.Time, why string) []Worse {
	return keep(s.Worse, Worse{Setting: s.Ours, Base: s.Base, Demand: s.Demand, Time: now, Reason: why})
}

// keep adds one to a list, of which the oldest go.
func keep(list []Worse, w Worse) []Worse {
	list = append(slices.Clone(list), w)
	return list[max(0, len(list)-mostWorse):]
}

// canary looks after a Revision of ours.
func canary(t Timing, s State, seen *Seen) Action {
	v := &seen.Service
	ours := s.Ours.Fields()
	age := seen.Now.Sub(s.Since).Abs()
	switch {
	case slices.Equal(v.Traffic, all()):
		// All requests would reach numbers that were never judged.
		return end(s, seen, "others have given all requests to the latest Revision", true)
	case !slices.Equal(v.Traffic, split(s.Stable, s.Percent())):
		// The traffic is others' now; the template may still have numbers that were never judged.
		a := end(s, seen, fmt.Sprintf("others have changed the traffic: %s", show(v.Traffic)), false)
		if a.Traffic = nil; a.Fields != nil {
			a.State.Phase = RolledBack
		}
		return a
	case v.Base != s.Base:
		return end(s, seen, "others have changed the template", false)
	case !v.Fields.Equal(ours):
		return end(s, seen, "others have changed the numbers in the template", true)
	case seen.Off != "":
		return end(s, seen, seen.Off, false)
	}
	if broken := v.Ready.Failed; broken != "" && v.Ready.Name != s.Stable && v.Ready.Fields.Equal(ours) {
		return end(s, seen, fmt.Sprintf("Revision %s was ready and is not: %s", v.Ready.Name, broken), true)
	}
	ready := v.Settled && v.Ready.Name != s.Stable && v.Ready.Fields.Equal(ours)
	if !ready {
		why := "it has not become ready"
		if v.Created.Name != s.Stable && v.Created.Failed != "" {
			why = fmt.Sprintf("Revision %s is not ready: %s", v.Created.Name, v.Created.Failed)
		}
		if age >= t.Ready {
			return end(s, seen, fmt.Sprintf("%s within %v", why, t.Ready), true)
		}
		return hold(s, "%s yet", why)
	}
	trial := seen.Trial
	measured := s.Since.Add(t.Ready) // until then it had time to become ready
	of := trial != nil && trial.Canary.Revision == v.Ready.Name && trial.Stable.Revision == s.Stable && !trial.Since.Time.Before(s.Since.Truncate(time.Microsecond))
	if of {
		measured = trial.Time.Time
	}
	if blind := seen.Now.Sub(measured); !of || blind.Abs() > seen.MaxAge {
		if -blind > t.Ready+seen.MaxAge {
			return end(s, seen, wentBack(blind), false)
		}
		if blind > t.Ready+seen.MaxAge || age >= t.Longest {
			return end(s, seen, fmt.Sprintf("nothing has measured it for %v", min(max(blind, 0), age).Round(time.Second)), true)
		}
		return hold(s, "Revision %s is not measured at present", v.Ready.Name)
	}
	verdict, why := Judge(trial)
	long := trial.Time.Sub(trial.Since.Time) >= t.Least
	switch {
	case verdict == Losing || verdict == WorseThan && long:
		return end(s, seen, why, true)
	case verdict == Better && long:
		s.Phase, s.Half, s.Since, s.Reason, s.Promoted = Promoted, false, seen.Now, why, &s.Ours
		return Action{Write: true, State: s, Traffic: all(), Reason: why}
	case verdict == Level && long && !s.Half:
		s.Half, s.Since, s.Reason = true, seen.Now, fmt.Sprintf("no worse with %d %% of the requests, and gets %d %%", Percent, HalfPercent)
		return Action{Write: true, State: s, Traffic: split(s.Stable, HalfPercent), Reason: s.Reason}
	case age >= t.Longest:
		return end(s, seen, fmt.Sprintf("not better within %v: %s", t.Longest, why), true)
	}
	// The figures are in the trial: a reason with them would be written with each measurement.
	return hold(s, "Revision %s has %d %% and is compared with %s", v.Ready.Name, s.Percent(), s.Stable)
}

// wentBack is the reason for a last measurement that lies in the future.
func wentBack(blind time.Duration) string {
	return fmt.Sprintf("the clock went back by %v", -blind.Round(time.Second))
}

// end takes ours back: the Revision of before has all requests, until one with its fields is ready.
func end(s State, seen *Seen, why string, worse bool) Action {
	if worse {
		s.Worse = remember(s, seen.Now, why)
	}
	s.Phase, s.Half, s.Since, s.Reason = Restoring, false, seen.Now, why
	a := Action{Write: true, State: s, Traffic: only(s.Stable), Reason: why}
	if seen.Service.Named == "" { // Knative takes no other template under the same name
		a.Fields = new(seen.Service.Fields.back(s.Ours.Fields(), s.Before))
	}
	return a
}

// restoring waits until the latest Revision is one of the present template.
func restoring(s State, seen *Seen) Action {
	v := &seen.Service
	next := s
	next.Phase, next.Since = RolledBack, seen.Now
	former := v.Fields.back(s.Ours.Fields(), s.Before)
	ours := !former.Equal(v.Fields) // some numbers of ours are in the template still
	settled := !ours && v.Settled && v.Created.Name == v.Ready.Name && s.made(v.Ready).Equal(v.Fields)
	latest := slices.Equal(v.Traffic, all())
	a := Action{Write: true, State: s, Reason: s.Reason}
	if ours && v.Named == "" {
		a.Fields = &former
	}
	switch {
	case !latest && !slices.Equal(v.Traffic, only(s.Stable)) && (!ours || a.Fields != nil):
		next.Reason = fmt.Sprintf("%s; others have changed the traffic: %s", s.Reason, show(v.Traffic))
		a.State, a.Reason = next, next.Reason
	case settled:
		a.State = next
		if !latest {
			a.Traffic = all()
		}
	case latest || a.Fields != nil:
		a.Traffic = only(s.Stable)
	case ours:
		return hold(s, "%s; the requests: %s; spec.template.metadata.name: %q is others', and with it Knative takes no former numbers", s.Reason, show(v.Traffic), v.Named)
	default:
		why := ""
		if v.Created.Failed != "" {
			why = fmt.Sprintf(" (Revision %s: %s)", v.Created.Name, v.Created.Failed)
		}
		return hold(s, "%s; Revision %s has all requests until one of the present template is ready%s", s.Reason, s.Stable, why)
	}
	return a
}

// Forget returns the action for a Service whose object is deleted: a change under way ends,
// and then the annotation is removed.
func Forget(t Timing, s State, seen *Seen) Action {
	if s.Phase == "" {
		return Action{}
	}
	seen.UID, seen.Off, seen.Passing = s.UID, "the MultidimPodAutoscaler is gone", false
	if s.UnderWay() {
		return Decide(t, s, seen)
	}
	if a, more := retargeting(t, s, seen); more {
		return a
	}
	return Action{Write: true, Drop: true, Reason: seen.Off}
}
