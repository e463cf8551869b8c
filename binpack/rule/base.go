package rule

import "github.com/sigma-scheduler/sigma/binpack"

// blind is embedded by the rules without knowledge of the future.
type blind struct{}

// Knowledge is K0: the item, the machines, the constraints and the past.
func (blind) Knowledge() binpack.Knowledge { return binpack.K0 }

// byClass marks a scorer that looks at a machine's kind, free amounts and
// emptiness only: then one machine of each class of equal machines is scored.
type byClass struct{ binpack.Scorer }

// ByClass is the mark of [binpack.ClassScorer].
func (byClass) ByClass() {}

// growing marks a scorer that keeps nothing for each app.
type growing struct{ byClass }

// Grows is the mark of [binpack.Grower].
func (growing) Grows() {}

// Explain returns the terms of a scorer that has parts.
func (b byClass) Explain(item binpack.Item, m int32) []binpack.Term {
	if e, ok := b.Scorer.(binpack.Explainer); ok {
		return e.Explain(item, m)
	}
	return nil
}
