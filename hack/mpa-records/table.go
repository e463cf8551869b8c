package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// A column is a figure of an agent for each seed, over all scenarios.
type column struct {
	head, format string
	value        func(runs []sim.Result) float64 // of one seed, by scenario
}

func sum(of func(r *sim.Result) float64) func(runs []sim.Result) float64 {
	return func(runs []sim.Result) float64 {
		s := 0.0
		for i := range runs {
			s += of(&runs[i])
		}
		return s
	}
}

func mean(of func(r *sim.Result) float64) func(runs []sim.Result) float64 {
	return func(runs []sim.Result) float64 { return sum(of)(runs) / float64(len(runs)) }
}

// ratio of two sums.
func ratio(a, b func(r *sim.Result) float64) func(runs []sim.Result) float64 {
	return func(runs []sim.Result) float64 { return sum(a)(runs) / sum(b)(runs) }
}

func coreHours(r *sim.Result) float64 { return r.CoreHours }
func gibHours(r *sim.Result) float64  { return r.GiBHours }
func hours(r *sim.Result) float64     { return r.Hours }

var columns = []column{
	{"core-h", "%.1f", sum(coreHours)},
	{"GiB-h", "%.1f", sum(gibHours)},
	{"cost", "%.1f", sum((*sim.Result).Cost)},
	{"cpu %", "%.1f", ratio(func(r *sim.Result) float64 { return 100 * r.CPUUtilisation * r.CoreHours }, coreHours)},
	{"memory %", "%.1f", ratio(func(r *sim.Result) float64 { return 100 * r.MemUtilisation * r.GiBHours }, gibHours)},
	{"violating %", "%.2f", mean(violating)},
	{"minutes/h", "%.2f", ratio(func(r *sim.Result) float64 { return float64(r.ViolatingMinutes) }, hours)},
	{"p50 ms", "%.0f", mean(func(r *sim.Result) float64 { return 1000 * r.P50 })},
	{"p95 ms", "%.0f", mean(func(r *sim.Result) float64 { return 1000 * r.P95 })},
	{"p99 ms", "%.0f", mean(func(r *sim.Result) float64 { return 1000 * r.P99 })},
	{"scalings/h", "%.2f", ratio(func(r *sim.Result) float64 { return float64(r.ReplicaChanges) }, hours)},
	{"resizes/h", "%.2f", ratio(func(r *sim.Result) float64 { return float64(r.RequestChanges) }, hours)},
	{"kills", "%.1f", sum(func(r *sim.Result) float64 { return float64(r.Kills) })},
	{"evictions", "%.1f", sum(func(r *sim.Result) float64 { return float64(r.Evictions) })},
}

func violating(r *sim.Result) float64 { return 100 * float64(r.Violations) / float64(r.Requests) }

// interval is a mean and half of its 95 % interval.
func interval(format string, values []float64) string {
	m := fmt.Sprintf(format, stat.Mean(values, nil))
	n := float64(len(values))
	half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(.975) * stat.StdErr(stat.StdDev(values, nil), n)
	if half == 0 {
		return m
	}
	return m + " ± " + fmt.Sprintf(format, half)
}

// of is the results of an agent with a seed, by scenario.
func (t *table) of(a, k int) []sim.Result {
	list := make([]sim.Result, len(t.scenarios))
	for i := range list {
		list[i] = t.runs[a][i][k]
	}
	return list
}

// gap is the share of the way from the pair to the limit that an agent closes, for each
// seed, in %; ok is false where there is none.
func (t *table) gap(a int) (shares []float64, ok bool) {
	from, to := slices.Index(t.agents, pair), slices.Index(t.agents, limit)
	if from < 0 || to < 0 {
		return nil, false
	}
	for k := range seeds {
		saved, all := 0.0, 0.0
		for i, s := range t.scenarios {
			p, o, r := &t.runs[from][i][k], &t.runs[to][i][k], &t.runs[a][i][k]
			if !p.Kept(s.App.Target.SLO) {
				continue
			}
			cost := r.Cost()
			if !r.Kept(s.App.Target.SLO) {
				cost = max(cost, p.Cost())
			}
			saved += p.Cost() - cost
			all += p.Cost() - o.Cost()
		}
		if all <= 0 {
			return nil, false
		}
		shares = append(shares, 100*saved/all)
	}
	return shares, true
}

// kept is the number of runs in which an agent kept the SLO.
func (t *table) kept(a int) (n int) {
	for i, s := range t.scenarios {
		for k := range seeds {
			if t.runs[a][i][k].Kept(s.App.Target.SLO) {
				n++
			}
		}
	}
	return n
}

