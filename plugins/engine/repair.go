package engine

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/defrag"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A EvictionChain is an eviction chain that makes room for a pod.
type EvictionChain struct {
	Pod   *v1.Pod
	Node  string        // that it opens
	Moves []defrag.Move // in the order in which they are executed
	By    string        // the requester's name in its reservations
	chain *kube.Chain
}

// String describes the moves: 2 pods make room on node n7: shop/web-1 moves to n3, shop/web-2 to n4.
func (r *EvictionChain) String() string {
	var b strings.Builder
	noun := "pods make"
	if len(r.Moves) == 1 {
		noun = "pod makes"
	}
	fmt.Fprintf(&b, "%d %s room on node %s:", len(r.Moves), noun, r.Node)
	for i, m := range r.Moves {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s/%s moves from %s to %s", m.Pod.Namespace, m.Pod.Name, m.Pod.Spec.NodeName, m.To)
	}
	return b.String()
}

// Repair returns the repair of the profile's policy. In shadow mode, in which a policy decides
// nothing, it is at most a dry run.
func (e *Engine) Repair() policy.Repair {
	if r := e.repair.Load(); r != nil {
		return *r
	}
	return (*policy.Repair)(nil).Complete()
}

// MaxGrace returns the longest grace period of a pod that moves; 0 = [podspec.MaxGrace].
func (e *Engine) MaxGrace() time.Duration { return e.opt.MaxGrace }

// setRepair stores a policy's repair.
func (e *Engine) setRepair(object *policy.Object) {
	var r policy.Repair
	if object == nil {
		r = (*policy.Repair)(nil).Complete()
	} else if r = object.Spec.Repair.Complete(); r.Mode == policy.RepairEnabled && modeOf(object) == policy.Shadow {
		r.Mode = policy.RepairDryRun
	}
	before := e.Repair()
	e.repair.Store(&r)
	if f := e.repairChanged.Load(); f != nil && before.Mode != r.Mode {
		go (*f)()
	}
}

// WhenRepairChanges sets a function that is called when the mode of repair changes.
func (e *Engine) WhenRepairChanges(f func()) { e.repairChanged.Store(&f) }

// FindRoom searches a chain with at most most moves that opens one of some nodes, which lack
// room or which a rule closes, to a pod. stays reports which pods must not be evicted now. It returns nil if there is no such chain.
// It is called within the pod's cycle.
func (e *Engine) FindRoom(pod *v1.Pod, nodes []string, most int, stays func(*v1.Pod) bool) *EvictionChain {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.broken != nil || !podspec.Moves(pod) {
		return nil
	}
	a := e.state.cluster.EnsureApp(pod)
	if a == nil {
		return nil
	}
	begin := e.opt.Now()
	defer func() { e.metrics.repairSearch.Observe(e.opt.Now().Sub(begin).Seconds()) }()
	list, node := defrag.Find(e.state.ledger, defrag.Request{
		Pod: pod, App: a.Name(), Nodes: nodes, Chain: most, MinReplicas: *e.Repair().MinReplicas, MaxGrace: e.opt.MaxGrace, Stays: stays, Claimed: func(group string) bool { return e.state.cluster.Claimed(group) || e.state.cluster.ByZone(group) },
	})
	if node == "" {
		return nil
	}
	return &EvictionChain{Pod: pod, Node: node, Moves: list}
}

// Begin reserves the places of an eviction chain until a time, in seconds since 1970. It is called
// in the cycle in which the chain was found.
func (e *Engine) Begin(r *EvictionChain, until float64) {
	places := make([]kube.Place, 0, len(r.Moves)+1)
	for _, m := range r.Moves {
		places = append(places, kube.Place{Pod: m.Pod, Node: m.To})
	}
	places = append(places, kube.Place{Pod: r.Pod, Node: r.Node})
	e.mu.Lock()
	defer e.mu.Unlock()
	r.By = fmt.Sprintf("PlacementPolicy/%s make-room %s/%s", e.opt.PolicyName, r.Pod.Namespace, r.Pod.Name)
	r.chain = kube.NewChain(r.By, until, places, e.opt.AppLabel)
	e.state.cluster.Reserve(r.chain, seconds(e.opt.Now()))
	e.state.log.flush()
	e.opt.Peers.begin(e, r.chain, r.By, until, places)
}

