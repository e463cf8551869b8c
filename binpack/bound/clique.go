package bound

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

const (
	// cliqueWork is the effort of an exact clique, in words of bitsets read: some
	// hundredths of a second. Its result is a clique even then.
	cliqueWork = 1 << 23
	// denseGroups is the largest number of groups for which the clique is exact and
	// items that do not fit together are searched.
	denseGroups = 2048
)

// exclusions lists for each group the groups that share no machine with it,
// ascending: because of a rule with max 0 or, in small instances, because no machine
// has room (or a permitted type) for an item of each.
func exclusions(inst *binpack.Instance, apps [][]int32, present func(a int32) bool) [][]int32 {
	out := make([][]int32, len(inst.Groups))
	add := func(g, h int32) {
		out[g] = append(out[g], h)
		out[h] = append(out[h], g)
	}
	for _, r := range inst.Rules {
		if r.Max == 0 {
			add(r.A, r.B)
		}
	}
	kinds := distinctMachines(inst)
	var some []int32
	for g := range inst.Groups {
		if slices.ContainsFunc(apps[g], present) {
			some = append(some, int32(g))
		}
	}
	if len(some) <= denseGroups && len(kinds) <= 8 {
		for i, g := range some {
			for _, h := range some[:i] {
				if apart(inst, kinds, apps[g], apps[h], present) {
					add(g, h)
				}
			}
		}
	}
	for g := range out {
		slices.Sort(out[g])
		out[g] = slices.Compact(out[g])
	}
	return out
}

// distinctMachines returns one line for each type and capacity.
func distinctMachines(inst *binpack.Instance) []*binpack.MachineLine {
	var out []*binpack.MachineLine
	for i := range inst.Machines {
		m := &inst.Machines[i]
		known := func(o *binpack.MachineLine) bool { return o.Type == m.Type && slices.Equal(o.Capacity, m.Capacity) }
		if m.Count != 0 && !slices.ContainsFunc(out, known) {
			if out = append(out, m); len(out) > 8 {
				break // the caller needs no more
			}
		}
	}
	return out
}

// apart reports whether no machine holds an item of one list of apps together with
// an item of the other.
func apart(inst *binpack.Instance, kinds []*binpack.MachineLine, these, those []int32, present func(a int32) bool) bool {
	for _, a := range these {
		for _, b := range those {
			if !present(a) || !present(b) {
				continue
			}
			for _, m := range kinds {
				if together(&inst.Apps[a], &inst.Apps[b], m) {
					return false
				}
			}
		}
	}
	return true
}

func together(a, b *binpack.App, m *binpack.MachineLine) bool {
	if !a.MayUse(m.Type) || !b.MayUse(m.Type) {
		return false
	}
	for d, c := range m.Capacity {
		if a.Demand[d]+b.Demand[d] > c {
			return false
		}
	}
	return true
}

// cliqueOf bounds groups that exclude each other: no two share a machine, so their
// needs add up. The clique is the heaviest where that is not too much work, else a
// heavy one.
func cliqueOf(inst *binpack.Instance, items []int64, needs []need) Bound {
	graph := exclusions(inst, appsOf(inst), func(a int32) bool { return items[a] > 0 })
	b := Bound{Method: MethodClique}
	machines := make([]float64, len(needs))
	cost := make([]float64, len(needs))
	sameCost := true
	for g, n := range needs {
		machines[g], cost[g] = float64(n.machines), n.cost
		sameCost = sameCost && n.cost == float64(n.machines)
		b.Short = b.Short || n.short
	}
	for _, g := range heaviest(graph, machines) {
		b.Machines += needs[g].machines
		b.Cost += needs[g].cost
	}
	if !sameCost {
		sum := 0.0
		for _, g := range heaviest(graph, cost) {
			sum += cost[g]
		}
		b.Cost = max(b.Cost, sum)
	}
	return b
}

// heaviest is a clique of large weight in a graph of sorted neighbours: the
// best greedy one or, while that is not too much work, the heaviest of all.
func heaviest(graph [][]int32, weight []float64) []int32 {
	var best []int32
	most := 0.0
	vertices := 0
	for v := range graph {
		if weight[v] <= 0 {
			continue
		}
		vertices++
		if c, w := greedyClique(graph, weight, int32(v)); w > most {
			best, most = c, w
		}
	}
	if vertices <= denseGroups {
		s := newCliqueSearch(graph, weight)
		if c, w := s.search(most); w > most {
			best = c
		}
	}
	return best
}

