package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// An Aggregated is one policy over many traces. Each trace counts once, with
// its mean over orders. Shares are fractions of 1.
type Aggregated struct {
	Policy, Knowledge string
	Exposure          string // all of them, joined by ", "
	Traces            int
	Machines          Estimate // at the peak when items also leave
	Gap               Estimate // to the bound
	AtLimit           Estimate // share of orders that meet the optimum, else the bound
	VsBestFit         Estimate // cost against Best-Fit on the same trace
	VsWorstFit        Estimate
	Unplaced          Estimate
	Rejected          Estimate // demand of the first dimension
	FirstRejection    Estimate
	Moves, MovesShare Estimate // the share is of the items placed
	Away              Estimate // item-hours
	Waiting           Estimate // seconds, mean over items
	Violations        int
	Fallbacks         int
}

// An Estimate is a mean over N traces with its standard error, which is 0 for fewer than
// two. It leaves out traces on which the figure has no meaning.
type Estimate struct {
	Mean, Err float64
	N         int
}

func estimate(values []float64) Estimate {
	e := Estimate{Mean: nothing}
	sum := 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum += v
			e.N++
		}
	}
	if e.N == 0 {
		return e
	}
	e.Mean = sum / float64(e.N)
	if e.N < 2 {
		return e
	}
	squares := 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			squares += float64((v - e.Mean) * (v - e.Mean))
		}
	}
	e.Err = math.Sqrt(squares / float64(e.N-1) / float64(e.N))
	return e
}

