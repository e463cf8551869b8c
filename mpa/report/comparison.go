package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// A Comparison has the results of several agents on one application and load. Its JSON is
// the format of `sigma mpa simulate --format json`.
type Comparison struct {
	App   App   `json:"app"`
	Trace Trace `json:"trace"`
	// Seeds of the runs, the same for every agent.
	Seeds  []uint64 `json:"seeds"`
	Agents []Agent  `json:"agents"`
}

// An App is the simulated application.
type App struct {
	Name string `json:"name"`
	// Percentile of latency that is promised, and its limit.
	Percentile float64 `json:"slo_percentile"`
	Latency    float64 `json:"slo_latency_seconds"`
	// The workload at the start; cores and GiB of one pod.
	Replicas int32   `json:"start_replicas"`
	Cores    float64 `json:"start_cores"`
	GiB      float64 `json:"start_gib"`
	// Target has the bounds, for an object.
	Target mpa.Target `json:"-"`
}

// AppOf describes an application.
func AppOf(a *sim.App) App {
	return App{
		Name: a.Name, Percentile: a.Target.SLO.Percentile, Latency: a.Target.SLO.Latency,
		Replicas: a.Replicas, Cores: float64(a.Request.CPU) / 1000, GiB: float64(a.Request.Memory) / (1 << 30),
		Target: a.Target,
	}
}

// A Trace is the load: a file, or a synthetic family.
type Trace struct {
	Name   string `json:"name"`
	Digest string `json:"digest,omitempty"` // of the file
	// Parameters of a family that were given.
	Parameters map[string]string `json:"parameters,omitempty"`
	Seed       uint64            `json:"seed,omitempty"` // of a family
	// Skip is left out at the beginning, Hours are simulated then, and Warmup of these
	// does not count.
	Skip   float64 `json:"skip_hours"`
	Hours  float64 `json:"hours"`
	Warmup float64 `json:"warmup_hours"`
	// Rates of the steps of the trace that count, in requests per second.
	Mean float64 `json:"mean_per_second"`
	Peak float64 `json:"peak_per_second"`
	// Scale is the factor of all rates.
	Scale float64 `json:"scale"`
	// Filled is the number of steps without requests that were filled.
	Filled int `json:"filled_steps,omitempty"`
}

// An Agent is one autoscaler with its runs.
type Agent struct {
	Name string `json:"agent"`
	Runs []Run  `json:"runs"`
	// Mean of the measures over the runs, by name; Half of the 95 % interval for several
	// runs.
	Mean map[string]Estimate `json:"mean"`
	// GapClosed is the share of the gap in cost between hpa+vpa and the oracle that the
	// agent closes. It is absent without these two, if the oracle costs no less or breaks
	// the promise, and for agents that save by breaking the promise more often than
	// hpa+vpa.
	GapClosed *float64 `json:"gap_closed,omitempty"`

	// Minutes of the first run, for plots, and of all runs, for bands.
	Minutes []sim.Minute   `json:"-"`
	all     [][]sim.Minute // by run
}

// A Run is a simulation.
type Run struct {
	Seed uint64
	sim.Result
}

// An Estimate of a mean from few runs.
type Estimate = sheet.Estimate

// The agents that the others are compared with.
const (
	Baseline = "hpa+vpa"
	Limit    = "oracle"
)

// A measure is a figure of a run.
type measure struct {
	name, head, about string
	digits            int  // after the point at most, in a table
	fixed             bool // not fewer where figures are large
	value             func(r *sim.Result) float64
}

// answered are measures of the JSON alone: percentiles that count no lost request.
var answered = []measure{
	{name: "p50_ms", value: func(r *sim.Result) float64 { return 1000 * r.P50 }},
	{name: "p95_ms", value: func(r *sim.Result) float64 { return 1000 * r.P95 }},
	{name: "p99_ms", value: func(r *sim.Result) float64 { return 1000 * r.P99 }},
}

