package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/measure"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Options say how an engine works. The zero values of those that are times are
// not defaults: 0 is off.
type Options struct {
	Profile      string // name in logs and metrics
	PolicyName   string // of the PlacementPolicy that decides
	CanaryName   string // of one that decides for a share of the workloads; "" = none
	AppLabel     string
	Fleet        string // open or fixed
	DecisionLog  string // path; "" = none
	Deadline     time.Duration
	ForecastAge  time.Duration // at which a forecast is stale
	Top          int           // nodes to rank
	Recorder     events.EventRecorder
	Now          func() time.Time
	measureEvery time.Duration
}

// restartEvery is how often the packing state may be built anew: what it cannot
// follow may stay.
const restartEvery = 30 * time.Second

// An Engine serves one profile of a scheduler, or one extender. Its methods may
// be called at the same time; those that decide wait for each other.
type Engine struct {
	opt     Options
	metrics *profileMetrics
	limiter *limiter

	mu      sync.Mutex
	ledger  *ledger.Ledger
	cluster *kube.Translator
	log     *ledger.Log
	lines   []*ledger.Event // to be written
	broken  error           // an event that could not be booked: a bug
	fresh   bool            // nothing is known yet

	restartedAt time.Time // after that event; zero = never

	reported map[types.UID]reported

	declared   *kube.Declared
	forecastAt time.Time // of the last one; zero = never
	measuredAt time.Time
	measured   map[string]bool // resources whose allocation rate is shown

	// rankBy is the ledger's Rank; tests let it fail.
	rankBy func(role ledger.Role, app int32, allowed []int32, top int, buf []binpack.Ranked) ([]binpack.Ranked, error)

	places  places
	marks   []bool // [machine] passed the filters
	passed  []int32
	ranked  []binpack.Ranked
	bestFit []binpack.Ranked
	watched []binpack.Ranked // by a canary in shadow

	watcher   atomic.Pointer[watcher]              // nil = none
	rulesRead atomic.Pointer[cache.InformerSynced] // nil = there are none to read

	// What came in between decisions.
	inbox struct {
		sync.Mutex
		undo       []*v1.Pod
		gone       []*v1.Pod
		asked      map[types.UID]bool             // pods that were decided on and that are not gone
		policies   map[ledger.Role]*policy.Object // nil value = gone
		rules      []*kube.Rule
		newRules   bool
		declared   *kube.Declared
		declaredAt time.Time
	}
}

// A Node is one of a cluster with its pods, the assumed ones included.
type Node struct {
	Object *v1.Node
	Pods   []*v1.Pod
}

// New is an engine that knows nothing yet.
func New(opt Options) (*Engine, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.measureEvery == 0 {
		opt.measureEvery = 5 * time.Second
	}
	e := &Engine{
		opt: opt, metrics: metricsOf(opt.Profile), ledger: ledger.New(), limiter: newLimiter(opt.Now),
	}
	e.rankBy = e.ledger.Rank
	e.cluster = kube.NewTranslator(opt.AppLabel, e.ledger, e.take)
	e.inbox.asked = map[types.UID]bool{}
	if opt.DecisionLog != "" {
		log, err := ledger.OpenLog(opt.DecisionLog)
		if err != nil {
			return nil, fmt.Errorf("decisionLog: %w", err)
		}
		e.log = log
	}
	e.start()
	return e, e.broken
}

// start begins with an empty cluster.
func (e *Engine) start() {
	e.fresh = true
	e.reported = map[types.UID]reported{}
	e.take(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{
		Version: ledger.Version, Profile: e.opt.Profile, Fleet: e.opt.Fleet, Units: kube.Units,
	}})
}

// restart forgets a state that is not what the cluster is. That is a bug, and
// counted; the next decisions are right all the same.
func (e *Engine) restart() {
	klog.ErrorS(e.broken, "The packing state could not follow the cluster and is built anew", "profile", e.opt.Profile)
	e.metrics.restarts.Inc()
	e.broken, e.restartedAt = nil, e.opt.Now()
	var policies []*ledger.Event
	for _, role := range roles {
		if object, _ := e.ledger.Policy(role); object != nil {
			policies = append(policies, &ledger.Event{Kind: ledger.KindPolicy, Role: role, Policy: object})
		}
	}
	rules := e.cluster.Rules()
	e.start()
	for _, p := range policies {
		e.take(p)
	}
	e.cluster.SetRules(rules)
	if e.declared != nil { // at the age it has
		e.cluster.Forecast(e.declared, 0)
	}
}

