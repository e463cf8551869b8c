package bound

import (
	"cmp"
	"context"
	"math"
	"math/big"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A generator solves the linear program of a cover by column generation: it prices
// items by the ways known so far, looks for a way to fill a machine that is worth
// more than the machine costs, and so on until no such way exists.
type generator struct {
	cover    *cover
	program  *program
	fillers  []*filler
	limited  []int32 // per kind: its row, -1 for an unlimited one
	scale    float64 // cost of a machine in the program's unit
	integral bool    // the cost of a placement is an integer
	enough   float64
	work     int64
	nodes    int64

	best   *big.Rat  // the bound so far
	price  []int64   // that gave it
	worth  []int64   // per kind, at these prices
	centre []float64 // these prices in the program's unit
}

// An outcome of a linear program: no solution is below value.
type outcome struct {
	value   *big.Rat
	short   bool // the machines do not hold all items
	stopped bool // short of the optimum
}

const (
	smoothing    = .8      // share of the centre in prices
	mostNodes    = 1 << 22 // of a branch and bound
	solveWork    = 1 << 28 // of a part of a solution
	reducedCost  = 1e-7    // that a column must save
	artificial   = 16      // cost of leaving an item out, in the dearest machines
	poolPerRow   = 8       // columns that are kept, per row
	poolAtLeast  = 2000
	hairsbreadth = 1e-6
)

func newGenerator(c *cover, integral bool, enough float64, work int64) *generator {
	g := &generator{cover: c, integral: integral, enough: enough, work: work, nodes: fewestNodes, best: new(big.Rat)}
	for k := range c.kinds {
		g.fillers = append(g.fillers, newFiller(c, k))
		g.scale = math.Max(g.scale, c.kinds[k].cost)
	}
	g.scale = cmp.Or(g.scale, 1)
	var rhs []float64
	var basis []column
	for i := range c.classes {
		rhs = append(rhs, float64(c.classes[i].items))
		basis = append(basis, column{rows: []int32{int32(i)}, value: []float64{1}, cost: g.alone(i)})
	}
	for k := range c.kinds {
		if c.kinds[k].count < 0 {
			g.limited = append(g.limited, -1)
			continue
		}
		row := int32(len(rhs))
		g.limited = append(g.limited, row)
		rhs = append(rhs, float64(c.kinds[k].count))
		basis = append(basis, column{rows: []int32{row}, value: []float64{1}})
	}
	g.program = newProgram(rhs, basis)
	for i := range c.classes { // more of a class than required
		g.program.add(column{rows: []int32{int32(i)}, value: []float64{-1}})
	}
	return g
}

// alone returns the cost of an item of a class on machines of its own, without a
// limit on their number.
func (g *generator) alone(i int) float64 {
	class := &g.cover.classes[i]
	least := math.Inf(1)
	for k := range g.cover.kinds {
		kind := &g.cover.kinds[k]
		if kind.count >= 0 || !class.on[k] {
			continue
		}
		n := class.most
		for d, need := range class.demand {
			if need > 0 {
				n = min(n, kind.capacity[d]/need)
			}
		}
		least = math.Min(least, kind.cost/g.scale/float64(n))
	}
	if math.IsInf(least, 1) {
		return artificial
	}
	return least
}

// run generates columns until the linear program is solved, the bound cannot
// grow by another integer, or the work is used up.
func (g *generator) run(ctx context.Context) outcome {
	for _, prices := range g.firstPrices() {
		ways, _, ok := g.try(prices)
		if !ok {
			return outcome{value: g.best, short: true}
		}
		g.addColumns(ways)
	}
	ways := make([][]way, len(g.fillers))
	for k, f := range g.fillers {
		ways[k] = f.packing(&g.work)
	}
	g.addColumns(ways)
	away := 1.0 // from the centre, in steps of 1 - smoothing
	for {
		solved := g.solve(ctx)
		if g.reached() {
			return outcome{value: g.best}
		}
		smooth := math.Max(0, 1-away*(1-smoothing))
		ways, exact, ok := g.try(g.prices(smooth))
		switch {
		case !ok:
			return outcome{value: g.best, short: true}
		case g.reached():
			return outcome{value: g.best}
		case g.work <= 0 || ctx.Err() != nil || !solved:
			return outcome{value: g.best, stopped: true}
		case g.addColumns(ways) > 0:
			away = 1
		case smooth > 0:
			away++ // towards the program's own prices
		case exact:
			return outcome{value: g.best}
		case g.nodes >= mostNodes:
			return outcome{value: g.best, stopped: true}
		default:
			g.nodes *= 8
		}
	}
}

// solve solves the program of the columns so far, in parts, so that a context
// that ends is seen soon.
func (g *generator) solve(ctx context.Context) bool {
	for g.work > 0 && ctx.Err() == nil {
		part := min(g.work, solveWork)
		g.work -= part
		solved := g.program.solve(&part)
		g.work += part
		if solved || part > 0 {
			return solved
		}
	}
	return false
}

// firstPrices returns the prices of the cheap bounds: the share of a machine that an
// item takes, in each of the dimensions that matter, and the clique.
func (g *generator) firstPrices() [][]int64 {
	var out [][]int64
	c := g.cover
	for i, d := range c.loads() {
		if i == mostSingle {
			break
		}
		per := math.Inf(1) // cost of capacity
		for k := range c.kinds {
			if c.kinds[k].capacity[d] > 0 {
				per = math.Min(per, c.kinds[k].cost/g.scale/float64(c.kinds[k].capacity[d]))
			}
		}
		price := make([]int64, len(c.classes))
		for i := range c.classes {
			if need := c.classes[i].demand[d]; need > 0 {
				price[i] = int64(float64(need) * per * priceOne)
			}
		}
		out = append(out, price)
	}
	graph, weight, first := make([][]int32, len(c.groups)), make([]float64, len(c.groups)), make([]int, len(c.groups))
	for i := range c.groups {
		graph[i] = c.groups[i].excludes
	}
	for i := range c.classes {
		class := &c.classes[i]
		if w := float64(class.items) / float64(class.most); w > weight[class.group] {
			weight[class.group], first[class.group] = w, i
		}
	}
	price := make([]int64, len(c.classes))
	for _, group := range heaviest(graph, weight) {
		price[first[group]] = priceOne / c.classes[first[group]].most
	}
	return append(out, price)
}

// try looks for ways that are worth much at prices, and updates the bound from the
// prices. It is not ok when they prove that the machines are too few.
func (g *generator) try(prices []int64) (ways [][]way, exact, ok bool) {
	worth, ways, exact := g.fill(prices)
	value, scale, ok := g.cover.bound(prices, worth)
	if ok && value.Cmp(g.best) > 0 {
		g.best, g.price, g.worth = value, prices, worth
		t, _ := scale.Float64()
		g.centre = g.centre[:0]
		for _, p := range prices {
			g.centre = append(g.centre, float64(p)*t/g.scale)
		}
	}
	return ways, exact, ok
}

// prices are the program's, rounded, with a share of those of the best bound
// (Wentges, "Weighted Dantzig-Wolfe decomposition for linear mixed-integer
// programming", International Transactions in Operational Research 4, 1997).
func (g *generator) prices(smooth float64) []int64 {
	if g.centre == nil {
		smooth = 0
	}
	out := make([]int64, len(g.cover.classes))
	for i := range out {
		y := g.program.y[i]
		if smooth > 0 {
			y = smooth*g.centre[i] + (1-smooth)*y
		}
		if y > 0 { // false for NaN
			out[i] = int64(math.Round(math.Min(y, artificial) * priceOne))
		}
	}
	return out
}

// fill finds ways for machines of each kind.
func (g *generator) fill(prices []int64) (worth []int64, ways [][]way, exact bool) {
	exact = true
	for _, f := range g.fillers {
		w, e := f.solve(prices, g.nodes, &g.work)
		worth = append(worth, w)
		ways = append(ways, f.found)
		exact = exact && e
	}
	return worth, ways, exact
}

// addColumns adds the ways that lower the cost and returns how many do.
func (g *generator) addColumns(ways [][]way) int {
	g.forget()
	added := 0
	for k, list := range ways {
		for _, w := range list {
			c := column{cost: g.cover.kinds[k].cost / g.scale}
			order := make([]int, len(w.class))
			for i := range order {
				order[i] = i
			}
			slices.SortFunc(order, func(a, b int) int { return cmp.Compare(w.class[a], w.class[b]) })
			for _, i := range order {
				c.rows, c.value = append(c.rows, w.class[i]), append(c.value, float64(w.count[i]))
			}
			if row := g.limited[k]; row >= 0 {
				c.rows, c.value = append(c.rows, row), append(c.value, 1)
			}
			if c.cost-c.dot(g.program.y) < -reducedCost {
				g.program.add(c)
				added++
			}
		}
	}
	return added
}

// forget drops the columns that cost most at present prices when there are too
// many.
func (g *generator) forget() {
	p := g.program
	rows := len(p.rhs)
	if len(p.columns) < poolAtLeast+2*poolPerRow*rows {
		return
	}
	keep := make([]bool, len(p.columns))
	for j := range 2 * rows { // the first basis and the surplus
		keep[j] = j < len(p.columns)
	}
	for _, j := range p.basis {
		keep[j] = true
	}
	order := make([]int, len(p.columns))
	reduced := make([]float64, len(p.columns))
	for j := range order {
		order[j] = j
		reduced[j] = p.columns[j].cost - p.columns[j].dot(p.y)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(reduced[a], reduced[b]) })
	for _, j := range order[:poolAtLeast/2+poolPerRow*rows] {
		keep[j] = true
	}
	at := make([]int, len(p.columns))
	var kept []column
	for j := range p.columns {
		if keep[j] {
			at[j] = len(kept)
			kept = append(kept, p.columns[j])
		}
	}
	p.columns = kept
	for i, j := range p.basis {
		p.basis[i] = at[j]
	}
}

