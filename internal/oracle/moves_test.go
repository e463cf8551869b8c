package oracle

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/internal/defrag"
	chains "github.com/sigma-scheduler/sigma/plugins/defrag"
)

// rebalance follows the moves that sigma rebalance writes. Each is to land where it is planned.
func (out *comparison) rebalance(c *cluster, f *filters, t *traced) error {
	if len(t.trace.Placed) == 0 {
		return nil
	}
	start, err := defrag.NewStart(t.trace)
	if err != nil {
		return err
	}
	found, err := defrag.Search(context.Background(), start, defrag.Options{Share: -1, Count: -1, Seed: seed})
	if err != nil {
		return err
	}
	var list []chains.Move
	for _, m := range found.Sequence() {
		list = append(list, chains.Move{Pod: c.pod(m.Request), To: m.To})
	}
	out.follow(f, "rebalance", list)
	return nil
}

// makeRoom follows the chain of moves for each pod that waits and finds no room.
func (out *comparison) makeRoom(c *cluster, f *filters, m *model) error {
	for _, p := range c.Pods {
		if p.Spec.NodeName != "" || m.unknown(p) != "" {
			continue
		}
		refused := f.ask(p)
		if len(refused) < len(c.Nodes) {
			continue
		}
		r := chains.Request{Pod: p, Chain: 3, MinReplicas: 2, Stays: func(o *v1.Pod) bool { return m.others.Unknown(o) != "" }}
		for name, why := range refused {
			if why.plugin == "NodeResourcesFit" {
				r.Nodes = append(r.Nodes, name)
			}
		}
		slices.Sort(r.Nodes)
		app := m.kube.Arrive(p)
		if m.failed != nil {
			return m.failed
		}
		r.App = app.Name()
		list, node := chains.Find(m.ledger, r)
		m.kube.Leave(p)
		if node != "" {
			out.follow(f, "make-room", append(list, chains.Move{Pod: p, To: node}))
		}
	}
	return nil
}

func (c *cluster) pod(name string) *v1.Pod {
	return c.Pods[slices.IndexFunc(c.Pods, func(p *v1.Pod) bool { return nameOf(p) == name })]
}

// follow makes moves in the filters, up to the first that a filter refuses, and takes them back.
func (out *comparison) follow(f *filters, by string, list []chains.Move) {
	now := map[*v1.Pod]*v1.Pod{} // the replacements
	for _, m := range list {
		before := m.Pod
		if now[m.Pod] != nil {
			before = now[m.Pod]
		}
		if before.Spec.NodeName != "" {
			f.remove(before)
		}
		out.moves[by]++
		why, refuses := f.ask(before)[m.To]
		then := unplaced(before).DeepCopy()
		then.Spec.NodeName = m.To
		f.add(then)
		now[m.Pod] = then
		if refuses {
			out.found = append(out.found, difference{by, true, why.plugin + ": " + why.reason, m.Pod, m.To})
			break
		}
	}
	for p, then := range now {
		f.remove(then)
		if p.Spec.NodeName != "" {
			f.add(p)
		}
	}
}
