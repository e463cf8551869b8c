package drain

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A chain of moves that is carried out, one pod at a time.
type chain struct {
	*engine.EvictionChain
	*drain
	wake   chan struct{}
	begun  int         // moves; the lock of Chains guards it
	gap    *gap        // of the last move that has begun
	err    error       // of the last action
	yields atomic.Bool // way to a pod of higher priority
}

// begin reserves the places of a chain, and carries it out.
func (m *Chains) begin(r *engine.EvictionChain) {
	c := &chain{EvictionChain: r, drain: &drain{stage: reserved, inFlight: 1}, wake: make(chan struct{}, 1)}
	for _, mv := range r.Moves { // no two of one workload: each has its own name
		c.moves = append(c.moves, &move{moved: &movedPod{mv.Pod}, to: mv.To, group: string(mv.Pod.UID), maxGrace: m.engine.MaxGrace()})
	}
	m.engine.Begin(r, float64(c.deadline(m.now()).UnixMicro())/1e6)
	m.engine.ReportBegun(r, policy.RepairEnabled)
	m.chains[r.Pod.UID], m.nominated[r.Pod.UID] = c, r.Node
	m.running.Go(func() { m.run(c) })
}

func (c *chain) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run carries a chain out and ends it.
func (m *Chains) run(c *chain) {
	tick := time.NewTicker(stepEvery)
	defer tick.Stop()
	for m.step(c); !c.finished(); m.step(c) {
		select {
		case <-m.ctx.Done():
			c.handleError(m.now(), c.err) // a pod whose eviction failed is not away
			c.giveUp("the scheduler stops", stopped)
			c.stage = givenUp
		case <-tick.C:
		case <-c.wake:
		}
	}
	m.engine.End(c.EvictionChain)
	var why error
	if c.outcome != done && c.outcome != notNeeded {
		why = errors.New(c.why)
		klog.FromContext(m.ctx).Info("A chain of moves ended early", "pod", klog.KObj(c.Pod), "outcome", c.outcome, "why", c.why)
	}
	m.engine.ReportEnded(c.EvictionChain, c.outcome, why)
	landed := 0
	for i, mv := range c.moves {
		switch {
		case mv.done: // and counted
			landed++
		case mv.begun && m.engine.Occupant(c.EvictionChain, i) != nil:
			landed++
			m.engine.CountMove(done)
		}
	}
	for range c.begun - landed {
		m.engine.CountMove(late)
	}
	m.mu.Lock()
	delete(m.chains, c.Pod.UID)
	leaves := c.outcome != done && c.gap != nil && c.count((*move).away) > 0
	if leaves {
		c.gap.of, m.gaps[c.Pod.UID] = c.Pod.Namespace, c.gap
	}
	pods := append(m.waiting.take(maxWaiting), c.Pod)
	clear(m.retryAt) // the end of a chain may open what it kept
	if why != nil {
		m.delayRetry(c.Pod.UID)
	}
	m.mu.Unlock()
	m.cluster.Activate(pods...)
	if leaves {
		go m.awaitGap(c)
	}
}

// step makes the next step of a chain.
func (m *Chains) step(c *chain) {
	if c.finished() {
		return
	}
	e := m.observe(c)
	before := c.count(func(m *move) bool { return m.done })
	a := c.step(m.now(), e)
	for range c.count(func(m *move) bool { return m.done }) - before {
		m.engine.CountMove(done)
	}
	c.err = nil
	switch a {
	case evictPod:
		c.err = m.evict(c)
	case admitPod:
		if m.haveLeft(c) {
			m.cluster.Activate(c.Pod)
		}
	case wait, releasePlaces, cordon, reserve, markEmpty: // a chain has its places from the beginning, and no node
	}
}

// evict evicts the pod of the last move.
func (m *Chains) evict(c *chain) error {
	pod := c.last.moved.pod
	gap := m.gapOf(pod)
	err := m.cluster.Evict(m.ctx, *m.engine.Repair().MovesPerHour, pod)
	if _, unsure := errors.AsType[*evict.UncertainError](err); err != nil && !unsure {
		m.engine.CountMove(refused)
		m.pause(pod, refusedPause)
		return err
	}
	m.mu.Lock()
	c.gap = gap
	m.evictedAt = append(m.evictedAt, m.now())
	c.begun++
	m.mu.Unlock()
	m.pause(pod, workloadPause)
	return err
}

