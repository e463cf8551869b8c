package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// A column of tables: a figure of a policy on a trace.
type column struct {
	head, about string
	most        int     // digits after the point, at most
	sign        bool    // positive figures have a plus
	scale       float64 // 100 = of a share
	only        scope
	when        func(list []Comparison) bool // nil = where a policy has the figure
	value       func(o *outcome) float64
}

// A scope is the kind of tables that have a column; 0 = all.
type scope int

const (
	one  scope = iota + 1 // of one trace
	many                  // of several
)

// columns, in the order of the tables.
var columns = []column{
	{head: machinesHead, about: "machines that hold an item at the end, mean over orders", most: 2, scale: 1, when: staying, value: func(o *outcome) float64 { return o.machines.mean }},
	{head: peakHead, about: "the most machines that held an item at any time, mean over orders", most: 2, scale: 1, when: leaving, value: func(o *outcome) float64 { return o.machines.mean }},
	{head: "min", about: "the best order", scale: 1, only: one, value: func(o *outcome) float64 { return o.machines.min }},
	{head: "max", about: "the worst order", scale: 1, only: one, value: func(o *outcome) float64 { return o.machines.max }},
	{head: "range", about: "worst − best order: how much luck there is in the order of arrival", scale: 1, only: one, value: func(o *outcome) float64 { return o.machines.max - o.machines.min }},
	{head: "machine-s", about: "machine-seconds ÷ those of the bound", most: 3, scale: 1, only: one, when: timed, value: func(o *outcome) float64 { return o.machineSeconds }},
	{head: "cost", about: "of the machines that hold an item, mean over orders", most: 2, scale: 1, only: one, when: func(l []Comparison) bool { return l[0].Trace.Mixed && !timed(l) }, value: func(o *outcome) float64 { return o.cost }},
	{head: gapHead, about: "mean cost above the bound", most: 2, scale: 100, value: func(o *outcome) float64 { return o.gap }},
	{head: "at limit %", about: "orders that met the proven optimum or, where none is known, the bound", most: 1, scale: 100, only: many, when: func(l []Comparison) bool { return staying(l) && !rejecting(l) }, value: func(o *outcome) float64 { return o.atLimit }},
	{head: "vs bestfit %", about: "mean cost against Best-Fit on the same trace; less is better", most: 2, sign: true, scale: 100, value: func(o *outcome) float64 { return o.vsBest }},
	{head: "vs worstfit %", about: "mean cost against Worst-Fit on the same trace", most: 2, sign: true, scale: 100, value: func(o *outcome) float64 { return o.vsWorst }},
	{head: "at bound %", about: "orders in which the policy met the bound: it cannot do better", most: 1, scale: 100, only: one, when: func(l []Comparison) bool { return l[0].limited(false) }, value: func(o *outcome) float64 { return o.atLimit }},
	{head: "at optimum %", about: "orders in which the policy met the proven optimum", most: 1, scale: 100, only: one, when: func(l []Comparison) bool { return l[0].limited(true) }, value: func(o *outcome) float64 { return o.atLimit }},
	{head: allocHead, about: "placed demand ÷ capacity of the machines that hold an item, or of all of a fixed fleet; the mean over time where items also leave", most: 4, scale: 1, only: one, when: func(l []Comparison) bool { return len(l[0].Trace.Dimensions) > 0 }, value: func(o *outcome) float64 { return o.alloc[0] }},
	{head: allocHead, about: "the same", most: 4, scale: 1, only: one, when: func(l []Comparison) bool { return len(l[0].Trace.Dimensions) > 1 }, value: func(o *outcome) float64 { return o.alloc[1] }},
	{head: "over cpu %", about: "node-time in which the items used more cpu than the machine has, by usage.csv.gz", most: 4, scale: 1, value: overOf("cpu")},
	{head: "± cpu", about: "half of the 95 % interval of that mean over the orders, or over the days of one order", most: 4, scale: 1, only: one, value: marginOf("cpu")},
	{head: "worst cpu", about: "the largest use ÷ capacity of a machine at any time", most: 2, scale: 1, only: one, value: worstOf("cpu")},
	{head: "over memory %", about: "node-time in which the items used more memory than the machine has", most: 4, scale: 1, value: overOf("memory")},
	{head: "± memory", about: "the same of memory", most: 4, scale: 1, only: one, value: marginOf("memory")},
	{head: "worst memory", about: "the largest use ÷ capacity of a machine, of memory", most: 2, scale: 1, only: one, value: worstOf("memory")},
	{head: unplacedHead, about: "items that no machine took, mean over orders", most: 1, scale: 1, value: func(o *outcome) float64 { return o.unplaced }},
	{head: "moves", about: "moves of items from machine to machine, mean over orders", most: 1, scale: 1, value: func(o *outcome) float64 { return o.moves }},
	{head: "moves %", about: "moves ÷ items placed", most: 2, scale: 100, value: func(o *outcome) float64 { return o.movesShare }},
	{head: "away h", about: "item-hours for which items were away because of moves, mean over orders", most: 2, scale: 1, value: func(o *outcome) float64 { return o.away }},
	{head: waitHead, about: "seconds that an item waited, mean over all items and over orders", most: 2, scale: 1, value: func(o *outcome) float64 { return o.waiting }},
	{head: "longest s", about: "the most seconds that an item waited in any order", most: 1, scale: 1, only: one, value: func(o *outcome) float64 { return o.longestWaiting }},
	{head: rejectedHead, about: "demand of the first dimension that was not placed", most: 2, scale: 100, when: rejecting, value: func(o *outcome) float64 { return o.rejected }},
	{head: "first at %", about: "share of that demand that had come before the first item was rejected", most: 2, scale: 100, when: rejecting, value: func(o *outcome) float64 { return o.firstRejection }},
}

