package plan

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A Model is the packing of items as an integer program: minimise the cost of the machines in
// use. It lets solvers prove the results of [Pack] on small instances. It leaves out spread and
// zones, and takes only the amounts of devices. So the optimum is always a bound, and a packing
// where these make no difference; where zones bind (see [ByZone]) it is a weak bound.
//
// Variables: y<m> is 1 when machine m is in use, x<a>_<m> the items of app a on
// it. z<g>_<m> is 1 when group g is on it, for groups that a rule names and that may
// have more than one item there.
type Model struct {
	inst     *binpack.Instance
	items    []int64
	standing []Machine
	p        *planner // the standing items, on the first slots
	slots    []int32  // kinds
	rows     []modelRow
	columns  []modelColumn
	at       map[string]int
}

type modelRow struct {
	kind byte // 'E' or 'L'
	rhs  float64
}

type modelColumn struct {
	name        string
	cost        float64
	lower, most float64
	rows        []int32
	factors     []float64
}

// NewModel makes the program for items in addition to the standing ones. It has no
// more machines than a known packing could pay for.
func NewModel(inst *binpack.Instance, items []int64, standing []Machine, cost float64) *Model {
	m := &Model{inst: inst, items: items, standing: standing, p: newPlanner(inst, items, standing, nil), at: map[string]int{}}
	m.slots = slices.Clone(m.p.kind)
	total := int64(0)
	for _, n := range items {
		total += n
	}
	for k, kind := range m.p.kinds {
		n := total
		if kind.Cost > 0 {
			n = min(n, int64(math.Floor(cost/kind.Cost+1e-9)))
		}
		for range min(n, int64(m.p.stock[k])) {
			m.slots = append(m.slots, int32(k))
		}
	}
	for s := range m.slots {
		m.addMachine(s)
	}
	for a, n := range items {
		row := m.row('E', float64(n))
		for s := range m.slots {
			m.term(row, m.x(a, s), 1)
		}
	}
	m.breakSymmetry()
	return m
}

func (m *Model) stands(s int) bool { return s < len(m.standing) }

func (m *Model) row(kind byte, rhs float64) int32 {
	m.rows = append(m.rows, modelRow{kind, rhs})
	return int32(len(m.rows) - 1)
}

func (m *Model) column(name string, cost, lower, most float64) {
	m.at[name] = len(m.columns)
	m.columns = append(m.columns, modelColumn{name: name, cost: cost, lower: lower, most: most})
}

// term adds a variable to a row, unless there is no such variable.
func (m *Model) term(row int32, name string, factor float64) {
	if at, ok := m.at[name]; ok && factor != 0 {
		c := &m.columns[at]
		c.rows, c.factors = append(c.rows, row), append(c.factors, factor)
	}
}

func (m *Model) x(a, s int) string { return fmt.Sprintf("x%d_%d", a, s) }

// addMachine adds the variables and constraints of one machine.
func (m *Model) addMachine(s int) {
	k := m.slots[s]
	y, lower := fmt.Sprintf("y%d", s), 0.0
	free := m.p.kinds[k].Capacity
	if m.stands(s) {
		if free = nil; len(m.standing[s].Items) > 0 {
			lower = 1
		}
		for d := range m.inst.Dimensions {
			free = append(free, max(0, m.p.free[d][s]))
		}
	}
	m.column(y, m.p.kinds[k].Cost, lower, 1)
	most := make([]int64, len(m.items)) // per app
	for a, n := range m.items {
		if n == 0 || !m.p.takes[k][a] {
			continue
		}
		for d, need := range m.inst.Apps[a].Demand {
			if need > 0 {
				n = min(n, free[d]/need)
			}
		}
		if limit := int64(m.inst.Groups[m.inst.Apps[a].Group].Limit); limit > 0 {
			n = min(n, max(0, limit-m.held(m.inst.Apps[a].Group, s)))
		}
		if most[a] = n; n > 0 {
			m.column(m.x(a, s), 0, 0, float64(n))
		}
	}
	for d := range m.inst.Dimensions {
		unit := m.unit(d)
		row := m.row('L', 0)
		m.term(row, y, -float64(free[d])/unit)
		for a := range m.items {
			m.term(row, m.x(a, s), float64(m.inst.Apps[a].Demand[d])/unit)
		}
	}
	for g, group := range m.inst.Groups {
		if limit := int64(group.Limit); limit > 0 {
			m.sum(m.row('L', 0), g, s, 1)
			m.term(int32(len(m.rows)-1), y, -float64(max(0, limit-m.held(int32(g), s))))
		}
	}
	m.addRules(s, y, most)
}

