package report

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// A grid is a table without a format. The terminal, Markdown and HTML share it.
type grid struct {
	columns []column
	rows    int
	// split is the row below a separating line: K2 is reported apart.
	split int
}

type column struct {
	head  string
	about string // meaning of the figures
	text  bool   // words, aligned left
	cells []string
}

// figures is a column of numbers with the same number of digits after the point: at
// most most, and at most four digits in all where the size allows. A NaN is a dash.
// With sign, positive numbers get a plus.
func figures(head, about string, most int, sign bool, values []float64) column {
	c := column{head: head, about: about}
	digits := sheet.Decimals(most, values)
	for _, v := range values {
		c.cells = append(c.cells, sheet.Figure(v, digits, sign))
	}
	return c
}

func words(head, about string, cells []string) column {
	return column{head: head, about: about, text: true, cells: cells}
}

func percent(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = 100 * v
	}
	return out
}

func some(values []float64) bool {
	for _, v := range values {
		if !math.IsNaN(v) {
			return true
		}
	}
	return false
}

func positive(values []float64) bool {
	for _, v := range values {
		if v > 0 {
			return true
		}
	}
	return false
}

// grid lays out the results of one trace, without empty columns.
func (c *Comparison) grid() grid {
	list := c.outcomes()
	g := grid{rows: len(list), split: len(list)}
	names := make([]string, len(list))
	knowledge := make([]string, len(list))
	exposure := make([]string, len(list))
	for i, o := range list {
		names[i], knowledge[i], exposure[i] = o.result.Policy, o.result.Knowledge, o.result.Exposure
		if offline(o.result) == 1 && i < g.split {
			g.split = i
		}
	}
	of := func(value func(o outcome) float64) []float64 {
		out := make([]float64, len(list))
		for i, o := range list {
			out[i] = value(o)
		}
		return out
	}
	add := func(col column) { g.columns = append(g.columns, col) }

	add(words("policy", "as given to --policy", names))
	add(words("knowledge", "what the policy may know of the future", knowledge))
	c.addMachines(of, add)
	if gap := of(func(o outcome) float64 { return o.gap }); some(gap) {
		add(figures("gap %", "mean cost above the bound", 2, false, percent(gap)))
	}
	if vs := of(func(o outcome) float64 { return o.vsBest }); some(vs) {
		add(figures("vs bestfit %", "mean cost against Best-Fit; less is better", 2, true, percent(vs)))
	}
	if vs := of(func(o outcome) float64 { return o.vsWorst }); some(vs) {
		add(figures("vs worstfit %", "mean cost against Worst-Fit", 2, true, percent(vs)))
	}
	if limit, optimal := c.limit(); limit > 0 && !c.Trace.Deletes && !c.leavesOut() {
		head, about := "at bound %", "orders in which the policy met the bound: it cannot do better"
		if optimal {
			head, about = "at optimum %", "orders in which the policy met the proven optimum"
		}
		add(figures(head, about, 1, false, percent(of(func(o outcome) float64 { return o.atLimit }))))
	}
	for d := range min(2, len(c.Trace.Dimensions)) {
		about := "placed demand ÷ capacity of the machines that hold an item"
		if c.Trace.Fleet == "fixed" {
			about = "placed demand ÷ capacity of all machines"
		}
		if c.Trace.Deletes {
			about += ", mean over time"
		}
		add(figures("alloc "+c.Trace.Dimensions[d], about, 4, false, of(func(o outcome) float64 { return o.alloc[d] })))
	}
	c.addRejections(of, add)
	if seconds := of(func(o outcome) float64 { return o.seconds }); positive(seconds) {
		add(figures("cpu s", "processor time of a replay", 3, false, seconds))
	}
	if strings.Join(exposure, "") != "" {
		add(words("exposure", "whether training saw this trace", dashes(exposure)))
	}
	return g
}