// observe gathers the observed state of a chain.
func (m *Chains) observe(c *chain) observation {
	e := observation{reserved: true, err: c.err, running: map[types.UID]bool{}, blocked: func(mv *move) block { return m.blocked(c, mv) }}
	landed := len(c.moves) // moves whose replacements are on their nodes, up to the first without
	e.forfeit = true
	for i, mv := range c.moves {
		if mv.done { // its replacement may have left since
			continue
		}
		now := m.current(mv.moved.pod)
		e.running[mv.moved.pod.UID] = now != nil && now.DeletionTimestamp == nil
		if came := m.engine.Occupant(c.EvictionChain, i); came != nil {
			now := m.current(came)
			e.arrived = append(e.arrived, arrival{came, mv.group, now != nil && podspec.Ready(now)})
			continue
		}
		landed = min(landed, i)
		e.forfeit = e.forfeit && !mv.begun
	}
	place := m.engine.PlaceOf(c.EvictionChain, landed)
	if e.complete = landed == len(c.moves) && place == kube.PlaceTaken; e.complete {
		return e
	}
	why := ""
	if place == kube.PlaceLost {
		why = fmt.Sprintf("the room on node %s is gone", placeOf(c.EvictionChain, landed))
	} else if pod := c.Moves[min(landed, len(c.Moves)-1)].Pod; !e.forfeit && c.gap != nil && c.gap.pod == pod { // it is away
		if e.stranded, e.missing = m.replacement(c, pod); m.closed(c.gap) && m.engine.Occupant(c.EvictionChain, landed) == nil {
			why = fmt.Sprintf("no replacement of %s will come to node %s", nameOf(pod), c.moves[landed].to)
		}
	}
	if e.stop, e.outcome = m.obsolete(c); why != "" {
		e.forfeit = true
		if e.stop == "" {
			e.lost, e.outcome = why, lost
		}
	}
	return e
}

// replacement returns the replacement of an evicted pod, if it fits on no node, or the pod, if it is deleted and has
// no replacement.
func (m *Chains) replacement(c *chain, pod *v1.Pod) (stranded, missing string) {
	missing = nameOf(pod)
	for _, p := range m.cluster.Workload(pod) {
		switch {
		case podspec.Ended(p):
		case p.UID == pod.UID, p.DeletionTimestamp != nil && p.Spec.NodeName != "": // its controller may wait for its end
			return "", ""
		case c.gap.before[p.UID]:
		default:
			if missing = ""; isUnschedulable(p) {
				stranded = nameOf(p)
			}
		}
	}
	return stranded, missing
}

// current returns a pod as the informer has it; nil = it is gone.
func (m *Chains) current(pod *v1.Pod) *v1.Pod {
	if now := m.cluster.Pod(pod.Namespace, pod.Name); now != nil && now.UID == pod.UID {
		return now
	}
	return nil
}

// obsolete returns why a chain must make no further move because of the pod that waits.
func (m *Chains) obsolete(c *chain) (why, outcome string) {
	pod := m.current(c.Pod)
	switch {
	case pod == nil || pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" && pod.Spec.NodeName != c.Node:
		return "the pod does not wait any more", notNeeded
	case c.yields.Load() && pod.Spec.NodeName == "":
		return "a pod of higher priority needs the room", lost
	}
	return "", ""
}

// blocked returns why the pod of a move must not be evicted.
func (m *Chains) blocked(c *chain, mv *move) block {
	i := slices.Index(c.moves, mv)
	if m.engine.PlaceOf(c.EvictionChain, i) == kube.PlaceOccupied {
		return block{why: "a pod is still ending on node " + mv.to, ends: true}
	}
	pod := c.Moves[i].Pod
	now := m.current(pod)
	switch {
	case m.engine.Repair().Mode != policy.RepairEnabled:
		return block{why: "the policy no longer enables repair", outcome: disabled}
	case now == nil:
		return block{why: nameOf(pod) + " is gone", outcome: changed}
	}
	if reason := podspec.Movable(now, m.engine.MaxGrace(), nil); reason != "" {
		return block{why: nameOf(pod) + " must stay: " + reason, outcome: changed}
	}
	if m.cluster.NotEvictable()(now) {
		return block{why: "a disruption budget, or a constraint of another pod, keeps " + nameOf(pod), outcome: refused}
	}
	return m.refusal(c, pod, mv.to)
}

// refusal returns a block if the scheduler's filters refuse the replacement of a move's pod, or the waiting pod once
// all pods of the moves have left. Some may have replacements and still be ending.
func (m *Chains) refusal(c *chain, pod *v1.Pod, to string) block {
	if why := m.cluster.Refusal(m.ctx, []*v1.Pod{pod}, kube.Place{Pod: pod, Node: to}); why != "" {
		m.pause(pod, refusedPause)
		return block{why: why, outcome: refused}
	}
	var leave []*v1.Pod
	for _, move := range c.Moves {
		leave = append(leave, move.Pod)
	}
	if why := m.cluster.Refusal(m.ctx, leave, kube.Place{Pod: c.Pod, Node: c.Node}); why != "" {
		return block{why: why, outcome: lost}
	}
	return block{}
}

func placeOf(r *engine.EvictionChain, number int) string {
	if number < len(r.Moves) {
		return r.Moves[number].To
	}
	return r.Node
}

// haveLeft reports whether the pods of all moves that have begun are deleted.
func (m *Chains) haveLeft(c *chain) bool {
	for i, mv := range c.moves {
		if mv.begun && m.current(c.Moves[i].Pod) != nil {
			return false
		}
	}
	return true
}