func (t *table) markdown() string {
	var b strings.Builder
	total := 0.0
	for i := range t.scenarios {
		total += t.runs[0][i][0].Hours
	}
	fmt.Fprintf(&b, "\n%d scenarios of %.0f hours in all; core-hours, GiB-hours, cost, kills and evictions are sums over them, violating\nrequests and latencies means, the others shares of the sums.\n", len(t.scenarios), total)
	if len(t.skipped) > 0 {
		fmt.Fprintf(&b, "\nLeft out, for want of their traces (SIGMA_DATA): %s.\n", strings.Join(t.skipped, ", "))
	}
	b.WriteByte('\n')
	heads := []string{"agent"}
	for _, c := range columns {
		heads = append(heads, c.head)
	}
	heads = append(heads, "most scalings, resizes in an hour", fmt.Sprintf("SLO kept, of %d", seeds*len(t.scenarios)), "gap closed, %")
	row(&b, heads)
	row(&b, append([]string{"---"}, slices.Repeat([]string{"---:"}, len(heads)-1)...))
	for a, agent := range t.agents {
		cells := []string{agent}
		for _, c := range columns {
			values := make([]float64, seeds)
			for k := range values {
				values[k] = c.value(t.of(a, k))
			}
			cells = append(cells, interval(c.format, values))
		}
		scalings, resizes := 0, 0
		for i := range t.scenarios {
			for _, r := range t.runs[a][i] {
				scalings, resizes = max(scalings, r.MostReplicaChanges), max(resizes, r.MostRequestChanges)
			}
		}
		closed := ""
		if shares, ok := t.gap(a); ok {
			closed = interval("%.1f", shares)
		}
		row(&b, append(cells, fmt.Sprintf("%d, %d", scalings, resizes), fmt.Sprint(t.kept(a)), closed))
	}
	t.each(&b, "Cost by scenario; in italics where the SLO was broken in the mean of the seeds", func(i, a int) string {
		cost := interval("%.2f", t.values(i, a, (*sim.Result).Cost))
		if stat.Mean(t.values(i, a, violating), nil) > 100-t.scenarios[i].App.Target.SLO.Percentile {
			return "*" + cost + "*"
		}
		return cost
	})
	t.each(&b, "Violating requests by scenario, %", func(i, a int) string {
		return fmt.Sprintf("%.2f", stat.Mean(t.values(i, a, violating), nil))
	})
	t.each(&b, "p99 by scenario, ms", func(i, a int) string {
		return fmt.Sprintf("%.0f", stat.Mean(t.values(i, a, func(r *sim.Result) float64 { return 1000 * r.P99 }), nil))
	})
	t.beaten(&b)
	fmt.Fprintf(&b, "\n%.0f CPU-seconds, `go run ./hack/mpa-records %s`. Every run: `%s/%s.jsonl`.\n", math.Ceil(t.cpu), t.side, out, t.side)
	return b.String()
}

// values of an agent in a scenario, by seed.
func (t *table) values(i, a int, of func(r *sim.Result) float64) []float64 {
	list := make([]float64, seeds)
	for k := range list {
		list[k] = of(&t.runs[a][i][k])
	}
	return list
}

// each writes a table with a line for each scenario and a column for each agent.
func (t *table) each(b *strings.Builder, title string, cell func(i, a int) string) {
	fmt.Fprintf(b, "\n%s:\n\n", title)
	row(b, append([]string{"scenario"}, t.agents...))
	row(b, append([]string{"---"}, slices.Repeat([]string{"---:"}, len(t.agents))...))
	for i, s := range t.scenarios {
		cells := []string{s.App.Name + "/" + s.Name}
		for a := range t.agents {
			cells = append(cells, cell(i, a))
		}
		row(b, cells)
	}
}

// beaten names the runs in which an agent was cheaper than the limit without more
// violating requests.
func (t *table) beaten(b *strings.Builder) {
	to := slices.Index(t.agents, limit)
	if to < 0 {
		return
	}
	var list []string
	for a, agent := range t.agents {
		for i, s := range t.scenarios {
			for k, r := range t.runs[a][i] {
				if o := &t.runs[to][i][k]; r.Cost() < o.Cost() && r.Violations <= o.Violations {
					list = append(list, fmt.Sprintf("%s on %s/%s with seed %d (%.3f < %.3f)", agent, s.App.Name, s.Name, k+1, r.Cost(), o.Cost()))
				}
			}
		}
	}
	if len(list) == 0 {
		b.WriteString("\nNo agent was in any run cheaper than the oracle without more violating requests.\n")
		return
	}
	fmt.Fprintf(b, "\nCheaper than the oracle without more violating requests: %s.\n", strings.Join(list, "; "))
}

func row(b *strings.Builder, cells []string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
