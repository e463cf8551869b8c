package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Verdict is a policy's ranking of the nodes for a pod.
type Verdict struct {
	// Decides is false when the policy only observes or does not decide on this
	// workload: the scheduler then uses its other scores.
	Decides bool
	// Ranked are the first nodes by preference.
	Ranked   []Ranked
	decision ledger.Decision
	choice   string // the first of Ranked
}

// A Ranked node is a node in the order of preference.
type Ranked struct {
	Node  string
	Place int32 // in the list that RankAmong was given
	Score float64
}

// Rank ranks the nodes that passed the filters for a pod, by the active policy. It
// does not fail: when the policy cannot rank, Best-Fit does.
func (e *Engine) Rank(ctx context.Context, pod *v1.Pod, nodes []string) *Verdict {
	passed := make([]bool, len(nodes))
	for i := range passed {
		passed[i] = true
	}
	return e.RankAmong(ctx, pod, nodes, passed, e.opt.Top)
}

// RankAmong is Rank for callers that reuse one slice of nodes over many cycles and
// mark those that passed. The slice's address is its identity, so it must not be
// modified. The first top nodes are ranked; two serve the log and the metrics.
func (e *Engine) RankAmong(ctx context.Context, pod *v1.Pod, nodes []string, passed []bool, top int) *Verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := &Verdict{decision: ledger.Decision{Cause: ledger.CauseNeutral}}
	begin := e.opt.Now()
	e.track(pod)
	a := e.state.cluster.Arrive(pod)
	if a == nil { // no policy decides on its node
		e.untrack(pod.UID)
		return v
	}
	e.ranked(pod.UID)
	if known := e.state.ledger.Pod(string(pod.UID)); known != nil {
		known.RankedAt = begin
	}
	defer func() { e.metrics.latency.Observe(e.opt.Now().Sub(begin).Seconds()) }()
	l, r := e.state.ledger, &e.ranking
	role, mode, decides := e.decider(a.Group().Name())
	v.Decides, v.decision.Mode = decides, string(mode)
	app := l.AppIndex(a.Name())
	if l.HasReservations() {
		r.mark(nodes, passed, l)
		if m := l.ReservedMachine(app, r.passed); m >= 0 {
			e.land(v, app, m)
			return v
		}
	}
	if role == "" {
		return v
	}
	l.SetClock(seconds(begin))
	_, asked := l.PolicyFor(role, app)
	v.decision.PolicyDigest, v.decision.Clock = asked.PolicyDigest, asked.Clock
	if r.mark(nodes, passed, l); len(r.passed) == 0 { // only cordoned nodes
		return v
	}
	if e.state.log.file != nil {
		v.decision.Infeasible, v.decision.Extra = l.FilterDifferences(app, r.passed)
	}
	e.choose(role)
	v.decision.Cause = asked.Cause
	e.decide(ctx, v, pod, app, role, top, begin)
	return v
}

// choose enters the file to which a policy that chooses among files leaves the decision, if that changed.
func (e *Engine) choose(role ledger.Role) {
	l := e.state.ledger
	defer func() {
		if recover() != nil { // the ranking meets the panic again, and reports it
			l.Invalidate()
		}
	}()
	if ev := l.FileChoice(role); ev != nil {
		e.state.apply(ev)
		klog.V(2).InfoS("The placement policy decides by another shipped file", "profile", e.opt.Profile, "role", role, "file", ev.Chosen.Name)
	}
	e.noteChoice(role)
}

// noteChoice reports the file in the metrics and in the status of the policy.
func (e *Engine) noteChoice(role ledger.Role) {
	name := e.state.ledger.ChosenFile(role)
	was, _ := e.chosen.Load(role)
	if was == name || was == nil && name == "" {
		return
	}
	if was != nil && was != "" {
		e.metrics.chosen.WithLabelValues(string(role), was.(string)).Set(0)
	}
	if name != "" {
		e.metrics.chosen.WithLabelValues(string(role), name).Set(1)
	}
	e.chosen.Store(role, name)
}

// decide ranks the machines that passed by the policy of a role, or by Best-Fit
// if that fails, and compares the two.
func (e *Engine) decide(ctx context.Context, v *Verdict, pod *v1.Pod, app int32, role ledger.Role, top int, begin time.Time) {
	l, r := e.state.ledger, &e.ranking
	var err error
	if r.bestFit, err = r.order(l, ledger.BestFit, app, 1, r.bestFit); err != nil {
		klog.FromContext(ctx).Error(err, "Best-Fit cannot rank nodes", "pod", klog.KObj(pod))
	}
	r.ranked, err = r.order(l, role, app, top, r.ranked)
	reason := e.reason(role, err)
	if reason == "" && e.opt.Deadline > 0 && e.opt.Now().Sub(begin) > e.opt.Deadline {
		reason = "deadline"
	}
	if reason != "" {
		e.fallBack(ctx, v, app, top, pod, reason, err)
	}
	v.rank(r, l)
	if v.decision.ByPolicy() {
		e.compare(v, pod, role)
		e.watchCanary(app, pod)
	}
}

// fallBack ranks by Best-Fit instead.
func (e *Engine) fallBack(ctx context.Context, v *Verdict, app int32, top int, pod *v1.Pod, reason string, cause error) {
	e.metrics.fallbacks.WithLabelValues(reason).Inc()
	v.decision.Cause = ledger.CauseFallback + reason
	klog.FromContext(ctx).V(3).Info("Best-Fit decides instead of the policy", "pod", klog.KObj(pod), "reason", reason, "err", cause)
	if v.Decides {
		e.events.emit(pod, v1.EventTypeWarning, "PolicyFallback", "Best-Fit decided instead of the placement policy: "+reasonText(reason, cause))
	}
	r := &e.ranking
	var err error
	if r.ranked, err = r.order(e.state.ledger, ledger.BestFit, app, top, r.ranked); err != nil {
		r.ranked = r.ranked[:0] // no preference; the pod is still scheduled
	}
}

