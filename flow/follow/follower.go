package follow

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/internal/bounded"
)

// A Kernel orders the flows of a node's uplink. Every order in it is the follower's.
type Kernel interface {
	// Order activates settings, at once and as a whole, and returns their ID. An error that is a [Refused] has a reason
	// of its own; the settings active before stay.
	Order(s Settings) (id uint64, err error)
	// Hint makes these the sizes of flows in the active order, in place of all others.
	Hint(h flow.Hints) error
	// Scope makes these the addresses whose flows are in bands by bytes, in the order that is on; nil makes it all.
	Scope(scope []netip.Addr) error
	// Off removes the order and leaves the uplink as it was found. It is no error if there is no order.
	Off() error
	// State returns the state of the order.
	State() (State, error)
}

// Settings of an order.
type Settings struct {
	Thresholds flow.Thresholds
	Rate       float64      // bits per second; 0 = the node's own
	Floor      float64      // share of the rate
	DSCP       bool         // write that of the band into packets of flows that have none
	Scope      []netip.Addr // whose flows are in bands by bytes, in their order; nil = all
}

// equal does not compare scopes: another one needs no new order.
func (s Settings) equal(o Settings) bool {
	return s.Thresholds.Equal(o.Thresholds) && s.Rate == o.Rate && s.Floor == o.Floor && s.DSCP == o.DSCP
}

// A State of a kernel.
type State struct {
	On         bool            // there is an order
	Elsewhere  bool            // it is on another uplink than the node's
	Shaping    bool            // and its queueing discipline is in its place
	Thresholds flow.Thresholds // of the order
	ID         uint64          // of its settings, another one each time that somebody sets them
	Scope      []netip.Addr    // of the order, as in [Settings]
}

// A Refused is an error of [Kernel.Order] with a reason of v1alpha1.
type Refused struct {
	Reason string
	Err    error
}

// Error is that of the error it wraps.
func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap returns it.
func (r *Refused) Unwrap() error { return r.Err }

// A Follower makes a kernel follow the policies of its node. One goroutine at a time uses it.
type Follower struct {
	Node   string
	Kernel Kernel
	Hints  flow.Hints // that may be used now, if the policy enables hints
	// Scope returns the addresses of the node's pods in namespaces with such labels, in their order and not nil. It reports false
	// while it does not know them.
	Scope func(namespaces labels.Selector) (scope []netip.Addr, known bool)

	uid        types.UID // of the policy that is followed
	generation int64     // that was taken last
	sequence   int64
	found      flow.Thresholds // those of the sequence; nil: none, or unknown after a restart
	refused    int64
	complaint  string // of the last refusal; empty: the last object was taken
	counted    string // resource version of the object that was refused last
	plan       *plan  // nil: the kernel stays as it is
	applied    *Settings
	appliedOf  types.UID   // the policy of applied
	appliedID  uint64      // in the kernel
	hinting    bool        // the policy that was taken last enables hints, or their judgement
	hinted     *flow.Hints // in the kernel; nil: unknown

	tried    *Settings // that could not be activated
	why      error
	attempts int // at them
	pause    int // calls until the next
}

// A plan is the target state of the kernel.
type plan struct {
	order    bool
	settings Settings
	// The scope of settings is that of these; nil = all. It is nil until it is known.
	namespaces labels.Selector
	reason     string // why it does not order
	message    string
}

// Resume continues from the state of the agent that wrote the status before it ended: older objects are refused.
func (f *Follower) Resume(s *v1alpha1.NodeFlowsStatus) {
	f.uid, f.generation, f.sequence, f.refused = s.PolicyUID, s.ObservedGeneration, s.Sequence, s.Refused
}

// Follow makes the kernel follow the policies of a node of these labels. It returns the status of the node, except its
// times and its traffic.
func (f *Follower) Follow(policies []*v1alpha1.FlowPolicy, node map[string]string) v1alpha1.NodeFlowsStatus {
	own, others := v1alpha1.Own(policies, node)
	var s v1alpha1.NodeFlowsStatus
	if own == nil {
		f.uid, f.generation, f.sequence, f.found, f.complaint, f.hinting = "", 0, 0, nil, "", false
		f.plan = &plan{reason: v1alpha1.ReasonNoPolicy, message: "no FlowPolicy selects this node"}
	} else {
		f.take(own)
		s.Policy, s.PolicyUID, s.Mode = own.Name, own.UID, own.Spec.Mode
		s.ObservedGeneration, s.Sequence = f.generation, f.sequence
	}
	for _, o := range others[:min(len(others), mostPassedOver)] {
		s.PassedOver = append(s.PassedOver, o.Name)
	}
	s.Refused = f.refused
	shaping := f.carryOut(&s)
	if f.complaint != "" {
		shaping.Message = f.complaint + "; " + shaping.Message
	}
	shaping.Message = bounded.Text(shaping.Message)
	meta.SetStatusCondition(&s.Conditions, shaping)
	return s
}

// longestPauses is the most calls of Follow between attempts of a failing order.
const longestPauses = 32