// counts are figures that are no means. A table has those that are not 0.
var counts = []column{
	{head: "VIOLATIONS", about: "constraints broken: a bug", scale: 1, value: func(o *outcome) float64 { return float64(o.violations) }},
	{head: "fallbacks", about: "items that the policy did not decide, over all orders", scale: 1, value: func(o *outcome) float64 { return float64(o.fallbacks) }},
	{head: "cpu s", about: "processor time of a replay", most: 3, scale: 1, only: one, value: func(o *outcome) float64 { return o.seconds }},
}

// Heads by which figures are found.
const (
	machinesHead, peakHead, gapHead   = "machines", "peak", "gap %"
	unplacedHead, waitHead            = "unplaced", "wait s"
	rejectedHead, allocHead, exposure = "rejected %", "alloc ", "exposure"
)

func leaving(list []Comparison) bool {
	return slices.ContainsFunc(list, func(c Comparison) bool { return c.Trace.Deletes })
}

func staying(list []Comparison) bool { return !leaving(list) }

func timed(list []Comparison) bool { return list[0].Trace.Deletes && !list[0].Trace.Retry }

func rejecting(list []Comparison) bool {
	return slices.ContainsFunc(list, func(c Comparison) bool {
		return len(c.Trace.Dimensions) > 0 && (c.Trace.Fleet == "fixed" || c.leavesOut())
	})
}

// limited reports whether orders can meet the bound, or the optimum.
func (c *Comparison) limited(optimum bool) bool {
	limit, optimal := c.limit()
	return limit > 0 && optimal == optimum && !c.Trace.Deletes && !c.leavesOut()
}

// table lays out the results of one trace, without empty columns.
func (c *Comparison) table() sheet.Table {
	var names, knowledge, exposures []string
	list := c.outcomes()
	for _, o := range list {
		names, knowledge, exposures = append(names, o.result.Policy), append(knowledge, o.result.Knowledge), append(exposures, o.result.Exposure)
	}
	t := named(names, knowledge)
	dimensions := c.Trace.Dimensions
	add := func(m *column, show func(values []float64) bool) {
		if m.only == many || m.when != nil && !m.when([]Comparison{*c}) {
			return
		}
		values := make([]float64, len(list))
		for i := range list {
			values[i] = m.scale * m.value(&list[i])
		}
		head, about := m.head, m.about
		if head == allocHead {
			head, dimensions = head+dimensions[0], dimensions[1:]
		} else if len(c.Trace.Dimensions) > 0 {
			about = strings.ReplaceAll(about, "the first dimension", c.Trace.Dimensions[0])
		}
		if m.when != nil || show(values) {
			t.AddColumn(figures(head, about, m.most, m.sign, values))
		}
	}
	for i := range columns {
		add(&columns[i], some)
	}
	for i := range counts {
		add(&counts[i], positive)
	}
	addExposures(&t, exposures)
	return t
}

// named is a table of policies. The nearly offline ones are last.
func named(names, knowledge []string) (t sheet.Table) {
	t.AddColumn(words("policy", "as given to --policy", names))
	t.AddColumn(words("knowledge", "what the policy may know of the future", knowledge))
	shorten(&t)
	if i := slices.Index(knowledge, "K2"); i >= 0 {
		t.Rows[i].Break = offlineNote
	}
	return t
}

// offlineNote precedes results of policies with the true totals.
const offlineNote = "nearly offline (K2 knows the true totals):"

func addExposures(t *sheet.Table, exposures []string) {
	if strings.Join(exposures, "") != "" {
		t.AddColumn(words(exposure, "whether training saw the trace", dashes(exposures)))
	}
}

// figures is a column of numbers with the same number of digits after the point: at
// most most, and at most four digits in all where the size allows. A NaN is a dash.
// With sign, positive numbers get a plus.
func figures(head, about string, most int, sign bool, values []float64) (sheet.Column, []string) {
	digits := sheet.Decimals(most, values)
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = sheet.Figure(v, digits, sign)
	}
	return sheet.Column{Head: head, About: about}, cells
}

func words(head, about string, cells []string) (sheet.Column, []string) {
	return sheet.Column{Head: head, About: about, Words: true}, cells
}

func some(values []float64) bool {
	return slices.ContainsFunc(values, func(v float64) bool { return !math.IsNaN(v) })
}

func positive(values []float64) bool {
	return slices.ContainsFunc(values, func(v float64) bool { return v > 0 })
}

func dashes(cells []string) []string {
	out := slices.Clone(cells)
	for i, s := range out {
		out[i] = cmp.Or(s, "-")
	}
	return out
}
