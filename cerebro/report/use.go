package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// Use is a replay beside the measured use of its items, by usage.csv.gz: the risk of its
// number of machines. Maps are by dimension.
type Use struct {
	NodeHours    float64            `json:"node_hours"` // of machines that hold an item, as far as there is usage
	MeanMachines float64            `json:"mean_machines"`
	MostMachines int                `json:"most_machines"`
	OverPercent  map[string]float64 `json:"over_capacity_percent"` // share of the node-time with more used than there is
	// Interval is that of OverPercent, of Of: the days of one replay, or several orders. It is
	// nil where there are fewer than two.
	Interval map[string]*Interval `json:"over_capacity_interval,omitempty"`
	Of       string               `json:"interval_of,omitempty"`
	Worst    map[string]float64   `json:"worst"` // largest use ÷ capacity of a machine
	// CoveredPercent is the share of the items' time with samples. JudgedPercent is the share of the node-time in which
	// the items with samples have half of the demand on the machine, or more, or exceed its capacity alone: OverPercent and
	// Worst are of that time, in which the other items count as those with samples (see [cerebro.Use]). A dimension with less than [LeastJudged] has neither, but a part of
	// NotKnown.
	CoveredPercent map[string]float64 `json:"covered_percent"`
	JudgedPercent  map[string]float64 `json:"judged_percent"`
	NotKnown       string             `json:"not_known,omitempty"`
	// NotJudged are the resources of the trace without any series of use. Unseen has the shares of use that the trace
	// leaves out by its source, such as of pods that are gone.
	NotJudged []string  `json:"not_judged,omitempty"`
	Unseen    string    `json:"unseen,omitempty"`
	Nodes     []NodeUse `json:"nodes"` // those above capacity at some time, worst first
	// MovesByUse were made at night because sizes had changed, or by day because a machine
	// was above capacity.
	MovesByUse  *MovesByUse `json:"moves_by_use,omitempty"`
	StepSeconds float64     `json:"step_seconds"`
}

// LeastJudged is the percentage of the node-time that a risk needs.
const LeastJudged = 75

// A NodeUse is one machine.
type NodeUse struct {
	Machine     string             `json:"machine"`
	Hours       float64            `json:"hours"`
	OverPercent map[string]float64 `json:"over_capacity_percent"`
	Worst       map[string]float64 `json:"worst"`
}

// MovesByUse are the moves of nights and of machines above capacity.
type MovesByUse struct {
	Nights    int     `json:"nights"`
	AtOnce    int     `json:"at_once"`
	MostOfDay float64 `json:"most_of_day_percent"` // of the living items
	Allowed   int     `json:"most_allowed"`        // moves a day
}

// useOf returns nil without usage.
func useOf(head *Trace, u *cerebro.Use) *Use {
	if u == nil || u.NodeSeconds == 0 {
		return nil
	}
	out := &Use{
		NodeHours: round(u.NodeSeconds / 3600), MeanMachines: round(u.Mean()), MostMachines: u.Most, StepSeconds: u.Step,
		OverPercent: map[string]float64{}, Worst: map[string]float64{}, CoveredPercent: map[string]float64{}, JudgedPercent: map[string]float64{}, Nodes: []NodeUse{},
	}
	for i, d := range u.Dimensions {
		name := head.Dimensions[d.Dimension]
		out.CoveredPercent[name], out.JudgedPercent[name] = round(100*d.Covered/u.ItemSeconds), round(100*d.Judged/u.NodeSeconds)
		known := out.JudgedPercent[name] >= LeastJudged
		if known {
			out.OverPercent[name], out.Worst[name] = round(100*d.Over/d.Judged), round(d.Worst)
			out.setInterval(name, byDay(d.Days, d.JudgedDays), "day")
		}
		for k, n := range u.Nodes {
			if i == 0 {
				out.Nodes = append(out.Nodes, NodeUse{n.Machine, round(n.Seconds / 3600), map[string]float64{}, map[string]float64{}})
			}
			if known && n.Judged[i] > 0 {
				out.Nodes[k].OverPercent[name], out.Nodes[k].Worst[name] = round(100*n.Over[i]/n.Judged[i]), round(n.Worst[i])
			}
		}
	}
	for _, resource := range []string{"cpu", "memory"} {
		if _, judged := out.JudgedPercent[resource]; !judged && slices.Contains(head.Dimensions, resource) {
			out.NotJudged = append(out.NotJudged, resource)
		}
	}
	out.Unseen = head.Unseen
	out.setNotKnown()
	if u.Nightly {
		out.MovesByUse = &MovesByUse{u.Resized, u.Relieved, round(100 * u.MostMoved), u.Allowed}
	}
	return out
}

