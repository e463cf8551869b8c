package drain

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/internal/cputime"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

const (
	// maxChains are under way at a time.
	maxChains = 4
	// searchShare bounds the processor time of searches: after one that used d, no other begins for
	// searchShare × d. Time in which other processes use the processor does not count.
	searchShare = 10
	// maxWaiting are tried at once when a chain ends.
	maxWaiting = 1000
	// maxWoken is the number of pods tried after a wait, and searchRetry is the wait if there was no time to
	// search.
	maxWoken, searchRetry = 100, 10 * time.Second
	// workloadPause is how long no second pod of a workload moves: the limits of evictions allow
	// most workloads one an hour. refusedPause is the same after a refusal.
	workloadPause, refusedPause = time.Hour, 10 * time.Minute
	// chainRetry is the wait before a pod whose chain failed, or for which no chain was found, is tried
	// again.
	chainRetry = time.Minute
)

// A Cluster is a view for chains of the scheduler and the API server.
type Cluster interface {
	// Pod is a pod as the informer has it; nil = deleted.
	Pod(namespace, name string) *v1.Pod
	// Workload returns all pods of a pod's workload as the informer has them.
	Workload(*v1.Pod) []*v1.Pod
	// NotEvictable returns a predicate for the pods that a disruption budget, or the constraints of other pods
	// ([podspec.Others]), keep where they are now.
	NotEvictable() func(*v1.Pod) bool
	// Refusal returns why the scheduler's filters refuse the first of some places, once the pods in gone have left
	// their nodes; "" = they allow all. For a pod that has a node, its replacement is filtered.
	Refusal(ctx context.Context, gone []*v1.Pod, places ...kube.Place) string
	// Ends reports whether a pod on a node is being deleted. It is called in a pod's cycle.
	Ends(node string) bool
	// Activate lets the scheduler try pods at once.
	Activate(...*v1.Pod)
	// Evict evicts a pod, if perHour allows another eviction for this policy within the hour. A deleted
	// pod is no error; a lost answer is an [evict.UncertainError].
	Evict(ctx context.Context, perHour int, pod *v1.Pod) error
	// Evicted is the number of pods evicted for this policy within the hour, by any scheduler.
	Evicted(context.Context) (int, error)
}

// A Chains serves one profile. Its methods may be called concurrently.
type Chains struct {
	engine  *engine.Engine
	cluster Cluster
	now     func() time.Time
	used    func() float64  // processor time of the thread, in seconds
	ctx     context.Context // of the scheduler: chains end with it

	mu          sync.Mutex
	chains      map[types.UID]*chain    // by the pod that waits
	gaps        map[types.UID]*gap      // that chains have left, by the pod that waited
	retryAt     map[types.UID]time.Time // pods for which nothing is tried before
	reported    map[types.UID]bool      // pods that DryRun has reported
	waiting     waitingQueue            // pods without a chain: tried when one ends, and when the mode changes
	pausedUntil map[string]time.Time    // workloads of which no pod moves before
	nominated   map[types.UID]string    // that chains have nominated, by the pod that waits
	evictedAt   []time.Time             // of the last hour, since this process started
	counted     evictionCount
	nextSearch  time.Time // of the next search
	wakeAt      time.Time // of the next try of pods without a chain; zero = no try is due
	running     sync.WaitGroup
}

// NewChains returns chains that end with ctx.
func NewChains(ctx context.Context, e *engine.Engine, c Cluster, now func() time.Time) *Chains {
	m := &Chains{
		engine: e, cluster: c, now: now, used: cputime.Thread, ctx: ctx, chains: map[types.UID]*chain{}, gaps: map[types.UID]*gap{}, retryAt: map[types.UID]time.Time{},
		reported: map[types.UID]bool{}, pausedUntil: map[string]time.Time{}, waiting: newWaitingQueue(), nominated: map[types.UID]string{},
	}
	e.WhenRepairChanges(m.modeChanged)
	return m
}

// modeChanged tries the pods that wait once more.
func (m *Chains) modeChanged() {
	m.mu.Lock()
	clear(m.retryAt)
	clear(m.reported)
	count := m.engine.Repair().Mode == policy.RepairEnabled && m.counted.due(m.now())
	m.mu.Unlock()
	if count {
		m.countEvictions()
	}
	m.mu.Lock()
	pods := m.waiting.take(maxWaiting)
	m.mu.Unlock()
	m.cluster.Activate(pods...)
}

