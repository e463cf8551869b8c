package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/lab/records"
)

const aboutKnative = `Parts of Knative Serving v0.48.0: queue-proxy as a process before each function, the Knative Pod Autoscaler (` + "`scaling.New`" + `) and its collector of metrics, which asks each queue-proxy
every second, and the breakers and counts of its activator. A pod is a [function](../concurrency-validation.md) in a cgroup of .25 cores and 256 MiB with queue-proxy outside of the cgroup, both in a network namespace
with loopback alone. Kubernetes is not there: between 1 and 8 pods start 2 s after the autoscaler wants them, a killed one is replaced as late, and one that goes first answers what is inside.`

const aboutLoop = `Vegeta sends Poisson arrivals, the same ones for each setting, in turns. They begin at half of the rate for 10 s that do not count, rise to it for a third of the rest, and stay; each run begins with one
pod. The activator is always in the path, in the process of the clients: it holds requests while no pod has room, and picks pods as Knative's does. A client waits 10 s; latency counts from when the
request was due, and a lost one counts as those 10 s.

- **default**: ` + "`containerConcurrency: 0`" + `, target 100 requests at once of which 70 %.
- **limit 10**: ` + "`containerConcurrency: 10`" + `, of which 70 % are the target.
- **learned**: what [` + "`sigma mpa concurrency learn`" + ` and ` + "`recommend --format knative`" + `](../knative.md) say: before each repeat ` + "`law+walk`" + ` learns the function behind ` + "`sigma-gate`" + ` until it keeps a limit
  for 4 trials, and the target is the rate of requests that it says keeps the promise, with ` + "`metric: rps`" + `, of which Knative uses 70 %, its default.
- **learned, of which 85 %**: the same target, and more of it is used.

Windows of 60 s and 6 s, panic at 200 %, a tick of 2 s, and down by half at most are Knative's defaults. No learner or setting was tuned on these functions. Values are the median of the repeats with the least and the largest in brackets.`

const aboutFronts = `Both stand before the same function, which does nothing, in one pod, at a limit of 10, and take turns with 3 s of requests at a constant rate. The cpu is that of the process by the scheduler's account. sigma-gate serves
its metrics, queue-proxy its own.`

const aboutPaper = `Q-learning of the limit as published (Schuler, Jamil, Kühl, CCGrid 2021): limits 10, 30 … 310, a new pod for each trial, 500 clients in closed loop, no guard. What the source
defines and is not so here: a trial lasts 2 s after .5 s instead of 30 s, and there is one pod of .25 cores without an autoscaler, so that the curve is the pod's. What it leaves open is chosen [as in the simulation](../concurrency.md#the-learners).
The best is the highest mean throughput of a limit that was tried three times or more; a trial is within 5 % of it where the mean of its limit is, and it did not fail. A trial fails that kills the function or loses a twentieth of its requests.`

// Targets of the issue.
var (
	mustFaster, aimFaster       = records.AtLeast(10), records.AtLeast(30)
	mustAnswer, aimAnswer       = records.AtLeast(.999), records.AtLeast(1)
	mustPods, aimPods           = records.AtMost(.6), records.AtMost(.4)
	mustTail                    = records.AtMost(1.05)
	mustFrontCost, aimFrontCost = records.AtMost(1), records.AtMost(.85)
)

func (r *knativeResults) page() *records.Page {
	p := records.NewPage("With Knative's queue-proxy and autoscaler")
	p.Text(aboutKnative)
	p.Heading("Figures")
	figures := records.LineTable()
	for _, l := range r.lines() {
		figures.Rows = append(figures.Rows, l.Row())
	}
	p.Table(figures)
	if r.Loop != nil {
		p.Heading("Settings of a Service")
		p.Text(aboutLoop)
		p.Table(r.Loop.table())
		p.Text("Pods that the autoscaler wanted, a number each 2 s, of the first repeat:")
		p.Table(r.Loop.curves())
		p.Text(r.Loop.stamped())
	}
	if r.Gate != nil {
		p.Heading("The gate beside queue-proxy")
		p.Text(aboutFronts)
		p.Table(r.Gate.table())
		p.Text(fmt.Sprintf("%s Load average before: %s.", r.Gate.Stamp, r.Gate.Load))
	}
	if r.Paper != nil {
		p.Heading("The published agent")
		p.Text(aboutPaper)
		p.Table(r.Paper.table())
		for _, name := range paperProfiles {
			if list := r.Paper.Trials[name]; len(list) > 0 {
				p.Text(fmt.Sprintf("Limits that it tried on `%s`: %s.", name, strings.Join(limitsOf(list), " ")))
			}
		}
		p.Text(fmt.Sprintf("%s Load average before: %s.", r.Paper.Stamp, r.Paper.Load))
	}
	return p
}

