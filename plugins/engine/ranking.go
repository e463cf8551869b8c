package engine

import (
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// ranking is the memory in which nodes are ranked, reused for every pod.
type ranking struct {
	// rankBy is the ledger's Rank; tests make it fail.
	rankBy func(role ledger.Role, app int32, allowed []int32, top int, buf []binpack.Ranked) ([]binpack.Ranked, error)

	places  places
	marks   []bool  // [machine] passed the filters
	passed  []int32 // machines that did, ascending
	ranked  []binpack.Ranked
	bestFit []binpack.Ranked
	watched []binpack.Ranked // by a canary in shadow
}

// places map the nodes of a list to machines of the columns and back.
type places struct {
	nodes   []string
	state   *binpack.State // the columns
	machine []int32        // [place], -1 = no machine
	place   []int32        // [machine], -1 = no place
}

// find brings the places up to date for a list.
func (p *places) find(nodes []string, l *ledger.Ledger) {
	state := l.Columns()
	if p.state == state && len(p.nodes) == len(nodes) && (len(nodes) == 0 || &p.nodes[0] == &nodes[0]) {
		return
	}
	p.nodes, p.state = nodes, state
	p.machine = slices.Grow(p.machine[:0], len(nodes))[:len(nodes)]
	p.place = slices.Grow(p.place[:0], state.Size())[:state.Size()]
	for m := range p.place {
		p.place[m] = -1
	}
	for i, name := range nodes {
		p.machine[i] = l.MachineIndex(name)
		if m := p.machine[i]; m >= 0 {
			p.place[m] = int32(i)
		}
	}
}

// mark lists the machines of nodes that passed the filters.
func (r *ranking) mark(nodes []string, passed []bool, l *ledger.Ledger) {
	r.places.find(nodes, l)
	size := l.Columns().Size()
	r.marks = slices.Grow(r.marks[:0], size)[:size]
	clear(r.marks)
	for i, ok := range passed {
		if m := r.places.machine[i]; ok && m >= 0 {
			r.marks[m] = true
		}
	}
	r.passed = r.passed[:0]
	for m, ok := range r.marks {
		if ok {
			r.passed = append(r.passed, int32(m))
		}
	}
}

// panicked is the panic of a scorer.
type panicked struct{ value any }

func (p panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// order is the ledger's Rank with panics as errors: a policy must not crash the
// scheduler.
func (r *ranking) order(l *ledger.Ledger, role ledger.Role, app int32, top int, buf []binpack.Ranked) (ranked []binpack.Ranked, err error) {
	defer func() {
		if p := recover(); p != nil {
			l.Invalidate()
			ranked, err = buf[:0], panicked{p}
		}
	}()
	return r.rankBy(role, app, r.passed, top, buf)
}
