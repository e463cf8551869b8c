package plan

type savedMachine struct {
	m, kind    int32
	start, end int // of entries
}

// begin starts a step that undo can undo.
func (p *planner) begin() {
	p.step++
	p.saved, p.entries = p.saved[:0], p.entries[:0]
}

// save keeps a machine's content, once in a step.
func (p *planner) save(m int32) {
	if p.stamp[m] == p.step {
		return
	}
	p.stamp[m] = p.step
	start := len(p.entries)
	p.entries = append(p.entries, p.on[m]...)
	p.saved = append(p.saved, savedMachine{m, p.kind[m], start, len(p.entries)})
}

// undo restores the state before the step.
func (p *planner) undo() {
	for _, s := range p.saved {
		p.empty(s.m)
		if p.kind[s.m] != s.kind {
			p.setKind(s.m, -1)
		}
	}
	for _, s := range p.saved {
		if p.kind[s.m] != s.kind {
			p.setKind(s.m, s.kind)
		}
		for _, e := range p.entries[s.start:s.end] {
			n := e.Count - p.stands(e.App, s.m)
			for range n {
				p.put(e.App, s.m)
			}
			p.wait(e.App, -int64(n))
		}
	}
}
