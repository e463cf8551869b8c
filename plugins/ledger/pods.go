package ledger

import (
	"errors"
	"fmt"
)

// arrival counts a pod that needs a machine. As in Cerebro, the count has to be
// up to date before a policy that counts the pods still expected scores. A pod that
// gets its node without being scored is counted by its decision.
func (l *Ledger) arrival(e *Event) error {
	a, ok := l.apps[e.App]
	if !ok {
		return fmt.Errorf("app %q is unknown", e.App)
	}
	if e.UID == "" {
		return errors.New("uid is missing")
	}
	p := l.pod(e.UID)
	if !p.arrived && p.node == nil {
		p.of(a)
		if e.Arrived == nil || *e.Arrived {
			l.arrive(p)
		}
	}
	return nil
}

// pod returns the pod of a UID and adds it if it is new.
func (l *cluster) pod(uid string) *Pod {
	p, ok := l.pods[uid]
	if !ok {
		p = &Pod{uid: uid}
		l.pods[uid] = p
	}
	return p
}

// place puts a pod on a machine. A pod on another machine moves; a pod that is
// already there changes nothing.
func (l *Ledger) place(e *Event) error {
	a, ok := l.apps[e.App]
	if !ok {
		return fmt.Errorf("app %q is unknown", e.App)
	}
	m, ok := l.machines[e.Node]
	if !ok {
		return fmt.Errorf("node %q is unknown", e.Node)
	}
	if e.UID == "" {
		return errors.New("uid is missing")
	}
	p := l.pod(e.UID)
	if e.Kind == KindPlace && p.node == m && p.app == a {
		return nil
	}
	l.takeOff(p)
	p.of(a)
	if e.Kind == KindDecide && !p.arrived {
		l.arrive(p)
	}
	p.arrived = p.arrived || e.Arrived != nil && *e.Arrived
	p.node, p.at = m, len(m.pods)
	m.pods = append(m.pods, p)
	m.changes++
	first := len(m.pods) == 1 && len(m.reserved) == 0
	a.pods++
	l.standing++
	l.most = max(l.most, int64(l.standing))
	a.group.count(m, 1)
	a.group.latest = a
	if !m.spec.Cordoned {
		l.placed++
		if l.ready() {
			l.state.Book(a.index, m.index)
		}
	}
	if l.ready() {
		l.state.SetMost(l.most)
	}
	m.last = l.placed
	if first {
		m.opened = l.placed
	}
	return nil
}

// arrive counts a pod once, however often it is placed.
func (l *Ledger) arrive(p *Pod) {
	a := p.app
	p.arrived = true
	a.seen++
	a.requests++
	a.sumSquare++
	l.last = a
	if l.ready() {
		l.state.Arrive(a.index, 1)
	}
}

// departure takes a pod off its machine, and forgets it if it was removed.
func (l *Ledger) departure(e *Event) error {
	p, ok := l.pods[e.UID]
	if !ok {
		return fmt.Errorf("pod %q is unknown", e.UID)
	}
	l.takeOff(p)
	if e.Kind == KindRemove {
		p.of(nil)
		delete(l.pods, e.UID)
	}
	return nil
}

// takeOff removes a pod from its machine. Pods on cordoned machines are not in the
// columns, so they count neither as placed nor as departed.
func (l *Ledger) takeOff(p *Pod) {
	m := p.node
	if m == nil {
		return
	}
	last := m.pods[len(m.pods)-1]
	m.pods[p.at], last.at = last, p.at
	m.pods[len(m.pods)-1] = nil
	m.pods = m.pods[:len(m.pods)-1]
	m.changes++
	p.node = nil
	p.app.pods--
	l.standing--
	p.app.group.count(m, -1)
	if m.spec.Cordoned {
		return
	}
	l.departed++
	if l.ready() {
		l.state.Remove(p.app.index, m.index, nil)
	}
}