func (c *Comparison) addMachines(of func(func(outcome) float64) []float64, add func(column)) {
	head, about := "machines", "machines that hold an item at the end, mean over orders"
	if c.Trace.Deletes {
		head, about = "peak", "the most machines that held an item at any time, mean over orders"
	}
	add(figures(head, about, 2, false, of(func(o outcome) float64 { return o.machines.mean })))
	add(figures("min", "the best order", 0, false, of(func(o outcome) float64 { return o.machines.min })))
	add(figures("max", "the worst order", 0, false, of(func(o outcome) float64 { return o.machines.max })))
	add(figures("range", "worst − best order: how much luck there is in the order of arrival", 0, false,
		of(func(o outcome) float64 { return o.machines.max - o.machines.min })))
	if c.Trace.Deletes && !c.Trace.Retry {
		add(figures("machine-s", "machine-seconds ÷ those of the bound", 3, false,
			of(func(o outcome) float64 { return o.machineSeconds })))
	} else if c.Trace.Mixed {
		add(figures("cost", "of the machines that hold an item, mean over orders", 2, false,
			of(func(o outcome) float64 { return o.cost })))
	}
}

func (c *Comparison) addRejections(of func(func(outcome) float64) []float64, add func(column)) {
	add(figures("unplaced", "items that no machine took, mean over orders", 1, false,
		of(func(o outcome) float64 { return o.unplaced })))
	if c.Trace.Moving {
		add(figures("moves", "moves of items from machine to machine, mean over orders", 1, false,
			of(func(o outcome) float64 { return o.moves })))
		add(figures("moves %", "moves ÷ items placed", 2, false, percent(of(func(o outcome) float64 { return o.movesShare }))))
		if hours := of(func(o outcome) float64 { return o.away }); positive(hours) {
			add(figures("away h", "item-hours for which items were away because of moves, mean over orders", 2, false, hours))
		}
	}
	if c.Trace.Retry {
		add(figures("wait s", "seconds that an item waited, mean over all items and over orders", 2, false,
			of(func(o outcome) float64 { return o.waiting })))
		add(figures("longest s", "the most seconds that an item waited in any order", 1, false,
			of(func(o outcome) float64 { return o.longestWaiting })))
	}
	if len(c.Trace.Dimensions) > 0 && (c.Trace.Fleet == "fixed" || c.leavesOut()) {
		first := c.Trace.Dimensions[0]
		add(figures("rejected %", first+" demand that was not placed", 2, false,
			percent(of(func(o outcome) float64 { return o.rejected }))))
		add(figures("first at %", "share of the "+first+" demand that had come before the first item was rejected", 2, false,
			percent(of(func(o outcome) float64 { return o.firstRejection }))))
	}
	if violations := of(func(o outcome) float64 { return float64(o.violations) }); positive(violations) {
		add(figures("VIOLATIONS", "constraints broken: a bug", 0, false, violations))
	}
	if fallbacks := of(func(o outcome) float64 { return float64(o.fallbacks) }); positive(fallbacks) {
		add(figures("fallbacks", "items that the policy did not decide, over all orders", 0, false, fallbacks))
	}
}

func dashes(cells []string) []string {
	out := make([]string, len(cells))
	for i, s := range cells {
		out[i] = s
		if s == "" {
			out[i] = "-"
		}
	}
	return out
}

// text writes the grid for a terminal: columns as wide as their widest cell, two spaces
// apart.
func (g grid) text(b *strings.Builder) {
	widths := make([]int, len(g.columns))
	for i, c := range g.columns {
		widths[i] = utf8.RuneCountInString(c.head)
		for _, s := range c.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(s))
		}
	}
	line := func(cell func(c column) string) {
		var l strings.Builder
		for i, c := range g.columns {
			s := cell(c)
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(s))
			if c.text {
				l.WriteString(s + space + "  ")
			} else {
				l.WriteString(space + s + "  ")
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	line(func(c column) string { return c.head })
	for r := range g.rows {
		if r == g.split {
			b.WriteString(offlineNote + "\n")
		}
		line(func(c column) string { return c.cells[r] })
	}
}

// offlineNote precedes results of policies with the true totals.
const offlineNote = "nearly offline (K2 knows the true totals):"

// markdown writes the grid as a pipe table.
func (g grid) markdown(b *strings.Builder) {
	line := func(cell func(c column) string) {
		for _, c := range g.columns {
			b.WriteString("| " + cell(c) + " ")
		}
		b.WriteString("|\n")
	}
	line(func(c column) string { return escapePipes(c.head) })
	line(func(c column) string {
		if c.text {
			return "---"
		}
		return "---:"
	})
	for r := range g.rows {
		line(func(c column) string { return escapePipes(c.cells[r]) })
	}
	if g.split < g.rows {
		b.WriteString("\nThe last rows are nearly offline: K2 knows the true totals.\n")
	}
}

func escapePipes(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