// mostPassedOver is the number for which a status has room.
const mostPassedOver = 16

// take takes the spec and the status of a policy, as far as they are newer than those taken before and valid, or order
// nothing.
func (f *Follower) take(p *v1alpha1.FlowPolicy) {
	if p.UID != f.uid {
		if f.uid != "" {
			f.plan = noThresholds // those of another policy do not stay
		}
		f.uid, f.generation, f.sequence, f.found = p.UID, 0, 0, nil
	}
	f.complaint = ""
	settings, err := f.settings(p)
	// Turning off is always possible: a spec that orders nothing is taken whatever its other fields, and also if it is
	// older, as after the restore of a copy.
	if off := p.Spec.Mode == v1alpha1.Disabled || p.Spec.Mode == v1alpha1.Observe; err != nil && !off {
		f.complain(p, "the policy's spec: "+err.Error())
		return
	}
	f.generation = p.Generation
	f.hinting = p.Spec.Hints && p.Spec.Mode != v1alpha1.Disabled
	if err := f.takeStatus(p); err != nil {
		f.complain(p, "the policy's status: "+err.Error())
	}
	switch {
	case !p.Orders(f.Node):
		f.plan = &plan{reason: v1alpha1.ReasonMode, message: message(p)}
		return
	case settings.Thresholds != nil: // those of the spec
	case f.found != nil:
		settings.Thresholds = f.found
	case f.complaint != "": // after a restart: those in the kernel stay
		return
	default:
		if s, err := f.Kernel.State(); f.plan != nil || err == nil && !s.On { // otherwise after a restart: as above
			f.plan = noThresholds
		}
		return
	}
	namespaces, _ := p.Namespaces() // settings has seen the error
	f.plan = &plan{order: true, settings: settings, namespaces: namespaces}
}

var noThresholds = &plan{reason: v1alpha1.ReasonNoThresholds, message: "no thresholds were found yet, and the policy's spec has none"}

func message(p *v1alpha1.FlowPolicy) string {
	if p.Spec.Mode == v1alpha1.Canary {
		return fmt.Sprintf("the policy is in mode Canary, and its %d %% of the nodes are others", p.Spec.CanaryPercent)
	}
	return fmt.Sprintf("the policy is in mode %s", p.Spec.Mode)
}

// complain counts an object that was refused, once.
func (f *Follower) complain(p *v1alpha1.FlowPolicy, why string) {
	f.complaint = why
	if p.ResourceVersion != f.counted {
		f.counted = p.ResourceVersion
		f.refused++
	}
}

// settings are those of a spec. Thresholds are nil if it has none.
func (f *Follower) settings(p *v1alpha1.FlowPolicy) (Settings, error) {
	spec := &p.Spec
	s := Settings{Floor: cmp.Or(spec.FloorPercent, .1) / 100, DSCP: spec.DSCP}
	switch spec.Mode {
	case v1alpha1.Disabled, v1alpha1.Observe, v1alpha1.Canary, v1alpha1.Live:
	default:
		return s, fmt.Errorf("mode %q", spec.Mode)
	}
	switch {
	case p.Generation < f.generation:
		return s, fmt.Errorf("generation %d comes after %d", p.Generation, f.generation)
	case spec.Bands < 2 || spec.Bands > flow.MostBands:
		return s, fmt.Errorf("bands %d, want 2 to %d", spec.Bands, flow.MostBands)
	case !(s.Floor >= .001-1e-9 && s.Floor <= .05+1e-9):
		return s, fmt.Errorf("floorPercent %v, want 0.1 to 5", spec.FloorPercent)
	}
	if _, err := p.Namespaces(); err != nil {
		return s, fmt.Errorf("namespaceSelector: %w", err)
	}
	if spec.Rate != nil {
		if s.Rate = spec.Rate.AsApproximateFloat64(); !(s.Rate >= 1e6 && s.Rate <= 1e12) {
			return s, fmt.Errorf("rate %v, want 1M to 1T", spec.Rate)
		}
	}
	if len(spec.Thresholds) > 0 {
		s.Thresholds = flow.Thresholds(slices.Clone(spec.Thresholds))
		return s, s.Thresholds.ValidateFor(int(spec.Bands))
	}
	return s, nil
}

// takeStatus takes the thresholds of a status, which is of this spec or of one before it.
func (f *Follower) takeStatus(p *v1alpha1.FlowPolicy) error {
	s := &p.Status
	t := flow.Thresholds(slices.Clone(s.Thresholds))
	switch {
	case s.Sequence < f.sequence:
		return fmt.Errorf("sequence %d comes after %d", s.Sequence, f.sequence)
	case s.Sequence-f.sequence > v1alpha1.FarAhead: // all later ones would be refused after it
		return fmt.Errorf("sequence %d is far above %d", s.Sequence, f.sequence)
	case len(t) == 0: // there are none yet for this number of bands
		f.sequence = s.Sequence
		return nil
	case len(t) != int(p.Spec.Bands)-1 && s.ObservedGeneration < p.Generation: // of the spec before
		return nil
	case s.Sequence == f.sequence && f.found != nil && !f.found.Equal(t):
		return fmt.Errorf("sequence %d has had other thresholds", s.Sequence)
	}
	if err := t.ValidateFor(int(p.Spec.Bands)); err != nil {
		return err
	}
	f.sequence, f.found = s.Sequence, t
	return nil
}

