package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// A claim holds the figures of a one-sentence summary: the needs of the policies, by name.
type claim struct {
	unit     string // "machines"
	rejects  string // dimension, when items were left out: values are shares of its demand
	ratio    bool   // values are multiples of the bound
	waits    bool   // values are mean seconds of waiting
	limit    float64
	optimal  bool
	current  *claimed
	baseline *claimed
	subject  *claimed
	best     *claimed // if it is neither of the two and needs less than the subject
	suffix   string
}

type claimed struct {
	result  *Result
	name    string
	value   float64
	left    float64 // items left out, mean over orders
	learned bool
}

// Summary is one sentence on all comparisons: the need of Best-Fit, that of the learned
// (or else the best) policy, and the limit.
func Summary(comparisons []Comparison) string {
	if len(comparisons) == 0 {
		return "Nothing was compared."
	}
	if Mixed(comparisons) {
		return mixedSummary(comparisons)
	}
	k := claimOf(comparisons)
	return k.String() + k.money(comparisons)
}

func claimOf(comparisons []Comparison) claim {
	if len(comparisons) == 1 {
		return comparisons[0].claim()
	}
	return claimOfMany(comparisons)
}

// Summary is one sentence on the comparison.
func (c *Comparison) Summary() string {
	k := c.claim()
	return k.String() + k.money([]Comparison{*c})
}

func (c *Comparison) claim() claim {
	list := c.outcomes()
	value := func(o outcome) float64 { return meanOf(o.result.counted(), c.need) }
	k := claim{unit: "machines", suffix: caveatsOf([]Comparison{*c})}
	k.limit, k.optimal = c.limit()
	switch {
	case c.policiesLeaveOut() && len(c.Trace.Dimensions) > 0:
		k.rejects = c.Trace.Dimensions[0]
		value = func(o outcome) float64 { return o.rejected }
	case c.Trace.Retry:
		k.waits, value = true, func(o outcome) float64 { return o.waiting }
	case c.Trace.Deletes && !(c.boundCost() > 0): // nothing to compare with
		k.unit = "cost-seconds"
	case c.Trace.Deletes:
		k.ratio, k.unit = true, "machine-seconds"
		if c.Trace.Mixed {
			k.unit = "cost"
		}
		value = func(o outcome) float64 { return o.gap + 1 }
	case c.Trace.Mixed:
		k.unit = "cost"
	}
	k.choose(len(list), func(i int) (*Result, float64, float64) {
		return list[i].result, value(list[i]), list[i].result.leavesOut()
	})
	return k
}

func claimOfMany(comparisons []Comparison) claim {
	rows := aggregate(comparisons)
	k := claim{unit: "machines", optimal: true, suffix: fmt.Sprintf(" (means over %d traces)", len(comparisons))}
	leavesOut, deletes, differ := false, false, false
	caveats := caveatsOf(comparisons)
	for i := range comparisons {
		c := &comparisons[i]
		leavesOut = leavesOut || c.leavesOut()
		deletes = deletes || c.Trace.Deletes
		differ = differ || c.Trace.Mixed
		limit, optimal := c.limit()
		k.limit += limit / float64(len(comparisons))
		k.optimal = k.optimal && optimal
	}
	head, add := machinesHead, 0.
	switch {
	case leavesOut:
		k.rejects = "demand"
		if d := comparisons[0].Trace.Dimensions; len(d) > 0 {
			k.rejects = d[0]
		}
		head = rejectedHead
	case comparisons[0].Trace.Retry:
		k.waits, head = true, waitHead
	case deletes, differ:
		// Sums over traces of different length or price have no meaning.
		k.ratio, k.unit = true, "cost"
		head, add = gapHead, 1
	}
	// Means over different traces do not compare.
	rows = slices.DeleteFunc(rows, func(r aggregated) bool { return len(r.outcomes) < len(comparisons) })
	if len(rows) == 0 {
		k.suffix = fmt.Sprintf(" on all %d traces", len(comparisons)) + caveats
		return k
	}
	k.suffix += caveats
	k.choose(len(rows), func(i int) (*Result, float64, float64) {
		return &rows[i].like, rows[i].mean(head) + add, rows[i].mean(unplacedHead)
	})
	return k
}

// choose picks the present placement, Best-Fit and the subject of the sentence from
// results, best first: the subject is the first learned policy, else the best one. The
// sentence also names a better one. A nearly offline result is never the subject.
func (k *claim) choose(n int, at func(i int) (r *Result, value, left float64)) {
	for i := range n {
		r, v, left := at(i)
		switch {
		case offline(r) == 1:
		case r.Policy == "current" && k.current == nil:
			k.current = &claimed{result: r, name: presentName(r), value: v, left: left}
		case (r.Policy == bestFitNames[0] || r.Policy == bestFitNames[1]) && k.baseline == nil:
			k.baseline = &claimed{result: r, name: r.Policy, value: v, left: left}
		case k.subject == nil || learned(r) && !k.subject.learned:
			if k.subject != nil && k.best == nil {
				k.best = k.subject
			}
			k.subject = &claimed{r, nameOf(r), v, left, learned(r)}
		}
	}
	if k.best != nil && !(k.best.value < k.subject.value) {
		k.best = nil
	}
	if k.current != nil && math.IsNaN(k.current.value) {
		k.current = nil // waiting items have no cost
	}
	if k.baseline == nil {
		k.baseline, k.current = k.current, nil
	}
	if k.baseline == nil {
		k.baseline, k.subject = k.subject, nil
	}
}

