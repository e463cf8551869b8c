package mover

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// Outcomes of a chain, as labels of metrics.
const (
	done      = "done"       // the pod is on the node
	notNeeded = "not-needed" // the pod is deleted, or is on another node
	disabled  = "disabled"   // the policy no longer enables it
	refused   = "refused"    // an eviction: by a disruption budget, a limit, the API server
	lost      = "lost"       // room or node: taken by others, or the node is cordoned, deleted, planned
	changed   = "changed"    // a pod that was to move
	late      = "late"       // a pod did not end, or its replacement did not arrive or is not ready
	stopped   = "stopped"    // with the scheduler
)

// An ended error is the end of a chain before its pod has its place.
type ended struct {
	outcome string
	why     error
}

// Error implements error.
func (e *ended) Error() string { return e.why.Error() }

func end(outcome, text string, args ...any) error { return &ended{outcome, fmt.Errorf(text, args...)} }

// carryOut makes the moves of a chain and waits for the pod. The error is the reason why the pod is not in its
// place; nil if there is no failure to report.
func (m *Mover) carryOut(c *chain) (outcome string, why error) {
	err := m.moves(c)
	if err == nil {
		err = m.await(c, len(c.Moves), m.patience(c.Moves[len(c.Moves)-1].Pod), kube.PlaceTaken)
	}
	var e *ended
	switch {
	case err == nil:
		return done, nil
	case errors.As(err, &e) && e.outcome == notNeeded:
		return notNeeded, nil
	case errors.As(err, &e):
		return e.outcome, e.why
	}
	return lost, err
}

// moves makes the moves one after the other. A move that has begun is waited for.
func (m *Mover) moves(c *chain) error {
	before := slack // timeout for the initial state
	for i, move := range c.Moves {
		if err := m.await(c, i, before, kube.PlaceFree); err != nil {
			return err
		}
		if err := m.mayGoOn(c, i); err != nil {
			return err
		}
		gap := m.gapOf(move.Pod)
		if err := m.cluster.Evict(m.ctx, *m.engine.Repair().MovesPerHour, move.Pod); err != nil {
			m.engine.TellMove(refused)
			m.keep(move.Pod, refusedFor)
			return end(refused, "%s/%s is not evicted: %w", move.Pod.Namespace, move.Pod.Name, err)
		}
		m.mu.Lock()
		c.gap, c.evicted = gap, m.now()
		m.moved = append(m.moved, c.evicted)
		c.begun++
		m.mu.Unlock()
		m.keep(move.Pod, stillFor)
		before = m.patience(move.Pod)
		if err := m.await(c, i, before, kube.PlaceTaken); err != nil {
			m.engine.TellMove(late)
			return err
		}
		m.engine.TellMove(done)
		if i+1 < len(c.Moves) {
			if err := m.ready(c, i, before); err != nil {
				return err
			}
			c.gap = nil
		}
	}
	return nil
}

// ready waits until the replacement in a place is ready: only then may the next pod be away.
func (m *Mover) ready(c *chain, number int, most time.Duration) error {
	tooLate := end(late, "the replacement on node %s is not ready after %v", placeOf(c.Rescue, number), most)
	return m.poll(c, most, tooLate, func() (bool, error) {
		if came := m.engine.Came(c.Rescue, number); came != nil {
			if now := m.cluster.Pod(came.Namespace, came.Name); now != nil && now.UID == came.UID && podspec.Ready(now) {
				return true, nil
			}
		}
		return false, m.needed(c)
	})
}

// poll calls ask, whenever something may have changed, until it returns true or an error.
func (m *Mover) poll(c *chain, most time.Duration, tooLate error, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(m.ctx, most)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			if m.ctx.Err() != nil {
				return &ended{stopped, errStopped}
			}
			return tooLate
		case <-tick.C:
		case <-c.wake:
		}
	}
}