// carryOut makes the kernel follow the plan, and returns the condition that describes it.
func (f *Follower) carryOut(s *v1alpha1.NodeFlowsStatus) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionShaping, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonFailed, ObservedGeneration: f.generation}
	state, err := f.Kernel.State()
	known := f.findScope()
	switch {
	case err != nil || f.plan == nil:
	case known:
		state, err = f.change(state)
	case state.On && f.applied != nil && f.appliedOf != f.uid: // the order of another policy does not stay
		state, err = f.off()
	}
	if state.On && state.Shaping && err == nil {
		err = f.hint()
	}
	if state.On && state.Shaping {
		c.Status, c.Reason, s.Thresholds = metav1.ConditionTrue, v1alpha1.ReasonOrdered, state.Thresholds
		c.Message = "a flow leaves a band after " + state.Thresholds.String() + " bytes"
	}
	if !known {
		c.Message = strings.Trim(c.Message+"; the pods of the policy's namespaces are not known yet", "; ")
	}
	var refused *Refused
	switch {
	case errors.As(err, &refused):
		c.Reason, c.Message = refused.Reason, err.Error()
	case err != nil:
		c.Reason, c.Message = v1alpha1.ReasonFailed, strings.Trim(c.Message+"; "+err.Error(), "; ")
	case c.Status == metav1.ConditionTrue:
	case !known:
		c.Reason = v1alpha1.ReasonUnknownNamespaces
	case f.plan == nil && state.On:
		c.Message = "the order that is on is not in its place"
	case f.plan == nil:
		c.Message = "no order is on"
	default:
		c.Reason, c.Message = f.plan.reason, f.plan.message
	}
	return c
}

// hint makes the sizes in the kernel those that may be used.
func (f *Follower) hint() error {
	var want flow.Hints
	if f.hinting {
		want = f.Hints
	}
	if f.hinted != nil && maps.Equal(*f.hinted, want) {
		return nil
	}
	f.hinted = nil
	if err := f.Kernel.Hint(want); err != nil {
		return fmt.Errorf("sizes of flows: %w", err)
	}
	f.hinted = &want
	return nil
}

// change makes the kernel's state that of the plan.
func (f *Follower) change(state State) (State, error) {
	if !f.plan.order {
		if !state.On {
			f.applied, f.tried = nil, nil
			return state, nil
		}
		return f.off()
	}
	if state.On && state.Shaping && !state.Elsewhere && f.applied != nil && f.applied.equal(f.plan.settings) && state.ID == f.appliedID {
		f.appliedOf = f.uid
		if scope := f.plan.settings.Scope; !sameScope(state.Scope, scope) {
			return f.after(f.Kernel.Scope(scope))
		}
		return state, nil
	}
	if state.On && state.Elsewhere {
		if err := f.Kernel.Off(); err != nil {
			return f.after(err)
		}
	}
	err := f.order(f.plan.settings)
	if err == nil {
		applied := f.plan.settings
		f.applied, f.appliedOf = &applied, f.uid
	} else if state.On && !state.Shaping {
		// Somebody has put another queueing discipline in the place: the program is removed too.
		err = errors.Join(err, f.Kernel.Off())
	}
	return f.after(err)
}

// order activates settings. A failed attempt is repeated after a pause, the longer the more attempts have failed: each
// loads a program. A refusal costs nothing and may end at any time.
func (f *Follower) order(s Settings) error {
	if f.tried == nil || !f.tried.equal(s) {
		f.tried, f.attempts, f.pause = &s, 0, 0
	}
	if f.pause > 0 {
		f.pause--
		return f.why
	}
	f.hinted = nil // the order may be a new one
	f.appliedID, f.why = f.Kernel.Order(s)
	var refused *Refused
	if f.why == nil || errors.As(f.why, &refused) {
		f.tried = nil
		return f.why
	}
	f.pause = min(1<<f.attempts, longestPauses) - 1
	f.attempts = min(f.attempts+1, 10)
	return f.why
}

// findScope finds the addresses of the plan's namespaces. It reports false where they were never known.
func (f *Follower) findScope() (known bool) {
	if f.plan == nil || f.plan.namespaces == nil {
		return true
	}
	if f.Scope != nil {
		if scope, known := f.Scope(f.plan.namespaces); known {
			f.plan.settings.Scope = scope
		}
	}
	return f.plan.settings.Scope != nil
}

// sameScope reports whether two scopes are equal; an empty one differs from nil, which is all.
func sameScope(a, b []netip.Addr) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

func (f *Follower) off() (State, error) {
	f.applied, f.tried, f.hinted = nil, nil, nil
	return f.after(f.Kernel.Off())
}

func (f *Follower) after(err error) (State, error) {
	state, of := f.Kernel.State()
	return state, errors.Join(err, of)
}
