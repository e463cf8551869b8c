package engine

import (
	"cmp"
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// An Offer is new nodes that a provisioner may add for pods that wait.
type Offer struct {
	Node  *v1.Node // the new nodes are like it
	Count int
	Pods  []*v1.Pod
}

// Try places the pods of each offer on its new nodes, in their order, as the policy that decides on each would, or Best-Fit where none
// decides. Each offer is tried without the others. places has the number of each pod's node, by offer; -1 = none takes it, or it has a
// node already. The engine does not change: pods are translated and placed in one copy of its state.
func (e *Engine) Try(ctx context.Context, offers []Offer) (places [][]int, err error) {
	t := e.newTrial(ctx, offers)
	for i, o := range offers {
		places = append(places, t.try(o, t.pods[i]))
	}
	if t.err != nil {
		return nil, t.err
	}
	return places, nil
}

// A trial is a copy of the state, in which offers are tried one after the other.
type trial struct {
	ctx     context.Context
	ledger  *ledger.Ledger
	cluster *kube.Translator
	ranking ranking
	pods    [][]triedPod    // by offer
	past    *ledger.Event   // the counts before an offer
	undo    []*ledger.Event // after which the ledger is as before the offer
	err     error           // the first one; nothing is applied after it
}

// A triedPod has the fields of a pod's events, and the role of the policy that decides on it.
type triedPod struct {
	uid, app string // app "": no scheduler decides on its node
	role     ledger.Role
}

// newTrial returns a copy of the state with the apps of all offers.
func (e *Engine) newTrial(ctx context.Context, offers []Offer) *trial {
	t := &trial{ctx: ctx, ledger: ledger.New()}
	t.ranking.rankBy = t.ledger.Rank
	e.mu.Lock()
	defer e.mu.Unlock()
	t.err = e.state.broken
	t.cluster = e.state.cluster.Copy(t.ledger, t.apply)
	t.ledger.SetClock(seconds(e.opt.Now()))
	for _, o := range offers {
		pods := make([]triedPod, len(o.Pods))
		for i, p := range o.Pods {
			of := &pods[i]
			of.uid = cmp.Or(string(p.UID), fmt.Sprint("offer/", i))
			if !t.goesOn() || !podspec.Moves(p) {
				continue
			}
			if a := t.cluster.EnsureApp(p); a != nil {
				of.app, of.role = a.Name(), ledger.BestFit
				if role, _, decides := e.decider(a.Group().Name()); decides && e.reason(role, nil) == "" {
					of.role = role
				}
			}
		}
		t.pods = append(t.pods, pods)
	}
	return t
}

// goesOn reports whether there was no error and the context has not ended.
func (t *trial) goesOn() bool {
	if t.err == nil {
		t.err = t.ctx.Err()
	}
	return t.err == nil
}

func (t *trial) apply(ev *ledger.Event) {
	if !t.goesOn() {
		return
	}
	if err := t.ledger.Apply(ev); err != nil {
		t.err = fmt.Errorf("%s node=%q app=%q pod=%q: %w", ev.Kind, ev.Node, ev.App, ev.Pod, err)
	}
	if ev.Kind == ledger.KindPast {
		t.past = ev
	}
}

// try places the pods of an offer, and undoes it.
func (t *trial) try(o Offer, pods []triedPod) []int {
	if !t.goesOn() {
		return nil
	}
	t.undo = t.undo[:0]
	nodes, machine := map[int32]int{}, t.cluster.Machine(o.Node, nil)
	name := func(i int) string { return fmt.Sprint("new/", i) } // no node has such a name
	for i := range o.Count {
		t.apply(&ledger.Event{Kind: ledger.KindNode, Node: name(i), Machine: machine})
	}
	for i := range o.Count {
		nodes[t.ledger.MachineIndex(name(i))] = i
	}
	places := make([]int, len(pods))
	for i := range pods {
		places[i] = t.place(o.Pods[i], &pods[i], nodes)
	}
	for _, ev := range t.undo {
		t.apply(ev)
	}
	for i := range o.Count {
		t.apply(&ledger.Event{Kind: ledger.KindForget, Node: name(i)})
	}
	t.apply(t.past)
	return places
}

// place places a pod on one of the new nodes.
func (t *trial) place(p *v1.Pod, of *triedPod, nodes map[int32]int) (node int) {
	known := t.ledger.Pod(of.uid)
	if !t.goesOn() || of.app == "" || known != nil && known.Node() != nil {
		return -1
	}
	ev := ledger.Event{Kind: ledger.KindArrive, Pod: p.Namespace + "/" + p.Name, UID: of.uid, App: of.app}
	t.apply(&ev)
	after := ev
	if after.Kind = ledger.KindRemove; known != nil {
		after.Kind = ledger.KindFailed
	}
	t.undo = append(t.undo, &after)
	app, r := t.ledger.AppIndex(of.app), &t.ranking
	fits := t.ledger.Fits(app, r.passed[:0])
	r.passed = fits[:0]
	for _, m := range fits {
		if _, ok := nodes[m]; ok {
			r.passed = append(r.passed, m)
		}
	}
	var err error
	if r.ranked, err = r.order(t.ledger, of.role, app, 1, r.ranked); err != nil && of.role != ledger.BestFit {
		r.ranked, err = r.order(t.ledger, ledger.BestFit, app, 1, r.ranked)
	}
	if err != nil {
		t.err = cmp.Or(t.err, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err))
	}
	if err != nil || len(r.ranked) == 0 {
		return -1
	}
	m := r.ranked[0].Machine
	ev.Kind, ev.Node = ledger.KindDecide, t.ledger.NodeName(m)
	t.apply(&ev)
	return nodes[m]
}