// Close closes the decision log.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.log == nil {
		return nil
	}
	e.flush()
	log := e.log
	e.log = nil // decisions that are under way are not kept any more
	return log.Close()
}

// take books an event and keeps it for the decision log. One that cannot be
// booked changes nothing, and the log goes on without it: what is decided until
// the state is built anew can be computed again as well.
func (e *Engine) take(ev *ledger.Event) {
	if err := e.ledger.Apply(ev); err != nil {
		if e.broken == nil {
			e.broken = fmt.Errorf("%s node=%q app=%q pod=%q: %w", ev.Kind, ev.Node, ev.App, ev.Pod, err)
		}
		return
	}
	if e.log != nil {
		ev.Time = float64(e.opt.Now().UnixMicro()) / 1e6
		e.lines = append(e.lines, ev)
	}
}

// flush writes what is waiting to the decision log.
func (e *Engine) flush() {
	if e.log == nil || len(e.lines) == 0 {
		return
	}
	if err := e.log.Write(e.lines...); err != nil {
		e.metrics.logErrors.Inc()
		klog.ErrorS(err, "Cannot write the decision log", "profile", e.opt.Profile)
	}
	clear(e.lines)
	e.lines = e.lines[:0]
}

// Visit gives every node that may have changed since the last call to set, and the
// names of those that are gone to gone. all asks for every node there is.
type Visit func(all bool, set func(Node), gone func(name string))

// Sync brings the engine up to date.
func (e *Engine) Sync(visit Visit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sync(visit)
}

func (e *Engine) sync(visit Visit) {
	if e.broken != nil && (e.restartedAt.IsZero() || e.opt.Now().Sub(e.restartedAt) >= restartEvery) {
		e.restart()
	}
	e.takeInbox()
	first := e.fresh
	e.fresh = false
	visit(first, func(n Node) {
		found := e.cluster.SetNode(n.Object, n.Pods)
		if !first && len(e.cluster.Rules()) > 0 {
			e.findConflicts(found)
		}
	}, e.cluster.RemoveNode)
	e.measure()
}

// takeInbox books what came in since the last decision.
func (e *Engine) takeInbox() {
	in := &e.inbox
	in.Lock()
	undo, gone, policies, rules, newRules := in.undo, in.gone, in.policies, in.rules, in.newRules
	declared, declaredAt := in.declared, in.declaredAt
	in.undo, in.gone, in.policies, in.rules, in.newRules, in.declared = nil, nil, nil, nil, false, nil
	in.Unlock()
	for _, pod := range undo {
		e.cluster.Undo(pod)
	}
	for _, pod := range gone {
		e.cluster.Leave(pod)
	}
	for _, role := range roles {
		if object, ok := policies[role]; ok {
			if object != nil { // where its numbers come from is of no effect, and long
				plain := *object
				plain.Spec.Provenance, plain.Status = nil, nil
				object = &plain
			}
			e.take(&ledger.Event{Kind: ledger.KindPolicy, Role: role, Policy: object})
		}
	}
	if newRules {
		e.cluster.SetRules(rules)
	}
	if declared != nil {
		since := time.Duration(0)
		if !e.forecastAt.IsZero() {
			since = declaredAt.Sub(e.forecastAt)
		}
		e.declared, e.forecastAt = declared, declaredAt
		e.cluster.Forecast(declared, since)
	}
}

// roles are those that policies are loaded for.
var roles = []ledger.Role{ledger.Primary, ledger.Canary}

// SetPolicy puts a policy in force from the next decision on; nil takes it out.
func (e *Engine) SetPolicy(role ledger.Role, object *policy.Object) {
	e.inbox.Lock()
	defer e.inbox.Unlock()
	if e.inbox.policies == nil {
		e.inbox.policies = map[ledger.Role]*policy.Object{}
	}
	e.inbox.policies[role] = object
}

