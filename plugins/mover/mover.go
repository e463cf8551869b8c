package mover

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/internal/cputime"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

const (
	// mostChains are under way at a time.
	mostChains = 4
	// searchShare bounds the processor time of searches: after one that used d, no other begins for
	// searchShare × d. Time in which other processes use the processor does not count.
	searchShare = 10
	// mostAway are tried at once when a chain ends.
	mostAway = 1000
	// mostWoken is the number of pods tried after a wait, and soon is the wait if there was no time to
	// search.
	mostWoken, soon = 100, 10 * time.Second
	// stillFor is how long no second pod of a workload moves: the limits of evictions allow
	// most workloads one an hour. refusedFor is the same after a refusal.
	stillFor, refusedFor = time.Hour, 10 * time.Minute
	// againAfter is the wait before a pod whose chain failed, or for which no chain was found, is tried
	// again.
	againAfter = time.Minute
	// slack is added to the pod's termination time in the timeout of a step.
	slack = time.Minute
	// unseen is how long an informer may not show that a pod is being deleted.
	unseen = 15 * time.Second
	// lookEvery is how often a chain looks at its places.
	lookEvery = time.Second
)

// A Cluster is a mover's view of the scheduler and the API server.
type Cluster interface {
	// Pod is a pod as the informer has it; nil = deleted.
	Pod(namespace, name string) *v1.Pod
	// Stays returns a predicate for the pods that a disruption budget, or the constraints of other pods
	// ([podspec.Others]), keep where they are now.
	Stays() func(*v1.Pod) bool
	// Refusal returns why the scheduler's filters refuse the first of some places, once the pods in gone have left
	// their nodes; "" = they allow all. For a pod that has a node, its replacement is filtered.
	Refusal(ctx context.Context, gone []*v1.Pod, places ...kube.Place) string
	// Ends reports whether a pod on a node is being deleted. It is called in a pod's cycle.
	Ends(node string) bool
	// Activate lets the scheduler try pods at once.
	Activate(...*v1.Pod)
	// Evict evicts a pod, if perHour allows another eviction for this policy within the hour. A deleted
	// pod is no error, nor is an answer that was lost.
	Evict(ctx context.Context, perHour int, pod *v1.Pod) error
	// Evicted is the number of pods evicted for this policy within the hour, by any scheduler.
	Evicted(context.Context) (int, error)
}

// A Mover serves one profile. Its methods may be called concurrently.
type Mover struct {
	engine  *engine.Engine
	cluster Cluster
	now     func() time.Time
	used    func() float64  // processor time of the thread, in seconds
	ctx     context.Context // of the scheduler: chains end with it

	mu       sync.Mutex
	chains   map[types.UID]*chain    // by the pod that waits
	gaps     map[types.UID]*gap      // that chains have left, by the pod that waited
	rest     map[types.UID]time.Time // pods for which nothing is tried before
	told     map[types.UID]bool      // pods that DryRun has reported
	away     line                    // pods without a chain: tried when one ends, and when the mode changes
	still    map[string]time.Time    // workloads of which no pod moves before
	nodes    map[types.UID]string    // that chains have nominated, by the pod that waits
	moved    []time.Time             // of the last hour, since this process started
	written  written
	searchAt time.Time // of the next search
	wakeAt   time.Time // of the next try of pods without a chain; zero = no try is due
	running  sync.WaitGroup
}

type chain struct {
	*engine.Rescue
	wake    chan struct{}
	begun   int         // moves; the mover's lock guards it
	evicted time.Time   // when the last of them was
	gap     *gap        // of the last move that has begun; nil = its replacement is ready
	gives   atomic.Bool // way to a pod of higher priority
}

// New returns a mover that ends with ctx.
func New(ctx context.Context, e *engine.Engine, c Cluster, now func() time.Time) *Mover {
	m := &Mover{
		engine: e, cluster: c, now: now, used: cputime.Thread, ctx: ctx, chains: map[types.UID]*chain{}, gaps: map[types.UID]*gap{}, rest: map[types.UID]time.Time{},
		told: map[types.UID]bool{}, still: map[string]time.Time{}, away: newLine(), nodes: map[types.UID]string{},
	}
	e.WhenRepairChanges(m.modeChanged)
	return m
}

// modeChanged tries the pods that wait once more.
func (m *Mover) modeChanged() {
	m.mu.Lock()
	clear(m.rest)
	clear(m.told)
	count := m.engine.Repair().Mode == policy.RepairEnabled && m.written.due(m.now())
	m.mu.Unlock()
	if count {
		m.count()
	}
	m.mu.Lock()
	pods := m.away.take(mostAway)
	m.mu.Unlock()
	m.cluster.Activate(pods...)
}