// presentName names the present placement, with the share of the demand that waits.
func presentName(r *Result) string {
	switch waits := r.leavesOut(); {
	case !(waits > 0):
		return "the present placement"
	case waits == 1:
		return "the present placement, in which 1 item waits,"
	default:
		return "the present placement, in which " + sheet.Short(waits) + " items wait,"
	}
}

// nameOf adds to a policy's name its knowledge beyond the past and whether it was trained
// on the trace: a claim must not hide either.
func nameOf(r *Result) string {
	var notes []string
	if r.Knowledge != "" && r.Knowledge != "K0" {
		notes = append(notes, r.Knowledge)
	}
	if r.Exposure != "" && r.Exposure != "held out" {
		notes = append(notes, r.Exposure)
	}
	if len(notes) == 0 {
		return r.Policy
	}
	return r.Policy + " (" + strings.Join(notes, ", ") + ")"
}

// String is the sentence.
func (k *claim) String() string {
	if k.baseline == nil {
		return "No policy was compared" + k.suffix + "."
	}
	var parts []string
	for _, c := range []*claimed{k.current, k.baseline, k.subject, k.best} {
		if c != nil {
			parts = append(parts, k.part(c, len(parts) == 0))
		}
	}
	s := strings.Join(parts, ", ")
	if k.rejects == "" && !k.waits && !k.ratio && k.limit > 0 {
		s += "; " + sheet.Short(k.limit) + " is the limit"
		if k.optimal {
			s = strings.TrimSuffix(s, "limit") + "optimum"
		}
	}
	against := k.baseline
	if k.best != nil && k.best.value < k.baseline.value {
		against = k.best // a claim compares with the best, not with the one that flatters
	}
	if k.subject != nil && !math.IsNaN(k.subject.value) && !math.IsNaN(against.value) {
		s += ": "
		difference := k.difference(against)
		switch {
		case k.current == nil && k.best == nil:
			s += difference
		case difference == same:
			s += difference + " from " + against.name
		default:
			s += k.subject.result.Policy + " " + k.verb() + " " + difference + " than " + against.name
		}
	}
	return s + k.suffix + "."
}

// part is the clause of one policy; the first has the verb and the unit.
func (k *claim) part(c *claimed, first bool) string {
	value := sheet.Short(c.value)
	switch {
	case k.rejects != "":
		value = sheet.Figure(100*c.value, sheet.Decimals(2, []float64{100 * c.value}), false) + " %"
		if first {
			return c.name + " " + k.verb() + " " + value + " of the " + k.rejects
		}
	case math.IsNaN(c.value):
		return c.name + " -"
	case k.waits:
		value += " s"
		if first {
			return c.name + " " + k.verb() + " " + value
		}
	case k.ratio:
		value = sheet.Figure(c.value, 3, false)
		if first {
			return c.name + " " + k.verb() + " " + value + " times the " + k.unit + " of the bound"
		}
	case first && k.unit == "cost":
		return c.name + " " + k.verb() + " " + value
	case first && value == "1":
		return c.name + " " + k.verb() + " 1 " + strings.TrimSuffix(k.unit, "s")
	case first:
		return c.name + " " + k.verb() + " " + value + " " + k.unit
	}
	return c.name + " " + value
}

// verb is the verb between a policy and the figure of the claim.
func (k *claim) verb() string {
	switch {
	case k.rejects != "":
		return "leaves out"
	case k.waits:
		return "lets an item wait"
	case k.ratio:
		return "takes"
	case k.unit == "cost":
		return "costs"
	}
	return "needs"
}

// same is the difference of equal figures.
const same = "no difference"

// difference is the subject's need compared with another policy's.
func (k *claim) difference(against *claimed) string {
	less, more := "less", "more"
	if k.unit != "cost" && k.rejects == "" && !k.waits {
		less = "fewer"
	}
	change := 100 * (k.subject.value/against.value - 1)
	const few = 10 // items of which a percentage misleads
	if items := k.subject.left - against.left; k.rejects != "" && items != 0 && math.Max(k.subject.left, against.left) < few && (items > 0) == (change > 0) {
		noun := "items"
		if math.Abs(items) == 1 {
			noun = "item"
		}
		word := "fewer"
		if items > 0 {
			word = more
		}
		return sheet.Short(math.Abs(items)) + " " + noun + " " + word
	}
	if against.value == 0 && k.subject.value > 0 {
		return more // than nothing
	}
	size := sheet.Figure(math.Abs(change), sheet.Decimals(1, []float64{math.Abs(change)}), false)
	if math.Abs(change) >= 10 {
		size = sheet.Figure(math.Abs(change), 0, false)
	}
	switch {
	case size == "0" || size == "0.0" || math.IsNaN(change):
		return same
	case change < 0:
		return size + " % " + less
	}
	return size + " % " + more
}
