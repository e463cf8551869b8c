package kube

import (
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Describe returns the events after which an empty ledger decides as the translator's
// does from here on.
func (t *Translator) Describe() []*ledger.Event {
	return t.ledger.Describe(func(p *ledger.Pod) (string, int64) {
		object := p.Object.(*v1.Pod)
		return name(object), created(object)
	})
}