// A spread is a value of some repeats.
type spread struct{ least, median, most float64 }

func spreadOf(list []float64) spread {
	if len(list) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return spread{sorted[0], (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-1]}
}

func (s spread) text(format string) string {
	return fmt.Sprintf(format+" ("+format+" to "+format+")", s.median, s.least, s.most)
}

// of returns a value of the runs of a profile and a setting, by repeat.
func (r *loopResults) of(profile, setting string, value func(*loopRun) float64) (list []float64) {
	for _, x := range r.Runs {
		if x.Profile == profile && x.Setting.Name == setting {
			list = append(list, value(x))
		}
	}
	return list
}

// ratio of two settings in each repeat.
func (r *loopResults) ratio(profile, over, under string, value func(*loopRun) float64) spread {
	above, below := r.of(profile, over, value), r.of(profile, under, value)
	var list []float64
	for i := range min(len(above), len(below)) {
		list = append(list, above[i]/below[i])
	}
	return spreadOf(list)
}

func p95(x *loopRun) float64      { return x.P95 }
func answered(x *loopRun) float64 { return float64(x.Answered) / float64(x.Requests) }

func (r *knativeResults) lines() (list []records.Line) {
	if l := r.Loop; l != nil {
		add := func(profile, figure, format string, s spread, value float64, must, aim records.Target) {
			if !math.IsNaN(s.median) {
				list = append(list, records.Line{Work: "`" + profile + "`", Figure: figure, Value: value, Format: format, Peers: fmt.Sprintf("repeats "+format+" to "+format, s.least, s.most), Must: must, Aim: aim})
			}
		}
		faster := l.ratio("cpu", "default", "learned", p95)
		add("cpu", "p95 of Knative's default ÷ that of the learned setting, median", "%.1f", faster, faster.median, mustFaster, aimFaster)
		share := spreadOf(l.of("mem", "learned", answered))
		add("mem", "share of requests that the learned setting answers, the least", "%.4f", share, share.least, mustAnswer, aimAnswer)
		pods := l.ratio("io", "learned", "limit 10", (*loopRun).mean)
		add("io", "pods of the learned setting ÷ those of limit 10, median", "%.2f", pods, pods.median, mustPods, aimPods)
		tail := l.ratio("io", "learned", "limit 10", p95)
		add("io", "p95 of the learned setting ÷ that of limit 10, median", "%.3f", tail, tail.median, mustTail, records.Target{})
	}
	if r.Gate != nil {
		for _, rate := range frontRates {
			s := r.Gate.ratio(rate)
			list = append(list, records.Line{
				Work: "gate", Figure: fmt.Sprintf("cpu of a request ÷ that of queue-proxy, %d a second, median", rate), Value: s.median, Format: "%.2f",
				Peers: fmt.Sprintf("rounds %.2f to %.2f", s.least, s.most), Must: mustFrontCost, Aim: aimFrontCost,
			})
		}
	}
	return list
}

