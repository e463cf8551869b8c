package report

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/internal/shellword"
)

// A verdict is the head of a page: whether the subject is worth its while, in a sentence, and the next step.
type verdict struct {
	Text, Next, Command string
}

// newVerdict compares the learned policy, else the best one, with the best rule that is free and with the present
// placement. Its text is empty where costs do not compare: where items are left out or wait. The command is for the traces at
// the paths, as the command line gave them.
func newVerdict(list []Comparison, paths []string) (v verdict) {
	subject, free, current := contenders(list)
	switch {
	case subject == nil && free == nil:
		return v
	case subject == nil:
		subject, free = free, nil
	}
	name := shortName(subject.Policy)
	if e := subject.Exposure; e != "" && e != "held out" {
		name += " (" + e + ")"
	}
	var parts []string
	worth := 0 // of the policy against the free rule: it saves, costs more, or neither is proven
	if free != nil {
		i := savingPercent(list, subject.Policy, free.Policy)
		if i == nil {
			return v
		}
		against := shortName(free.Policy) + ", the best rule that is free"
		switch ends := intervalText(i); {
		case i.Low > 0:
			worth = 1
			parts = append(parts, fmt.Sprintf("saves %s of the cost%s against %s%s", percentText(i.Mean), moneyText(list, subject, free, 1), against, ends))
		case i.High < 0:
			worth = -1
			parts = append(parts, fmt.Sprintf("costs %s more%s than %s%s", percentText(-i.Mean), moneyText(list, subject, free, -1), against, strings.Replace(ends, "95 %:", "95 %, saved:", 1)))
		case i.Low == i.High:
			parts = append(parts, "costs as much as "+against)
		default:
			parts = append(parts, fmt.Sprintf("saves nothing that is proven against %s: %s%s", against, percentText(i.Mean), ends))
		}
	}
	if current != nil {
		if i := savingPercent(list, subject.Policy, current.Policy); i != nil {
			word, sign := "less", 1.
			if i.Mean < 0 {
				word, sign = "more", -1
			}
			parts = append(parts, fmt.Sprintf("%s %s%s than the present placement", percentText(math.Abs(i.Mean)), word, moneyText(list, subject, current, sign)))
		}
	}
	if len(parts) == 0 {
		return v
	}
	if len(parts) == 2 && free != nil {
		parts[1] = "it costs " + parts[1]
	} else if free == nil {
		parts[0] = "costs " + parts[0]
	}
	v.Text = name + " " + strings.Join(parts, "; ") + "."
	if len(list) > 1 {
		v.Text = strings.TrimSuffix(v.Text, ".") + fmt.Sprintf(" (means over %d traces).", len(list))
	}
	v.Text = strings.TrimSuffix(v.Text, ".") + caveatsOf(list) + "."
	v.Next, v.Command = next(list, paths, subject, free, worth)
	return v
}

// moneyText is the monthly saving of a policy over another one, after a comma, or with sign -1 its higher cost; "" where
// costs are no money, or there are several traces.
func moneyText(list []Comparison, r, against *Result, sign float64) string {
	if len(list) != 1 {
		return ""
	}
	s := list[0].saving(r, against)
	if s.Money == nil || !(sign*s.Money.Mean > 0) {
		return ""
	}
	return fmt.Sprintf(", %s\u00a0%s a month,", sheet.Figure(sign*s.Money.Mean, 0, false), s.Currency)
}

// next is the step that follows from a verdict, and the command for it, which a shell in the same folder takes
// as it is.
func next(list []Comparison, paths []string, subject, free *Result, worth int) (text, command string) {
	var traces strings.Builder
	for _, path := range paths {
		traces.WriteString(" --trace " + shellword.Quote(path))
	}
	tune := "sigma tune" + traces.String() + " --out policy.yaml"
	file := strings.HasSuffix(subject.Policy, ".yaml")
	if slices.ContainsFunc(list, func(c Comparison) bool { return c.Trace.Standing }) && free != nil && (worth <= 0 || !file) {
		// A snapshot has no days to learn from.
		return "Record a day to learn a policy from, and compare with what stands then:", "sigma snapshot --out day --watch 24h"
	}
	switch {
	case worth > 0 && file:
		return "Apply it; it begins in shadow, where it decides nothing:", "kubectl apply -f " + shellword.Quote(subject.Policy)
	case worth > 0:
		return "Learn a policy from these days, which may save more:", tune
	case free != nil && worth < 0:
		return "Take the rule that is free, or learn a policy from recorded days:", tune
	case free != nil:
		return "Learn a policy from recorded days, which says whether it is worth it:", tune
	}
	return "Compare with a policy that was learned:", "sigma compare" + traces.String() + " --policy " + shellword.Quote("current,"+subject.Policy+",learned")
}

// contenders are the best learned policy, the best rule that is free and the present placement, of those that all
// comparisons have; K2 is nearly offline and not among them.
func contenders(list []Comparison) (subject, free, current *Result) {
	if len(list) == 0 || Mixed(list) {
		return nil, nil, nil
	}
	take := func(r *Result) {
		switch {
		case offline(r) == 1:
		case r.Policy == "current":
			current = r
		case learned(r) || r.Digest != "":
			if subject == nil {
				subject = r
			}
		case free == nil:
			free = r
		}
	}
	if len(list) == 1 {
		for i := range list[0].Results {
			take(&list[0].Results[i])
		}
		return subject, free, current
	}
	for _, row := range aggregate(list) {
		if len(row.outcomes) == len(list) {
			take(findResult(&list[0], row.like.Policy, row.like.Knowledge))
		}
	}
	return subject, free, current
}

// Drawn names the policies whose machines a page draws side by side: the learned one, and the one the verdict compares it
// with, or Best-Fit where there is no verdict. Without a learned policy both are empty.
func Drawn(list []Comparison) (policy, against string) {
	subject, free, _ := contenders(list)
	if subject == nil {
		return "", ""
	}
	if free != nil && newVerdict(list, nil).Text != "" {
		return subject.Policy, free.Policy
	}
	if r := list[0].result(bestFitNames...); r != nil {
		return subject.Policy, r.Policy
	}
	return "", ""
}

func findResult(c *Comparison, policy, knowledge string) *Result {
	i := slices.IndexFunc(c.Results, func(r Result) bool { return r.Policy == policy && r.Knowledge == knowledge })
	return &c.Results[i]
}

// percentText writes a number of percent with a minus that is one.
func percentText(v float64) string { return minusText(v) + "\u00a0%" }

func minusText(v float64) string { return strings.Replace(sheet.Figure(v, 1, false), "-", "−", 1) }

func intervalText(i *Interval) string {
	if i.Low == i.High {
		return ""
	}
	return fmt.Sprintf(" (95 %%: %s to %s)", minusText(i.Low), minusText(i.High))
}

// shortName names a policy by its file without folder and ending.
func shortName(policy string) string {
	return strings.TrimSuffix(filepath.Base(policy), ".yaml")
}