// SetRules puts rules in force from the next decision on.
func (e *Engine) SetRules(rules []*kube.Rule) {
	e.inbox.Lock()
	defer e.inbox.Unlock()
	e.inbox.rules, e.inbox.newRules = rules, true
}

// SetDeclared is what the cluster's workloads say of the pods there are to be.
func (e *Engine) SetDeclared(d *kube.Declared) {
	e.inbox.Lock()
	defer e.inbox.Unlock()
	e.inbox.declared, e.inbox.declaredAt = d, e.opt.Now()
}

// Undo notes that a decision came to nothing: the pod's binding failed.
func (e *Engine) Undo(pod *v1.Pod) {
	e.inbox.Lock()
	defer e.inbox.Unlock()
	e.inbox.undo = append(e.inbox.undo, pod)
	if !e.inbox.asked[pod.UID] { // because it was deleted: it does not wait either
		e.inbox.gone = append(e.inbox.gone, pod)
	}
}

// Gone notes that a pod was deleted, whether it had a node or not. One that was not
// decided on is no news: where nothing is decided, on a standby, they are many.
func (e *Engine) Gone(pod *v1.Pod) {
	e.inbox.Lock()
	defer e.inbox.Unlock()
	if e.inbox.asked[pod.UID] {
		delete(e.inbox.asked, pod.UID)
		e.inbox.gone = append(e.inbox.gone, pod)
	}
}

// A Verdict is what a policy says of the nodes for a pod.
type Verdict struct {
	// Decides is false when the policy only watches, or leaves this workload to
	// others: the scheduler then goes by its other scores.
	Decides bool
	// Ranked are the nodes by preference, the first Options.Top of them.
	Ranked   []Ranked
	decision ledger.Decision
	choice   string // the first of Ranked
}

// A Ranked node is one of an order of preference.
type Ranked struct {
	Node  string
	Place int32 // in the list that RankAmong was given
	Score float64
}

// Rank says which of the nodes that passed the filters the policy in force takes
// for a pod. It does not fail: when the policy cannot say, Best-Fit does.
func (e *Engine) Rank(ctx context.Context, pod *v1.Pod, nodes []string) *Verdict {
	passed := make([]bool, len(nodes))
	for i := range passed {
		passed[i] = true
	}
	return e.RankAmong(ctx, pod, nodes, passed)
}

// RankAmong is Rank for who keeps a list of nodes over many cycles and marks those
// that passed. The list is known again by where it is in memory, and must not
// change.
func (e *Engine) RankAmong(ctx context.Context, pod *v1.Pod, nodes []string, passed []bool) *Verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rank(ctx, pod, nodes, passed)
}

func (e *Engine) rank(ctx context.Context, pod *v1.Pod, nodes []string, passed []bool) *Verdict {
	begin := e.opt.Now()
	if !kube.Moves(pod) { // it goes where it has to
		return &Verdict{decision: ledger.Decision{Cause: ledger.CauseNeutral}}
	}
	defer func() { e.metrics.latency.Observe(e.opt.Now().Sub(begin).Seconds()) }()
	e.ask(pod)
	a := e.cluster.Arrive(pod)
	if a == nil { // the ledger refused the app
		return &Verdict{decision: ledger.Decision{Cause: ledger.CauseNeutral}}
	}
	app := e.ledger.AppIndex(a.Name())
	role, mode, decides := e.decider(a.Group().Name())
	v := &Verdict{Decides: decides, decision: ledger.Decision{Mode: string(mode), Cause: ledger.CauseNeutral}}
	_, v.decision.PolicyDigest = e.ledger.Policy(role)
	if role == "" {
		return v
	}
	e.mark(nodes, passed)
	if len(e.passed) == 0 { // only cordoned nodes
		return v
	}
	if e.log != nil {
		v.decision.Infeasible, v.decision.Extra = e.ledger.Differ(app, e.passed)
	}
	var err error
	e.bestFit, err = e.order(ledger.BestFit, app, 1, e.bestFit)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Best-Fit cannot rank nodes", "pod", klog.KObj(pod))
	}
	v.decision.Cause = ledger.CausePolicy
	e.ranked, err = e.order(role, app, e.opt.Top, e.ranked)
	reason := e.reason(role, err)
	if reason == "" && e.opt.Deadline > 0 && e.opt.Now().Sub(begin) > e.opt.Deadline {
		reason = "deadline"
	}
	if reason != "" {
		e.fallBack(ctx, v, app, pod, reason, err)
	}
	e.fill(v, pod, role)
	if v.decision.Cause == ledger.CausePolicy {
		e.watchCanary(app, pod)
	}
	return v
}

