//go:build unix

package binpack_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// twin is Best Fit (l1) on a fixed fleet of one kind and two dimensions without
// any cleverness: the same columns, every machine looked at for every item,
// limits and exclusions by scanning what stands there. It caches nothing and
// allocates nothing once its lists have grown.
type twin struct {
	inst     *binpack.Instance
	cpu, mem []int64
	contents [][]binpack.Entry
	excluded []bool // [group · groups + group]
}

func newTwin(inst *binpack.Instance) *twin {
	n, groups := inst.Machines[0].Count, len(inst.Groups)
	w := &twin{
		inst: inst, cpu: make([]int64, n), mem: make([]int64, n),
		contents: make([][]binpack.Entry, n), excluded: make([]bool, groups*groups),
	}
	for _, r := range inst.Rules {
		w.excluded[int(r.A)*groups+int(r.B)] = true
		w.excluded[int(r.B)*groups+int(r.A)] = true
	}
	w.reset()
	return w
}

func (w *twin) reset() {
	for m := range w.cpu {
		w.cpu[m], w.mem[m] = w.inst.Machines[0].Capacity[0], w.inst.Machines[0].Capacity[1]
		w.contents[m] = w.contents[m][:0]
	}
}

// place returns the machine that takes the item, -1 when none does.
func (w *twin) place(item binpack.Item) int32 {
	app := &w.inst.Apps[item.App]
	limit, row := w.inst.Groups[app.Group].Limit, int(app.Group)*len(w.inst.Groups)
	wholeCPU, wholeMem := float64(w.inst.Machines[0].Capacity[0]), float64(w.inst.Machines[0].Capacity[1])
	best, least := int32(-1), math.Inf(1)
	for m := range w.cpu {
		if w.cpu[m] < app.Demand[0] || w.mem[m] < app.Demand[1] || !w.allowed(m, app.Group, limit, row) {
			continue
		}
		left := float64(w.cpu[m]-app.Demand[0])/wholeCPU + float64(w.mem[m]-app.Demand[1])/wholeMem
		if left < least {
			best, least = int32(m), left
		}
	}
	if best >= 0 {
		w.book(item.App, best)
	}
	return best
}

func (w *twin) allowed(m int, group, limit int32, row int) bool {
	count := int32(0)
	for _, e := range w.contents[m] {
		if w.excluded[row+int(e.Group)] {
			return false
		}
		if e.Group == group {
			count += e.Count
		}
	}
	return limit == 0 || count < limit
}

func (w *twin) book(app, m int32) {
	a := &w.inst.Apps[app]
	w.cpu[m] -= a.Demand[0]
	w.mem[m] -= a.Demand[1]
	for i := range w.contents[m] {
		if w.contents[m][i].App == app {
			w.contents[m][i].Count++
			return
		}
	}
	w.contents[m] = append(w.contents[m], binpack.Entry{App: app, Group: a.Group, Count: 1})
}

// choose is what a driver does with an item.
func choose(s *binpack.State, scorer binpack.Scorer, item binpack.Item) int32 {
	m, err := s.Choose(scorer, item)
	if err != nil {
		return -1
	}
	s.Place(item, m, nil)
	return m
}

func TestTwin(t *testing.T) {
	for _, machines := range []int{20, 300, 2000} {
		inst, items := largeLike(machines, 7)
		s, w := binpack.NewState(inst), newTwin(inst)
		scorer := rule.BestFit{}.Scorer(s)
		for i, item := range items {
			require.Equal(t, w.place(item), choose(s, scorer, item), "item %d on %d machines", i, machines)
		}
	}
}

// BenchmarkBestFit places all items of a large-like instance; the twin is the
// yardstick. One operation is a whole replay from empty machines.
func BenchmarkBestFit(b *testing.B) {
	for _, machines := range []int{300, 5000} {
		inst, items := largeLike(machines, 7)
		b.Run(fmt.Sprintf("machines=%d/state", machines), func(b *testing.B) {
			s := binpack.NewState(inst)
			scorer := rule.BestFit{}.Scorer(s)
			benchmark(b, items, s.Reset, func(item binpack.Item) int32 { return choose(s, scorer, item) })
		})
		b.Run(fmt.Sprintf("machines=%d/twin", machines), func(b *testing.B) {
			w := newTwin(inst)
			benchmark(b, items, w.reset, w.place)
		})
	}
}

func benchmark(b *testing.B, items []binpack.Item, reset func(), place func(binpack.Item) int32) {
	for _, item := range items { // grow all lists once
		place(item)
	}
	b.ReportAllocs()
	placed, before := 0, cputime.Process()
	for b.Loop() {
		reset()
		for _, item := range items {
			if place(item) >= 0 {
				placed++
			}
		}
	}
	require.Positive(b, placed)
	b.ReportMetric(float64(placed)/(cputime.Process()-before), "placements/cpu-s")
}
