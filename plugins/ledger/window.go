package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// A Window is the time in which a workload is planned to roll out, in seconds since 1970.
type Window struct {
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

// Elapsed returns the share of the window that is over at a time; negative outside of it.
func (w *Window) Elapsed(at float64) float64 {
	if w == nil || at < w.Start || at > w.End {
		return -1
	}
	return (at - w.Start) / (w.End - w.Start)
}

// CauseNoWindow is the cause of decisions by the policy that replaces one that
// reads a clock: no window of the workload was active.
const CauseNoWindow = "no-window"

func (l *Ledger) setWindows(e *Event) error {
	for _, group := range slices.Sorted(maps.Keys(e.Windows)) {
		if w := e.Windows[group]; w != nil && !(w.Start < w.End && w.End-w.Start <= float64(binpack.MaxValue)) {
			return fmt.Errorf("windows.%s from %v to %v: want an end behind the start", group, w.Start, w.End)
		}
	}
	for group, w := range e.Windows {
		if w == nil {
			delete(l.windows, group)
		} else {
			l.windows[group] = *w
		}
	}
	return nil
}

// Windows returns those of workloads, by group. They must not be changed.
func (l *cluster) Windows() map[string]Window { return l.windows }

// SetClock sets the time, in seconds since 1970, of the queries that follow. It
// is part of the query, not of the state.
func (l *Ledger) SetClock(now float64) { l.clock = now }

// Elapsed returns the share of the window of an app's workload that is over by the clock;
// negative outside of it.
func (l *Ledger) Elapsed(app int32) float64 {
	l.Columns()
	if w, ok := l.windows[l.appAt[app].spec.Group]; ok {
		return w.Elapsed(l.clock)
	}
	return -1
}

// PolicyFor returns the policy that ranks machines for an app in a role, by the clock: the role's,
// or where that reads a clock and no window is active, its replacement. The decision
// has cause, digest and clock. object is nil when no policy is loaded.
func (l *Ledger) PolicyFor(role Role, app int32) (object *policy.Object, d Decision) {
	p, cause := l.asked(role, app)
	if p == nil {
		return nil, Decision{Cause: cause}
	}
	d = Decision{Cause: cause, PolicyDigest: p.digest}
	if l.policies[role].outside != nil {
		d.Clock = l.clock
	}
	return p.object, d
}

func (l *Ledger) asked(role Role, app int32) (p *policyInUse, cause string) {
	p = l.policies[role]
	if p != nil && p.outside != nil && l.Elapsed(app) < 0 {
		return p.outside, CauseNoWindow
	}
	return p, CausePolicy
}

// ClocklessPolicy returns the shipped policy that replaces one that reads a clock, outside
// of windows, on a fixed or an open fleet; nil for one that reads none.
func ClocklessPolicy(object *policy.Object, fleet binpack.Fleet) *policy.Object {
	file := "kubernetes-k0.yaml"
	if fleet == binpack.Fixed {
		file = "kubernetes-k0-fixed.yaml"
	}
	if know, ok := binpack.ParseKnowledge(object.Spec.Knowledge); !ok || !know.Clock() {
		return nil
	}
	text, err := policies.Files.ReadFile(file)
	if err != nil {
		panic("ledger: " + err.Error()) // it is compiled in
	}
	outside, err := policy.Parse(file, text)
	if err != nil {
		panic("ledger: " + err.Error())
	}
	outside.Spec.Provenance = nil // long, and without effect
	return outside
}

// useOutside loads the policy that replaces p outside of windows.
func (p *policyInUse) useOutside(object *policy.Object) (err error) {
	clock := p.policy.Knowledge().Clock()
	switch {
	case object == nil && clock:
		return fmt.Errorf("outside is missing: the policy knows %s", p.policy.Knowledge())
	case object == nil:
		return nil
	case !clock:
		return fmt.Errorf("outside goes with a policy that reads a clock, not with %s", p.policy.Knowledge())
	}
	if p.outside, err = inUse(object); err != nil {
		return fmt.Errorf("outside: %w", err)
	}
	if p.outside.policy.Knowledge().Clock() {
		return errors.New("outside: it reads a clock itself")
	}
	return nil
}

func inUse(object *policy.Object) (*policyInUse, error) {
	p, err := usable(object)
	if err != nil {
		return nil, err
	}
	return &policyInUse{object: object, digest: object.Digest(), policy: p}, nil
}
