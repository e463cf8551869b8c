package defrag

import (
	"cmp"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// A Point is a number of machines emptied at a number of items moved.
type Point struct{ Moves, Freed int }

// Greedy is the peer: it empties machines, those with the fewest items first, by Best-Fit
// among the machines in use, and nothing makes way. An item that moves twice counts once.
// Cluster-autoscaler and Karpenter's deletion drain like this.
func Greedy(inst *binpack.Instance, items []Item) (points []Point, err error) {
	g := greedy{}
	if err := g.begin(inst, items, Options{AppShare: 1}); err != nil {
		return nil, err
	}
	g.scorer = rule.BestFit{}.Scorer(g.state)
	list := make([]int32, 0, len(g.machines))
	for _, m := range g.machines {
		if _, ok := g.priceOf(m); ok && len(g.on[m]) > 0 {
			list = append(list, m)
		}
		g.usable[m] = len(g.on[m]) > 0
	}
	for len(list) > 0 {
		// Those that took in items follow later.
		next := slices.MinFunc(list, func(a, b int32) int {
			return cmp.Or(cmp.Compare(len(g.on[a]), len(g.on[b])), cmp.Compare(a, b))
		})
		at := slices.Index(list, next)
		list = slices.Delete(list, at, at+1)
		g.attempts++
		g.mark()
		if !g.empty(next) {
			g.undo()
			g.usable[next] = true
			continue
		}
		moved := 0
		for _, n := range g.moved {
			moved += int(n)
		}
		points = append(points, Point{moved, len(points) + 1})
	}
	return points, nil
}

type greedy struct {
	search
	scorer binpack.Scorer
	ranked []binpack.Ranked
}

func (g *greedy) empty(m int32) bool {
	g.usable[m] = false
	for len(g.on[m]) > 0 {
		i := g.on[m][0]
		g.lift(i)
		g.buf = slices.DeleteFunc(g.state.Feasible(g.items[i].App, g.buf[:0]), func(to int32) bool { return !g.takes(to) })
		var err error
		g.ranked, err = g.state.Rank(g.scorer, binpack.Item{App: g.items[i].App}, g.buf, 1, g.ranked)
		if err != nil || len(g.ranked) == 0 {
			return false
		}
		g.put(i, g.ranked[0].Machine)
	}
	return true
}