// reached reports whether more columns are useless: the bound has reached the cost
// of the program's solution, or is enough.
func (g *generator) reached() bool {
	lower := g.best
	if g.integral {
		lower = new(big.Rat).SetInt(ceil(g.best))
	}
	low, _ := lower.Float64()
	if g.enough > 0 && low >= g.enough {
		return true
	}
	upper := g.program.value() * g.scale
	if g.integral {
		return low >= math.Ceil(upper-hairsbreadth)
	}
	return low >= upper*(1-tolerance)
}

// The objectives of linear programs.
func countOf(*binpack.MachineLine) float64  { return 1 }
func costOf(m *binpack.MachineLine) float64 { return m.Cost }

// uniformCost reports whether all machines cost the same: then the cost needs no
// linear program of its own.
func uniformCost(inst *binpack.Instance) bool {
	for i := range inst.Machines {
		if inst.Machines[i].Cost != inst.Machines[0].Cost {
			return false
		}
	}
	return true
}

// columns returns the bound by linear programs over the dimensions dims. It is not ok
// when the instance is too large for them.
func columns(ctx context.Context, inst *binpack.Instance, items []int64, dims []int, rules bool, opt Options) (b Bound, ok bool) {
	uniform := uniformCost(inst)
	if !uniform {
		opt.Work /= 2
	}
	b.Method = MethodColumns
	enough := 0.0
	if uniform && len(inst.Machines) > 0 && inst.Machines[0].Cost > 0 {
		enough = opt.Enough / inst.Machines[0].Cost
	}
	_, machines := generate(ctx, inst, items, coverOptions{dims: dims, rules: rules, objective: countOf}, true, enough, opt.Work)
	if machines == nil {
		return b, false
	}
	b.Short, b.Stopped = machines.short, machines.stopped
	if v := ceil(machines.value); v.IsInt64() {
		b.Machines = int(v.Int64())
	}
	if uniform {
		b.Cost = float64(b.Machines) * inst.Machines[0].Cost
		return b, true
	}
	whole := integral(inst)
	_, cost := generate(ctx, inst, items, coverOptions{dims: dims, rules: rules, objective: costOf}, whole, opt.Enough, opt.Work)
	if cost == nil {
		return b, false
	}
	b.Short, b.Stopped = b.Short || cost.short, b.Stopped || cost.stopped
	if whole {
		cost.value.SetInt(ceil(cost.value))
	}
	b.Cost = below(cost.value)
	return b, true
}

// generate solves one linear program, on merged classes where there are too many. It
// returns nil when the instance is too large.
func generate(ctx context.Context, inst *binpack.Instance, items []int64, opt coverOptions, integral bool, enough float64, work int64) (*generator, *outcome) {
	for _, opt.merge = range []bool{false, true} {
		c := newCover(inst, items, opt)
		if c == nil {
			return nil, nil
		}
		if len(c.classes) <= maxCoverRows {
			g := newGenerator(c, integral, enough, work)
			out := g.run(ctx)
			return g, &out
		}
	}
	return nil, nil
}