func (r *loopResults) table() records.Table {
	t := records.Table{Heads: []string{"function", "requests a second; promise", "setting", "limit", "target", "p50, s", "p95, s", "answered, %", "pods", "killed"}, Right: []int{5, 6, 7, 8, 9}}
	var rows [][2]string
	for _, x := range r.Runs {
		if row := [2]string{x.Profile, x.Setting.Name}; !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	order := []string{"cpu", "mem", "io", "default", "limit 10", "learned", fullerName}
	slices.SortFunc(rows, func(a, b [2]string) int {
		for i := range a {
			if d := slices.Index(order, a[i]) - slices.Index(order, b[i]); d != 0 {
				return d
			}
		}
		return 0
	})
	for _, row := range rows {
		value := func(f func(*loopRun) float64) spread { return spreadOf(r.of(row[0], row[1], f)) }
		limits, targets := []string{}, []string{}
		for _, x := range r.Runs {
			if x.Profile == row[0] && x.Setting.Name == row[1] {
				limits, targets = append(limits, strconv.Itoa(x.Setting.Limit)), append(targets, x.Setting.target())
			}
		}
		d := demands[row[0]]
		t.Rows = append(t.Rows, []string{
			"`" + row[0] + "`", fmt.Sprintf("%.0f; 95 %% in %v", d.rate, d.promise), row[1], strings.Join(slices.Compact(limits), ", "), strings.Join(slices.Compact(targets), ", "),
			value(func(x *loopRun) float64 { return x.P50 }).text("%.3f"), value(p95).text("%.3f"),
			value(func(x *loopRun) float64 { return 100 * answered(x) }).text("%.2f"), value((*loopRun).mean).text("%.2f"),
			value(func(x *loopRun) float64 { return float64(x.Kills) }).text("%.0f"),
		})
	}
	return t
}

// target in words.
func (s *setting) target() string {
	if s.Rate > 0 {
		return fmt.Sprintf("%.4g a second", s.decider().TargetValue)
	}
	return fmt.Sprintf("%.4g at once", s.decider().TargetValue)
}

func (r *loopResults) curves() records.Table {
	t := records.Table{Heads: []string{"function", "setting", "pods"}}
	for _, x := range r.Runs {
		if x.Repeat != 1 {
			continue
		}
		var pods []string
		for _, n := range x.Pods {
			pods = append(pods, strconv.Itoa(n))
		}
		t.Rows = append(t.Rows, []string{"`" + x.Profile + "`", x.Setting.Name, strings.Join(pods, " ")})
	}
	return t
}

// stamped describes the runs, with the load of the machine.
func (r *loopResults) stamped() string {
	var loads []string
	repeats, seconds := 0, 0.0
	for _, x := range r.Runs {
		loads = append(loads, x.Load)
		repeats, seconds = max(repeats, x.Repeat), x.Seconds
	}
	refused := 0
	for _, x := range r.Lessons {
		refused += len(x.Refused)
	}
	return fmt.Sprintf("%d repeats, %.0f s of each run count; %d times nothing was recommended at first, as no rate kept the promise. %s Load average before each run: %s.", repeats, seconds, refused, r.Stamp, strings.Join(loads, ", "))
}

// ratio of the gate's cpu to queue-proxy's in each round.
func (r *gateResults) ratio(rate int) spread {
	var list []float64
	for _, c := range r.Rounds {
		if c.Rate == rate {
			list = append(list, c.Gate/c.Queue)
		}
	}
	return spreadOf(list)
}

func (r *gateResults) table() records.Table {
	t := records.Table{Heads: []string{"requests a second", "rounds", "`sigma-gate`, µs of cpu a request", "queue-proxy", "ratio"}, Right: []int{0, 1, 2, 3, 4}}
	for _, rate := range frontRates {
		var gate, queue []float64
		for _, c := range r.Rounds {
			if c.Rate == rate {
				gate, queue = append(gate, 1e6*c.Gate), append(queue, 1e6*c.Queue)
			}
		}
		t.Rows = append(t.Rows, []string{strconv.Itoa(rate), strconv.Itoa(len(gate)), spreadOf(gate).text("%.0f"), spreadOf(queue).text("%.0f"), r.ratio(rate).text("%.2f")})
	}
	return t
}

// last is how many trials are judged at the end.
const last = 20

func (r *paperResults) table() records.Table {
	t := records.Table{Heads: []string{"function", "trials", "best, a second", fmt.Sprintf("of the last %d within 5 %%", last), "limits of those", "trials that fail", "killed"}, Right: []int{1, 2, 3, 5, 6}}
	for _, name := range paperProfiles {
		list := r.Trials[name]
		if len(list) < last {
			continue
		}
		best, good := judge(list)
		near, failing, kills := 0, 0, 0
		var ends []int
		for i, s := range list {
			if i >= len(list)-last {
				ends = append(ends, s.Limit)
				if good[i] {
					near++
				}
			}
			if s.failing() {
				failing++
			}
			kills += s.Kills
		}
		t.Rows = append(t.Rows, []string{
			"`" + name + "`", strconv.Itoa(len(list)), fmt.Sprintf("%.1f", best), strconv.Itoa(near), fmt.Sprintf("%d to %d", slices.Min(ends), slices.Max(ends)), strconv.Itoa(failing), strconv.Itoa(kills),
		})
	}
	return t
}

func limitsOf(list []paperStep) (texts []string) {
	for _, s := range list {
		texts = append(texts, strconv.Itoa(s.Limit))
	}
	return texts
}
