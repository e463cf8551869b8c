package reportdiff

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// A Diff holds the changes from page A to page B. Its JSON form is the output of `sigma report
// diff --format json`.
type Diff struct {
	Kind    string  `json:"kind"` // of both pages
	A       Page    `json:"a"`
	B       Page    `json:"b"`
	Inputs  []Input `json:"inputs"`  // those that differ
	Overall []Row   `json:"overall"` // over the traces that both have, paired by trace; empty with one
	Traces  []Trace `json:"traces"`
}

// A Page is one of the two.
type Page struct {
	File    string `json:"file"`
	Verdict string `json:"verdict"`
}

// An Input is a digest or a setting that differs; "" = the page lacks it.
type Input struct {
	Trace string `json:"trace"`
	Name  string `json:"input"`
	A     string `json:"a"`
	B     string `json:"b"`
}

// A Trace is compared with itself. Only is "a" or "b" where one page alone has it.
type Trace struct {
	Name string `json:"trace"`
	Only string `json:"only,omitempty"`
	// Paired means that the runs have the same inputs, so that the interval is of their differences.
	Paired bool  `json:"paired"`
	Rows   []Row `json:"rows"`
}

// A Row is one figure of one policy, or agent. Figures that a page lacks are null.
type Row struct {
	Name   string `json:"name"`
	Figure string `json:"figure"`
	// Means over the runs of each page.
	A sheet.Number `json:"a"`
	B sheet.Number `json:"b"`
	// Difference is B − A, Low and High the ends of its 95 % interval: Student's t over pairs, or
	// Welch's. They are null without at least two runs.
	Difference sheet.Number `json:"difference"`
	Low        sheet.Number `json:"low"`
	High       sheet.Number `json:"high"`
	Change     string       `json:"change"`
}

// The kinds of a row's change.
const (
	same     = "same"        // in every run
	higher   = "higher"      // the interval is above 0
	lower    = "lower"       // below 0
	unproven = "not proven"  // the interval holds 0
	single   = "no interval" // fewer than two runs on a page
	onlyA    = "only in A"
	onlyB    = "only in B"
	missing  = "undefined" // in a run
)

// Files compares two pages. It refuses a file that is no page of ours, and pages of two kinds.
func Files(a, b string) (*Diff, error) {
	one, err := read(a)
	if err != nil {
		return nil, err
	}
	two, err := read(b)
	if err != nil {
		return nil, err
	}
	if one.Kind != two.Kind {
		return nil, fmt.Errorf("%s is a page of %s, and %s of %s", a, one.Kind, b, two.Kind)
	}
	d := compare(one, two)
	d.A.File, d.B.File = a, b
	return d, nil
}

func compare(a, b *sheet.Data) *Diff {
	d := &Diff{Kind: a.Kind, A: Page{Verdict: a.Verdict}, B: Page{Verdict: b.Verdict}, Inputs: []Input{}, Overall: []Row{}, Traces: []Trace{}}
	list := pairs(a.Parts, b.Parts)
	both := 0
	for _, p := range list {
		t := Trace{Rows: []Row{}}
		switch {
		case p.b == nil:
			t.Name, t.Only = p.a.Name, "a"
		case p.a == nil:
			t.Name, t.Only = p.b.Name, "b"
		default:
			both++
			t.Name = p.a.Name
			if p.a.Name != p.b.Name {
				d.Inputs = append(d.Inputs, Input{t.Name, "name", p.a.Name, p.b.Name})
			}
			inputs := differing(t.Name, p.a.Inputs, p.b.Inputs)
			t.Paired = len(inputs) == 0
			d.Inputs = append(d.Inputs, inputs...)
			t.Rows = rows(p.a.Rows, p.b.Rows, func(x, y []float64) Row { return difference(x, y, t.Paired) })
			d.addDigests(p.a.Rows, p.b.Rows)
		}
		d.Traces = append(d.Traces, t)
	}
	if both > 1 {
		d.Overall = overall(list, both)
	}
	return d
}

// A pair is a trace of both pages, or of one.
type pair struct{ a, b *sheet.DataPart }

// pairs are traces by name; two that are alone on their pages are a pair whatever their names are.
func pairs(a, b []sheet.DataPart) []pair {
	if len(a) == 1 && len(b) == 1 {
		return []pair{{&a[0], &b[0]}}
	}
	var list []pair
	for i := range a {
		p := pair{a: &a[i]}
		if k := slices.IndexFunc(b, func(o sheet.DataPart) bool { return o.Name == a[i].Name }); k >= 0 {
			p.b = &b[k]
		}
		list = append(list, p)
	}
	for i := range b {
		if !slices.ContainsFunc(a, func(o sheet.DataPart) bool { return o.Name == b[i].Name }) {
			list = append(list, pair{b: &b[i]})
		}
	}
	return list
}

func differing(trace string, a, b map[string]string) []Input {
	names := maps.Clone(a)
	maps.Copy(names, b)
	var list []Input
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a[name] != b[name] {
			list = append(list, Input{trace, name, a[name], b[name]})
		}
	}
	return list
}