// ask notes that a pod is decided on: it matters when it is gone.
func (e *Engine) ask(pod *v1.Pod) {
	e.inbox.Lock()
	defer e.inbox.Unlock()
	e.inbox.asked[pod.UID] = true
}

// watchCanary compares a canary in shadow with Best-Fit.
func (e *Engine) watchCanary(app int32, pod *v1.Pod) {
	canary, _ := e.ledger.Policy(ledger.Canary)
	if canary == nil || modeOf(canary) != Shadow || len(e.bestFit) == 0 {
		return
	}
	var err error
	e.watched, err = e.order(ledger.Canary, app, 1, e.watched)
	if e.reason(ledger.Canary, err) != "" || len(e.watched) == 0 {
		return
	}
	theirs := e.watched[0].Machine
	if e.ledger.Columns().Items(theirs) == 0 {
		e.metrics.opened.WithLabelValues("canary").Inc()
	}
	e.tellDisagreement(pod, theirs)
}

// tellDisagreement tells of a node that a policy in shadow would take, if Best-Fit
// would not.
func (e *Engine) tellDisagreement(pod *v1.Pod, machine int32) {
	if bestFit := e.bestFit[0].Machine; machine != bestFit {
		e.event(pod, v1.EventTypeNormal, "ShadowDisagreement", fmt.Sprintf(
			"The placement policy in shadow would take node %s, Best-Fit %s.", e.ledger.NodeName(machine), e.ledger.NodeName(bestFit)))
	}
}

// places say where the nodes of a list are in the columns.
type places struct {
	nodes   []string
	state   *binpack.State // the columns
	machine []int32        // [place], -1 = none
	place   []int32        // [machine], -1 = none
}

// find brings the places up to date for a list.
func (p *places) find(nodes []string, l *ledger.Ledger) {
	state := l.Columns()
	if p.state == state && len(p.nodes) == len(nodes) && (len(nodes) == 0 || &p.nodes[0] == &nodes[0]) {
		return
	}
	p.nodes, p.state = nodes, state
	p.machine = slices.Grow(p.machine[:0], len(nodes))[:len(nodes)]
	p.place = slices.Grow(p.place[:0], state.Size())[:state.Size()]
	for m := range p.place {
		p.place[m] = -1
	}
	for i, name := range nodes {
		p.machine[i] = l.MachineIndex(name)
		if m := p.machine[i]; m >= 0 {
			p.place[m] = int32(i)
		}
	}
}

// mark lists the machines of nodes that passed the filters, ascending.
func (e *Engine) mark(nodes []string, passed []bool) {
	e.places.find(nodes, e.ledger)
	size := e.ledger.Columns().Size()
	e.marks = slices.Grow(e.marks[:0], size)[:size]
	clear(e.marks)
	for i, ok := range passed {
		if m := e.places.machine[i]; ok && m >= 0 {
			e.marks[m] = true
		}
	}
	e.passed = e.passed[:0]
	for m, ok := range e.marks {
		if ok {
			e.passed = append(e.passed, int32(m))
		}
	}
}

// order is the ledger's with panics as errors: a policy must not take the
// scheduler down.
func (e *Engine) order(role ledger.Role, app int32, top int, buf []binpack.Ranked) (ranked []binpack.Ranked, err error) {
	defer func() {
		if p := recover(); p != nil {
			e.ledger.Invalidate()
			ranked, err = buf[:0], panicked{p}
		}
	}()
	return e.rankBy(role, app, e.passed, top, buf)
}