// rank puts the ranking into the verdict by name.
func (v *Verdict) rank(r *ranking, l *ledger.Ledger) {
	if len(r.ranked) == 0 {
		return
	}
	v.Ranked = make([]Ranked, len(r.ranked))
	for i, m := range r.ranked {
		v.Ranked[i] = Ranked{l.NodeName(m.Machine), r.places.place[m.Machine], m.Score}
	}
	v.choice = v.Ranked[0].Node
	v.decision.Score = v.Ranked[0].Score
	if len(v.Ranked) > 1 {
		v.decision.RunnerUp, v.decision.RunnerUpScore = v.Ranked[1].Node, v.Ranked[1].Score
	}
}

// compare counts whether the policy and Best-Fit differ, and whether they open a node.
func (e *Engine) compare(v *Verdict, pod *v1.Pod, role ledger.Role) {
	r, columns := &e.ranking, e.state.ledger.Columns()
	if len(r.ranked) == 0 || len(r.bestFit) == 0 {
		return
	}
	ours, theirs := r.ranked[0].Machine, r.bestFit[0].Machine
	if columns.Items(ours) == 0 {
		e.metrics.opened.WithLabelValues("policy").Inc()
	}
	if columns.Items(theirs) == 0 {
		e.metrics.opened.WithLabelValues("bestfit").Inc()
	}
	if ours == theirs {
		return
	}
	e.metrics.disagreements.WithLabelValues(string(role)).Inc()
	if !v.Decides {
		e.emitDisagreement(pod, ours)
	}
}

// watchCanary compares a canary in shadow with Best-Fit.
func (e *Engine) watchCanary(app int32, pod *v1.Pod) {
	l, r := e.state.ledger, &e.ranking
	canary, _ := l.Policy(ledger.Canary)
	if canary == nil || modeOf(canary) != policy.Shadow || len(r.bestFit) == 0 {
		return
	}
	var err error
	r.watched, err = r.order(l, ledger.Canary, app, 1, r.watched)
	if e.reason(ledger.Canary, err) != "" || len(r.watched) == 0 {
		return
	}
	theirs := r.watched[0].Machine
	if l.Columns().Items(theirs) == 0 {
		e.metrics.opened.WithLabelValues("canary").Inc()
	}
	e.emitDisagreement(pod, theirs)
}

// emitDisagreement reports the node that a policy in shadow would take, if Best-Fit
// would not.
func (e *Engine) emitDisagreement(pod *v1.Pod, machine int32) {
	l := e.state.ledger
	if bestFit := e.ranking.bestFit[0].Machine; machine != bestFit {
		e.events.emit(pod, v1.EventTypeNormal, "ShadowDisagreement", fmt.Sprintf(
			"The placement policy in shadow would take node %s, Best-Fit %s.", l.NodeName(machine), l.NodeName(bestFit)))
	}
}

// Reserve enters the assignment of a pod to a node. v is the verdict of the pod's cycle; nil
// when nothing was ranked, because one node was feasible.
func (e *Engine) Reserve(pod *v1.Pod, node string, v *Verdict) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.placed(pod)
	if !podspec.Moves(pod) { // it is part of its node
		return
	}
	if e.takeFailure(pod.UID) {
		known := e.state.ledger.Pod(string(pod.UID))
		if known != nil && known.Node() != nil && known.Node().Name() == node {
			return // a pod group's cycle reverts all of its decisions before it executes them
		}
		e.state.cluster.Undo(pod)
	}
	d := ledger.Decision{Cause: ledger.CauseSingle}
	switch {
	case v != nil && !e.ranks(pod.UID) && (v.decision.ByPolicy() || v.decision.Cause == ledger.CausePlanned):
		d.Cause = ledger.CauseNominated // it was ranked before others were placed
	case v != nil:
		d = v.decision
		if v.choice != "" && v.choice != node {
			d.Choice = v.choice
		}
	case pod.Status.NominatedNodeName == node && node != "":
		d.Cause = ledger.CauseNominated
	}
	e.metrics.decisions.WithLabelValues(cmp.Or(d.Mode, "none"), d.Cause).Inc()
	if text := e.state.cluster.ExpiredRule(pod, node, e.opt.Now()); text != "" {
		e.events.emit(pod, v1.EventTypeWarning, "RuleGaveWay", "It waited as long as the rule demands, and is placed against "+text+".")
	}
	e.track(pod)
	e.state.cluster.Decide(pod, node, &d)
	if known := e.state.ledger.Pod(string(pod.UID)); known == nil { // the node was removed
		e.untrack(pod.UID)
	} else {
		known.RankedAt = e.opt.Now()
	}
	e.state.log.flush()
}

// A BindingOutcome is the established result of a binding whose response left it open.
type BindingOutcome string

// The outcomes.
const (
	WasBound       BindingOutcome = "bound"
	NotBound       BindingOutcome = "not-bound"
	BindingUnknown BindingOutcome = "unknown" // the API server did not answer
)

// BindingUnclear counts a binding whose response left open whether it was made.
func (e *Engine) BindingUnclear(outcome BindingOutcome) {
	e.metrics.unclear.WithLabelValues(string(outcome)).Inc()
}
