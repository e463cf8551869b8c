package oracle

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// A difference is that an answer about a pod on a node is not that of the filters.
type difference struct {
	by    string // explain, trace, rebalance or make-room
	wider bool   // it allows what a filter refuses
	kind  string
	pod   *v1.Pod
	node  string
}

func (d *difference) key() string {
	return fmt.Sprintf("%s %s: %s", d.by, direction(d.wider), d.kind)
}

func direction(wider bool) string {
	if wider {
		return "wider"
	}
	return "narrower"
}

// A comparison is what was found in one cluster.
type comparison struct {
	pairs   map[string]int // by who answers
	allowed int            // pairs that all filters allow
	moves   map[string]int // that were planned, by who plans
	ignored map[string]int // pods by why nothing is said of them
	found   []difference
}

func newComparison() *comparison {
	return &comparison{pairs: map[string]int{}, moves: map[string]int{}, ignored: map[string]int{}}
}

// examine asks about every pod on every node; only, if not nil, asks about some pods.
func examine(c *cluster, only func(*v1.Pod) bool) (*comparison, error) {
	m, err := newModel(c)
	if err != nil {
		return nil, err
	}
	t, err := newTraced(c)
	if err != nil {
		return nil, err
	}
	f := newFilters(c)
	defer f.close()
	out := newComparison()
	for _, p := range c.Pods {
		if only != nil && !only(p) {
			continue
		}
		if why := m.unknown(p); why != "" {
			out.ignored[why]++
			continue
		}
		refused := f.without(p)
		out.allowed += len(c.Nodes) - len(refused)
		explained, err := m.ask(p)
		if err != nil {
			return nil, err
		}
		out.differ(c, c.Nodes, "explain", p, explained, refused)
		if t.fixed[nameOf(p)] == nil {
			out.differ(c, t.asked(c.Nodes), "trace", p, t.ask(p, c.Nodes), refused)
		}
	}
	if only != nil {
		return out, nil
	}
	if err := out.rebalance(c, f, t); err != nil {
		return nil, err
	}
	return out, out.makeRoom(c, f, m)
}

// without asks about a pod, with the pod itself taken away.
func (f *filters) without(p *v1.Pod) map[string]refusal {
	if p.Spec.NodeName != "" {
		f.remove(p)
		defer f.add(p)
	}
	return f.ask(p)
}

// differ notes the nodes on which an answer is not that of the filters; an answer of nil is none.
func (out *comparison) differ(c *cluster, nodes []*v1.Node, by string, p *v1.Pod, answer map[string]string, refused map[string]refusal) {
	if answer == nil {
		out.ignored[by+" leaves it out"]++
		return
	}
	out.pairs[by] += len(nodes)
	for _, n := range nodes {
		why, no := answer[n.Name]
		r, refuses := refused[n.Name]
		switch {
		case refuses && !no:
			out.found = append(out.found, difference{by, true, c.widerKind(p, n, r), p, n.Name})
		case no && !refuses:
			out.found = append(out.found, difference{by, false, c.narrowerKind(p, n, why), p, n.Name})
		}
	}
}
