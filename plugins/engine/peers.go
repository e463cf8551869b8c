package engine

import (
	"slices"
	"sync"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// Peers are the engines of one process, one per profile. The reservations of one of them for a chain
// are made in the others too, from their next decision on.
type Peers struct {
	mu      sync.Mutex
	engines []*Engine
	twins   map[*kube.Chain][]twin
}

// A twin is the copy of a chain in another engine.
type twin struct {
	engine *Engine
	chain  *kube.Chain
}

func (p *Peers) join(e *Engine) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.engines = append(p.engines, e)
	}
}

func (p *Peers) leave(e *Engine) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.engines = slices.DeleteFunc(p.engines, func(o *Engine) bool { return o == e })
	}
}

// begin makes the reservations of an engine's chain in the other engines.
func (p *Peers) begin(e *Engine, chain *kube.Chain, by string, until float64, places []kube.Place) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.engines {
		if o == e {
			continue
		}
		if p.twins == nil {
			p.twins = map[*kube.Chain][]twin{}
		}
		t := twin{o, kube.NewChain(by, until, places, o.opt.AppLabel)}
		o.hold(t.chain)
		p.twins[chain] = append(p.twins[chain], t)
	}
}

// end releases the reservations for a chain in the other engines.
func (p *Peers) end(chain *kube.Chain) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.twins[chain] {
		t.engine.release(t.chain)
	}
	delete(p.twins, chain)
}
