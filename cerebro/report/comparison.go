package report

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// A Comparison has the results of several policies on one trace. Its JSON form is the
// output of `sigma compare --format json`.
type Comparison struct {
	Trace   Trace    `json:"trace"`
	Bound   Bound    `json:"bound"`
	Results []Result `json:"results"` // the present placement first, then by unplaced items, then cost
}

// A Trace describes the replayed trace. Fields without a JSON name appear only in tables
// and pages.
type Trace struct {
	Name       string   `json:"name"`
	Digest     Digest   `json:"digest"`
	Items      int      `json:"items"`
	Apps       int      `json:"apps"`
	Dimensions []string `json:"dimensions"`
	Fleet      string   `json:"fleet"`             // "open" or "fixed"
	Ignored    int      `json:"ignored,omitempty"` // items with constraints that no figure counts
	NoPlace    *NoPlace `json:"no_place,omitempty"`

	Again    int       `json:"-"` // items that must not move and that policies place again
	Machines int       `json:"-"` // in the fleet; negative = without limit
	Mixed    bool      `json:"-"` // machines differ in cost
	Currency string    `json:"-"` // that costs are in, an hour; "" = they are no money
	Seconds  float64   `json:"-"` // from the first to the last moment that counts
	Deletes  bool      `json:"-"` // items also leave: costs are integrals over time
	Seed     uint64    `json:"-"` // of the shuffled orders
	Orders   int       `json:"-"` // shuffled orders, N
	Retry    bool      `json:"-"` // items may wait, so that no bound holds: the measure is the time waited
	Moving   bool      `json:"-"` // the replay may move items
	Cluster  bool      `json:"-"` // of a real cluster
	Zones    bool      `json:"-"` // all machines name a zone
	Standing bool      `json:"-"` // no time passes, as in a snapshot: there is nothing to learn from
	Forecast *Forecast `json:"-"` // nil = the trace has no forecast
	Unseen   string    `json:"-"` // shares of use that the trace leaves out
	ByUse    bool      `json:"-"` // items count at their use
	Beside   bool      `json:"-"` // by use: the other of two traces is the same cluster by request, in the same orders
}

// Digest holds the two digests of a trace.
type Digest struct {
	Instance string `json:"instance"`
	Trace    string `json:"trace"`
}

// A Bound is a lower bound that no scheduler can beat. Without a method there is no bound,
// and its JSON form has null for each value.
type Bound struct {
	Machines       int     `json:"machines"`
	Cost           float64 `json:"cost"`
	MachineSeconds float64 `json:"machine_seconds"`
	CostSeconds    float64 `json:"cost_seconds"`
	Method         string  `json:"method"`
	// Optimal is the proven least cost (machines, when all cost 1); nil without a
	// proof.
	Optimal *float64 `json:"optimal,omitempty"`
	// Steps are the bound in machines over time, of the first order that counts.
	Steps []Step `json:"-"`
}

// MarshalJSON implements [json.Marshaler].
func (b Bound) MarshalJSON() ([]byte, error) {
	if b.Method == "" {
		return []byte(`{"machines": null, "cost": null, "machine_seconds": null, "cost_seconds": null, "method": null}`), nil
	}
	type plain Bound
	return json.Marshal(plain(b))
}

// A Step is a value from a time in seconds to the next step.
type Step = sheet.Point

// A Result is one policy's runs on one trace. Statistics are over the shuffled
// orders 1…N, or over order 0 without shuffled ones.
type Result struct {
	Policy    string `json:"policy"`
	Digest    string `json:"digest"`
	Knowledge string `json:"knowledge"`
	Exposure  string `json:"exposure"`
	Runs      []Run  `json:"runs"` // by order

	MeanMachines  float64 `json:"mean_machines"`
	MinMachines   int     `json:"min_machines"`
	MaxMachines   int     `json:"max_machines"`
	RangeMachines int     `json:"range_machines"`
	// GapToBound is mean cost ÷ bound − 1, of cost-seconds when items also
	// leave; nil when an item was unplaced or there is no bound.
	GapToBound *float64 `json:"gap_to_bound"`
	Saving     Saving   `json:"saving"`
	// SavingFromCurrent is the same against the recorded placement; nil where that is not compared.
	SavingFromCurrent *Saving `json:"saving_from_current,omitempty"`

	// Over is [Use.OverPercent] in the mean of the orders, or of the days where one order was judged; nil where fewer
	// than two were.
	Over map[string]*Interval `json:"over_capacity_percent,omitempty"`

	// Care is nil where the apps prefer nothing, or the policy ignores it, and no share of an app
	// counts.
	Care *Care `json:"care,omitempty"`
	// Uplinks is nil where the trace has no dimension egress.
	Uplinks *Uplinks `json:"uplinks,omitempty"`

	Layout *Layout `json:"-"` // after one of the runs, if requested

	noPlace int // items of [NoPlace]
}

