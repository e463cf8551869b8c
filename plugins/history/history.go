package history

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A History is a cluster's past, built from the events of its log in their order.
//
// After a start the log describes the cluster again. A pod in that description ran
// in between; any other left at that start. The same holds for nodes.
type History struct {
	from, until int64 // ms since 1970; pods, nodes and apps that end before from are dropped
	needsPods   bool  // a trace without pods is an error

	start   ledger.Start // the last one
	starts  []int64      // times of all starts
	current int          // the last start after which nodes were described
	began   int64        // time of the first event
	at      int64        // time of the last event: it never decreases
	seq     int          // of the last event

	// The first description is the state at the beginning, not a change. It ends
	// with the first event of another kind, or with a pause.
	describing bool
	described  int64 // time of its last event

	nodes     map[string]*node
	apps      map[string]*app
	declared  map[string]float64 // per group: the most that is declared at a time in the window
	selectors map[string]*selector
	sparse    map[string]bool           // closed selectors, as the log has them since the last start
	turned    map[string]bool           // those in use that selectors has with the opposite value
	lists     map[string]map[*node]bool // nodes by selectors that they list now
	rules     []ledger.Rule             // active
	past      []ledger.Rule             // former rules of groups that were unknown when the rules changed
	stays     []*stay                   // one for each stay of a pod on a node, or wait for one
	here      map[string]*stay
}

// descriptionPause ends the first description of a cluster: the events of one
// follow each other within milliseconds, a recording looks once a second.
const descriptionPause = 500

// New returns an empty history of all times.
func New() *History {
	return &History{
		from: math.MinInt64, until: math.MaxInt64,
		nodes: map[string]*node{}, apps: map[string]*app{}, declared: map[string]float64{}, here: map[string]*stay{},
		selectors: map[string]*selector{}, sparse: map[string]bool{}, turned: map[string]bool{}, lists: map[string]map[*node]bool{},
	}
}

// mostSeconds keeps times of a log within the range of milliseconds, with room for differences.
const mostSeconds = 1e15

// milliseconds returns a time of a log in the resolution of traces.
func milliseconds(seconds float64) int64 {
	return bounded.Int(math.Round(min(max(seconds, -mostSeconds), mostSeconds) * 1e3))
}

// Add takes the next event. If a clock was set back, the time of the previous event
// counts.
func (h *History) Add(e *ledger.Event) error {
	if len(h.starts) == 0 && e.Kind != ledger.KindStart {
		return fmt.Errorf("%s: nothing started yet", e.Kind)
	}
	at := milliseconds(e.Time)
	if len(h.starts) == 0 {
		h.began, h.at, h.describing = at, at, true
	}
	at = max(at, h.at)
	if at >= h.until {
		h.confirm(e)
		return nil
	}
	if at >= h.from && h.at < h.from {
		h.cut()
	}
	h.at = at
	h.seq++
	h.describe(e)
	if err := h.book(e); err != nil {
		return fmt.Errorf("%s: %w", e.Kind, err)
	}
	return nil
}

// confirm takes an event after the end of the window: the objects that it names existed at
// the last start.
func (h *History) confirm(e *ledger.Event) {
	if n := h.nodes[e.Node]; e.Kind == ledger.KindNode && n != nil && h.current == len(h.starts) {
		n.start = h.current
	}
	if p := h.here[e.UID]; p != nil && p.app == e.App && p.node == e.Node {
		p.start = len(h.starts)
	}
}

// describe finds the end of the first description.
func (h *History) describe(e *ledger.Event) {
	switch e.Kind {
	case ledger.KindNode, ledger.KindPlace:
		if h.described > 0 && h.at-h.described > descriptionPause {
			h.describing = false
		}
		h.described = h.at
	case ledger.KindArrive, ledger.KindDecide, ledger.KindFailed, ledger.KindRemove:
		h.describing = false
	case ledger.KindStart:
		h.describing = len(h.starts) == 0
	default: // apps, rules and policies do not end it
	}
}

func (h *History) book(e *ledger.Event) error {
	switch e.Kind {
	case ledger.KindStart:
		return h.begin(e)
	case ledger.KindNode:
		return h.setNode(e)
	case ledger.KindSelector:
		return h.setSelector(e)
	case ledger.KindApp:
		return h.setApp(e)
	case ledger.KindForget:
		return h.forget(e)
	case ledger.KindRule:
		h.setRules(e)
	case ledger.KindForecast:
		h.forecast(e)
	case ledger.KindArrive, ledger.KindPlace, ledger.KindDecide:
		return h.come(e)
	case ledger.KindFailed, ledger.KindRemove:
		return h.leave(e)
	case ledger.KindPolicy, ledger.KindChoose, ledger.KindWindow, ledger.KindPast,
		ledger.KindReserve, ledger.KindRelease: // a trace has no policies, windows and reservations, and counts by itself
	default:
		return fmt.Errorf("kind %q is unknown", e.Kind)
	}
	return nil
}

func (h *History) begin(e *ledger.Event) error {
	if e.Start == nil {
		return errors.New("start is missing")
	}
	h.start = *e.Start
	h.starts = append(h.starts, h.at)
	for _, a := range h.apps { // it is described again
		a.declared = 0
	}
	for _, s := range h.selectors {
		end(s.spans, h.seq)
	}
	for _, n := range h.nodes {
		end(n.spans, h.seq)
	}
	clear(h.sparse)
	clear(h.turned)
	clear(h.lists)
	h.past, h.rules = append(h.past, h.rules...), nil
	return nil
}

// cut drops the objects that ended before the window.
func (h *History) cut() {
	h.stays = slices.DeleteFunc(h.stays, func(p *stay) bool { return p.left >= 0 })
	maps.DeleteFunc(h.nodes, func(_ string, n *node) bool { return n.gone })
	maps.DeleteFunc(h.apps, func(_ string, a *app) bool { return a.gone })
	h.past = nil
}

// A Counts counts the content of a history so far.
type Counts struct {
	Nodes, Cordoned   int // present now
	Placed, Waiting   int // pods, now
	Apps, Rules       int
	Arrived, Departed int // since the beginning
}

// Counts counts the present objects, the arrivals and the departures.
func (h *History) Counts() Counts {
	t := Counts{Apps: len(h.apps), Rules: len(h.allRules())}
	for _, n := range h.nodes {
		if h.present(n) {
			t.Nodes++
			if n.spec.Cordoned {
				t.Cordoned++
			}
		}
	}
	for _, p := range h.stays {
		switch {
		case h.leftAt(p) >= 0:
			t.Departed++
		case p.node == "":
			t.Waiting++
		default:
			t.Placed++
		}
		if p.seen > h.began {
			t.Arrived++
		}
	}
	return t
}

// Start returns the last start, with the time of the first one in milliseconds since
// 1970; of version 0 before there was one.
func (h *History) Start() (start ledger.Start, began int64) { return h.start, h.began }

// Last returns the time of the last event in milliseconds since 1970.
func (h *History) Last() int64 { return h.at }

// NodeUIDs returns the UIDs of the present nodes, by name.
func (h *History) NodeUIDs() map[string]string {
	uids := map[string]string{}
	for name, n := range h.nodes {
		if h.present(n) {
			uids[name] = n.uid
		}
	}
	return uids
}
