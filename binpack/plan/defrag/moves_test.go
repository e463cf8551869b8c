package defrag

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// site has three machines of 10 with 6+3, 4+3 and 4: one can be emptied only if the 4 of
// the last takes the place of a 3.
func site() riddle {
	in := packtest.Instance([]binpack.MachineLine{packtest.Line(3, 1, 10)}, []int64{6}, []int64{4}, []int64{3}, []int64{8})
	in.Fleet = binpack.Fixed
	item := func(app, machine int32) Item { return Item{App: app, Line: 0, Index: machine} }
	return riddle{in, []Item{item(0, 0), item(2, 0), item(1, 1), item(2, 1), item(1, 2)}, Options{Budget: 5}}
}

func (r riddle) solve(t *testing.T) *Planner {
	t.Helper()
	p, err := New(r.inst, r.items, r.opt)
	require.NoError(t, err)
	p.MakeRoom(t.Context())
	p.Rebalance(t.Context(), 0)
	recount(t, r, p.Moves())
	return p
}

func TestEmptiesByEjection(t *testing.T) {
	r := site()
	r.items[0].Fixed, r.items[2].Fixed = true, true // a drain would begin with these
	p := r.solve(t)
	now, before := p.Machines()
	require.Equal(t, []int{2, 3}, []int{now, before})
	// The chain is carried out from its end: the 3 leaves, then the 4 takes its place.
	require.Len(t, p.Moves(), 2)
	require.Equal(t, []int{1, 4}, []int{p.Moves()[0].Item, p.Moves()[1].Item})
	require.InDelta(t, 1.0, p.LeastMoves(1), 0)
	require.True(t, math.IsInf(p.LeastMoves(2), 1))
	points, err := Greedy(r.inst, r.items)
	require.NoError(t, err)
	require.Empty(t, points, "nothing drains without swaps")
}

func TestMakesRoom(t *testing.T) {
	r := site()
	r.items = append(r.items, Item{App: 3, Line: -1, Index: -1})
	p := r.solve(t)
	require.Len(t, p.Moves(), 3)
	require.Equal(t, 5, p.Moves()[2].Item, "the waiting item comes last")
	require.Equal(t, Nowhere, p.Moves()[2].From)
	for _, change := range []func(*Options){
		func(o *Options) { o.Chain = 1 },
		func(o *Options) { o.Budget = 1 },
	} {
		r := r
		r.opt.Budget = 5
		change(&r.opt)
		p, err := New(r.inst, r.items, r.opt)
		require.NoError(t, err)
		require.Equal(t, []int{5}, p.MakeRoom(t.Context()))
		require.Empty(t, p.Moves())
	}
}

func TestNothingMoves(t *testing.T) {
	fixed := site()
	for i := range fixed.items {
		fixed.items[i].Fixed = true
	}
	broke := site()
	broke.opt.Budget = 0
	dear := site()
	dear.items[1].Price, dear.items[3].Price = 5, 5
	for name, r := range map[string]riddle{"all fixed": fixed, "budget 0": broke, "too dear": dear} {
		t.Run(name, func(t *testing.T) { require.Empty(t, r.solve(t).Moves()) })
	}
}

func TestPriceChoosesWhatMoves(t *testing.T) {
	// Each of two machines has one item; either can join the other.
	in := packtest.Instance([]binpack.MachineLine{packtest.Line(2, 1, 10)}, []int64{4}, []int64{4})
	r := riddle{in, []Item{{App: 0, Index: 0, Price: 3}, {App: 1, Index: 1}}, Options{Budget: 5}}
	require.Equal(t, 1, r.solve(t).Moves()[0].Item)
	r.items[1].Price = 7
	require.Equal(t, 0, r.solve(t).Moves()[0].Item)
}

func TestByCostEmptiesTheDear(t *testing.T) {
	in := packtest.Instance([]binpack.MachineLine{packtest.Line(1, 1, 10), packtest.Line(1, 9, 10)}, []int64{4}, []int64{2})
	r := riddle{in, []Item{{App: 0, Line: 0}, {App: 1, Line: 1}, {App: 1, Line: 1}}, Options{Budget: 5}}
	require.Equal(t, Position{0, 0}, r.solve(t).Moves()[0].From, "one move is fewer than two")
	r.opt.ByCost = true
	require.Equal(t, Position{1, 0}, r.solve(t).Moves()[0].From)
}

// TestNoMachines: a cluster may have no node yet.
func TestNoMachines(t *testing.T) {
	in := packtest.Instance([]binpack.MachineLine{packtest.Line(1, 1, 10)}, []int64{6}, []int64{0})
	in.Machines, in.Fleet = nil, binpack.Fixed
	waits := []Item{{App: 0, Line: -1, Index: -1}, {App: 1, Line: -1, Index: -1}}
	require.Empty(t, riddle{in, waits, Options{Budget: 5}}.solve(t).Moves())
	for app := range int32(2) {
		_, ok := NewModel(in, 1).MakeRoom(app, 8)
		require.False(t, ok)
	}
}