// A Run is a [cerebro.Run] with its dimensions by name.
type Run struct {
	Order              int                `json:"order"`
	Machines           int                `json:"machines"`
	PeakMachines       int                `json:"peak_machines"`
	Cost               float64            `json:"cost"`
	MachineSeconds     float64            `json:"machine_seconds"`
	CostSeconds        float64            `json:"cost_seconds"`
	AllocationRate     map[string]float64 `json:"allocation_rate"`
	MeanAllocationRate map[string]float64 `json:"mean_allocation_rate"`
	Fragment           float64            `json:"fragment"`
	Balance            float64            `json:"balance"`
	Spread             float64            `json:"spread"`
	Placed             int                `json:"placed"`
	Unplaced           int                `json:"unplaced"`
	Stayed             int                `json:"stayed,omitempty"` // on their present machines, since the policy leaves them out
	Moves              int                `json:"moves"`            // of items from machine to machine
	AwaySeconds        float64            `json:"away_seconds"`
	Rejected           map[string]float64 `json:"rejected"`
	FirstRejection     float64            `json:"first_rejection"`
	MeanWaiting        *float64           `json:"mean_waiting_seconds,omitempty"` // nil = items do not wait
	LongestWaiting     *float64           `json:"longest_waiting_seconds,omitempty"`
	Violations         int                `json:"violations"`
	Seconds            float64            `json:"seconds"`
	Use                *Use               `json:"use,omitempty"` // nil = not judged by usage

	Fallbacks map[string]int   `json:"-"` // items the policy did not decide, by cause
	Series    []cerebro.Sample `json:"-"` // machines over time, if requested
}

// PolicyRuns are the runs of one policy on a trace.
type PolicyRuns struct {
	Policy    string // as given on the command line
	Digest    string // of a policy file; empty for built-ins
	Knowledge string // "K0" … "K2"
	Exposure  string // "held out", "same instance, other orders", "trained on"; empty for built-ins
	Runs      []cerebro.Run
	Layout    *Layout // after one of the runs; nil = not kept
	Ignoring  *Ignoring
	Uplinks   *UplinkRuns // nil where the trace has no dimension egress
}

// A Forecast is the quality of a trace's expected counts, which policies of knowledge K1
// read.
type Forecast struct {
	Ratio    float64 // Σ expected ÷ Σ true
	AppError float64 // mean over apps of |expected − true| ÷ true
}

// NewForecast compares the expected with the true number of items per app. A negative
// number means no expectation; without any the result is nil.
func NewForecast(expected []float64, truth []int64) *Forecast {
	sumExpected, sumTrue, sumError, apps := 0.0, 0.0, 0.0, 0
	for a, e := range expected {
		if e < 0 {
			continue
		}
		t := float64(truth[a])
		sumExpected += e
		sumTrue += t
		if t > 0 {
			sumError += math.Abs(e-t) / t
			apps++
		}
	}
	if apps == 0 {
		return nil
	}
	return &Forecast{Ratio: sumExpected / sumTrue, AppError: sumError / float64(apps)}
}

// Build compares policies on one trace. All floats are rounded to six digits
// after the point.
func Build(trace Trace, bound Bound, policies []PolicyRuns) Comparison {
	if trace.Dimensions == nil {
		trace.Dimensions = []string{}
	}
	c := Comparison{Trace: trace, Bound: bound, Results: []Result{}}
	for _, p := range policies {
		c.Results = append(c.Results, newResult(&c, p))
	}
	slices.SortStableFunc(c.Results, func(a, b Result) int {
		return cmp.Or(
			presentFirst(a.Policy, b.Policy),
			cmp.Compare(meanOf(a.counted(), unplaced), meanOf(b.counted(), unplaced)),
			cmp.Compare(meanOf(a.counted(), c.cost), meanOf(b.counted(), c.cost)),
			cmp.Compare(a.Policy, b.Policy),
			cmp.Compare(a.Knowledge, b.Knowledge),
		)
	})
	c.setSavings()
	return c
}

// presentFirst moves the present placement, if it is among the policies, to the top.
func presentFirst(a, b string) int {
	return cmp.Compare(b2i(b == "current"), b2i(a == "current"))
}

// Violations counts the constraints that the runs broke; it must be 0.
func Violations(comparisons []Comparison) int {
	n := 0
	for _, c := range comparisons {
		for _, r := range c.Results {
			for _, run := range r.Runs {
				n += run.Violations
			}
		}
	}
	return n
}