// wakeIn has some pods without a chain tried after a while.
func (m *Chains) wakeIn(d time.Duration) {
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
		pods := m.waiting.take(maxWoken)
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
func (m *Chains) MakeRoom(pod *v1.Pod, nodes func() []string, open func(node string, gone []*v1.Pod) bool) (node string) {
	r := m.engine.Repair()
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.chains[pod.UID]; c != nil {
		c.wakeUp()
		return c.Node
	}
	m.waiting.add(pod)
	if r.Mode == policy.RepairDisabled || m.reported[pod.UID] && r.Mode == policy.RepairDryRun {
		return ""
	}
	if on := pod.Status.NominatedNodeName; on != "" && m.cluster.Ends(on) { // preemption makes room: else the nomination is out of date
		return ""
	}
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
		return ""
	}
	now := m.now()
	if r.Mode == policy.RepairEnabled && m.counted.due(now) {
		go m.countEvictions()
	}
	most := min(*r.Chain, m.movesLeft(now, *r.MovesPerHour))
	switch {
	case len(m.chains)+len(m.gaps) >= maxChains || m.gaps[pod.UID] != nil: // the end of one wakes it
		m.waiting.recordWait(pod.Namespace, now)
		return ""
	case m.inProgress(pod.Namespace) >= maxOfNamespace:
		return ""
	case most < 1:
		m.waiting.recordWait(pod.Namespace, now)
		m.wakeIn(chainRetry)
		return ""
	case now.Before(m.retryAt[pod.UID]):
		m.wakeIn(m.retryAt[pod.UID].Sub(now))
		return ""
	case now.Before(m.nextSearch) || !m.waiting.isNext(pod.Namespace, now):
		m.waiting.recordWait(pod.Namespace, now)
		m.wakeIn(searchRetry)
		return ""
	}
	m.waiting.recordSearch(pod.Namespace, now)
	rescue := m.find(pod, nodes(), most, m.notEvictable(now))
	if rescue == nil || !open(rescue.Node, leaving(rescue)) {
		m.delayRetry(pod.UID)
		m.wakeIn(chainRetry)
		return ""
	}
	if r.Mode == policy.RepairDryRun {
		m.reported[pod.UID] = true
		m.engine.ReportBegun(rescue, r.Mode)
		return ""
	}
	m.waiting.remove(pod)
	m.begin(rescue)
	return rescue.Node
}

// find searches for a chain, and sets the time before which no other search begins.
func (m *Chains) find(pod *v1.Pod, nodes []string, most int, stays func(*v1.Pod) bool) *engine.EvictionChain {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := m.used()
	rescue := m.engine.FindRoom(pod, nodes, most, stays)
	m.nextSearch = m.now().Add(time.Duration(searchShare * (m.used() - before) * float64(time.Second)))
	return rescue
}

// TakesBack reports, once, whether a pod's nomination is that of a chain that has ended. The caller
// takes it back: the scheduler would keep others off the node.
func (m *Chains) TakesBack(pod *v1.Pod) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.nominated[pod.UID]
	if m.chains[pod.UID] != nil || node == "" || node != pod.Status.NominatedNodeName {
		return false
	}
	delete(m.nominated, pod.UID)
	return true
}

// GiveWay ends the chains, once a move that has begun is done, whose reservations keep off a pod of
// higher priority for which there is no other room. why returns the reason why our filter refuses a node; "" = it does not.
func (m *Chains) GiveWay(pod *v1.Pod, why func(node string) string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.chains {
		if corev1.PodPriority(c.Pod) >= corev1.PodPriority(pod) {
			continue
		}
		for number := range len(c.Moves) + 1 {
			if strings.HasPrefix(why(placeOf(c.EvictionChain, number)), c.By+": ") {
				c.yields.Store(true)
				c.wakeUp()
			}
		}
	}
}

// notEvictable reports which pods must not be evicted: because of disruption budgets, since one of the
// workload was lately, and since a replacement in the namespace is awaited.
func (m *Chains) notEvictable(now time.Time) func(*v1.Pod) bool {
	maps.DeleteFunc(m.pausedUntil, func(_ string, until time.Time) bool { return !now.Before(until) })
	budgets := m.cluster.NotEvictable()
	return func(p *v1.Pod) bool {
		return !m.pausedUntil[controllerOf(p)].IsZero() || m.hasGap(p.Namespace) || budgets(p)
	}
}

// pause keeps the pods of a workload where they are for a while.
func (m *Chains) pause(p *v1.Pod, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if until := m.now().Add(d); until.After(m.pausedUntil[controllerOf(p)]) {
		m.pausedUntil[controllerOf(p)] = until
	}
}

func controllerOf(p *v1.Pod) string {
	if c := metav1.GetControllerOfNoCopy(p); c != nil {
		return p.Namespace + "/" + c.Kind + "/" + c.Name
	}
	return p.Namespace + "/" + p.Name
}

// movesLeft is the number of moves that the last hour leaves. The number made is that of the evictions recorded in the
// workloads, if they were counted lately, or of this scheduler's own if larger: a record is deleted with its
// workload.
func (m *Chains) movesLeft(now time.Time, perHour int) int {
	m.evictedAt = slices.DeleteFunc(m.evictedAt, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	for _, c := range m.chains {
		perHour -= len(c.Moves) - c.begun // all may still be made
	}
	return perHour - max(len(m.evictedAt), m.recentEvictions(now))
}

// leaving are the pods that leave the node that a chain opens.
func leaving(r *engine.EvictionChain) (gone []*v1.Pod) {
	for _, move := range r.Moves {
		if move.Pod.Spec.NodeName == r.Node {
			gone = append(gone, move.Pod)
		}
	}
	return gone
}

// delayRetry keeps a pod from another try for a while.
func (m *Chains) delayRetry(uid types.UID) {
	if len(m.retryAt) > 10_000 {
		clear(m.retryAt)
	}
	m.retryAt[uid] = m.now().Add(chainRetry)
}

// Gone handles a pod that no longer waits: it was deleted, or has a node.
func (m *Chains) Gone(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reported, pod.UID)
	delete(m.retryAt, pod.UID)
	m.waiting.remove(pod)
	delete(m.waiting.waitingSince, pod.Namespace) // another pod of it may enter again
	delete(m.nominated, pod.UID)
	for _, c := range m.chains {
		c.wakeUp()
	}
}

// Wait returns when no chain is in progress any more. No chain begins afterwards.
func (m *Chains) Wait() { m.running.Wait() }
