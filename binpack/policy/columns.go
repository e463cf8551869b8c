package policy

import "github.com/sigma-scheduler/sigma/binpack"

// columns is what the policies share that look at amounts: the state's columns
// and the capacity of each kind as a divisor.
type columns struct {
	state *binpack.State
	apps  []binpack.App
	// capacity[dimension][kind]. A capacity of 0 is 1 here: nothing is free
	// there and nothing fits but a demand of 0, so that the share is 0 too.
	capacity [][]float64
}

func columnsOf(s *binpack.State) columns {
	inst := s.Instance()
	c := columns{state: s, apps: inst.Apps, capacity: make([][]float64, len(inst.Dimensions))}
	for d := range c.capacity {
		for _, kind := range s.Kinds() {
			c.capacity[d] = append(c.capacity[d], float64(max(kind.Capacity[d], 1)))
		}
	}
	return c
}

// oneKind reports whether all machines are alike.
func (c *columns) oneKind() bool { return len(c.state.Kinds()) == 1 }

// residual adds to out[i] the free share that candidate i keeps in a dimension
// after the item has come.
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

// emptyLast lowers the score of empty machines below that of every machine in
// use: an Any Fit policy starts a machine only when no other takes the item. In
// an open fleet the order of machines.csv says which one it starts, so all get
// the same score and the lowest position goes first. Scores must lie in
// [−span, span].
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

// startInOrder is emptyLast for Best Fit: an empty machine is last by its score
// already where all are alike; in an open fleet of several kinds the order of
// machines.csv decides, not which kind the item would leave fullest.
func startInOrder(s *binpack.State, candidates []int32, out []float64) {
	if s.Instance().Fleet == binpack.Open && len(s.Kinds()) > 1 {
		emptyLast(s, float64(len(s.Instance().Dimensions)), candidates, out)
	}
}