// fallBack lets Best-Fit decide this once.
func (e *Engine) fallBack(ctx context.Context, v *Verdict, app int32, pod *v1.Pod, reason string, cause error) {
	e.metrics.fallbacks.WithLabelValues(reason).Inc()
	v.decision.Cause = ledger.CauseFallback + reason
	klog.FromContext(ctx).V(3).Info("Best-Fit decides instead of the policy", "pod", klog.KObj(pod), "reason", reason, "err", cause)
	if v.Decides {
		e.event(pod, v1.EventTypeWarning, "PolicyFallback", "Best-Fit decided instead of the placement policy: "+reasonText(reason, cause))
	}
	var err error
	if e.ranked, err = e.order(ledger.BestFit, app, e.opt.Top, e.ranked); err != nil {
		e.ranked = e.ranked[:0] // no preference; the pod is scheduled all the same
	}
}

// fill puts the ranking into the verdict by name and compares it with Best-Fit's.
func (e *Engine) fill(v *Verdict, pod *v1.Pod, role ledger.Role) {
	if len(e.ranked) == 0 {
		return
	}
	v.Ranked = make([]Ranked, len(e.ranked))
	for i, r := range e.ranked {
		v.Ranked[i] = Ranked{e.ledger.NodeName(r.Machine), e.places.place[r.Machine], r.Score}
	}
	v.choice = v.Ranked[0].Node
	v.decision.Score = v.Ranked[0].Score
	if len(v.Ranked) > 1 {
		v.decision.RunnerUp, v.decision.RunnerUpScore = v.Ranked[1].Node, v.Ranked[1].Score
	}
	if v.decision.Cause != ledger.CausePolicy || len(e.bestFit) == 0 {
		return
	}
	state := e.ledger.Columns()
	ours, theirs := e.ranked[0].Machine, e.bestFit[0].Machine
	if state.Items(ours) == 0 {
		e.metrics.opened.WithLabelValues("policy").Inc()
	}
	if state.Items(theirs) == 0 {
		e.metrics.opened.WithLabelValues("bestfit").Inc()
	}
	if ours == theirs {
		return
	}
	e.metrics.disagreements.WithLabelValues(string(role)).Inc()
	if !v.Decides {
		e.tellDisagreement(pod, ours)
	}
}

// Reserve notes that a pod goes to a node. v is the verdict of its cycle, nil when
// nothing was asked because one node was feasible.
func (e *Engine) Reserve(pod *v1.Pod, node string, v *Verdict) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reserve(pod, node, v)
}

func (e *Engine) reserve(pod *v1.Pod, node string, v *Verdict) {
	if !kube.Moves(pod) { // it comes with its node
		return
	}
	d := ledger.Decision{Cause: ledger.CauseSingle}
	switch {
	case v != nil:
		d = v.decision
		if v.choice != "" && v.choice != node {
			d.Choice = v.choice
		}
	case pod.Status.NominatedNodeName == node && node != "":
		d.Cause = ledger.CauseNominated
	}
	e.metrics.decisions.WithLabelValues(cmp.Or(d.Mode, "none"), d.Cause).Inc()
	e.ask(pod)
	e.cluster.Decide(pod, node, &d)
	e.flush()
}

// Measure brings the gauges up to date where no pods come.
func (e *Engine) Measure() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.measure()
}

// measure brings the gauges up to date, now and then.
func (e *Engine) measure() {
	now := e.opt.Now()
	if now.Sub(e.measuredAt) < e.opt.measureEvery {
		return
	}
	e.measuredAt = now
	state := e.ledger.Columns()
	before := e.measured
	e.measured = map[string]bool{}
	for d, rate := range measure.AllocationRate(state) {
		name := state.Instance().Dimensions[d].Name
		e.metrics.allocation.WithLabelValues(name).Set(rate)
		e.measured[name] = true
	}
	for name := range before {
		if !e.measured[name] { // nobody asks for it any more
			e.metrics.allocation.forget(name)
		}
	}
	e.metrics.fragment.Set(measure.Fragment(state, state.Alive()))
	e.metrics.active.Set(float64(state.Active()))
	e.metrics.nodes.Set(float64(state.Size()))
	e.flush()
}
