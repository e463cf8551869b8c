package defrag

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A riddle is a random small fleet in which all constraints meet, with items on it.
type riddle struct {
	inst  *binpack.Instance
	items []Item
	opt   Options
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func newRiddle(seed uint64) riddle {
	r := rand.New(rand.NewPCG(seed, 7))
	in := &binpack.Instance{Fleet: pick(r, binpack.Fixed, binpack.Open), Types: []string{"x", "y"}}
	for d := range 1 + r.IntN(3) {
		in.Dimensions = append(in.Dimensions, binpack.Dimension{Name: fmt.Sprint("d", d), One: 1})
	}
	if r.IntN(4) == 0 {
		in.Dimensions = append(in.Dimensions, binpack.Dimension{Name: "gpu", One: 1000, Unit: "m", Device: true})
	}
	for line := range 1 + r.IntN(3) {
		m := binpack.MachineLine{Name: fmt.Sprint("m", line), Type: int32(r.IntN(2)), Count: 2 + r.IntN(5), Cost: pick(r, 1.0, 3)}
		for _, dim := range in.Dimensions {
			m.Capacity = append(m.Capacity, pick[int64](r, 10, 16, 24))
			if dim.Device {
				m.Capacity[len(m.Capacity)-1] = int64(r.IntN(4)) * dim.One
			}
		}
		in.Machines = append(in.Machines, m)
	}
	for g := range 2 + r.IntN(6) {
		in.Groups = append(in.Groups, binpack.Group{Name: fmt.Sprint("g", g), Limit: pick[int32](r, 0, 0, 1, 2), SpreadMin: pick[int32](r, 0, 0, 0, 2, 3)})
	}
	for a := range 3 + r.IntN(8) {
		app := binpack.App{Name: fmt.Sprint("a", a), Group: int32(r.IntN(len(in.Groups))), Expected: -1, Lifetime: -1}
		for _, dim := range in.Dimensions {
			if dim.Device {
				app.Demand = append(app.Demand, pick[int64](r, 0, 0, 300, 500, 1000, 2000))
			} else {
				app.Demand = append(app.Demand, pick[int64](r, 1, 2, 3, 5, 7))
			}
		}
		if r.IntN(5) == 0 {
			app.Types = []int32{int32(r.IntN(2))}
		}
		in.Apps = append(in.Apps, app)
	}
	for range r.IntN(8) {
		if a, b := int32(r.IntN(len(in.Groups))), int32(r.IntN(len(in.Groups))); a != b {
			in.Rules = append(in.Rules, binpack.Rule{A: a, B: b, Max: int32(r.IntN(3))})
		}
	}
	if seed >= zonedSeeds {
		addZones(r, in)
	}
	found := riddle{in, scatter(r, in), Options{
		Seed: seed, Budget: pick(r, 0, 3, 10, 1e9), ByCost: r.IntN(2) == 0, Chain: pick(r, 1, 2, 8),
		InFlight: pick(r, 1, 1, 2, 3), AppShare: pick(r, 1, 1, .5),
	}}
	if r.IntN(3) == 0 {
		for range in.Apps {
			found.opt.Caps = append(found.opt.Caps, pick[int32](r, 0, 1, 2, 1000))
		}
	}
	return found
}

// zonedSeeds is from where on riddles have zones.
const zonedSeeds = 1 << 20

// addZones puts the machines into zones, some into none, with limits and rules by zone.
func addZones(r *rand.Rand, in *binpack.Instance) {
	names := pick(r, []string{"a", "b"}, []string{"a", "b", "c"}, []string{"a", "b", ""})
	for i := range in.Machines {
		in.Machines[i].Zone = names[i%len(names)]
	}
	for k := range names {
		m := pick(r, in.Machines...)
		m.Name, m.Zone = fmt.Sprint("zoned", k), names[k]
		in.Machines = append(in.Machines, m)
	}
	for g := range in.Groups {
		in.Groups[g].Zone = binpack.ZoneLimits{Limit: pick[int32](r, 0, 0, 2, 5), SpreadMin: pick[int32](r, 0, 0, 2), Skew: pick[int32](r, 0, 0, 1, 2)}
	}
	for range r.IntN(5) {
		if a, b := int32(r.IntN(len(in.Groups))), int32(r.IntN(len(in.Groups))); a != b {
			in.ZoneRules = append(in.ZoneRules, binpack.Rule{A: a, B: b, Max: int32(r.IntN(3))})
		}
	}
}

// judgeZones counts each zone again: what must hold whatever came last.
func judgeZones(t *testing.T, r riddle, where []Position) {
	t.Helper()
	in := map[string]map[int32]int32{}
	for i, at := range where {
		if at.Line < 0 {
			continue
		}
		zone, group := r.inst.Machines[at.Line].Zone, r.inst.Apps[r.items[i].App].Group
		if limits := r.inst.Groups[group].Zone; zone == "" {
			require.False(t, limits.Limit > 0 || limits.SpreadMin > 1 || limits.Skew > 0, "group %d is on a machine without a zone", group)
			continue
		}
		if in[zone] == nil {
			in[zone] = map[int32]int32{}
		}
		in[zone][group]++
	}
	for _, groups := range in {
		for g, n := range groups {
			if limit := r.inst.Groups[g].Zone.Limit; limit > 0 {
				require.LessOrEqual(t, n, limit)
			}
		}
		for _, rule := range r.inst.ZoneRules {
			require.False(t, groups[rule.A] > 0 && groups[rule.B] > rule.Max)
		}
	}
}

// scatter places items where they fit at random: the prefixes of that are valid.
func scatter(r *rand.Rand, in *binpack.Instance) (items []Item) {
	s := binpack.NewState(in)
	for range 5 + r.IntN(60) {
		it := Item{App: int32(r.IntN(len(in.Apps))), Line: -1, Index: -1, Price: pick(r, 0, 1, 1, 2.5)}
		if fits := s.Feasible(it.App, nil); len(fits) > 0 && r.IntN(12) > 0 {
			m := pick(r, fits...)
			it.Devices = slices.Clone(s.Place(binpack.Item{App: it.App}, m, nil))
			it.Line, it.Index = s.Position(m)
		}
		it.Fixed = r.IntN(8) == 0
		items = append(items, it)
	}
	return items
}

// recount checks the situation after each step from nothing but the definitions, and returns
// the machines in use at the end.
func recount(t *testing.T, r riddle, moves []Move) int {
	t.Helper()
	require.NoError(t, Check(r.inst, r.items, moves))
	where, used := make([]Position, len(r.items)), make([][]binpack.Device, len(r.items))
	for i, it := range r.items {
		where[i], used[i] = Position{it.Line, it.Index}, it.Devices
	}
	step, away, n := -1, 0, 0
	for k, m := range moves {
		if m.Step != step {
			require.Equal(t, step+1, m.Step)
			step, away = m.Step, 0
		}
		away++
		require.LessOrEqual(t, away, max(1, r.opt.InFlight))
		require.Equal(t, where[m.Item], m.From)
		require.NotEqual(t, m.From, m.To)
		where[m.Item], used[m.Item] = m.To, m.Devices
		if k+1 == len(moves) || moves[k+1].Step != step {
			n = judge(t, r, where, used)
		}
	}
	if len(moves) == 0 {
		n = judge(t, r, where, used)
	}
	return n
}

func judge(t *testing.T, r riddle, where []Position, used [][]binpack.Device) int {
	t.Helper()
	type load struct {
		sum    []int64
		groups map[int32]int32
		shares map[binpack.Device]int64
	}
	loads := map[Position]*load{}
	for i, at := range where {
		if at.Line < 0 {
			continue
		}
		l := loads[at]
		if l == nil {
			l = &load{make([]int64, len(r.inst.Dimensions)), map[int32]int32{}, map[binpack.Device]int64{}}
			loads[at] = l
		}
		app := r.inst.Apps[r.items[i].App]
		l.groups[app.Group]++
		for d, need := range app.Demand {
			l.sum[d] += need
		}
		for _, dev := range used[i] {
			l.shares[dev] += min(app.Demand[dev.Dimension], 1000)
			require.LessOrEqual(t, l.shares[dev], int64(1000))
		}
	}
	judgeZones(t, r, where)
	for at, l := range loads {
		for d, sum := range l.sum {
			require.LessOrEqual(t, sum, r.inst.Machines[at.Line].Capacity[d])
		}
		for g, n := range l.groups {
			if limit := r.inst.Groups[g].Limit; limit > 0 {
				require.LessOrEqual(t, n, limit)
			}
		}
		for _, rule := range r.inst.Rules {
			if l.groups[rule.A] > 0 {
				require.LessOrEqual(t, l.groups[rule.B], rule.Max)
			}
		}
	}
	return len(loads)
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 32)
	require.NoError(t, err, name)
	return n
}

