package explain

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

// Print writes the explanation for people.
func (v *Item) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("request", "%s, item %d, at %g", v.Request, v.Item, v.Time)
	line("trace", "%s, %s", v.Trace, v.orderText())
	v.about(line)
	line("fleet", "%s, %d in use, %d on offer", v.Fleet, v.InUse, v.Offered)
	v.printRejected(w, "machines")
	fmt.Fprintln(w, "a machine counts once, by the first reason in the order capacity, devices, type, limit, rules, spread")
	v.printChoice(w, "machine")
	if err := w.Flush(); err != nil {
		return err
	}
	for _, text := range v.remarks() {
		fmt.Fprintln(out, "\n"+text)
	}
	return v.printEmpties(out)
}

// about prints the policy, the item and its constraints.
func (v *decision) about(line func(name, format string, args ...any)) {
	line("policy", "%s", strings.Join(strings.Fields(v.Policy+" "+v.File+" "+v.Knowledge), "  "))
	line("app", "%s", v.appText())
	line("needs", "%s", amounts(v.Demand))
	line("limits", "%s", v.limitsText())
	line("rules", "%s", v.rulesText())
	line("prefers", "%s", v.Preferences.text())
}

func (v *decision) printRejected(w io.Writer, machines string) {
	fmt.Fprintf(w, "\nrejected\t%s\twhy\n", machines)
	for _, r := range v.Rejected {
		fmt.Fprintf(w, "%s\t%d\t%s\n", r.Reason, r.Machines, r.What)
	}
	fmt.Fprintf(w, "take it\t%d\n", v.Candidates)
}

func (v *Item) orderText() string {
	if v.Order == 0 {
		return "the file's order"
	}
	return fmt.Sprintf("order %d of seed %d", v.Order, v.Seed)
}

func (v *decision) appText() string {
	if v.Group != v.App && v.Group != "" {
		return v.App + " of the group " + v.Group
	}
	return v.App
}

// most is the length of the longest list that is printed whole.
const most = 8

func amounts(list []amountView) string {
	var parts []string
	for i, a := range list {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-most))
			break
		}
		parts = append(parts, a.Dimension+" "+a.Amount)
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

func (v *decision) limitsText() string {
	var parts []string
	if v.Limit > 0 {
		parts = append(parts, fmt.Sprintf("%d per machine", v.Limit))
	}
	if v.SpreadMin > 1 {
		parts = append(parts, fmt.Sprintf("on %d machines before any takes a second", v.SpreadMin))
	}
	if z := v.Zone; z != nil && z.Limit > 0 {
		parts = append(parts, fmt.Sprintf("%d per zone", z.Limit))
	}
	if z := v.Zone; z != nil && z.SpreadMin > 1 {
		parts = append(parts, fmt.Sprintf("in %d zones before any takes a second", z.SpreadMin))
	}
	if z := v.Zone; z != nil && z.Skew > 0 {
		parts = append(parts, fmt.Sprintf("at most %d more in a zone than in another", z.Skew))
	}
	if len(v.Types) > 0 {
		parts = append(parts, "machines of type "+strings.Join(v.Types, " or "))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

func (v *decision) rulesText() string {
	var parts []string
	for i, r := range v.Rules {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(v.Rules)-most))
			break
		}
		parts = append(parts, ruleText(r))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// printChoice prints the machines and the table of terms.
func (v *decision) printChoice(w io.Writer, machine string) {
	if v.Chosen == nil {
		return
	}
	fmt.Fprintf(w, "\n\t%s\tscore\titems\tfree before\n", machine)
	row := func(name string, c *choiceView) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", name, c.Machine, number(c.Score), c.Items, amounts(c.Free))
	}
	row("chosen", v.Chosen)
	if v.RunnerUp != nil {
		row("runner-up", v.RunnerUp)
	}
	if len(v.Terms) == 0 {
		return
	}
	if v.RunnerUp == nil {
		fmt.Fprintln(w, "\npart\tweight\tvalue\tcontribution")
	} else {
		fmt.Fprintln(w, "\npart\tweight\tchosen\trunner-up\tcontribution\trunner-up's\tshare of the difference")
	}
	for _, t := range v.Terms {
		if t.nothing() {
			continue
		}
		if v.RunnerUp == nil {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Name, number(t.Weight), number(t.Value), number(t.Contribution))
			continue
		}
		share := "-"
		if t.Share != nil {
			share = strings.Replace(fmt.Sprintf("%.1f %%", 100**t.Share), "-0.0 ", "0.0 ", 1)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.Name, number(t.Weight), number(t.Value), number(*t.OtherValue),
			number(t.Contribution), number(*t.Other), share)
	}
	if v.RunnerUp == nil {
		fmt.Fprintf(w, "score\t\t\t%s\n", number(v.Chosen.Score))
	} else {
		fmt.Fprintf(w, "score\t\t\t\t%s\t%s\n", number(v.Chosen.Score), number(v.RunnerUp.Score))
	}
}

