package engine

import (
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// Options configure an engine. A duration of 0 turns its limit off.
type Options struct {
	Profile     string // name in logs and metrics
	PolicyName  string // of the PlacementPolicy that decides
	CanaryName  string // of one that decides for a share of the workloads; "" = no canary
	AppLabel    string
	Fleet       string // open or fixed
	Prices      string // path of a file of node prices; "" = no file
	DecisionLog string // path; "" = no log
	// DecisionLogBytes is the size at which the log continues in another file, 0 = never;
	// DecisionLogFiles is the number of former files that are kept, 0 = all.
	DecisionLogBytes int64
	DecisionLogFiles int
	Deadline         time.Duration
	ForecastAge      time.Duration // at which a forecast is stale
	Top              int           // nodes that Rank ranks
	Repairs          bool          // a caller executes eviction chains
	ReadOnly         bool          // another process writes the statuses and the history of policies
	MaxGrace         time.Duration // longest grace period of a pod that moves; 0 = podspec.MaxGrace
	Peers            *Peers        // of the process; nil = no peers
	Recorder         events.EventRecorder
	Leads            func() bool // whether this process decides, and so writes the history of policies; nil = it does
	Now              func() time.Time
}

// An Engine serves one profile of a scheduler, or one extender. Its methods may be
// called concurrently.
type Engine struct {
	opt     Options
	metrics *profileMetrics
	events  *eventSink
	repair  atomic.Pointer[policy.Repair]
	watching
	inbox

	repairChanged atomic.Pointer[func()]
	chosen        sync.Map // [ledger.Role] file that decides; "" = the policy does not choose

	mu         sync.Mutex
	state      *state
	ranking    ranking
	measured   measured
	sweptAt    time.Time
	syncedAt   time.Time
	reviewedAt time.Time // the plans
	compared   compared
	reported   map[types.UID]reported // pods against a rule that no Sync has seen yet
	faulty     map[string]bool        // faults of annotations that were reported
}

// A Node is a node of the cluster with its pods, the assumed ones included.
type Node struct {
	Object *v1.Node
	Pods   []*v1.Pod
}

// New returns an engine without nodes.
func New(opt Options) (*Engine, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	metrics := metricsOf(opt.Profile)
	state, err := newState(&opt, metrics)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		opt: opt, metrics: metrics, events: newEventSink(opt.Recorder, opt.Now),
		inbox: inbox{now: opt.Now, tracked: map[types.UID]bool{}}, state: state, ranking: ranking{rankBy: state.ledger.Rank},
		measured: measured{every: measureEvery}, reported: map[types.UID]reported{},
	}
	opt.Peers.join(e)
	return e, nil
}

// Close closes the decision log.
func (e *Engine) Close() error {
	e.opt.Peers.leave(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.log.close()
}

// A Visit passes every node that may have changed since the last visit to set, and
// the names of deleted nodes to gone. With all, it passes every node.
type Visit func(all bool, set func(Node), gone func(name string))

// Sync brings the engine up to date: with the events since the last decision,
// then with the nodes.
func (e *Engine) Sync(visit Visit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.state
	s.log.look()
	if s.restartIfBroken() {
		clear(e.reported)
	}
	m := e.empty()
	s.enter(m)
	e.tellFaults()
	e.sweep()
	e.syncedAt = e.opt.Now()
	first := s.fresh
	s.fresh = false
	visit(first, func(n Node) {
		found := s.cluster.SetNode(n.Object, n.Pods)
		if !first && len(s.cluster.Rules()) > 0 {
			e.findConflicts(found)
		}
	}, func(name string) {
		s.cluster.RemoveNode(name)
		e.reviewedAt = time.Time{} // its pods are replanned before another one is placed
	})
	for _, chain := range m.begun { // next to the pods that run by now
		s.cluster.Reserve(chain, seconds(e.opt.Now()))
	}
	e.reviewPlans()
	e.measure()
}