// addRules: on a machine with an A, no more than Max of B.
func (m *Model) addRules(s int, y string, most []int64) {
	groupMost := make([]int64, len(m.inst.Groups))
	for a, n := range most {
		groupMost[m.inst.Apps[a].Group] += n
	}
	for g, group := range m.inst.Groups {
		if limit := int64(group.Limit); limit > 0 {
			groupMost[g] = min(groupMost[g], max(0, limit-m.held(int32(g), s)))
		}
	}
	for _, r := range m.inst.Rules {
		a, b := int(r.A), int(r.B)
		heldA, heldB := m.held(r.A, s), m.held(r.B, s)
		room := max(0, int64(r.Max)-heldB) // for B on a machine with an A
		switch {
		case groupMost[b] <= room && (heldB <= int64(r.Max) || groupMost[a] == 0):
		case heldA > 0: // present: B is limited
			m.sum(m.row('L', float64(room)), b, s, 1)
			if heldB > int64(r.Max) { // broken: nothing more of either
				m.sum(m.row('L', 0), a, s, 1)
			}
		case heldB > int64(r.Max):
			m.sum(m.row('L', 0), a, s, 1)
		default:
			row := m.row('L', 0)
			m.sum(row, b, s, 1)
			m.presence(row, a, s, groupMost[a], float64(groupMost[b]-room))
			m.term(row, y, -float64(groupMost[b]))
		}
	}
}

// presence adds to a row a factor times 1 if a group is on a machine, else 0.
func (m *Model) presence(row int32, g, s int, most int64, factor float64) {
	if most <= 1 {
		m.sum(row, g, s, factor)
		return
	}
	z := fmt.Sprintf("z%d_%d", g, s)
	if _, ok := m.at[z]; !ok {
		m.column(z, 0, 0, 1)
		link := m.row('L', 0)
		m.sum(link, g, s, 1)
		m.term(link, z, -float64(most))
	}
	m.term(row, z, factor)
}

// sum adds a factor times the items of a group on a machine to a row.
func (m *Model) sum(row int32, g, s int, factor float64) {
	for _, a := range m.p.members[g] {
		m.term(row, m.x(int(a), s), factor)
	}
}

// held counts the items of a group on a machine.
func (m *Model) held(g int32, s int) (n int64) {
	if m.stands(s) {
		for _, e := range m.standing[s].Items {
			if e.Group == g {
				n += int64(e.Count)
			}
		}
	}
	return n
}

// unit is the greatest common divisor of all amounts of a dimension.
func (m *Model) unit(d int) float64 {
	unit := int64(0)
	add := func(v int64) {
		for v != 0 {
			unit, v = v, unit%v
		}
	}
	for _, app := range m.inst.Apps {
		add(app.Demand[d])
	}
	for _, k := range m.p.kinds {
		add(k.Capacity[d])
	}
	return float64(max(1, unit))
}

// breakSymmetry uses equal machines in order. Where all are equal, those of the app
// with most items at one per machine are first.
func (m *Model) breakSymmetry() {
	for s := len(m.standing) + 1; s < len(m.slots); s++ {
		if m.slots[s] == m.slots[s-1] {
			row := m.row('L', 0)
			m.term(row, fmt.Sprintf("y%d", s), 1)
			m.term(row, fmt.Sprintf("y%d", s-1), -1)
		}
	}
	if len(m.standing) > 0 || len(m.p.kinds) > 1 {
		return
	}
	first := -1
	for a, n := range m.items {
		g := m.inst.Apps[a].Group
		if m.inst.Groups[g].Limit == 1 && n <= int64(len(m.slots)) && (first < 0 || n > m.items[first]) {
			first = a
		}
	}
	for s := range m.slots {
		if first >= 0 && int64(s) < m.items[first] {
			if at, ok := m.at[m.x(first, s)]; ok {
				m.columns[at].lower = 1
			}
		}
	}
}

