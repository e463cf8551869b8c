package autoscaler

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sigma-scheduler/sigma/lab/records"
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
func (t *comparison) of(a, k int) []sim.Result {
	list := make([]sim.Result, len(t.scenarios))
	for i := range list {
		list[i] = t.runs[a][i][k]
	}
	return list
}

// gap is the share of the way from the pair to the limit that an agent closes, for each
// seed, in %; ok is false where there is none.
func (t *comparison) gap(a int) (shares []float64, ok bool) {
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
func (t *comparison) kept(a int) (n int) {
	for i, s := range t.scenarios {
		for k := range seeds {
			if t.runs[a][i][k].Kept(s.App.Target.SLO) {
				n++
			}
		}
	}
	return n
}

const about = `Every agent runs on simulated applications and loads, with the same five seeds. What
agents could be tuned on (*train*) shares no application, trace, family of loads or segment profile with what they
are judged by (*test*); ` + "`mpa/sim/scenarios.go`" + ` holds the split. Traces: [the load](../mpa-simulate.md#the-load).

± is half of the 95 % interval over seeds. Hours are those that count, after the warm-up. **Cost** is core-hours +
GiB-hours ÷ 8, in core-hours. A run **keeps** the SLO when no more requests were late or lost than its percentile
forgives (1 % or 5 %).

**The oracle** is the limit: at each decision it knows the rates to come, what a request costs and the workload's state, sets
replicas, cpu and memory at once, and is bound by no guard, window or lag. It does not know the single requests. It
follows the cheapest of its plans (largest size, slack, room for memory) that keeps the SLO with two other seeds: a limit of
the cost at which the SLO can be kept, not of latency. ` + "`static-p99` and `hpa-rps`" + ` know what a
request costs, and ` + "`static-p99`" + ` also the load, as a person who provisions for a peak would. ` + "`foresight`" + ` is ` + "`learned`" + ` told the rates to come.

**The gap** is what could be saved: from the cost of ` + "`hpa+vpa`" + ` to that of the oracle, over all runs (scenario and
seed) in which ` + "`hpa+vpa`" + ` kept the SLO. An agent closes the share of it that it saves. Where it broke the
SLO it saved nothing: its cost there counts as that of ` + "`hpa+vpa`" + `, or as its own where that is more.`

// page is the comparison as a page of results.
func (t *comparison) page() *records.Page {
	p := records.NewPage("Autoscalers on the scenarios of side " + t.side)
	p.Text(about)
	total := 0.0
	for i := range t.scenarios {
		total += t.runs[0][i][0].Hours
	}
	p.Text(fmt.Sprintf("%d scenarios of %.0f hours in all; core-hours, GiB-hours, cost, kills and evictions are sums over them, violating\nrequests and latencies means, the others shares of the sums.", len(t.scenarios), total))
	if len(t.skipped) > 0 {
		p.Text("Left out without their traces (SIGMA_DATA): " + strings.Join(t.skipped, ", ") + ".")
	}
	if t.digest != "" {
		p.Text("The policy of `learned` and `foresight` is `" + t.digest + "`.")
	}
	p.Text(fmt.Sprintf("After %d changes of replicas in an hour, %d of cpu alone, in place, and %d others of requests the guards let growth in place pass only; half as many shrink:", t.guards.ReplicaChanges, t.guards.CPUChanges, t.guards.RequestChanges))
	p.Table(t.summary())
	if t.few != nil {
		p.Text(fmt.Sprintf("With %d changes of requests in an hour, those of cpu alone among them, the agents that resize often:", t.guards.RequestChanges))
		p.Table(t.few.summary())
	}
	p.Text("Cost by scenario; in italics where the SLO was broken in the mean of the seeds:")
	p.Table(t.each(func(i, a int) string {
		cost := interval("%.2f", t.values(i, a, (*sim.Result).Cost))
		if stat.Mean(t.values(i, a, violating), nil) > 100-t.scenarios[i].App.Target.SLO.Percentile {
			return "*" + cost + "*"
		}
		return cost
	}))
	p.Text("Violating requests by scenario, %:")
	p.Table(t.each(func(i, a int) string {
		return fmt.Sprintf("%.2f", stat.Mean(t.values(i, a, violating), nil))
	}))
	p.Text("p99 by scenario, ms:")
	p.Table(t.each(func(i, a int) string {
		return fmt.Sprintf("%.0f", stat.Mean(t.values(i, a, func(r *sim.Result) float64 { return 1000 * r.P99 }), nil))
	}))
	p.Text(t.beaten())
	p.Text(fmt.Sprintf("%.0f CPU-seconds, `%s`. Every run: `%s`.", math.Ceil(t.seconds), Command(t.side), t.file))
	return p
}

// summary is the table with a row for each agent.
func (t *comparison) summary() records.Table {
	heads := []string{"agent"}
	for _, c := range columns {
		heads = append(heads, c.head)
	}
	out := rightTable(append(heads, "most scalings, resizes in an hour", fmt.Sprintf("SLO kept, of %d", seeds*len(t.scenarios)), "gap closed, %"))
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
		out.Rows = append(out.Rows, append(cells, fmt.Sprintf("%d, %d", scalings, resizes), fmt.Sprint(t.kept(a)), closed))
	}
	return out
}

// rightTable is a table whose columns but the first are aligned right.
func rightTable(heads []string) records.Table {
	t := records.Table{Heads: heads}
	for i := range heads[1:] {
		t.Right = append(t.Right, i+1)
	}
	return t
}

// values of an agent in a scenario, by seed.
func (t *comparison) values(i, a int, of func(r *sim.Result) float64) []float64 {
	list := make([]float64, seeds)
	for k := range list {
		list[k] = of(&t.runs[a][i][k])
	}
	return list
}

// each is a table with a row for each scenario and a column for each agent.
func (t *comparison) each(cell func(i, a int) string) records.Table {
	out := rightTable(append([]string{"scenario"}, t.agents...))
	for i, s := range t.scenarios {
		cells := []string{s.App.Name + "/" + s.Name}
		for a := range t.agents {
			cells = append(cells, cell(i, a))
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}

// beaten names the runs in which an agent was cheaper than the limit without more
// violating requests.
func (t *comparison) beaten() string {
	to := slices.Index(t.agents, limit)
	if to < 0 {
		return ""
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
		return "No agent was in any run cheaper than the oracle without more violating requests."
	}
	return "Cheaper than the oracle without more violating requests: " + strings.Join(list, "; ") + "."
}
