package engine

import (
	"slices"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// Hold reserves places before the next decision, as far as there is room for them then, until a
// time in seconds since 1970. by names the object that reserves them. No plan and no chain may have
// a workload of theirs: see [Engine.Engaged].
func (e *Engine) Hold(by string, until float64, places []kube.Place) *kube.Chain {
	chain := kube.NewChain(by, until, places, e.opt.AppLabel)
	e.hold(chain)
	e.opt.Peers.begin(e, chain, by, until, places)
	return chain
}

func (e *Engine) hold(chain *kube.Chain) {
	e.inbox.Lock()
	defer e.inbox.Unlock()
	e.inbox.begun = append(e.inbox.begun, chain)
}

// Release ends the reservations of a chain, before the next decision.
func (e *Engine) Release(chain *kube.Chain) {
	e.release(chain)
	e.opt.Peers.end(chain)
}

func (e *Engine) release(chain *kube.Chain) {
	e.inbox.Lock()
	defer e.inbox.Unlock()
	if i := slices.Index(e.inbox.begun, chain); i >= 0 {
		e.inbox.begun = slices.Delete(e.inbox.begun, i, i+1)
		return
	}
	e.inbox.ended = append(e.inbox.ended, chain)
}

// Engaged reports whether an enabled plan or a chain has a workload, by the name of its group. A
// released chain does not count, even before the next decision.
func (e *Engine) Engaged(group string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inbox.Lock()
	ended := slices.Clone(e.inbox.ended)
	e.inbox.Unlock()
	return e.state.cluster.EngagedBeside(group, ended)
}

// Decides reports whether the engine has had to make a decision: that of a scheduler that does not
// lead has not.
func (e *Engine) Decides() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.state.fresh
}
