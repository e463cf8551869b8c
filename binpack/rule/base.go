package rule

import "github.com/sigma-scheduler/sigma/binpack"

// blind is the part of a policy that knows nothing of the future.
type blind struct{}

// Knowledge is K0: the item, the machines, the constraints and the past.
func (blind) Knowledge() binpack.Knowledge { return binpack.K0 }

// byClass marks a scorer that looks at a machine's kind, free amounts and
// emptiness only, so that one machine of each class of equal ones is scored.
type byClass struct{ binpack.Scorer }

// ByClass is the mark of [binpack.ClassScorer].
func (byClass) ByClass() {}

// Explain implements [binpack.Explainer] for scorers that have parts.
func (b byClass) Explain(item binpack.Item, m int32) []binpack.Term {
	if e, ok := b.Scorer.(binpack.Explainer); ok {
		return e.Explain(item, m)
	}
	return nil
}