// greedyClique adds to a vertex the heaviest neighbour of all so far, again and
// again.
func greedyClique(graph [][]int32, weight []float64, v int32) (clique []int32, sum float64) {
	clique, sum = []int32{v}, weight[v]
	common := slices.Clone(graph[v])
	for {
		next := int32(-1)
		for _, u := range common {
			if weight[u] > 0 && (next < 0 || weight[u] > weight[next]) {
				next = u
			}
		}
		if next < 0 {
			return clique, sum
		}
		clique, sum = append(clique, next), sum+weight[next]
		common = intersect(common, graph[next])
	}
}

// intersect keeps the elements of a that are in b; both are sorted.
func intersect(a, b []int32) []int32 {
	out := a[:0]
	for _, v := range a {
		if _, ok := slices.BinarySearch(b, v); ok {
			out = append(out, v)
		}
	}
	return out
}

// A cliqueSearch finds the heaviest clique by branch and bound: candidates are
// coloured greedily, and a clique takes at most the heaviest vertex of each
// colour (Kumlander, "A new exact algorithm for the maximum-weight clique
// problem", 2004).
type cliqueSearch struct {
	weight    []float64 // by rank: light vertices last
	vertex    []int32   // by rank
	adjacent  [][]uint64
	words     int
	work      int
	most      float64
	best, now []int32
}

func newCliqueSearch(graph [][]int32, weight []float64) *cliqueSearch {
	s := &cliqueSearch{work: cliqueWork}
	for v := range graph {
		if weight[v] > 0 {
			s.vertex = append(s.vertex, int32(v))
		}
	}
	slices.SortStableFunc(s.vertex, func(a, b int32) int { return cmp.Compare(weight[b], weight[a]) })
	rank := make([]int, len(graph))
	for i := range rank {
		rank[i] = -1
	}
	for r, v := range s.vertex {
		rank[v] = r
		s.weight = append(s.weight, weight[v])
	}
	s.words = (len(s.vertex) + 63) / 64
	for _, v := range s.vertex {
		row := make([]uint64, s.words)
		for _, u := range graph[v] {
			if r := rank[u]; r >= 0 {
				row[r/64] |= 1 << (r % 64)
			}
		}
		s.adjacent = append(s.adjacent, row)
	}
	return s
}

// search returns a clique that is heavier than most, or nil.
func (s *cliqueSearch) search(most float64) ([]int32, float64) {
	s.most = most
	all := make([]uint64, s.words)
	for r := range s.vertex {
		all[r/64] |= 1 << (r % 64)
	}
	s.expand(all, 0)
	return s.best, s.most
}

// expand tries all cliques of the present vertices and vertices of p.
func (s *cliqueSearch) expand(p []uint64, sum float64) {
	order, limit := s.colour(p)
	for i, r := range slices.Backward(order) {
		// The rounding of sums of costs must not cut off the last digit.
		if sum+limit[i] <= s.most*(1+1e-12) || s.work <= 0 {
			return
		}
		with := sum + s.weight[r]
		s.now = append(s.now, s.vertex[r])
		if with > s.most {
			s.most, s.best = with, slices.Clone(s.now)
		}
		next := make([]uint64, s.words)
		rest := uint64(0)
		for w := range next {
			next[w] = p[w] & s.adjacent[r][w]
			rest |= next[w]
		}
		s.work -= s.words
		if rest != 0 {
			s.expand(next, with)
		}
		s.now = s.now[:len(s.now)-1]
		p[r/64] &^= 1 << (r % 64)
	}
}

// colour orders the vertices of p by colour; limit[i] bounds the weight of a
// clique among the first i+1.
func (s *cliqueSearch) colour(p []uint64) (order []int, limit []float64) {
	left := slices.Clone(p)
	free := make([]uint64, s.words)
	sum := 0.0
	for {
		copy(free, left)
		heaviest, any := 0.0, false
		for w := 0; w < s.words; {
			if free[w] == 0 {
				w++
				continue
			}
			r := w*64 + bits.TrailingZeros64(free[w])
			any = true
			heaviest = math.Max(heaviest, s.weight[r])
			left[w] &^= 1 << (r % 64)
			free[w] &^= 1 << (r % 64)
			for v := w; v < s.words; v++ {
				free[v] &^= s.adjacent[r][v]
			}
			s.work -= s.words - w
			order, limit = append(order, r), append(limit, sum+heaviest)
		}
		if !any {
			return order, limit
		}
		sum += heaviest
	}
}