// TestSequencesKeepAllConstraints checks every prefix of random sequences. SIGMA_MOVES_SEQUENCES
// sets their number, SIGMA_MOVES_FIRST the first seed; beyond the usual seeds the search is a quick one.
func TestSequencesKeepAllConstraints(t *testing.T) {
	const usual = 250
	first, n := number(t, "SIGMA_MOVES_FIRST", 0), number(t, "SIGMA_MOVES_SEQUENCES", usual)
	checkSequences(t, first, n, usual)
}

// TestSequencesKeepZones is the same with zones, of as many sequences.
func TestSequencesKeepZones(t *testing.T) {
	n := number(t, "SIGMA_MOVES_SEQUENCES", 250)
	checkSequences(t, zonedSeeds, n, zonedSeeds+n/2)
}

// checkSequences carries out random sequences; from seed quickFrom on the search is a quick one.
func checkSequences(t *testing.T, first, n, quickFrom uint64) {
	t.Helper()
	freed, chained, letIn, joint := 0, 0, 0, 0
	for seed := first; seed < first+n; seed++ {
		r := newRiddle(seed)
		p, err := New(r.inst, r.items, r.opt)
		require.NoError(t, err)
		if seed >= quickFrom {
			p.effort = quick
		}
		waiting := len(p.waiting)
		left := p.MakeRoom(t.Context())
		letIn += waiting - len(left)
		p.Rebalance(t.Context(), 0)
		require.True(t, t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { checkResult(t, r, p, left) }))
		now, before := p.Machines()
		freed += max(0, before-now)
		chained += len(p.Moves())
		if k := len(p.Moves()); k > 0 && p.Moves()[k-1].Step < k-1 {
			joint++
		}
	}
	t.Logf("%d sequences: %d moves, %d machines emptied, %d items let in, %d sequences with moves at the same time", n, chained, freed, letIn, joint)
	require.Positive(t, freed)
	require.Positive(t, letIn)
	require.Positive(t, chained)
	require.Positive(t, joint, "no two items changed places")
}