func newResult(c *Comparison, p PolicyRuns) Result {
	r := Result{Policy: p.Policy, Digest: p.Digest, Knowledge: p.Knowledge, Exposure: p.Exposure, Runs: []Run{}, Layout: p.Layout, noPlace: c.Trace.NoPlace.count()}
	for _, run := range p.Runs {
		r.Runs = append(r.Runs, newRun(&c.Trace, run))
	}
	slices.SortStableFunc(r.Runs, func(a, b Run) int { return cmp.Compare(a.Order, b.Order) })
	counted := r.counted()
	if len(counted) == 0 {
		return r
	}
	r.MinMachines = counted[0].Machines
	for _, run := range counted {
		r.MinMachines = min(r.MinMachines, run.Machines)
		r.MaxMachines = max(r.MaxMachines, run.Machines)
	}
	r.RangeMachines = r.MaxMachines - r.MinMachines
	r.MeanMachines = round(meanOf(counted, machines))
	if bound := c.boundCost(); bound > 0 && !c.Trace.Retry && meanOf(counted, unplaced) == 0 {
		gap := round(meanOf(counted, c.cost)/bound - 1)
		r.GapToBound = &gap
	}
	r.setOver()
	r.Care = c.careOf(p.Ignoring, counted)
	if p.Uplinks != nil {
		r.Uplinks = c.uplinksOf(p.Uplinks, counted)
	}
	return r
}

func newRun(t *Trace, run cerebro.Run) Run {
	dimensions := t.Dimensions
	r := Run{
		Order:              run.Order,
		Machines:           run.Machines,
		PeakMachines:       run.PeakMachines,
		Cost:               round(run.Cost),
		MachineSeconds:     round(run.MachineSeconds),
		CostSeconds:        round(run.CostSeconds),
		AllocationRate:     byName(dimensions, run.AllocationRate),
		MeanAllocationRate: byName(dimensions, run.MeanAllocationRate),
		Fragment:           round(run.Fragment),
		Balance:            round(run.Balance),
		Spread:             round(run.Spread),
		Placed:             run.Placed,
		Unplaced:           run.Unplaced,
		Stayed:             run.Stayed,
		Moves:              run.Moves,
		AwaySeconds:        round(run.AwaySeconds),
		Rejected:           byName(dimensions, run.Rejected),
		FirstRejection:     round(run.FirstRejection),
		Violations:         run.Violations,
		Seconds:            round(run.Seconds),
		Fallbacks:          run.Fallbacks,
		Series:             run.Series,
		Use:                useOf(t, run.Use),
	}
	if t.Retry {
		mean, longest := round(run.MeanWaiting), round(run.LongestWaiting)
		r.MeanWaiting, r.LongestWaiting = &mean, &longest
	}
	return r
}

// byName keys values by dimension. Every dimension has a key.
func byName(dimensions []string, values []float64) map[string]float64 {
	m := make(map[string]float64, len(dimensions))
	for d, name := range dimensions {
		m[name] = 0
		if d < len(values) {
			m[name] = round(values[d])
		}
	}
	return m
}

// counted lists the runs that count in statistics.
func (r *Result) counted() []Run {
	for i, run := range r.Runs {
		if run.Order > 0 {
			return r.Runs[i:]
		}
	}
	return r.Runs
}

// cost is the cost of a run for gaps and ranks.
func (c *Comparison) cost(run Run) float64 {
	if c.Trace.Deletes {
		return run.CostSeconds
	}
	return run.Cost
}

// need is a run's amount of the quantity that [Comparison.limit] bounds.
func (c *Comparison) need(run Run) float64 {
	if c.Trace.Mixed || c.Trace.Deletes {
		return c.cost(run)
	}
	return machines(run)
}

func (c *Comparison) boundCost() float64 {
	if c.Trace.Deletes {
		return c.bound().CostSeconds
	}
	return c.bound().Cost
}

// bound is that of the items that are compared.
func (c *Comparison) bound() *Bound {
	if c.Trace.NoPlace != nil {
		return &c.Trace.NoPlace.Bound
	}
	return &c.Bound
}

func machines(run Run) float64 { return float64(run.Machines) }
func unplaced(run Run) float64 { return float64(run.Unplaced) }
func moved(run Run) float64    { return float64(run.Moves) }
func away(run Run) float64     { return run.AwaySeconds / 3600 }
func waiting(run Run) float64  { return seconds(run.MeanWaiting) }

// seconds is 0 for nil.
func seconds(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// leavesOut counts the items without a machine of which others may have a place.
func (r *Result) leavesOut() float64 {
	return max(0, meanOf(r.counted(), unplaced)-float64(r.noPlace))
}

// meanOf is the mean over runs, 0 without any.
func meanOf(runs []Run, value func(Run) float64) float64 {
	sum := 0.0
	for _, run := range runs {
		sum += value(run)
	}
	return sum / math.Max(1, float64(len(runs)))
}

// round keeps six digits after the point: enough to compute with, without the last bits,
// which differ between architectures.
func round(v float64) float64 {
	const digits = 1e6
	if math.Abs(v) > 1e9 { // it has no digits below a millionth
		return v
	}
	return math.Round(v*digits) / digits
}