// TestCapsLeaveTheRest: of each machine of the pairs both items would have to move and one may; they are cheap, many, and
// not tried.
func TestCapsLeaveTheRest(t *testing.T) {
	in := packtest.Instance([]binpack.MachineLine{packtest.Line(12, 1, 10)}, []int64{1}, []int64{1})
	var items []Item
	for m := range int32(12) {
		for range 2 + m/8 {
			items = append(items, Item{App: m / 8, Index: m})
		}
	}
	for name, opt := range map[string]Options{"cap": {Budget: 9, Caps: []int32{1, 99}}, "share": {Budget: 9, AppShare: .75, Caps: []int32{1, 99}}} {
		t.Run(name, func(t *testing.T) {
			p := riddle{in, items, opt}.solve(t)
			now, _ := p.Machines()
			require.Equal(t, 9, now)
			require.Len(t, p.Moves(), 9)
		})
	}
}

func TestTogether(t *testing.T) {
	// The machines are full: two items can change places only while both are away.
	in := packtest.Instance([]binpack.MachineLine{packtest.Line(2, 1, 6)}, []int64{6}, []int64{6})
	for _, flight := range []int{1, 2} {
		r := riddle{in, []Item{{App: 0, Index: 0}, {App: 1, Index: 1}}, Options{Budget: 5, InFlight: flight}}
		p, err := New(r.inst, r.items, r.opt)
		require.NoError(t, err)
		p.open(false)
		p.attempts++
		p.mark()
		p.lift(0)
		p.lift(1)
		p.put(0, 1)
		p.put(1, 0)
		require.Equal(t, flight == 2, p.carryOut())
		if flight == 2 {
			recount(t, r, p.Moves())
			require.Equal(t, []int{0, 0}, []int{p.Moves()[0].Step, p.Moves()[1].Step})
		}
	}
}

func TestBadInput(t *testing.T) {
	for want, change := range map[string]func(*riddle){
		"machine 0 of  has no room: : 6 needed, 1 free": func(r *riddle) { r.items = append(r.items, Item{App: 0}) },
		"there is no machine 3 of line 0":               func(r *riddle) { r.items[0].Index = 3 },
		"there is no machine 0 of line 7":               func(r *riddle) { r.items[0].Line = 7 },
		"item 0: there is no app 9":                     func(r *riddle) { r.items[0].App = 9 },
		"item 0: a price of -1":                         func(r *riddle) { r.items[0].Price = -1 },
		"a budget of NaN":                               func(r *riddle) { r.opt.Budget = math.NaN() },
		"a share of an app of 2":                        func(r *riddle) { r.opt.AppShare = 2 },
		"must not be negative":                          func(r *riddle) { r.opt.Chain = -1 },
	} {
		r := site()
		change(&r)
		_, err := New(r.inst, r.items, r.opt)
		require.ErrorContains(t, err, want)
	}
}

// TestCheckRefuses says what the checker of sequences finds.
func TestCheckRefuses(t *testing.T) {
	r := site()
	to := func(item int, from, to int32) Move {
		return Move{Item: item, From: Position{0, from}, To: Position{0, to}}
	}
	require.NoError(t, Check(r.inst, r.items, []Move{to(1, 0, 1)}))
	require.ErrorContains(t, Check(r.inst, r.items, []Move{to(4, 2, 0)}), "13 used of 10")
	require.ErrorContains(t, Check(r.inst, r.items, []Move{to(4, 1, 0)}), "stands elsewhere")
	r.items[1].Fixed = true
	require.ErrorContains(t, Check(r.inst, r.items, []Move{to(1, 0, 1)}), "must not move")
}

// TestStuckMachinesLeaveTheRest: machines that are cheap to empty, and of which the only item fits on no other, end no search.
func TestStuckMachinesLeaveTheRest(t *testing.T) {
	for _, stuck := range []int{3, 4, 600} {
		in := packtest.Instance([]binpack.MachineLine{packtest.Line(stuck, 1, 10), packtest.Line(4, 1, 10)}, []int64{10}, []int64{2})
		in.Types = []string{"a", "b"}
		in.Machines[0].Name, in.Machines[1].Name, in.Machines[1].Type = "a", "b", 1
		in.Apps[0].Types, in.Apps[1].Types = []int32{0}, []int32{1}
		var items []Item
		for m := range stuck {
			items = append(items, Item{App: 0, Index: int32(m)})
		}
		for i := range 8 {
			items = append(items, Item{App: 1, Line: 1, Index: int32(i / 2)})
		}
		p := riddle{in, items, Options{Budget: math.Inf(1)}}.solve(t)
		now, before := p.Machines()
		require.Equal(t, 2, before-now, stuck)
	}
}