// addDigests adds the files of rows that have changed, each once.
func (d *Diff) addDigests(a, b []sheet.DataRow) {
	for _, x := range a {
		for _, y := range b {
			in := Input{Name: x.Name, A: x.Digest, B: y.Digest}
			if x.Name == y.Name && x.Digest != y.Digest && !slices.Contains(d.Inputs, in) {
				d.Inputs = append(d.Inputs, in)
			}
		}
	}
}

// rows joins the rows and figures of two parts by name.
func rows(a, b []sheet.DataRow, diff func(x, y []float64) Row) []Row {
	list := []Row{}
	each := func(own, other []sheet.DataRow, add func(name, figure string, x, y []float64)) {
		for _, r := range own {
			for _, f := range r.Figures {
				add(r.Name, f.Name, values(f.Runs), runsOf(other, r.Name, f.Name))
			}
		}
	}
	each(a, b, func(name, figure string, x, y []float64) {
		row := alone(x)
		if y != nil {
			row = diff(x, y)
		}
		row.Name, row.Figure = name, figure
		list = append(list, row)
	})
	each(b, a, func(name, figure string, x, y []float64) {
		if y != nil {
			return
		}
		row := alone(x)
		row.Name, row.Figure, row.A, row.B, row.Change = name, figure, row.B, row.A, onlyB
		// It follows the other figures of its name.
		at := len(list)
		for i := range list {
			if list[i].Name == name {
				at = i + 1
			}
		}
		list = slices.Insert(list, at, row)
	})
	return list
}

func values(runs []sheet.Number) []float64 {
	list := make([]float64, len(runs))
	for i, v := range runs {
		list[i] = float64(v)
	}
	return list
}

// runsOf finds a figure; nil = no such figure.
func runsOf(rows []sheet.DataRow, name, figure string) []float64 {
	for _, r := range rows {
		for _, f := range r.Figures {
			if r.Name == name && f.Name == figure {
				return values(f.Runs)
			}
		}
	}
	return nil
}

var nothing = sheet.Number(math.NaN())

func alone(x []float64) Row {
	return Row{A: mean(x), B: nothing, Difference: nothing, Low: nothing, High: nothing, Change: onlyA}
}

func mean(x []float64) sheet.Number { return round(stat.Mean(x, nil)) }

// difference is that of two figures, by run if they are paired.
func difference(x, y []float64, paired bool) Row {
	d, half := stat.Mean(y, nil)-stat.Mean(x, nil), math.NaN()
	equal := len(x) == len(y)
	switch n, m := float64(len(x)), float64(len(y)); {
	case paired && equal:
		less := make([]float64, len(x))
		for i := range x {
			less[i] = y[i] - x[i]
			equal = equal && less[i] == 0
		}
		if n > 1 {
			half = sheet.Student(n-1) * stat.StdDev(less, nil) / math.Sqrt(n)
		}
	case n > 1 && m > 1: // Welch, 1947
		equal = slices.Equal(x, y)
		u, v := stat.Variance(x, nil)/n, stat.Variance(y, nil)/m
		if half = 0; u+v > 0 {
			half = sheet.Student((u+v)*(u+v)/(u*u/(n-1)+v*v/(m-1))) * math.Sqrt(u+v)
		}
	default:
		equal = equal && slices.Equal(x, y)
	}
	row := Row{A: mean(x), B: mean(y), Difference: round(d), Low: round(d - half), High: round(d + half)}
	switch {
	case math.IsNaN(d) || math.IsInf(d, 0):
		row.Change = missing
	case equal:
		row.Change = same
	case math.IsNaN(half):
		row.Change = single
	case row.Low > 0:
		row.Change = higher
	case row.High < 0:
		row.Change = lower
	default:
		row.Change = unproven
	}
	return row
}

// overall joins the means of the traces that both pages have, of figures that all of them have.
func overall(list []pair, both int) []Row {
	sum := func(of func(pair) *sheet.DataPart) []sheet.DataRow {
		var out []sheet.DataRow
		for _, p := range list {
			if p.a == nil || p.b == nil {
				continue
			}
			for _, r := range of(p).Rows {
				k := slices.IndexFunc(out, func(o sheet.DataRow) bool { return o.Name == r.Name })
				if k < 0 {
					k, out = len(out), append(out, sheet.DataRow{Name: r.Name})
				}
				for _, f := range r.Figures {
					i := slices.IndexFunc(out[k].Figures, func(o sheet.DataFigure) bool { return o.Name == f.Name })
					if i < 0 {
						i, out[k].Figures = len(out[k].Figures), append(out[k].Figures, sheet.DataFigure{Name: f.Name})
					}
					out[k].Figures[i].Runs = append(out[k].Figures[i].Runs, mean(values(f.Runs)))
				}
			}
		}
		for k := range out {
			out[k].Figures = slices.DeleteFunc(out[k].Figures, func(f sheet.DataFigure) bool { return len(f.Runs) < both })
		}
		return out
	}
	a, b := sum(func(p pair) *sheet.DataPart { return p.a }), sum(func(p pair) *sheet.DataPart { return p.b })
	return rows(a, b, func(x, y []float64) Row { return difference(x, y, true) })
}

// round keeps six digits after the point; the last bits differ between architectures.
func round(v float64) sheet.Number { return sheet.Number(math.Round(v*1e6) / 1e6) }