func checkResult(t *testing.T, r riddle, p *Planner, left []int) {
	moves := p.Moves()
	now, before := p.Machines()
	require.Equal(t, now, recount(t, r, moves))
	price, moved := 0.0, map[int32]map[int]bool{}
	stands := map[int]bool{}
	for _, m := range moves {
		stands[m.Item] = true
		it := r.items[m.Item]
		if m.From == Nowhere {
			continue
		}
		require.False(t, it.Fixed)
		if price++; it.Price != 0 {
			price += it.Price - 1
		}
		if moved[it.App] == nil {
			moved[it.App] = map[int]bool{}
		}
		moved[it.App][m.Item] = true
	}
	require.LessOrEqual(t, price, r.opt.Budget+1e-6)
	if now < before {
		require.LessOrEqual(t, p.LeastMoves(before-now), price+1e-6)
	}
	total := map[int32]int{}
	for i, it := range r.items {
		total[it.App]++
		require.True(t, it.Line >= 0 || stands[i] || slices.Contains(left, i), "item %d is lost", i)
	}
	for app, list := range moved {
		require.LessOrEqual(t, len(list), max(1, int(r.opt.AppShare*float64(total[app]))))
		if r.opt.Caps != nil {
			require.LessOrEqual(t, len(list), int(r.opt.Caps[app]))
		}
	}
}

// TestSameSeedSameMoves also checks that another seed may give other moves.
func TestSameSeedSameMoves(t *testing.T) {
	others := 0
	for seed := range uint64(20) {
		r := newRiddle(seed)
		r.opt.Budget = 1e9
		list := func(seed uint64) []Move {
			r.opt.Seed = seed
			p, err := New(r.inst, r.items, r.opt)
			require.NoError(t, err)
			p.MakeRoom(t.Context())
			p.Rebalance(t.Context(), 0)
			return slices.Clone(p.Moves())
		}
		one := list(1)
		require.Equal(t, one, list(1))
		if !slices.EqualFunc(one, list(2), func(a, b Move) bool { return a.Item == b.Item && a.To == b.To }) {
			others++
		}
	}
	require.Positive(t, others)
}