// measures, in the order of the tables.
var measures = []measure{
	{"cost", "cost", fmt.Sprintf("core-hours and GiB-hours asked for, %d GiB-hours as one core-hour", sim.GiBPerCore), 2, false, (*sim.Result).Cost},
	{"core_hours", "core-h", "core-hours that the pods asked for", 2, false, func(r *sim.Result) float64 { return r.CoreHours }},
	{"gib_hours", "GiB-h", "GiB-hours of memory that they asked for", 2, false, func(r *sim.Result) float64 { return r.GiBHours }},
	{"cpu_percent", "cpu %", "share of the cores asked for that was used", 1, false, func(r *sim.Result) float64 { return 100 * r.CPUUtilisation }},
	{"memory_percent", "memory %", "the same of memory", 1, false, func(r *sim.Result) float64 { return 100 * r.MemUtilisation }},
	{"violating_percent", "violating %", "requests that were answered late or not at all", 3, true, func(r *sim.Result) float64 { return 100 * float64(r.Violations) / float64(r.Requests) }},
	{"violating_minutes", "minutes", "minutes in which the promised percentile was not kept", 0, false, func(r *sim.Result) float64 { return float64(r.ViolatingMinutes) }},
	{"p50_all_ms", "p50 ms", "median latency of all requests; a lost one takes for ever, so lost means that the percentile was never answered", 0, false, func(r *sim.Result) float64 { return 1000 * float64(r.AllP50) }},
	{"p95_all_ms", "p95 ms", "95th percentile of the same", 0, false, func(r *sim.Result) float64 { return 1000 * float64(r.AllP95) }},
	{"p99_all_ms", "p99 ms", "99th percentile of the same", 0, false, func(r *sim.Result) float64 { return 1000 * float64(r.AllP99) }},
	{"scalings_per_hour", "scalings/h", "changes of the number of replicas an hour", 2, false, func(r *sim.Result) float64 { return float64(r.ReplicaChanges) / r.Hours }},
	{"resizes_per_hour", "resizes/h", "changes of their size an hour", 2, false, func(r *sim.Result) float64 { return float64(r.RequestChanges) / r.Hours }},
	{"oom_kills", "kills", "containers that ran out of memory", 1, false, func(r *sim.Result) float64 { return float64(r.Kills) }},
}

// New compares. results are by agent, in order, and then by seed; so are minutes.
func New(app App, trace Trace, seeds []uint64, names []string, results [][]sim.Result, minutes [][][]sim.Minute) *Comparison {
	c := &Comparison{App: app, Trace: trace, Seeds: seeds}
	for i, name := range names {
		a := Agent{Name: name, Mean: map[string]Estimate{}, Minutes: minutes[i][0], all: minutes[i]}
		for k, r := range results[i] {
			a.Runs = append(a.Runs, Run{seeds[k], r})
		}
		for _, m := range slices.Concat(measures, answered) {
			values := make([]float64, len(results[i]))
			for k := range results[i] {
				values[k] = m.value(&results[i][k])
			}
			a.Mean[m.name] = sheet.EstimateOf(values)
		}
		c.Agents = append(c.Agents, a)
	}
	base, limit := c.agent(Baseline), c.agent(Limit)
	if base == nil || limit == nil || !c.kept(limit) {
		return c
	}
	if gap := base.cost() - limit.cost(); gap > 0 {
		for i := range c.Agents {
			if a := &c.Agents[i]; c.acceptable(a) {
				share := (base.cost() - a.cost()) / gap
				a.GapClosed = &share
			}
		}
	}
	return c
}

func (c *Comparison) agent(name string) *Agent {
	for i := range c.Agents {
		if c.Agents[i].Name == name {
			return &c.Agents[i]
		}
	}
	return nil
}

func (a *Agent) cost() float64      { return a.Mean["cost"].Mean }
func (a *Agent) violating() float64 { return a.Mean["violating_percent"].Mean }

// texts returns the cells of a measure, by agent; NaN is a hyphen.
func (c *Comparison) texts(m *measure) []string {
	var values []float64
	for i := range c.Agents {
		if e := c.Agents[i].Mean[m.name]; !math.IsInf(e.Mean, 0) {
			values = append(values, e.Mean, e.Half)
		}
	}
	digits := m.digits
	if !m.fixed {
		digits = sheet.Decimals(digits, values)
	}
	texts := make([]string, len(c.Agents))
	for i := range c.Agents {
		e := c.Agents[i].Mean[m.name]
		if math.IsInf(e.Mean, 0) {
			texts[i] = c.Agents[i].lostText(m)
			continue
		}
		texts[i] = sheet.Figure(e.Mean, digits, false)
		if len(c.Seeds) > 1 && !math.IsNaN(e.Mean) {
			texts[i] += " ±" + sheet.Figure(e.Half, digits, false)
		}
	}
	return texts
}