// nothing reports whether the term is 0 everywhere.
func (t *termView) nothing() bool {
	return t.Value == 0 && t.Contribution == 0 && (t.OtherValue == nil || *t.OtherValue == 0 && *t.Other == 0)
}

// number formats with five significant digits, and a zero without a sign.
func number(x float64) string {
	if math.Abs(x) < 1e-12 {
		return "0"
	}
	return fmt.Sprintf("%.5g", x)
}

// remarks returns sentences about the decision.
func (v *decision) remarks() []string {
	var list []string
	if n := v.zeroTerms(); n > 0 {
		list = append(list, plural.Of(n, "part")+" of the score not shown: 0 on these machines.")
	}
	switch {
	case v.Chosen == nil && v.Offered == 0:
		list = append(list, "Left out: there is no machine.")
	case v.Chosen == nil:
		list = append(list, "Left out: no machine takes the item.")
	case v.RunnerUp == nil:
		list = append(list, "Only this machine takes the item: the score decided nothing.")
	case v.Tied > 0:
		list = append(list, fmt.Sprintf("The tie-break decided: %s the same score, and the lowest position goes first.", others(v.Tied)))
	case v.drawn():
		list = append(list, "The tie-break decided: the whole scores are equal, and the draw of the seed is higher.")
	default:
		list = append(list, fmt.Sprintf("The score decided, by %s.", number(v.Chosen.Score-v.RunnerUp.Score)))
	}
	if v.Chosen != nil && len(v.Terms) == 0 {
		list = append(list, "The score of this policy has no parts; docs/policies.md has its formula.")
	}
	if v.Preferences != nil && v.Chosen != nil {
		list = append(list, v.Preferences.remark())
	}
	if v.Fallback {
		list = append(list, "The policy's score was not finite: Best-Fit decided, and its score is shown.")
	}
	return list
}

// drawn reports whether the scores differ only by the random draw of upstream's
// strategies.
func (v *decision) drawn() bool {
	for _, t := range v.Terms {
		if (t.Contribution == *t.Other) == (t.Name == rule.RandomTie) {
			return false
		}
	}
	return len(v.Terms) > 0 && v.Terms[len(v.Terms)-1].Name == rule.RandomTie
}

func others(n int) string {
	if n == 1 {
		return "another candidate has"
	}
	return fmt.Sprintf("%d other candidates have", n)
}

func (v *decision) zeroTerms() int {
	n := 0
	for _, t := range v.Terms {
		if t.nothing() && t.Name != "kept back" && t.Name != "empty: last" {
			n++
		}
	}
	return n
}

// printEmpties prints whether empty machines were kept back.
func (v *decision) printEmpties(out io.Writer) error {
	if v.Empties == nil {
		return nil
	}
	state := "not kept back"
	if v.Empties.KeptBack {
		state = "kept back"
	}
	fmt.Fprintf(out, "\nempty machines: %s; %s\n", state, v.Empties.Why)
	if len(v.Empties.Wanted) == 0 {
		return nil
	}
	fmt.Fprintf(out, "the volume is estimated by %s; in machines of the largest capacity:\n", v.Empties.By)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "dimension\tvolume in all\tof it arrived\twanted open by now\topen")
	for _, d := range v.Empties.Wanted {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\n", d.Dimension, d.Volume, d.Arrived, d.Target, d.Open)
	}
	return w.Flush()
}
