package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// An aggregated policy is one over many traces. Each trace counts once, with its mean over orders.
type aggregated struct {
	outcomes  []outcome            // of each trace
	like      Result               // policy, knowledge, and all exposures, joined by ", "
	estimates map[string]estimated // of columns by head, shares as fractions of 1
}

// mean is that of a column.
func (a *aggregated) mean(head string) float64 { return a.estimates[head].mean }

// An estimated figure is a mean over n traces with its standard error, which is 0 for fewer than
// two. It leaves out traces on which the figure has no meaning.
type estimated struct {
	mean, err float64
	n         int
}

func estimate(values []float64) estimated {
	values = slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	mean, deviation := stat.MeanStdDev(values, nil)
	e := estimated{mean: mean, n: len(values)}
	if e.n > 1 {
		e.err = stat.StdErr(deviation, float64(e.n))
	}
	return e
}

// aggregate joins the results of each policy at each knowledge level over all comparisons,
// the present placement first, then sorted by unplaced items, then gap. Policies that ran on
// fewer traces follow those that ran on more; K2 is last.
func aggregate(comparisons []Comparison) []aggregated {
	type key struct{ policy, knowledge string }
	at := map[key]int{}
	var rows []aggregated
	for i := range comparisons {
		for _, o := range comparisons[i].outcomes() {
			k := key{o.result.Policy, o.result.Knowledge}
			if _, ok := at[k]; !ok {
				at[k] = len(rows)
				rows = append(rows, aggregated{like: Result{Policy: k.policy, Knowledge: k.knowledge}})
			}
			r := &rows[at[k]]
			r.outcomes = append(r.outcomes, o)
		}
	}
	for i := range rows {
		rows[i].complete()
	}
	slices.SortStableFunc(rows, func(a, b aggregated) int {
		return cmp.Or(
			presentFirst(a.like.Policy, b.like.Policy),
			offline(&a.like)-offline(&b.like),
			cmp.Compare(len(b.outcomes), len(a.outcomes)), // means over fewer traces do not compare
			cmp.Compare(a.mean(unplacedHead), b.mean(unplacedHead)),
			compareLast(a.mean(gapHead), b.mean(gapHead)),
			compareLast(a.mean(machinesHead), b.mean(machinesHead)),
			cmp.Compare(a.like.Policy, b.like.Policy),
			cmp.Compare(a.like.Knowledge, b.like.Knowledge),
		)
	})
	return rows
}

func (a *aggregated) complete() {
	var exposures []string
	for _, o := range a.outcomes {
		if e := o.result.Exposure; e != "" && !slices.Contains(exposures, e) {
			exposures = append(exposures, e)
		}
	}
	slices.Sort(exposures)
	a.like.Exposure = strings.Join(exposures, ", ")
	a.estimates = map[string]estimated{}
	for i := range columns {
		if m := &columns[i]; m.only != one {
			values := make([]float64, len(a.outcomes))
			for k := range a.outcomes {
				values[k] = m.value(&a.outcomes[k])
			}
			a.estimates[m.head] = estimate(values)
		}
	}
}

// compareLast is cmp.Compare, but NaN sorts after all numbers.
func compareLast(a, b float64) int {
	return cmp.Or(b2i(math.IsNaN(a))-b2i(math.IsNaN(b)), cmp.Compare(a, b))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// overview is the table of several traces.
func overview(comparisons []Comparison) sheet.Table {
	rows := aggregate(comparisons)
	var names, knowledge, exposures []string
	for i := range rows {
		r := &rows[i].like
		names, knowledge, exposures = append(names, r.Policy), append(knowledge, r.Knowledge), append(exposures, r.Exposure)
	}
	t := named(names, knowledge)
	for i := range columns {
		m := &columns[i]
		if m.only == one || m.when != nil && !m.when(comparisons) {
			continue
		}
		if slices.ContainsFunc(rows, func(r aggregated) bool { return r.estimates[m.head].n > 0 }) {
			t.AddColumn(m.estimates(len(comparisons), rows))
		}
	}
	for i := range counts {
		values := make([]float64, len(rows))
		for k := range rows {
			for n := range rows[k].outcomes {
				values[k] += counts[i].value(&rows[k].outcomes[n])
			}
		}
		if counts[i].only != one && positive(values) {
			t.AddColumn(figures(counts[i].head, counts[i].about, 0, false, values))
		}
	}
	addExposures(&t, exposures)
	return t
}

// estimates is a column of means with standard errors. Where a figure has no meaning on
// some traces, the column adds the number of the others.
func (m *column) estimates(traces int, rows []aggregated) (sheet.Column, []string) {
	var cells []string
	means, zero := make([]float64, len(rows)), true
	for i := range rows {
		means[i] = m.scale * rows[i].mean(m.head)
		zero = zero && rows[i].estimates[m.head].err == 0
	}
	digits := sheet.Decimals(m.most, means)
	for i := range rows {
		s, e := sheet.Figure(means[i], digits, m.sign), rows[i].estimates[m.head]
		if e.n > 1 && !zero { // one trace has no standard error
			s += " ± " + sheet.Figure(m.scale*e.err, digits, false)
		}
		if e.n > 0 && e.n < traces {
			s += " (" + sheet.Figure(float64(e.n), 0, false) + ")"
		}
		cells = append(cells, s)
	}
	return sheet.Column{Head: m.head, About: strings.TrimSuffix(m.about, ", mean over orders") + "; mean over traces ± standard error"}, cells
}
