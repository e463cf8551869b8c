package rule_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// A table is a fixed fleet of single machines, what stands on them, and an item
// of the last app to be scored.
type table struct {
	dimensions []string  // their names; cpu, memory, … when nil
	machines   [][]int64 // capacities
	apps       [][]int64 // demands
	standing   [][]int32 // per machine: apps of the items on it, in order of arrival by machine
	open       bool
}

func (tb table) state(t *testing.T) *binpack.State {
	t.Helper()
	inst := &binpack.Instance{Types: []string{""}}
	if tb.open {
		inst.Fleet = binpack.Open
	}
	for d := range tb.machines[0] {
		name := fmt.Sprint("d", d)
		if tb.dimensions != nil {
			name = tb.dimensions[d]
		}
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: name, One: 1})
	}
	for m, capacity := range tb.machines {
		inst.Machines = append(inst.Machines, binpack.MachineLine{Name: fmt.Sprint("m", m), Count: 1, Cost: 1, Capacity: capacity})
	}
	for a, demand := range tb.apps {
		inst.Groups = append(inst.Groups, binpack.Group{})
		inst.Apps = append(inst.Apps, binpack.App{Group: int32(a), Demand: demand, Expected: -1, Lifetime: -1})
	}
	s := binpack.NewState(inst)
	for line, apps := range tb.standing {
		for _, app := range apps {
			require.NoError(t, s.PlaceAs(app, s.MachineAt(int32(line), 0), nil))
		}
	}
	return s
}

// scores of the last app on all machines.
func (tb table) scores(t *testing.T, pol binpack.Policy) []float64 {
	t.Helper()
	s := tb.state(t)
	var candidates []int32
	for line := range tb.machines {
		candidates = append(candidates, s.MachineAt(int32(line), 0))
	}
	out := make([]float64, len(candidates))
	pol.Scorer(s).Score(binpack.Item{App: int32(len(tb.apps) - 1), Serial: 3}, candidates, out)
	return out
}

// chosen is the line of the machine that Choose takes for the last app.
func (tb table) chosen(t *testing.T, pol binpack.Policy) int32 {
	t.Helper()
	s := tb.state(t)
	m, err := s.Choose(pol.Scorer(s), binpack.Item{App: int32(len(tb.apps) - 1), Serial: 3})
	require.NoError(t, err)
	line, _ := s.Position(m)
	return line
}

// twoDims: machine 0 is 10 × 20 with 4 × 4 taken, machine 1 is 20 × 20 with
// 10 × 16 taken, machine 2 is 10 × 20 and empty; the item needs 2 × 2.
var twoDims = table{
	machines: [][]int64{{10, 20}, {20, 20}, {10, 20}},
	apps:     [][]int64{{4, 4}, {10, 16}, {2, 2}},
	standing: [][]int32{{0}, {1}},
}

func TestByName(t *testing.T) {
	for _, name := range append(rule.Names(), "bestfit-l1") {
		pol, err := rule.ByName(name, rule.Options{})
		require.NoError(t, err, name)
		require.NotNil(t, pol)
	}
	_, err := rule.ByName("bestfitt", rule.Options{})
	require.ErrorContains(t, err, `unknown policy "bestfitt"`)
	for _, name := range rule.Names() {
		require.ErrorContains(t, err, name)
	}
	order := "firstfit nextfit bestfit-cpu bestfit bestfit-l2 worstfit dotproduct harmonic movetofront " +
		"mostallocated leastallocated requestedtocapacityratio balancedallocation random"
	var simple []string
	for _, name := range rule.Names() {
		if strings.Contains(" "+order+" ", " "+name+" ") {
			simple = append(simple, name)
		}
	}
	require.Equal(t, order, strings.Join(simple, " "))
}
