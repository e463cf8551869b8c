package engine

import (
	"cmp"
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// An Offer is new nodes that a provisioner may add for pods that wait.
type Offer struct {
	Node  *v1.Node // the new nodes are like it
	Count int
	Pods  []*v1.Pod
}

// Try places the pods of an offer on its new nodes, in their order, as the policy that decides on each would, or Best-Fit where none
// decides. places has the number of each pod's node; -1 = none takes it, or it has a node already. Nothing is decided: the placements
// are made in a copy of the state.
func (e *Engine) Try(ctx context.Context, o Offer) (places []int, err error) {
	c, err := e.copyFor(o)
	if err != nil {
		return nil, err
	}
	places = make([]int, len(o.Pods))
	for i, p := range o.Pods {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if places[i], err = c.place(p, &c.pods[i]); err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return places, nil
}

// A trial is a copy of the state with new nodes.
type trial struct {
	ledger  *ledger.Ledger
	ranking ranking
	nodes   map[string]int // new ones, by name
	pods    []triedPod
}

// A triedPod has the fields of a pod's events, and the role of the policy that decides on it.
type triedPod struct {
	uid, app string // app "": no scheduler decides on its node
	role     ledger.Role
}

// copyFor returns a copy of the state with the nodes and the apps of an offer.
func (e *Engine) copyFor(o Offer) (*trial, error) {
	t := &trial{ledger: ledger.New(), nodes: map[string]int{}}
	t.ranking.rankBy = t.ledger.Rank
	now := e.opt.Now()
	var err error
	apply := func(ev *ledger.Event) {
		if refused := t.ledger.Apply(ev); refused != nil && err == nil {
			err = fmt.Errorf("%s: %w", ev.Kind, refused)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, p := range o.Pods {
		of := triedPod{uid: cmp.Or(string(p.UID), fmt.Sprint("offer/", i))}
		if podspec.Moves(p) {
			if a := e.state.cluster.EnsureApp(p); a != nil {
				of.app, of.role = a.Name(), ledger.BestFit
				if role, _, decides := e.decider(a.Group().Name()); decides && e.reason(role, nil) == "" {
					of.role = role
				}
			}
		}
		t.pods = append(t.pods, of)
	}
	if e.state.broken != nil {
		return nil, e.state.broken
	}
	machine := e.state.cluster.Machine(o.Node, nil)
	for _, ev := range e.state.cluster.Describe() {
		apply(ev)
	}
	for i := range o.Count {
		name := fmt.Sprint("new/", i) // no node has such a name
		t.nodes[name] = i
		apply(&ledger.Event{Kind: ledger.KindNode, Node: name, Machine: machine})
	}
	t.ledger.SetClock(seconds(now))
	return t, err
}

// place places a pod on one of the new nodes.
func (t *trial) place(p *v1.Pod, of *triedPod) (node int, err error) {
	if known := t.ledger.Pod(of.uid); of.app == "" || known != nil && known.Node() != nil {
		return -1, nil
	}
	ev := ledger.Event{Kind: ledger.KindArrive, Pod: p.Namespace + "/" + p.Name, UID: of.uid, App: of.app}
	if err := t.ledger.Apply(&ev); err != nil {
		return -1, err
	}
	app, r := t.ledger.AppIndex(of.app), &t.ranking
	r.passed = r.passed[:0]
	for _, m := range t.ledger.Fits(app, nil) {
		if _, ok := t.nodes[t.ledger.NodeName(m)]; ok {
			r.passed = append(r.passed, m)
		}
	}
	if r.ranked, err = r.order(t.ledger, of.role, app, 1, r.ranked); err != nil && of.role != ledger.BestFit {
		r.ranked, err = r.order(t.ledger, ledger.BestFit, app, 1, r.ranked)
	}
	if err != nil || len(r.ranked) == 0 {
		return -1, err
	}
	ev.Kind, ev.Node = ledger.KindDecide, t.ledger.NodeName(r.ranked[0].Machine)
	return t.nodes[ev.Node], t.ledger.Apply(&ev)
}