// Aggregate joins the results of each policy at each knowledge level over all comparisons,
// the present placement first, then sorted by unplaced items, then gap. Policies that ran on
// fewer traces follow those that ran on more; K2 is last.
func Aggregate(comparisons []Comparison) []Aggregated {
	type key struct{ policy, knowledge string }
	var keys []key
	outcomes := map[key][]outcome{}
	for i := range comparisons {
		for _, o := range comparisons[i].outcomes() {
			k := key{o.result.Policy, o.result.Knowledge}
			if outcomes[k] == nil {
				keys = append(keys, k)
			}
			outcomes[k] = append(outcomes[k], o)
		}
	}
	var rows []Aggregated
	for _, k := range keys {
		rows = append(rows, aggregateOf(outcomes[k]))
	}
	slices.SortStableFunc(rows, func(a, b Aggregated) int {
		return cmp.Or(
			presentFirst(a.Policy, b.Policy),
			cmp.Compare(b2i(a.Knowledge == "K2"), b2i(b.Knowledge == "K2")),
			cmp.Compare(b.Traces, a.Traces), // means over fewer traces do not compare
			cmp.Compare(a.Unplaced.Mean, b.Unplaced.Mean),
			compareLast(a.Gap.Mean, b.Gap.Mean),
			compareLast(a.Machines.Mean, b.Machines.Mean),
			cmp.Compare(a.Policy, b.Policy),
			cmp.Compare(a.Knowledge, b.Knowledge),
		)
	})
	return rows
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compareLast is cmp.Compare, but NaN sorts after all numbers.
func compareLast(a, b float64) int {
	return cmp.Or(cmp.Compare(b2i(math.IsNaN(a)), b2i(math.IsNaN(b))), cmp.Compare(a, b))
}

func aggregateOf(list []outcome) Aggregated {
	of := func(value func(o outcome) float64) Estimate {
		values := make([]float64, len(list))
		for i, o := range list {
			values[i] = value(o)
		}
		return estimate(values)
	}
	row := Aggregated{
		Policy:         list[0].result.Policy,
		Knowledge:      list[0].result.Knowledge,
		Traces:         len(list),
		Machines:       of(func(o outcome) float64 { return o.machines.mean }),
		Gap:            of(func(o outcome) float64 { return o.gap }),
		AtLimit:        of(func(o outcome) float64 { return o.atLimit }),
		VsBestFit:      of(func(o outcome) float64 { return o.vsBest }),
		VsWorstFit:     of(func(o outcome) float64 { return o.vsWorst }),
		Unplaced:       of(func(o outcome) float64 { return o.unplaced }),
		Rejected:       of(func(o outcome) float64 { return o.rejected }),
		FirstRejection: of(func(o outcome) float64 { return o.firstRejection }),
		Moves:          of(func(o outcome) float64 { return o.moves }),
		MovesShare:     of(func(o outcome) float64 { return o.movesShare }),
		Away:           of(func(o outcome) float64 { return o.away }),
		Waiting:        of(func(o outcome) float64 { return o.waiting }),
	}
	var exposures []string
	for _, o := range list {
		if e := o.result.Exposure; e != "" && !slices.Contains(exposures, e) {
			exposures = append(exposures, e)
		}
		row.Violations += o.violations
		row.Fallbacks += o.fallbacks
	}
	slices.Sort(exposures)
	row.Exposure = strings.Join(exposures, ", ")
	return row
}

// overview is the grid of [Aggregate].
func overview(comparisons []Comparison) grid {
	rows := Aggregate(comparisons)
	g := grid{rows: len(rows), split: len(rows)}
	names := make([]string, len(rows))
	knowledge := make([]string, len(rows))
	exposure := make([]string, len(rows))
	for i, r := range rows {
		names[i], knowledge[i], exposure[i] = r.Policy, r.Knowledge, r.Exposure
		if r.Knowledge == "K2" && i < g.split {
			g.split = i
		}
	}
	of := func(value func(r Aggregated) Estimate) []Estimate {
		out := make([]Estimate, len(rows))
		for i, r := range rows {
			out[i] = value(r)
		}
		return out
	}
	add := func(c column) { g.columns = append(g.columns, c) }
	addIf := func(head, about string, most int, sign bool, scale float64, list []Estimate) {
		if slices.ContainsFunc(list, func(e Estimate) bool { return e.N > 0 }) {
			add(estimates(head, about, most, sign, scale, len(comparisons), list))
		}
	}
	deletes := slices.ContainsFunc(comparisons, func(c Comparison) bool { return c.Trace.Deletes })
	fixed := slices.ContainsFunc(comparisons, func(c Comparison) bool { return c.Trace.Fleet == "fixed" || c.leavesOut() })

	add(words("policy", "as given to --policy", names))
	add(words("knowledge", "what the policy may know of the future", knowledge))
	machinesHead, machinesAbout := "machines", "machines that hold an item at the end"
	if deletes {
		machinesHead, machinesAbout = "peak", "the most machines that held an item at any time"
	}
	mean := "; mean over traces ± standard error"
	addIf(machinesHead, machinesAbout+mean, 2, false, 1, of(func(r Aggregated) Estimate { return r.Machines }))
	addIf("gap %", "cost above the bound"+mean, 2, false, 100, of(func(r Aggregated) Estimate { return r.Gap }))
	if !deletes && !fixed {
		addIf("at limit %", "orders that met the proven optimum or, where none is known, the bound"+mean, 1, false, 100,
			of(func(r Aggregated) Estimate { return r.AtLimit }))
	}
	addIf("vs bestfit %", "cost against Best-Fit on the same trace; less is better"+mean, 2, true, 100,
		of(func(r Aggregated) Estimate { return r.VsBestFit }))
	addIf("vs worstfit %", "cost against Worst-Fit on the same trace"+mean, 2, true, 100,
		of(func(r Aggregated) Estimate { return r.VsWorstFit }))
	addIf("unplaced", "items that no machine took"+mean, 1, false, 1, of(func(r Aggregated) Estimate { return r.Unplaced }))
	addIf("moves", "moves of items from machine to machine"+mean, 1, false, 1, of(func(r Aggregated) Estimate { return r.Moves }))
	addIf("moves %", "moves ÷ items placed"+mean, 2, false, 100, of(func(r Aggregated) Estimate { return r.MovesShare }))
	addIf("away h", "item-hours for which items were away because of moves"+mean, 2, false, 1, of(func(r Aggregated) Estimate { return r.Away }))
	addIf("wait s", "seconds that an item waited, mean over items and orders"+mean, 2, false, 1, of(func(r Aggregated) Estimate { return r.Waiting }))
	if fixed {
		addIf("rejected %", "demand of the first dimension that was not placed"+mean, 2, false, 100,
			of(func(r Aggregated) Estimate { return r.Rejected }))
		addIf("first at %", "share of the demand that had come before the first item was rejected"+mean, 2, false, 100,
			of(func(r Aggregated) Estimate { return r.FirstRejection }))
	}
	counts := func(head, about string, value func(r Aggregated) int) {
		values := make([]float64, len(rows))
		for i, r := range rows {
			values[i] = float64(value(r))
		}
		if positive(values) {
			add(figures(head, about, 0, false, values))
		}
	}
	counts("VIOLATIONS", "constraints broken: a bug", func(r Aggregated) int { return r.Violations })
	counts("fallbacks", "items that the policy did not decide, over all orders", func(r Aggregated) int { return r.Fallbacks })
	if strings.Join(exposure, "") != "" {
		add(words("exposure", "whether training saw the traces", dashes(exposure)))
	}
	return g
}

// estimates is a column of means with standard errors. Where a figure has no meaning on
// some traces, the column adds the number of the others.
func estimates(head, about string, most int, sign bool, scale float64, traces int, list []Estimate) column {
	c := column{head: head, about: about}
	means, zero := make([]float64, len(list)), true
	for i, e := range list {
		means[i] = scale * e.Mean
		zero = zero && e.Err == 0
	}
	digits := sheet.Decimals(most, means)
	for i, e := range list {
		s := sheet.Figure(means[i], digits, sign)
		if e.N > 1 && !zero { // one trace has no standard error
			s += " ± " + sheet.Figure(scale*e.Err, digits, false)
		}
		if e.N > 0 && e.N < traces {
			s += " (" + sheet.Figure(float64(e.N), 0, false) + ")"
		}
		c.cells = append(c.cells, s)
	}
	return c
}
