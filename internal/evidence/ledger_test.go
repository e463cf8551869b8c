package evidence

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"
)

// An account is what a month cost, under the loop and under what it is held against: by day.
type account struct {
	loop, free, first, hindsight []float64
	seen                         int // policies that hindsight chooses from
}

// account holds the month against the rule that is free, the first policy kept for ever from the
// beginning, and on each day the best of all policies that were there. Where no policy went live before
// the change, the rule that is free is the first: a policy that learned from the change does not age by it.
func (m *month) account() (a account) {
	all := [][]float64{m.alone(m.judged[""]), m.reference}
	first := all[0]
	for _, digest := range slices.Sorted(maps.Keys(m.policies)) {
		costs := m.alone(m.judged[digest])
		if all = append(all, costs); digest == m.first {
			first = costs
		}
	}
	for i := range monthDays {
		best := math.Inf(1)
		for _, costs := range all {
			best = min(best, of(costs, i, i+1))
		}
		a.loop, a.free = append(a.loop, of(m.costs, i, i+1)), append(a.free, of(all[0], i, i+1))
		a.first, a.hindsight = append(a.first, of(first, i, i+1)), append(a.hindsight, best)
	}
	a.seen = len(all)
	return a
}

// of is the cost from one day to another, of costs up to each step.
func of(costs []float64, from, until int) float64 {
	steps := int(24 * time.Hour / watch)
	sum := costs[until*steps-1]
	if from > 0 {
		sum -= costs[from*steps-1]
	}
	return sum
}

func sum(values []float64) (s float64) {
	for _, v := range values {
		s += v
	}
	return s
}

// closed is the share of the way from the daily costs of a policy to those of hindsight after the change.
func (a *account) closed(from []float64) (share, gap float64) {
	first, best := sum(from[changeDay:]), sum(a.hindsight[changeDay:])
	return (first - sum(a.loop[changeDay:])) / (first - best), 100 * (1 - best/first)
}

// worstWeek is by how many percent the loop cost more than the free rule in the worst week.
func (a *account) worstWeek() float64 {
	worst := math.Inf(-1)
	for from := 0; from < monthDays; from += 7 {
		until := min(monthDays, from+7)
		worst = max(worst, 100*(sum(a.loop[from:until])/sum(a.free[from:until])-1))
	}
	return worst
}

func (a *account) table(t *testing.T) {
	t.Logf("%-10s %9s %13s %9s %9s", "days", "loop", free, "first", "hindsight")
	for _, part := range [][2]int{{0, 7}, {7, 14}, {14, 21}, {21, 28}, {28, 30}, {changeDay, monthDays}, {0, monthDays}} {
		cut := func(days []float64) float64 { return sum(days[part[0]:part[1]]) }
		t.Logf("%-10s %9.0f %13.0f %9.0f %9.0f", fmt.Sprintf("%d to %d", part[0], part[1]), cut(a.loop), cut(a.free), cut(a.first), cut(a.hindsight))
	}
}