// setNotKnown explains the dimensions without a risk.
func (u *Use) setNotKnown() {
	var parts []string
	for _, d := range slices.Sorted(maps.Keys(u.JudgedPercent)) {
		if _, known := u.OverPercent[d]; !known {
			parts = append(parts, fmt.Sprintf("samples of %s judge %.1f %% of the node-time, and a risk needs %d %%", d, u.JudgedPercent[d], LeastJudged))
		}
	}
	u.NotKnown = strings.Join(parts, "; ")
}

// byDay are the percentages of the node-time above capacity, one a day, as terms with the mean of the whole time: where
// days have different node-times, that is the ratio estimator by its residuals. Days are batches of the time, as their
// samples depend on each other.
func byDay(over, node []float64) (terms []float64) {
	all, above, days := 0., 0., 0.
	for i, n := range node {
		if n > 0 {
			all, above, days = all+n, above+over[i], days+1
		}
	}
	for i, n := range node {
		if n > 0 {
			terms = append(terms, 100*(above/all+(over[i]-n*above/all)*days/all))
		}
	}
	return terms
}

// setInterval sets the interval of a dimension by its terms of days or of orders.
func (u *Use) setInterval(dimension string, terms []float64, of string) {
	if len(terms) < 2 {
		return
	}
	if u.Interval == nil {
		u.Interval = map[string]*Interval{}
	}
	u.Interval[dimension], u.Of = intervalOf(terms), plural.Of(len(terms), of)
	u.Interval[dimension].scale(1) // it rounds
}

// UseOf is the use of one run; nil without usage.
func UseOf(t Trace, run cerebro.Run) *Use { return useOf(&t, run.Use) }

// MeanUse joins the use of replays, such as those "order"s: means with their intervals, and the worst of all. Of one
// it is that one, and nil of none. It has no nodes and no moves of several.
func MeanUse(list []*Use, of string) *Use {
	if len(list) < 2 {
		return slices.Concat(list, []*Use{nil})[0]
	}
	out := &Use{StepSeconds: list[0].StepSeconds, NotJudged: list[0].NotJudged, Unseen: list[0].Unseen, OverPercent: map[string]float64{}, Worst: map[string]float64{}, CoveredPercent: map[string]float64{}, JudgedPercent: map[string]float64{}, Nodes: []NodeUse{}}
	mean := func(part func(*Use) float64) (v float64) {
		for _, u := range list {
			v += part(u) / float64(len(list))
		}
		return v
	}
	out.NodeHours, out.MeanMachines = mean(func(u *Use) float64 { return u.NodeHours }), mean(func(u *Use) float64 { return u.MeanMachines })
	for _, u := range list {
		out.MostMachines = max(out.MostMachines, u.MostMachines)
	}
	for d := range list[0].JudgedPercent {
		out.CoveredPercent[d], out.JudgedPercent[d] = mean(func(u *Use) float64 { return u.CoveredPercent[d] }), mean(func(u *Use) float64 { return u.JudgedPercent[d] })
		var over []float64
		worst := 0.
		for _, u := range list {
			if v, known := u.OverPercent[d]; known {
				over, worst = append(over, v), max(worst, u.Worst[d])
			}
		}
		if len(over) == len(list) {
			out.OverPercent[d], out.Worst[d] = mean(func(u *Use) float64 { return u.OverPercent[d] }), worst
			out.setInterval(d, over, of)
		}
	}
	out.setNotKnown()
	return out
}

// UseOfSameDays joins the use of replays of the same days, which are no independent draws: the interval is the mean of
// theirs over days.
func UseOfSameDays(list []*Use) *Use {
	out := MeanUse(list, "replay")
	if len(list) < 2 {
		return out
	}
	out.Interval, out.Of = nil, ""
	for d := range out.OverPercent {
		if slices.ContainsFunc(list, func(u *Use) bool { return u.Interval[d] == nil }) { // one is of one day
			continue
		}
		mean, n := &Interval{}, float64(len(list))
		for _, u := range list {
			one := u.Interval[d]
			mean.Mean, mean.Low, mean.High = mean.Mean+one.Mean/n, mean.Low+one.Low/n, mean.High+one.High/n
		}
		if out.Interval == nil {
			out.Interval, out.Of = map[string]*Interval{}, list[0].Of
		}
		out.Interval[d] = mean
	}
	return out
}

