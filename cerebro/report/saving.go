package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// A Saving is the saving of a policy over another one: the best rule that is free, built-in and not trained, or
// the recorded placement. The figures are nil for that one itself, and where one of the two leaves items out.
type Saving struct {
	Against      string    `json:"against"`         // "" = no such policy
	Percent      *Interval `json:"percent"`         // of the cost
	Machines     *Interval `json:"machines"`        // at the peak where items also leave
	MachineHours *Interval `json:"machine_hours"`   // over the trace; null where nothing leaves
	Money        *Interval `json:"money_per_month"` // null where the trace has no prices
	Currency     string    `json:"currency"`
}

// An Interval is a mean over orders with the ends of its 95 % interval (Student's t, paired by order).
// With one order both ends are the mean.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// monthHours is the length of a month, 365 days ÷ 12.
const monthHours = 730

// setSavings sets the saving of each result against the best rule that is free, and against the
// recorded placement. Results are in order.
func (c *Comparison) setSavings() {
	var free, current *Result
	for i := range c.Results {
		switch r := &c.Results[i]; {
		case r.Policy == "current":
			current = r
		case free == nil && r.Digest == "" && !learned(r):
			free = r
		}
	}
	for i := range c.Results {
		r := &c.Results[i]
		if free != nil {
			r.Saving = c.saving(r, free)
		}
		if current != nil && r != current {
			r.SavingFromCurrent = new(c.saving(r, current))
		}
	}
}

func (c *Comparison) saving(r, free *Result) Saving {
	s := Saving{Against: free.Policy, Currency: c.Trace.Currency}
	if r == free || absent(r) || absent(free) || c.Trace.Retry {
		return s
	}
	less := func(value func(Run) float64) *Interval { return paired(r.counted(), free.counted(), value) }
	s.Percent = less(c.cost)
	if base := meanOf(free.counted(), c.cost); s.Percent != nil && base > 0 {
		s.Percent.scale(100 / base)
	} else {
		s.Percent = nil
	}
	if s.Machines = less(c.machineCount()); s.Machines != nil {
		s.Machines.scale(1)
	}
	if c.Trace.Deletes {
		if s.MachineHours = less(func(run Run) float64 { return run.MachineSeconds }); s.MachineHours != nil {
			s.MachineHours.scale(1. / 3600)
		}
	}
	if c.Trace.Currency == "" {
		return s
	}
	switch {
	case !c.Trace.Deletes:
		if s.Money = less(c.cost); s.Money != nil {
			s.Money.scale(monthHours)
		}
	case c.Trace.Seconds > 0: // the mean cost of an hour over the trace
		if s.Money = less(c.cost); s.Money != nil {
			s.Money.scale(monthHours / c.Trace.Seconds)
		}
	}
	return s
}

// paired is the amount by which one policy is below another in the same orders; nil where their
// orders differ, since one of them has only the trace's order.
func paired(own, other []Run, value func(Run) float64) *Interval {
	if less := differences(own, other, value); less != nil {
		return intervalOf(less)
	}
	return nil
}

// differences are the terms of [paired], by order.
func differences(own, other []Run, value func(Run) float64) []float64 {
	// The recorded placement is the same in every order.
	if len(own) == 1 {
		own = slices.Repeat(own, len(other))
	} else if len(other) == 1 {
		other = slices.Repeat(other, len(own))
	}
	if len(own) != len(other) || len(own) == 0 {
		return nil
	}
	less := make([]float64, len(own))
	for i := range own {
		less[i] = value(other[i]) - value(own[i])
	}
	return less
}

// intervalOf is the mean of some values with its 95 % interval; with one value both ends are the mean.
func intervalOf(values []float64) *Interval {
	e := sheet.EstimateOf(values)
	return &Interval{e.Mean, e.Mean - e.Half, e.Mean + e.Half}
}

func (i *Interval) half() float64 { return (i.High - i.Low) / 2 }

