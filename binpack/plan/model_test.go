package plan

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// mpsFile is an MPS file as it is read.
type mpsFile struct {
	rows         map[string]byte
	rhs          map[string]float64
	columns      map[string]map[string]float64 // variable → row → factor
	lower, upper map[string]float64
}

func readMPS(t *testing.T, text string) mpsFile {
	t.Helper()
	p := mpsFile{map[string]byte{}, map[string]float64{}, map[string]map[string]float64{}, map[string]float64{}, map[string]float64{}}
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		return v
	}
	section, integer := "", false
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if line[0] != ' ' {
			section = f[0]
			continue
		}
		switch section {
		case "ROWS":
			p.rows[f[1]] = f[0][0]
		case "COLUMNS":
			if f[1] == "'MARKER'" {
				integer = f[2] == "'INTORG'"
				continue
			}
			require.True(t, integer)
			require.Contains(t, p.rows, f[1])
			if p.columns[f[0]] == nil {
				p.columns[f[0]] = map[string]float64{}
			}
			p.columns[f[0]][f[1]] += number(f[2])
		case "RHS":
			p.rhs[f[1]] = number(f[2])
		case "BOUNDS":
			require.Contains(t, p.columns, f[2])
			if f[0] == "LO" {
				p.lower[f[2]] = number(f[3])
			} else {
				p.upper[f[2]] = number(f[3])
			}
		default:
			t.Fatalf("section %q", section)
		}
	}
	require.Equal(t, "ENDATA", section)
	return p
}

// holds evaluates values; those that are not given are 0.
func (p mpsFile) holds(values map[string]float64) (cost float64, ok bool) {
	sums := map[string]float64{}
	for name, v := range values {
		if p.columns[name] == nil {
			return 0, false
		}
		for row, factor := range p.columns[name] {
			sums[row] += factor * v
		}
	}
	for name := range p.columns {
		if v := values[name]; v < p.lower[name] || v > p.upper[name] {
			return 0, false
		}
	}
	for row, kind := range p.rows {
		over := sums[row] - p.rhs[row]
		if kind == 'L' && over > 1e-9 || kind == 'E' && math.Abs(over) > 1e-9 {
			return 0, false
		}
	}
	return sums["cost"], true
}

// Every solution of the program is a packing, and the cheapest is the optimum.
func TestModelAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 10))
	tried, cheaper := 0, 0
	for range 1500 {
		inst, items := randomInstance(rng, binpack.Open, true)
		for g := range inst.Groups {
			inst.Groups[g].SpreadMin = 0 // is not in the program
		}
		if rng.IntN(2) == 0 { // two kinds
			inst.Machines = append(inst.Machines, inst.Machines[0])
			inst.Machines[1].Cost++
			inst.Machines[1].Capacity = slices.Clone(inst.Machines[0].Capacity)
			inst.Machines[1].Capacity[0] += 4
		}
		left := int64(4)
		for a := range items {
			items[a] = min(items[a], left)
			left -= items[a]
		}
		var standing []Machine
		if len(inst.Apps) > 1 && rng.IntN(3) == 0 && items[0] > 0 {
			one := []int64{1}
			first := Pack(t.Context(), inst, append(one, make([]int64, len(items)-1)...), Options{Seed: 1})
			if first.Complete() {
				standing = first.Machines
				items[0]--
			}
		}
		p := Pack(t.Context(), inst, items, Options{Seed: 1, Steps: 100, Standing: standing})
		if !p.Complete() {
			continue
		}
		m := NewModel(inst, items, standing, p.Cost)
		if len(m.slots) > 5 {
			continue
		}
		var text bytes.Buffer
		require.NoError(t, m.WriteMPS(&text))
		best := cheapestSolution(t, m, readMPS(t, text.String()))
		require.LessOrEqual(t, best, p.Cost)
		if standing == nil {
			require.InDelta(t, leastCost(inst, items), best, 1e-9)
		}
		tried++
		if best < p.Cost {
			cheaper++
		}
	}
	require.Greater(t, tried, 300)
	require.Less(t, cheaper, 5) // the plan is nearly always the optimum
}

// cheapestSolution tries every machine for every item; what the program takes
// the checker must take.
func cheapestSolution(t *testing.T, m *Model, p mpsFile) float64 {
	var list []int32
	for a, n := range m.items {
		for range n {
			list = append(list, int32(a))
		}
	}
	best := math.Inf(1)
	where := make([]int, len(list))
	var try func(i int)
	try = func(i int) {
		if i < len(list) {
			for s := range m.slots {
				where[i] = s
				try(i + 1)
			}
			return
		}
		values := map[string]float64{}
		for s := range m.standing {
			values[fmt.Sprintf("y%d", s)] = 1
		}
		for j, a := range list {
			values[fmt.Sprintf("y%d", where[j])] = 1
			values[m.x(int(a), where[j])]++
			if z := fmt.Sprintf("z%d_%d", m.inst.Apps[a].Group, where[j]); p.columns[z] != nil {
				values[z] = 1
			}
		}
		cost, ok := p.holds(values)
		if !ok || cost >= best {
			return
		}
		best = cost
		checkSolution(t, m, cost, values)
	}
	try(0)
	return best
}

// checkSolution writes values as the solver does, reads them and checks the packing.
func checkSolution(t *testing.T, m *Model, cost float64, values map[string]float64) {
	t.Helper()
	text := fmt.Sprintf("Optimal - objective value %.8f\n", cost)
	for name, v := range values {
		text += fmt.Sprintf("%7d %-10s %20.8f %22.8f\n", m.at[name], name, v, 0.)
	}
	fresh := NewModel(m.inst, m.items, m.standing, cost)
	fresh.slots = m.slots
	fresh.at = m.at
	solved, err := fresh.ReadSolution(strings.NewReader(text))
	require.NoError(t, err)
	require.True(t, solved.Optimal)
	require.InDelta(t, cost, solved.Cost, 1e-6)
	require.True(t, solved.Packing.Complete())
	require.InDelta(t, cost, solved.Packing.Cost, 1e-9)
	solved.Packing.Bound = bound.Volume(m.inst, m.items)
	checkPacking(t, m.inst, m.items, m.standing, solved.Packing)
}

func TestModelRefusesSolutions(t *testing.T) {
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(binpack.Unlimited, 1, 10)}, []int64{6}, []int64{4})
	inst.Types = []string{""}
	for text, want := range map[string]string{
		"":                              "the solution is empty",
		"Hello\n":                       `begins with "Hello"`,
		"Optimal - objective value x\n": "begins with",
		"Optimal - objective value 1\n 0 q0 1 0\n":       `line 2 of the solution: q0 is "1"`,
		"Optimal - objective value 1\n 0 x0_0 .5 0\n":    `x0_0 is ".5"`,
		"Optimal - objective value 1\n 0 y0 1 0\n  0\n":  "line 3 of the solution",
		"Optimal - objective value 1\n 0 x0_77 1 0\n":    "x0_77",
		"Optimal - objective value 1\n** 0 x0_0 one 0\n": `"one"`,
	} {
		_, err := NewModel(inst, []int64{1, 1}, nil, 2).ReadSolution(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
	stopped, err := NewModel(inst, []int64{1, 1}, nil, 2).ReadSolution(strings.NewReader("Stopped on time - objective value 1.2\n 0 x0_0 0.3 0\n"))
	require.NoError(t, err)
	require.False(t, stopped.Optimal)
}