// wakeIn has some pods without a chain tried after a while.
func (m *Mover) wakeIn(d time.Duration) {
	at := m.now().Add(d)
	if !m.wakeAt.IsZero() && !at.Before(m.wakeAt) {
		return
	}
	m.wakeAt = at
	time.AfterFunc(d, func() {
		m.mu.Lock()
		if !m.now().Before(m.wakeAt) {
			m.wakeAt = time.Time{}
		}
		pods := m.away.take(mostWoken)
		m.mu.Unlock()
		if m.ctx.Err() == nil && len(pods) > 0 {
			m.cluster.Activate(pods...)
		}
	})
}

// MakeRoom begins a chain for a pod that fits on no node, or continues its chain, and returns the node
// that it opens; "" = no chain is in progress. It is called in the pod's cycle. nodes returns those that
// lack room or that a rule or a reservation closes; open runs the other filters for the pod on the node
// without the pods in gone.
func (m *Mover) MakeRoom(pod *v1.Pod, nodes func() []string, open func(node string, gone []*v1.Pod) bool) (node string) {
	r := m.engine.Repair()
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.chains[pod.UID]; c != nil {
		c.poke()
		return c.Node
	}
	m.away.add(pod)
	if r.Mode == policy.RepairDisabled || m.told[pod.UID] && r.Mode == policy.RepairDryRun {
		return ""
	}
	if on := pod.Status.NominatedNodeName; on != "" && m.cluster.Ends(on) { // preemption makes room: else the nomination is out of date
		return ""
	}
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
		return ""
	}
	now := m.now()
	if r.Mode == policy.RepairEnabled && m.written.due(now) {
		go m.count()
	}
	most := min(*r.Chain, m.left(now, *r.MovesPerHour))
	switch {
	case len(m.chains)+len(m.gaps) >= mostChains || m.gaps[pod.UID] != nil: // the end of one wakes it
		m.away.waits(pod.Namespace, now)
		return ""
	case m.has(pod.Namespace) >= mostOfOne:
		return ""
	case most < 1:
		m.away.waits(pod.Namespace, now)
		m.wakeIn(againAfter)
		return ""
	case now.Before(m.rest[pod.UID]):
		m.wakeIn(m.rest[pod.UID].Sub(now))
		return ""
	case now.Before(m.searchAt) || !m.away.isNext(pod.Namespace, now):
		m.away.waits(pod.Namespace, now)
		m.wakeIn(soon)
		return ""
	}
	m.away.serves(pod.Namespace, now)
	rescue := m.find(pod, nodes(), most, m.stays(now))
	if rescue == nil || !open(rescue.Node, leaving(rescue)) {
		m.restFor(pod.UID)
		m.wakeIn(againAfter)
		return ""
	}
	if r.Mode == policy.RepairDryRun {
		m.told[pod.UID] = true
		m.engine.TellBegun(rescue, r.Mode)
		return ""
	}
	m.away.remove(pod)
	m.begin(rescue)
	return rescue.Node
}

// find searches for a chain, and sets the time before which no other search begins.
func (m *Mover) find(pod *v1.Pod, nodes []string, most int, stays func(*v1.Pod) bool) *engine.Rescue {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := m.used()
	rescue := m.engine.FindRoom(pod, nodes, most, stays)
	m.searchAt = m.now().Add(time.Duration(searchShare * (m.used() - before) * float64(time.Second)))
	return rescue
}

// TakesBack reports, once, whether a pod's nomination is that of a chain that has ended. The caller
// takes it back: the scheduler would keep others off the node.
func (m *Mover) TakesBack(pod *v1.Pod) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.nodes[pod.UID]
	if m.chains[pod.UID] != nil || node == "" || node != pod.Status.NominatedNodeName {
		return false
	}
	delete(m.nodes, pod.UID)
	return true
}

// GiveWay ends the chains, once a move that has begun is done, whose reservations keep off a pod of
// higher priority for which there is no other room. why returns the reason why our filter refuses a node; "" = it does not.
func (m *Mover) GiveWay(pod *v1.Pod, why func(node string) string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.chains {
		if corev1.PodPriority(c.Pod) >= corev1.PodPriority(pod) {
			continue
		}
		for number := range len(c.Moves) + 1 {
			if strings.HasPrefix(why(placeOf(c.Rescue, number)), c.By+": ") {
				c.gives.Store(true)
				c.poke()
			}
		}
	}
}