// money reports the monthly saving of a learned policy, the subject of a claim, against the best free rule and against the
// recorded placement, a sentence each with a space before; "" where the traces have no prices in one currency, or are not
// compared with one rule. Of several traces it is the mean.
func (k *claim) money(comparisons []Comparison) string {
	about := cmp.Or(k.subject, k.baseline)
	if about == nil || !about.learned || k.rejects != "" || k.waits {
		return ""
	}
	subject := about.result.Policy
	return moneyOf(comparisons, subject, func(r *Result) *Saving { return &r.Saving }) +
		moneyOf(comparisons, subject, func(r *Result) *Saving { return r.SavingFromCurrent })
}

func moneyOf(comparisons []Comparison, subject string, savingOf func(*Result) *Saving) string {
	var values []float64
	var of Saving
	var saved *Interval
	for i := range comparisons {
		at := slices.IndexFunc(comparisons[i].Results, func(r Result) bool { return r.Policy == subject })
		if at < 0 {
			return ""
		}
		s := savingOf(&comparisons[i].Results[at])
		if s == nil || s.Money == nil || i > 0 && (s.Currency != of.Currency || s.Against != of.Against) {
			return ""
		}
		of, saved, values = *s, s.Money, append(values, s.Money.Mean)
	}
	if len(values) > 1 {
		saved = intervalOf(values)
	}
	text, ends := sheet.Short, ""
	if saved.Low < saved.High {
		ends = fmt.Sprintf(" (95 %%: %s to %s)", text(saved.Low), text(saved.High))
	}
	switch {
	case saved.Low > 0:
		return fmt.Sprintf(" %s saves %s %s a month against %s%s.", subject, text(saved.Mean), of.Currency, against(of.Against), ends)
	case saved.High < 0:
		return fmt.Sprintf(" %s costs %s %s a month more than %s%s.", subject, text(-saved.Mean), of.Currency, against(of.Against), strings.Replace(ends, "95 %:", "95 %, saved:", 1))
	}
	return fmt.Sprintf(" %s a month against %s: %s %s%s, so no saving is proven.", of.Currency, against(of.Against), subject, text(saved.Mean), ends)
}

// against names the policy that a saving is compared with.
func against(policy string) string {
	if policy == "current" {
		return "the present placement"
	}
	return policy
}

// scale multiplies an interval by a number above 0.
func (i *Interval) scale(by float64) {
	i.Mean, i.Low, i.High = round(float64(i.Mean*by)), round(float64(i.Low*by)), round(float64(i.High*by))
}

func byUse(c Comparison) bool { return c.Trace.ByUse }

// Mixed reports whether some traces count items at their use and others at their requests: no mean is over both kinds.
func Mixed(list []Comparison) bool {
	return slices.ContainsFunc(list, byUse) && slices.ContainsFunc(list, func(c Comparison) bool { return !byUse(c) })
}

// mixedSummary is the saving by use with its risk where two traces are of one cluster: of the best policy against the best by request.
func mixedSummary(list []Comparison) string {
	at := slices.IndexFunc(list, byUse)
	const none = "Some traces count items at their use, others at their requests: no mean is over both."
	if !list[at].Trace.Beside {
		return none
	}
	use, request := &list[at], &list[1-at]
	a, b := use.best(), request.best()
	if a == nil || b == nil || absent(a) || absent(b) || len(a.used()) == 0 {
		return none
	}
	of, cost := "of", ""
	if a.Policy != b.Policy {
		of = "and " + nameOf(b) + " by request"
	}
	of += " " + sheet.Short(meanOf(b.counted(), request.machineCount()))
	if use.Trace.Deletes {
		of += " at the peak"
	}
	if use.Trace.Mixed || use.Trace.Deletes {
		cost = " cost"
	}
	more := 100 * (meanOf(a.counted(), use.cost)/meanOf(b.counted(), request.cost) - 1)
	return fmt.Sprintf("By use %s needs %s machines %s,%s %s%s; %s.", nameOf(a), sheet.Short(meanOf(a.counted(), use.machineCount())), of, cost,
		strings.Replace(sheet.Figure(more, 1, true), "-", "−", 1)+" %", caveatsOf(list[at:at+1]), MeanUse(a.used(), "order").Text())
}

// best is the first result of a policy that places items and is not nearly offline; nil = none.
func (c *Comparison) best() *Result {
	for i := range c.Results {
		if r := &c.Results[i]; r.Policy != "current" && offline(r) == 0 && len(r.Runs) > 0 {
			return r
		}
	}
	return nil
}
