package history

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A pod is one stay of a pod on a node, or its wait for one. A pod that is resized
// or moved leaves and comes again.
type pod struct {
	uid, name, app, node string
	seen                 int64 // when the log first has it
	came                 int64 // onto its node; without one, when it began to wait
	left                 int64 // negative: it is still there
	order                int   // of the event by which it came
	leftOrder            int
	created              int64
	start                int  // after which it was last mentioned
	first                bool // it stood at the beginning
}

// come books a pod that asks for a node, or that has one.
func (h *History) come(e *ledger.Event) error {
	if a, ok := h.apps[e.App]; !ok || a.gone {
		return fmt.Errorf("app %q is unknown", e.App)
	}
	if n, ok := h.nodes[e.Node]; e.Kind != ledger.KindArrive && (!ok || n.gone) {
		return fmt.Errorf("node %q is unknown", e.Node)
	}
	if e.UID == "" {
		return errors.New("uid is missing")
	}
	p, ok := h.here[e.UID]
	switch {
	case !ok:
	case p.node == e.Node && p.app == e.App, e.Kind == ledger.KindArrive && p.node == "":
		p.start = len(h.starts)
		return nil
	case p.node == "" && e.Node != "": // it waited; to a trace it comes now
		p.app, p.node, p.came, p.order, p.start = e.App, e.Node, h.at, h.seq, len(h.starts)
		p.created = cmp.Or(e.Created, p.created)
		return nil
	case e.Kind == ledger.KindArrive && p.start == len(h.starts): // only the first time counts
		return nil
	default:
		h.end(p)
	}
	p = &pod{
		uid: e.UID, name: cmp.Or(e.Pod, e.UID), app: e.App, node: e.Node, created: e.Created, start: len(h.starts),
		seen: h.at, came: h.at, left: -1, order: h.seq, first: h.describing && e.Kind == ledger.KindPlace,
	}
	h.pods = append(h.pods, p)
	h.here[e.UID] = p
	return nil
}

func (h *History) leave(e *ledger.Event) error {
	p, ok := h.here[e.UID]
	if !ok {
		return nil // it left with its node, or at a start
	}
	h.end(p)
	if e.Kind == ledger.KindFailed { // it waits again
		again := &pod{
			uid: p.uid, name: p.name, app: p.app, created: p.created, start: len(h.starts),
			seen: p.seen, came: h.at, left: -1, order: h.seq,
		}
		h.pods = append(h.pods, again)
		h.here[e.UID] = again
	}
	return nil
}

// end ends a stay now, or, of a pod that was not there at the last description, at
// the start of that.
func (h *History) end(p *pod) {
	p.left, p.leftOrder = h.at, h.seq
	if at, lost := h.lost(p); lost {
		p.left, p.leftOrder = at, p.order
	}
	delete(h.here, p.uid)
}

// lost reports whether a pod was not there when the cluster was described last,
// and since when.
func (h *History) lost(p *pod) (at int64, ok bool) {
	if p.start >= h.told {
		return 0, false
	}
	return max(h.starts[p.start], p.came), true
}

// leftAt is when a stay ended; negative: it has not.
func (h *History) leftAt(p *pod) int64 {
	if p.left < 0 {
		if at, ok := h.lost(p); ok {
			return at
		}
	}
	return p.left
}
