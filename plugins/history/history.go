package history

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A History is a cluster's past, built from the events of its log in their order.
//
// After a start the log describes the cluster again. A pod that is described again
// stood in between; one that is not left at that start. The same holds for nodes.
type History struct {
	from, until int64 // ms since 1970; pods, nodes and apps that end before from are dropped
	needsPods   bool  // a trace without any is an error

	start  ledger.Start // the last one
	starts []int64      // times of all starts
	told   int          // the last start after which nodes were described
	began  int64        // time of the first event
	at     int64        // time of the last event: it never decreases
	seq    int          // of the last event

	// The first description is the state at the beginning, not a change. It ends
	// with the first event of another kind, or with a pause.
	describing bool
	described  int64 // time of its last event

	nodes     map[string]*node
	apps      map[string]*app
	selectors map[string]int // the start after which an app was described that has a selector; 0: it is gone
	rules     []ledger.Rule  // in force
	past      []ledger.Rule  // of groups that were unknown when the rules changed
	pods      []*pod         // one for each stay of a pod on a node, or wait for one
	here      map[string]*pod
}

type node struct {
	name    string
	uid     string
	spec    ledger.Machine
	gone    bool
	start   int             // after which it was last described
	refuses map[string]bool // by selector, as far as the log says
}

type app struct {
	name     string
	spec     ledger.App
	gone     bool
	start    int
	expected float64 // negative: unknown
}

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

// descriptionPause ends the first description of a cluster: the events of one
// follow each other within milliseconds, a recording looks once a second.
const descriptionPause = 500

// New returns an empty history of all times.
func New() *History {
	return &History{
		from: math.MinInt64, until: math.MaxInt64,
		nodes: map[string]*node{}, apps: map[string]*app{}, selectors: map[string]int{}, here: map[string]*pod{},
	}
}

// milliseconds is a time of a log in the resolution of traces.
func milliseconds(seconds float64) int64 { return int64(math.Round(seconds * 1e3)) }

// Add takes the next event. Clocks that are set back do not turn the history back.
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

// confirm notes that something is mentioned after the end of the window: it was
// there at the last start before.
func (h *History) confirm(e *ledger.Event) {
	if n := h.nodes[e.Node]; e.Kind == ledger.KindNode && n != nil && h.told == len(h.starts) {
		n.start = h.told
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
	default: // apps, rules and policies say nothing about pods
	}
}