// WriteMPS writes the program in the free MPS format.
func (m *Model) WriteMPS(w io.Writer) error {
	out := bufio.NewWriter(w)
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	fmt.Fprint(out, "NAME sigma FREE\nROWS\n N cost\n")
	for i, r := range m.rows {
		fmt.Fprintf(out, " %c r%d\n", r.kind, i)
	}
	fmt.Fprint(out, "COLUMNS\n MARKER 'MARKER' 'INTORG'\n")
	for _, c := range m.columns {
		fmt.Fprintf(out, " %s cost %s\n", c.name, number(c.cost))
		for i, r := range c.rows {
			fmt.Fprintf(out, " %s r%d %s\n", c.name, r, number(c.factors[i]))
		}
	}
	fmt.Fprint(out, " MARKER 'MARKER' 'INTEND'\nRHS\n")
	for i, r := range m.rows {
		if r.rhs != 0 {
			fmt.Fprintf(out, " rhs r%d %s\n", i, number(r.rhs))
		}
	}
	fmt.Fprint(out, "BOUNDS\n")
	for _, c := range m.columns {
		fmt.Fprintf(out, " LO bound %s %s\n UP bound %s %s\n", c.name, number(c.lower), c.name, number(c.most))
	}
	fmt.Fprint(out, "ENDATA\n")
	return out.Flush()
}

// A Solved program.
type Solved struct {
	Optimal bool    // the solver found that nothing is cheaper; else there is no Packing
	Cost    float64 // of the solution
	// Packing of the solution, without bound.Bound. It may violate constraints that
	// the program leaves out.
	Packing Packing
}

// ReadSolution reads a solution as the solver CBC writes it: a line with the
// status and the objective, then a line for each variable that is not zero with
// its number, name and value.
func (m *Model) ReadSolution(r io.Reader) (Solved, error) {
	var out Solved
	lines := bufio.NewScanner(r)
	if !lines.Scan() {
		return out, fmt.Errorf("the solution is empty: %w", cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
	}
	status, objective, ok := strings.Cut(lines.Text(), " - objective value ")
	cost, err := strconv.ParseFloat(strings.TrimSpace(objective), 64)
	if !ok || err != nil {
		return out, fmt.Errorf("the solution begins with %q: want a status and an objective value", lines.Text())
	}
	out.Optimal, out.Cost = status == "Optimal", cost
	if !out.Optimal {
		return out, nil // the remainder need not be a packing
	}
	for number := 2; lines.Scan(); number++ {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "**"))
		if len(fields) < 3 {
			return out, fmt.Errorf("line %d of the solution: %q has no name and value", number, lines.Text())
		}
		value, err := strconv.ParseFloat(fields[2], 64)
		if _, known := m.at[fields[1]]; !known || err != nil || math.Abs(value-math.Round(value)) > 1e-4 {
			return out, fmt.Errorf("line %d of the solution: %s is %q", number, fields[1], fields[2])
		}
		var a, s int
		if n, _ := fmt.Sscanf(fields[1], "x%d_%d", &a, &s); n == 2 {
			for range int(math.Round(value)) {
				m.put(int32(a), s)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return out, err
	}
	out.Packing = m.p.packing(m.items, m.standing)
	return out, nil
}

// put books an item of the solution.
func (m *Model) put(a int32, s int) {
	for len(m.p.kind) <= s {
		slot := m.p.addSlot()
		m.p.setKind(slot, m.slots[slot])
	}
	m.p.put(a, int32(s))
	m.p.wait(a, -1)
}
