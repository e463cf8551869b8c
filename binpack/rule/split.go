package rule

import "github.com/sigma-scheduler/sigma/binpack"

// Split places items whose group has a limit of one per machine by one policy, and
// the others by another.
type Split struct {
	blind

	OnePerNode, Others binpack.Policy
}

// Scorer prepares the policy for a state.
func (p Split) Scorer(s *binpack.State) binpack.Scorer {
	scorer := &split{s, p.OnePerNode.Scorer(s), p.Others.Scorer(s)}
	if !both[binpack.ClassScorer](scorer) {
		return scorer
	}
	if !both[binpack.Grower](scorer) {
		return byClass{scorer}
	}
	return growing{byClass{scorer}}
}

type split struct {
	state              *binpack.State
	onePerNode, others binpack.Scorer
}

// both reports whether both scorers have a mark.
func both[T any](p *split) bool {
	_, one := p.onePerNode.(T)
	_, others := p.others.(T)
	return one && others
}

// scorer is that of an item.
func (p *split) scorer(item binpack.Item) binpack.Scorer {
	inst := p.state.Instance()
	if inst.Groups[inst.Apps[item.App].Group].Limit == 1 {
		return p.onePerNode
	}
	return p.others
}

func (p *split) Score(item binpack.Item, candidates []int32, out []float64) {
	p.scorer(item).Score(item, candidates, out)
}

// Explain implements [binpack.Explainer].
func (p *split) Explain(item binpack.Item, m int32) []binpack.Term {
	if e, ok := p.scorer(item).(binpack.Explainer); ok {
		return e.Explain(item, m)
	}
	return nil
}