// mayGoOn returns why the pod of a move must not be evicted any more.
func (m *Mover) mayGoOn(c *chain, number int) error {
	if err := m.needed(c); err != nil {
		return err
	}
	pod := c.Moves[number].Pod
	now := m.cluster.Pod(pod.Namespace, pod.Name)
	switch {
	case m.engine.Repair().Mode != policy.RepairEnabled:
		return end(disabled, "the policy no longer enables repair")
	case now == nil || now.UID != pod.UID:
		return end(changed, "%s/%s is gone", pod.Namespace, pod.Name)
	}
	if reason := podspec.Movable(now, m.engine.MaxGrace(), nil); reason != "" {
		return end(changed, "%s/%s must stay: %s", pod.Namespace, pod.Name, reason)
	}
	if m.cluster.Stays()(now) {
		return end(refused, "a disruption budget, or a constraint of another pod, keeps %s/%s", pod.Namespace, pod.Name)
	}
	return m.lands(c, number)
}

// lands returns an error if the scheduler's filters refuse the replacement of a move's pod, or the waiting pod once all
// pods of the moves have left. Some may have replacements and still be ending.
func (m *Mover) lands(c *chain, number int) error {
	move := c.Moves[number]
	if why := m.cluster.Refusal(m.ctx, []*v1.Pod{move.Pod}, kube.Place{Pod: move.Pod, Node: move.To}); why != "" {
		m.keep(move.Pod, refusedFor)
		return end(refused, "%s", why)
	}
	var leave []*v1.Pod
	for _, move := range c.Moves {
		leave = append(leave, move.Pod)
	}
	if why := m.cluster.Refusal(m.ctx, leave, kube.Place{Pod: c.Pod, Node: c.Node}); why != "" {
		return end(lost, "%s", why)
	}
	return nil
}

// needed returns an error where the pod does not wait any more, or gives way.
func (m *Mover) needed(c *chain) error {
	pod := m.cluster.Pod(c.Pod.Namespace, c.Pod.Name)
	if pod == nil || pod.UID != c.Pod.UID || pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" && pod.Spec.NodeName != c.Node {
		return end(notNeeded, "the pod does not wait any more")
	}
	if c.gives.Load() && pod.Spec.NodeName == "" {
		return end(lost, "a pod of higher priority needs the room")
	}
	return nil
}

// await waits until a place is free or taken. The departure of a pod from a node is seen when a cycle begins, so
// the waiting pod is tried when the pods in its way are deleted.
func (m *Mover) await(c *chain, number int, most time.Duration, want kube.PlaceState) error {
	tooLate := end(late, "nothing came to node %s in %v", placeOf(c.Rescue, number), most)
	return m.poll(c, most, tooLate, func() (bool, error) {
		switch m.engine.PlaceOf(c.Rescue, number) {
		case want:
			return true, nil
		case kube.PlaceTaken: // by another pod of the workload, before the move
			return false, end(changed, "a pod has come to the place of another")
		case kube.PlaceLost:
			if err := m.needed(c); err != nil {
				return false, err
			}
			return false, end(lost, "the room on node %s is gone", placeOf(c.Rescue, number))
		case kube.PlaceFree, kube.PlaceOccupied: // not yet as it is to be
		}
		if want == kube.PlaceTaken && number < len(c.Moves) && m.now().Sub(c.evicted) > unseen {
			pod := c.Moves[number].Pod
			if now := m.cluster.Pod(pod.Namespace, pod.Name); now != nil && now.UID == pod.UID && now.DeletionTimestamp == nil {
				c.gap = nil
				return false, end(refused, "%s/%s is not evicted: the answer was lost", pod.Namespace, pod.Name)
			}
		}
		if number == len(c.Moves) || want == kube.PlaceFree {
			if err := m.needed(c); err != nil {
				return false, err
			}
			if m.gone(c, number) {
				m.cluster.Activate(c.Pod)
			}
		}
		return false, nil
	})
}

func placeOf(r *engine.Rescue, number int) string {
	if number < len(r.Moves) {
		return r.Moves[number].To
	}
	return r.Node
}

// gone reports whether the pods of the moves before a number are deleted.
func (m *Mover) gone(c *chain, number int) bool {
	for _, move := range c.Moves[:number] {
		if p := m.cluster.Pod(move.Pod.Namespace, move.Pod.Name); p != nil && p.UID == move.Pod.UID {
			return false
		}
	}
	return true
}
