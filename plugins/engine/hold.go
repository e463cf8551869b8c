package engine

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Hold reserves places before the next decision, as far as there is room for them then, until a
// time in seconds since 1970. by names the object that reserves them. No plan and no chain may have
// a workload of theirs: see [Engine.Claimed].
func (e *Engine) Hold(by string, until float64, places []kube.Place) *kube.Chain {
	chain := kube.NewChain(by, until, places, e.opt.AppLabel)
	e.hold(chain)
	e.opt.Peers.begin(e, chain, by, until, places)
	return chain
}

func (in *inbox) hold(chain *kube.Chain) {
	in.lock.Lock()
	defer in.lock.Unlock()
	in.begun = append(in.begun, chain)
}

// Release ends the reservations of a chain, before the next decision.
func (e *Engine) Release(chain *kube.Chain) {
	e.release(chain)
	e.opt.Peers.end(chain)
}

func (in *inbox) release(chain *kube.Chain) {
	in.lock.Lock()
	defer in.lock.Unlock()
	if i := slices.Index(in.begun, chain); i >= 0 {
		in.begun = slices.Delete(in.begun, i, i+1)
		return
	}
	in.ended = append(in.ended, chain)
}

// Claimed reports whether an enabled plan or a chain has a workload, by the name of its group. A
// released chain does not count, even before the next decision.
func (e *Engine) Claimed(group string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lock.Lock()
	ended := slices.Clone(e.ended)
	e.lock.Unlock()
	return e.state.cluster.ClaimedExcept(group, ended)
}

// Decides reports whether the engine has had to make a decision: that of a scheduler that does not
// lead has not.
func (e *Engine) Decides() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.state.fresh
}

// Prefer returns some nodes in the order in which the policy that decides on a pod prefers them for a replacement of
// it, or Best-Fit where none decides. Nodes that rules or reservations close to the pod are left out; those that the
// last Sync did not have are last. Nothing is decided.
func (e *Engine) Prefer(pod *v1.Pod, nodes []string) (list []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.state.cluster.EnsureApp(pod)
	if a == nil || e.state.broken != nil {
		return nil
	}
	l, r := e.state.ledger, ranking{rankBy: e.ranking.rankBy}
	check, passed := e.state.cluster.Check(pod, e.opt.Now()), make([]bool, len(nodes))
	for i, name := range nodes {
		passed[i] = check == nil || check.Refusal(name) == ""
	}
	app := l.AppIndex(a.Name())
	r.mark(nodes, passed, l)
	role, _, decides := e.decider(a.Group().Name())
	ranked, err := r.order(l, role, app, len(nodes), nil)
	if err != nil || !decides {
		ranked, _ = r.order(l, ledger.BestFit, app, len(nodes), nil)
	}
	for _, m := range ranked {
		list = append(list, nodes[r.places.place[m.Machine]])
	}
	for i, name := range nodes {
		if passed[i] && r.places.machine[i] < 0 {
			list = append(list, name)
		}
	}
	return list
}