// table has a line for each agent. Figures over the promise are marked.
func (c *Comparison) table() sheet.Table {
	t := sheet.Table{Align: sheet.Right, Stacked: len(c.Seeds) > 1, Caption: "One line an agent" + c.overSeeds() + "; ▲ and red: over the promise"}
	var names []string
	for i := range c.Agents {
		names = append(names, c.Agents[i].Name)
	}
	t.AddColumn(sheet.Column{Head: "agent", About: "autoscaler", Words: true}, names)
	for i := range measures {
		m := &measures[i]
		t.AddColumn(sheet.Column{Head: m.head, About: m.about}, c.texts(m))
		for k := range c.Agents {
			if over := c.over(&c.Agents[k], m); over != "" {
				t.Rows[k].Mark(i+1, over)
			}
		}
	}
	if base := c.agent(Baseline); base != nil && base.GapClosed != nil {
		var cells []string
		for i := range c.Agents {
			cells = append(cells, gapText(c.Agents[i].GapClosed))
		}
		t.AddColumn(sheet.Column{Head: "gap %", About: gapAbout}, cells)
	}
	return t
}

const gapAbout = "share of the gap in cost between hpa+vpa and the oracle that is closed; not of agents that save by breaking the promise more often than hpa+vpa"

func gapText(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", 100**share)
}

// about describes the simulation in a line.
func (c *Comparison) about() string {
	first := &c.Agents[0].Runs[0]
	return fmt.Sprintf("%s on %s: %.3g hours, %d requests; %g %% of them within %g ms is promised",
		c.App.Name, c.Trace.Name, first.Hours, first.Requests, c.App.Percentile, 1000*c.App.Latency)
}

// MarshalJSON adds the seed and the cost, and writes null for percentiles of no values.
func (r Run) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Seed uint64       `json:"seed"`
		Cost sheet.Number `json:"cost"`
		sim.Result
		P50            sheet.Number `json:"p50_seconds"`
		P95            sheet.Number `json:"p95_seconds"`
		P99            sheet.Number `json:"p99_seconds"`
		CPUUtilisation sheet.Number `json:"cpu_utilisation"`
		MemUtilisation sheet.Number `json:"memory_utilisation"`
	}{r.Seed, sheet.Number(r.Cost()), r.Result, sheet.Number(r.P50), sheet.Number(r.P95), sheet.Number(r.P99), sheet.Number(r.CPUUtilisation), sheet.Number(r.MemUtilisation)})
}

// kept reports whether all of an agent's runs together keep the promise.
func (c *Comparison) kept(a *Agent) bool {
	var sum sim.Result
	for i := range a.Runs {
		sum.Requests += a.Runs[i].Requests
		sum.Violations += a.Runs[i].Violations
	}
	return sum.Kept(c.slo())
}

// acceptable reports whether an agent keeps the promise, or breaks it no more often than
// hpa+vpa does.
func (c *Comparison) acceptable(a *Agent) bool {
	base := c.agent(Baseline)
	return c.kept(a) || base != nil && a.violating() <= base.violating()
}

// same reports whether two agents gave the same results in every run.
func (a *Agent) same(o *Agent) bool {
	return slices.EqualFunc(a.Runs, o.Runs, func(x, y Run) bool {
		return x.Cost() == y.Cost() && x.Requests == y.Requests && x.Violations == y.Violations && x.P99 == y.P99
	})
}

// like returns the agents with the same results as one, itself included; hpa+vpa first.
func (c *Comparison) like(a *Agent) []*Agent {
	var list []*Agent
	for i := range c.Agents {
		switch o := &c.Agents[i]; {
		case o != a && !o.same(a):
		case o.Name == Baseline:
			list = slices.Insert(list, 0, o)
		default:
			list = append(list, o)
		}
	}
	return list
}

func namesOf(list []*Agent) string {
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	return strings.Join(names, ", ")
}

// groupName returns a short name for agents with the same results.
func groupName(list []*Agent) string {
	if len(list) == 1 {
		return list[0].Name
	}
	return fmt.Sprintf("%s and %d more", list[0].Name, len(list)-1)
}