// Text is the risk in a sentence.
func (u *Use) Text() string {
	var parts []string
	for _, d := range slices.Sorted(maps.Keys(u.OverPercent)) {
		margin := ""
		if i := u.Interval[d]; i != nil {
			margin = fmt.Sprintf(" (± %.4f over %s)", i.half(), u.Of)
		}
		parts = append(parts, fmt.Sprintf("%s above capacity for %.4f %% of the node-time%s, at worst %.2f of it", d, u.OverPercent[d], margin, u.Worst[d]))
	}
	if u.NotKnown != "" {
		parts = append(parts, "not known: "+u.NotKnown)
	}
	return strings.Join(slices.Concat(parts, []string{u.covered()}, u.limits()), "; ")
}

// limits are the parts of the use that the risk is not of.
func (u *Use) limits() (parts []string) {
	if len(u.NotJudged) > 0 {
		parts = append(parts, strings.Join(u.NotJudged, " and ")+" not judged: the usage has no series of it")
	}
	if u.Unseen != "" {
		parts = append(parts, u.Unseen)
	}
	return parts
}

// covered is the least share of the items' time with samples of a dimension, with that of the judged node-time.
func (u *Use) covered() string {
	least := slices.MinFunc(slices.Sorted(maps.Keys(u.CoveredPercent)), func(a, b string) int { return cmp.Compare(u.CoveredPercent[a], u.CoveredPercent[b]) })
	return fmt.Sprintf("samples of %s cover %.1f %% of the items' time and judge %.1f %% of the node-time", least, u.CoveredPercent[least], u.JudgedPercent[least])
}

// used are the counted runs that were judged by usage; where series are of times that
// other orders change, that is the order of the file.
func (r *Result) used() []*Use {
	var list []*Use
	for _, runs := range [][]Run{r.counted(), r.Runs} {
		for _, run := range runs {
			if run.Use != nil {
				list = append(list, run.Use)
			}
		}
		if list != nil {
			break
		}
	}
	return list
}

// setOver finds the intervals of the over-capacity shares over the judged orders, or over the days of one.
func (r *Result) setOver() {
	if u := MeanUse(r.used(), "order"); u != nil {
		r.Over = u.Interval
	}
}

// setUse joins the judged runs of an outcome.
func (o *outcome) setUse() {
	if u := MeanUse(o.result.used(), "order"); u != nil {
		o.over, o.worst = u.OverPercent, u.Worst
	}
}

// overOf and worstOf are the values of columns: nothing where a dimension is not judged.
func overOf(dimension string) func(o *outcome) float64 {
	return func(o *outcome) float64 { return valueOr(o.over, dimension) }
}

// marginOf is half the interval of overOf; nothing where one order of less than two days was judged.
func marginOf(dimension string) func(o *outcome) float64 {
	return func(o *outcome) float64 {
		if i := o.result.Over[dimension]; i != nil {
			return i.half()
		}
		return nothing
	}
}

func worstOf(dimension string) func(o *outcome) float64 {
	return func(o *outcome) float64 { return valueOr(o.worst, dimension) }
}

func valueOr(m map[string]float64, key string) float64 {
	if v, ok := m[key]; ok {
		return v
	}
	return nothing
}

// fullyCovered is the percentage of the items' time with samples below which a note has it.
const fullyCovered = 99.5

// UseNotes are a line for each policy whose machines were above capacity, with the worst of them.
func UseNotes(comparisons []Comparison) (notes []string) {
	for i := range comparisons {
		for k := range comparisons[i].Results {
			r := &comparisons[i].Results[k]
			list := r.used()
			if list == nil {
				continue
			}
			if k == 0 && slices.Min(slices.Collect(maps.Values(list[0].CoveredPercent))) < fullyCovered {
				notes = append(notes, fmt.Sprintf("%s: %s; in that, items without a sample count as those beside them", comparisons[i].Trace.Name, list[0].covered()))
			}
			if limits := list[0].limits(); k == 0 && len(limits) > 0 {
				notes = append(notes, strings.TrimSuffix(comparisons[i].Trace.Name, " by use")+" by use: "+strings.Join(limits, "; "))
			}
			if list[0].NotKnown != "" {
				notes = append(notes, fmt.Sprintf("%s under %s: the risk is not known: %s", comparisons[i].Trace.Name, r.Policy, list[0].NotKnown))
			}
			if len(list[0].Nodes) == 0 {
				continue
			}
			n := &list[0].Nodes[0]
			var parts []string
			for _, d := range slices.Sorted(maps.Keys(n.OverPercent)) {
				parts = append(parts, fmt.Sprintf("%s for %s %% of its time, at worst %.2f of it", d, sheet.Figure(n.OverPercent[d], 4, false), n.Worst[d]))
			}
			notes = append(notes, fmt.Sprintf("%s under %s: %d of the machines were above capacity; %s most: %s",
				comparisons[i].Trace.Name, r.Policy, len(list[0].Nodes), n.Machine, strings.Join(parts, ", ")))
		}
	}
	return notes
}
