package rule

import "github.com/sigma-scheduler/sigma/binpack"

// columns is embedded by the rules that look at amounts: the state's columns, and
// the capacity of each kind as a divisor.
type columns struct {
	state *binpack.State
	// capacity[dimension][kind], see Divisors.
	capacity [][]float64
}

func columnsOf(s *binpack.State) columns {
	return columns{state: s, capacity: Divisors(s)}
}

// Divisors returns the capacities [dimension][kind] of a state's machines as
// divisors. A capacity of 0 is returned as 1: only a demand of 0 fits there, and
// its share is then 0.
func Divisors(s *binpack.State) [][]float64 {
	capacity := make([][]float64, len(s.Instance().Dimensions))
	for d := range capacity {
		for _, kind := range s.Kinds() {
			capacity[d] = append(capacity[d], float64(max(kind.Capacity[d], 1)))
		}
	}
	return capacity
}

// demand is the demand of an item of an app. Apps may be added to a state.
func (c *columns) demand(app int32) []int64 { return c.state.Instance().Apps[app].Demand }

// oneKind reports whether all machines are alike.
func (c *columns) oneKind() bool { return len(c.state.Kinds()) == 1 }

// residual adds to out[i] the share of a dimension that is free on candidate i
// after the placement.
func (c *columns) residual(d int, need int64, candidates []int32, out []float64) {
	free, capacity := c.state.Free(d), c.capacity[d]
	if c.oneKind() {
		whole := capacity[0]
		for i, m := range candidates {
			out[i] += float64(free[m]-need) / whole
		}
		return
	}
	for i, m := range candidates {
		out[i] += float64(free[m]-need) / capacity[c.state.KindOf(m)]
	}
}

// emptyLast lowers the score of empty machines below that of every machine in use:
// an Any Fit policy starts a machine only when no other takes the item. In an open
// fleet the order of machines.csv determines which one it starts, so all get the
// same score and the lowest position is first. Scores must lie in [−span, span].
func emptyLast(s *binpack.State, span float64, candidates []int32, out []float64) {
	open := s.Instance().Fleet == binpack.Open
	for i, m := range candidates {
		if s.Items(m) > 0 {
			continue
		}
		if open {
			out[i] = 0
		}
		out[i] -= 2*span + 1
	}
}

// startInOrder is emptyLast for Best Fit. Where all machines are alike, an empty
// one has the lowest score already. In an open fleet of several kinds the order of
// machines.csv decides which one is started, not the kind that the item would
// leave fullest.
func startInOrder(s *binpack.State, candidates []int32, out []float64) {
	if s.Instance().Fleet == binpack.Open && len(s.Kinds()) > 1 {
		emptyLast(s, float64(len(s.Instance().Dimensions)), candidates, out)
	}
}

// shares returns a term weight·value(share free after, share needed, share free
// now) for each dimension.
func (c *columns) shares(item binpack.Item, m int32, name string, weight float64, value func(after, need, free float64) float64) []binpack.Term {
	var terms []binpack.Term
	for d, need := range c.demand(item.App) {
		whole := c.capacity[d][c.state.KindOf(m)]
		free := c.state.Free(d)[m]
		v := value(float64(free-need)/whole, float64(need)/whole, float64(free)/whole)
		terms = append(terms, binpack.Term{
			Name: c.state.Instance().Dimensions[d].Name + " " + name, Weight: weight, Value: v, Contribution: weight * v,
		})
	}
	return terms
}

// startTerm adds the term for the effect of emptyLast on the sum of terms.
func startTerm(s *binpack.State, span float64, m int32, terms []binpack.Term) []binpack.Term {
	t := binpack.Term{Name: "empty: last", Weight: -2*span - 1}
	if s.Items(m) == 0 {
		t.Value, t.Contribution = 1, t.Weight
		if s.Instance().Fleet == binpack.Open { // all alike, whatever the amounts
			for i := range terms {
				terms[i].Contribution = 0
			}
		}
	}
	return append(terms, t)
}

// startInOrderTerm adds the term for the effect of startInOrder.
func (c *columns) startInOrderTerm(m int32, terms []binpack.Term) []binpack.Term {
	if c.state.Instance().Fleet == binpack.Open && len(c.state.Kinds()) > 1 {
		return startTerm(c.state, float64(len(c.capacity)), m, terms)
	}
	return terms
}

func afterShare(after, _, _ float64) float64 { return after }