func (h *History) book(e *ledger.Event) error {
	switch e.Kind {
	case ledger.KindStart:
		return h.begin(e)
	case ledger.KindNode:
		return h.setNode(e)
	case ledger.KindApp:
		return h.setApp(e)
	case ledger.KindForget:
		return h.forget(e)
	case ledger.KindRule:
		h.setRules(e)
	case ledger.KindForecast:
		h.forecast(e.Expected)
	case ledger.KindArrive, ledger.KindPlace, ledger.KindDecide:
		return h.come(e)
	case ledger.KindFailed, ledger.KindRemove:
		return h.leave(e)
	case ledger.KindPolicy: // who decides does not matter here
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
	h.past, h.rules = append(h.past, h.rules...), nil
	return nil
}

func (h *History) setNode(e *ledger.Event) error {
	if e.Node == "" || e.Machine == nil {
		return errors.New("node or machine is missing")
	}
	h.told = len(h.starts)
	n, ok := h.nodes[e.Node]
	if !ok || n.gone {
		n = &node{name: e.Node, refuses: map[string]bool{}}
		h.nodes[e.Node] = n
	}
	if !maps.Equal(n.spec.Labels, e.Machine.Labels) { // what it refused, it may take now
		clear(n.refuses)
	}
	n.spec, n.start, n.uid = *e.Machine, h.told, cmp.Or(e.UID, n.uid)
	for selector, start := range h.selectors {
		if start == len(h.starts) {
			n.refuses[selector] = slices.Contains(n.spec.Refuses, selector)
		}
	}
	return nil
}

// present reports whether a node is there now.
func (h *History) present(n *node) bool { return !n.gone && n.start >= h.told }

func (h *History) setApp(e *ledger.Event) error {
	if e.App == "" || e.Spec == nil || e.Spec.Group == "" {
		return errors.New("app, spec or spec.group is missing")
	}
	a, ok := h.apps[e.App]
	if !ok {
		a = &app{name: e.App, expected: -1}
		h.apps[e.App] = a
	}
	before := a.spec.Selector
	a.spec, a.start, a.gone = *e.Spec, len(h.starts), false
	if ok && before != a.spec.Selector {
		h.forgetSelector(before)
	}
	if s := a.spec.Selector; h.selectors[s] != a.start {
		h.selectors[s] = a.start
		for _, n := range h.nodes {
			if !n.gone && n.start == a.start {
				n.refuses[s] = slices.Contains(n.spec.Refuses, s)
			}
		}
	}
	return nil
}

func (h *History) forget(e *ledger.Event) error {
	if e.App != "" {
		a, ok := h.apps[e.App]
		if !ok {
			return fmt.Errorf("app %q is unknown", e.App)
		}
		a.gone = true
		h.endAll(func(p *pod) bool { return p.app == e.App })
		h.forgetSelector(a.spec.Selector)
		return nil
	}
	n, ok := h.nodes[e.Node]
	if !ok {
		return fmt.Errorf("node %q is unknown", e.Node)
	}
	n.gone = true
	h.endAll(func(p *pod) bool { return p.node == e.Node })
	return nil
}

// forgetSelector notes that nodes say no more whether they refuse a selector, if no
// app has it.
func (h *History) forgetSelector(selector string) {
	for _, a := range h.apps {
		if !a.gone && a.start == len(h.starts) && a.spec.Selector == selector {
			return
		}
	}
	h.selectors[selector] = 0
}

// endAll ends stays, at the present time.
func (h *History) endAll(which func(*pod) bool) {
	for _, uid := range slices.Sorted(maps.Keys(h.here)) {
		if p := h.here[uid]; which(p) {
			h.end(p)
		}
	}
}

// setRules keeps rules of groups that are not known any more: they held while the
// groups were there.
func (h *History) setRules(e *ledger.Event) {
	if e.Reset {
		known := h.knownGroups()
		for _, r := range h.rules {
			if !known[r.App] || !known[r.Other] {
				h.past = append(h.past, r)
			}
		}
		h.rules = nil
	}
	h.rules = append(h.rules, e.Rules...)
}

func (h *History) knownGroups() map[string]bool {
	known := map[string]bool{}
	for _, a := range h.apps {
		if !a.gone && a.start == len(h.starts) {
			known[a.spec.Group] = true
		}
	}
	return known
}

// allRules lists the present rules, and those of the past whose groups are not
// both there: of them nothing newer is known.
func (h *History) allRules() []ledger.Rule {
	known, list := h.knownGroups(), slices.Clone(h.rules)
	for _, r := range h.past {
		if !known[r.App] || !known[r.Other] {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(x, y ledger.Rule) int {
		return cmp.Or(strings.Compare(x.App, y.App), strings.Compare(x.Other, y.Other), cmp.Compare(x.Max, y.Max))
	})
	return slices.Compact(list)
}

// forecast keeps the first number of each app in the window: later ones would tell
// a policy what is to come.
func (h *History) forecast(expected map[string]float64) {
	for name, n := range expected {
		if a, ok := h.apps[name]; ok && (a.expected < 0 || h.at < h.from) {
			a.expected = n
		}
	}
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

// cut drops what ended before the window.
func (h *History) cut() {
	h.pods = slices.DeleteFunc(h.pods, func(p *pod) bool { return p.left >= 0 })
	maps.DeleteFunc(h.nodes, func(_ string, n *node) bool { return n.gone })
	maps.DeleteFunc(h.apps, func(_ string, a *app) bool { return a.gone })
	h.past = nil
}

// A Tally is what a history has seen so far.
type Tally struct {
	Nodes, Cordoned   int // there now
	Standing, Waiting int // pods, now
	Apps, Rules       int
	Arrived, Left     int // since the beginning
}

// Tally counts what is there, and what came and left.
func (h *History) Tally() Tally {
	t := Tally{Apps: len(h.apps), Rules: len(h.allRules())}
	for _, n := range h.nodes {
		if h.present(n) {
			t.Nodes++
			if n.spec.Cordoned {
				t.Cordoned++
			}
		}
	}
	for _, p := range h.pods {
		switch {
		case h.leftAt(p) >= 0:
			t.Left++
		case p.node == "":
			t.Waiting++
		default:
			t.Standing++
		}
		if p.seen > h.began {
			t.Arrived++
		}
	}
	return t
}

// Start is the last start, with the time of the first one in milliseconds since
// 1970; of version 0 before there was one.
func (h *History) Start() (start ledger.Start, began int64) { return h.start, h.began }

// Last is the time of the last event in milliseconds since 1970.
func (h *History) Last() int64 { return h.at }

// NodeUIDs are the UIDs of the nodes that are there, by name.
func (h *History) NodeUIDs() map[string]string {
	uids := map[string]string{}
	for name, n := range h.nodes {
		if h.present(n) {
			uids[name] = n.uid
		}
	}
	return uids
}