// End releases the reservations of an eviction chain, before the next decision.
func (e *Engine) End(r *EvictionChain) { e.Release(r.chain) }

// PlaceOf returns the state of the place of a move, by its number; that of the pod itself follows
// the last. Pods that left a node count once the next cycle has begun.
func (e *Engine) PlaceOf(r *EvictionChain, number int) kube.PlaceState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.cluster.PlaceOf(r.chain, number)
}

// Occupant returns the pod that has taken the place of a move, by its number, as last observed; nil if no
// pod has.
func (e *Engine) Occupant(r *EvictionChain, number int) *v1.Pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.cluster.Occupant(r.chain, number)
}

// PlacedPods returns the pods of a pod's workload that have a node, as last observed, in no order.
func (e *Engine) PlacedPods(pod *v1.Pod) []*v1.Pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.cluster.PlacedPods(pod)
}

// ReportBegun counts an eviction chain that begins, or in DryRun would begin, and reports it in an event of the
// pod.
func (e *Engine) ReportBegun(r *EvictionChain, mode policy.RepairMode) {
	e.metrics.chainsBegun.WithLabelValues(string(mode)).Inc()
	if mode == policy.RepairEnabled {
		e.events.emit(r.Pod, v1.EventTypeNormal, "MakingRoom", r.String()+".")
	} else {
		e.events.emit(r.Pod, v1.EventTypeNormal, "CouldMakeRoom", "Were repair enabled: "+r.String()+".")
	}
}

// ReportEnded counts an eviction chain that ended. An event has the reason, unless the pod got its place.
func (e *Engine) ReportEnded(r *EvictionChain, outcome string, why error) {
	e.metrics.chainsEnded.WithLabelValues(outcome).Inc()
	if why != nil {
		e.events.emit(r.Pod, v1.EventTypeNormal, "NoRoomMade", "No more pods move for it: "+why.Error()+".")
	}
}

// CountMove counts a move of an eviction chain.
func (e *Engine) CountMove(outcome string) { e.metrics.repairMoves.WithLabelValues(outcome).Inc() }

// describeRepair adds the state of the repair that a policy requests.
func (w *watcher) describeRepair(s *statement, object *policy.Object, role ledger.Role) {
	if object == nil {
		return
	}
	full := object.Spec.Repair.Complete()
	if full.Mode == policy.RepairDisabled && meta.FindStatusCondition(conditionsOf(s.object), v1alpha1.ConditionRepair) == nil {
		return
	}
	add := func(status metav1.ConditionStatus, reason, message string) {
		s.add(v1alpha1.ConditionRepair, status, reason, message)
	}
	switch {
	case full.Mode == policy.RepairDisabled:
		add(metav1.ConditionTrue, "Disabled", "No pod moves.")
	case !w.engine.opt.Repairs:
		add(metav1.ConditionFalse, "ExtenderCannot", "The extender moves no pods: only kube-scheduler with the plugin Sigma does.")
	case role != ledger.Primary:
		add(metav1.ConditionFalse, "NotPrimary", "Only the policy that a profile names as policyName moves pods.")
	case full.Mode == policy.RepairEnabled && modeOf(object) == policy.Shadow:
		add(metav1.ConditionFalse, "Shadow", "It only says what it would do, as with DryRun: spec.mode is shadow.")
	case full.Mode == policy.RepairEnabled:
		add(metav1.ConditionTrue, "Enabled", fmt.Sprintf("At most %d pods move for one that fits on no node, at most %d an hour.", *full.Chain, *full.MovesPerHour))
	default:
		add(metav1.ConditionTrue, "DryRun", "No pod moves; events of the pods that wait say which would.")
	}
}