// stays reports which pods must not be evicted: because of disruption budgets, since one of the
// workload was lately, and since a replacement in the namespace is awaited.
func (m *Mover) stays(now time.Time) func(*v1.Pod) bool {
	maps.DeleteFunc(m.still, func(_ string, until time.Time) bool { return !now.Before(until) })
	budgets := m.cluster.Stays()
	return func(p *v1.Pod) bool {
		return !m.still[controller(p)].IsZero() || m.leavesGap(p.Namespace) || budgets(p)
	}
}

// keep keeps the pods of a workload where they are for a while.
func (m *Mover) keep(p *v1.Pod, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if until := m.now().Add(d); until.After(m.still[controller(p)]) {
		m.still[controller(p)] = until
	}
}

func controller(p *v1.Pod) string {
	if c := metav1.GetControllerOfNoCopy(p); c != nil {
		return p.Namespace + "/" + c.Kind + "/" + c.Name
	}
	return p.Namespace + "/" + p.Name
}

// left is the number of moves that the last hour leaves. The number made is that of the evictions recorded in the
// workloads, if they were counted lately, or of this scheduler's own if larger: a record is deleted with its
// workload.
func (m *Mover) left(now time.Time, perHour int) int {
	m.moved = slices.DeleteFunc(m.moved, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	for _, c := range m.chains {
		perHour -= len(c.Moves) - c.begun // all may still be made
	}
	return perHour - max(len(m.moved), m.counted(now))
}

// leaving are the pods that leave the node that a rescue opens.
func leaving(r *engine.Rescue) (gone []*v1.Pod) {
	for _, move := range r.Moves {
		if move.Pod.Spec.NodeName == r.Node {
			gone = append(gone, move.Pod)
		}
	}
	return gone
}

// restFor keeps a pod from another try for a while.
func (m *Mover) restFor(uid types.UID) {
	if len(m.rest) > 10_000 {
		clear(m.rest)
	}
	m.rest[uid] = m.now().Add(againAfter)
}

func (m *Mover) begin(r *engine.Rescue) {
	until := m.now().Add(slack)
	for _, move := range r.Moves {
		until = until.Add(2 * m.patience(move.Pod)) // to be free, to be taken
	}
	m.engine.Begin(r, float64(until.UnixMicro())/1e6)
	m.engine.TellBegun(r, policy.RepairEnabled)
	c := &chain{Rescue: r, wake: make(chan struct{}, 1)}
	m.chains[r.Pod.UID], m.nodes[r.Pod.UID] = c, r.Node
	m.running.Go(func() { m.run(c) })
}

// patience is the timeout of a step: the pod ends, its replacement runs.
func (m *Mover) patience(pod *v1.Pod) time.Duration {
	return podspec.Patience(pod, m.engine.MaxGrace()) + 2*slack
}

func (c *chain) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run carries a chain out and ends it.
func (m *Mover) run(c *chain) {
	outcome, err := m.carryOut(c)
	log := klog.FromContext(m.ctx).WithValues("pod", klog.KObj(c.Pod), "outcome", outcome)
	if err != nil {
		log.Info("A chain of moves ended early", "why", err.Error())
	}
	m.engine.End(c.Rescue)
	m.engine.TellEnded(c.Rescue, outcome, err)
	m.mu.Lock()
	delete(m.chains, c.Pod.UID)
	if outcome == done {
		c.gap = nil // its place is taken
	} else if c.gap != nil {
		c.gap.of, m.gaps[c.Pod.UID] = c.Pod.Namespace, c.gap
	}
	pods := append(m.away.take(mostAway), c.Pod)
	clear(m.rest) // the end of a chain may open what it kept
	if err != nil {
		m.restFor(c.Pod.UID)
	}
	m.mu.Unlock()
	m.cluster.Activate(pods...)
	if c.gap != nil {
		go m.waitOut(c)
	}
}

// Gone handles a pod that no longer waits: it was deleted, or has a node.
func (m *Mover) Gone(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.told, pod.UID)
	delete(m.rest, pod.UID)
	m.away.remove(pod)
	delete(m.away.asked, pod.Namespace) // another pod of it may enter again
	delete(m.nodes, pod.UID)
	for _, c := range m.chains {
		c.poke()
	}
}

// Wait returns when no chain is in progress any more. No chain begins afterwards.
func (m *Mover) Wait() { m.running.Wait() }

var errStopped = errors.New("the scheduler stops")
