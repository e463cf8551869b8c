package history

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A stay is the time of a pod on one node, or its wait for a node. A pod that is
// resized or moved has another stay.
type stay struct {
	uid, name, app, node string
	seen                 int64 // first time of the pod in the log
	came                 int64 // when it got its node; without a node, when it began to wait
	left                 int64 // negative: it has not ended
	order                int   // number of the event at came
	leftOrder            int
	created              int64
	start                int  // the start after which it was last mentioned
	first                bool // it ran at the beginning
}

// come enters a pod that needs a node or has one.
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
	case p.node == "" && e.Node != "": // it waited, and has a node now
		p.app, p.node, p.came, p.order, p.start = e.App, e.Node, h.at, h.seq, len(h.starts)
		p.created = cmp.Or(e.Created, p.created)
		return nil
	case e.Kind == ledger.KindArrive && p.start == len(h.starts): // only the first time counts
		return nil
	default:
		h.end(p)
	}
	p = &stay{
		uid: e.UID, name: cmp.Or(e.Pod, e.UID), app: e.App, node: e.Node, created: e.Created, start: len(h.starts),
		seen: h.at, came: h.at, left: -1, order: h.seq, first: h.describing && e.Kind == ledger.KindPlace,
	}
	h.stays = append(h.stays, p)
	h.here[e.UID] = p
	return nil
}

func (h *History) leave(e *ledger.Event) error {
	p, ok := h.here[e.UID]
	if !ok {
		return nil // it left with its node or at a start
	}
	h.end(p)
	if e.Kind == ledger.KindFailed { // it waits again
		again := &stay{
			uid: p.uid, name: p.name, app: p.app, created: p.created, start: len(h.starts),
			seen: p.seen, came: h.at, left: -1, order: h.seq,
		}
		h.stays = append(h.stays, again)
		h.here[e.UID] = again
	}
	return nil
}

// end ends a stay: now, or at the start since which the pod is lost.
func (h *History) end(p *stay) {
	p.left, p.leftOrder = h.at, h.seq
	if at, lost := h.lost(p); lost {
		p.left, p.leftOrder = at, p.order
	}
	delete(h.here, p.uid)
}

// lost reports whether a pod was missing when the cluster was last described, and
// the time since when.
func (h *History) lost(p *stay) (at int64, ok bool) {
	if p.start >= h.current {
		return 0, false
	}
	return max(h.starts[p.start], p.came), true
}

// leftAt returns the end of a stay; negative: it has not ended.
func (h *History) leftAt(p *stay) int64 {
	if p.left < 0 {
		if at, ok := h.lost(p); ok {
			return at
		}
	}
	return p.left
}
