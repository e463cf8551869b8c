package ledger

import (
	"errors"
	"fmt"
)

// await books that a pod asks for a machine. A policy that counts what is still to
// come has to know of it before it is asked, as in Cerebro; where nothing was asked,
// the decision counts it.
func (l *Ledger) await(e *Event) error {
	a, ok := l.apps[e.App]
	if !ok {
		return fmt.Errorf("app %q is unknown", e.App)
	}
	if e.UID == "" {
		return errors.New("uid is missing")
	}
	p := l.pod(e.UID)
	if !p.arrived && p.node == nil {
		p.app = a
		l.arrive(p)
	}
	return nil
}

// pod is the one with an UID, made known if it is new.
func (l *Ledger) pod(uid string) *Pod {
	p, ok := l.pods[uid]
	if !ok {
		p = &Pod{uid: uid}
		l.pods[uid] = p
	}
	return p
}

// place books a pod on a machine. One that stands elsewhere moves; one that is
// found where it stands is no news.
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
	p.app = a
	if e.Kind == KindDecide && !p.arrived {
		l.arrive(p)
	}
	p.node, p.at = m, len(m.pods)
	m.pods = append(m.pods, p)
	a.pods++
	a.group.count(m, 1)
	a.group.latest = a
	if !m.spec.Cordoned {
		l.placed++
		if l.ready() {
			l.state.Book(a.index, m.index)
		}
	}
	m.last = l.placed
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

func (l *Ledger) takeAway(e *Event) error {
	p, ok := l.pods[e.UID]
	if !ok {
		return fmt.Errorf("pod %q is unknown", e.UID)
	}
	l.takeOff(p)
	if e.Kind == KindRemove {
		delete(l.pods, e.UID)
	}
	return nil
}

// takeOff takes a pod off its machine. What stands on cordoned machines is not in
// the columns, so it does not count as placed or departed either.
func (l *Ledger) takeOff(p *Pod) {
	m := p.node
	if m == nil {
		return
	}
	last := m.pods[len(m.pods)-1]
	m.pods[p.at], last.at = last, p.at
	m.pods[len(m.pods)-1] = nil
	m.pods = m.pods[:len(m.pods)-1]
	p.node = nil
	p.app.pods--
	p.app.group.count(m, -1)
	if m.spec.Cordoned {
		return
	}
	l.departed++
	if l.ready() {
		l.state.Remove(p.app.index, m.index, nil)
	}
}
