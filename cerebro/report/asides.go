package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// savings are the savings of each policy over the best rule that is free and over the present placement: of one trace with
// the 95 % interval over orders, of several with that over traces. There are no rows where costs do not compare.
func savings(list []Comparison) (t sheet.Table) {
	_, free, current := contenders(list)
	var names, against, cost, machines, hours, money []string
	currency := ""
	if len(list) > 0 {
		currency = list[0].Trace.Currency
	}
	for _, base := range []*Result{free, current} {
		if base == nil {
			continue
		}
		for _, o := range list[0].outcomes() {
			r := o.result
			all := savingsOf(list, r.Policy, base.Policy)
			if r.Policy == base.Policy || r.Policy == "current" || offline(r) == 1 || len(all) == 0 {
				continue
			}
			figure := func(text func(float64) string, of func(Saving) *Interval) string {
				switch i := overTraces(all, of); {
				case i == nil:
					return ""
				case i.Low == i.High:
					return text(i.Mean)
				default:
					return fmt.Sprintf("%s (%s to %s)", text(i.Mean), text(i.Low), text(i.High))
				}
			}
			names, against = append(names, r.Policy), append(against, base.Policy)
			cost = append(cost, figure(func(v float64) string { return sheet.Figure(v, 1, false) }, func(s Saving) *Interval { return s.Percent }))
			machines = append(machines, figure(sheet.Short, func(s Saving) *Interval { return s.Machines }))
			hours = append(hours, figure(sheet.Short, func(s Saving) *Interval { return s.MachineHours }))
			money = append(money, figure(sheet.Short, func(s Saving) *Interval { return s.Money }))
		}
	}
	if len(names) == 0 {
		return t
	}
	t.Aside, t.Caption = true, savingsCaption(list)
	t.AddColumn(words("policy", "", names))
	t.AddColumn(words("saved against", "", against))
	for _, c := range []struct {
		head  string
		cells []string
	}{{"cost %", cost}, {"machines", machines}, {"machine-hours", hours}, {currency + " a month", money}} {
		if strings.Join(c.cells, "") != "" {
			t.AddColumn(sheet.Column{Head: c.head}, dashes(c.cells))
		}
	}
	shorten(&t)
	return t
}

// savingsOf are those of a policy by trace; nil where costs do not compare on one of them.
func savingsOf(list []Comparison, policy, against string) (all []Saving) {
	for i := range list {
		a, b := list[i].result(policy), list[i].result(against)
		if a == nil || b == nil {
			return nil
		}
		s := list[i].saving(a, b)
		if s.Percent == nil {
			return nil
		}
		all = append(all, s)
	}
	return all
}

// savingPercent is the saving of one policy over another in percent of the cost; nil where costs do not compare.
func savingPercent(list []Comparison, policy, against string) *Interval {
	return overTraces(savingsOf(list, policy, against), func(s Saving) *Interval { return s.Percent })
}

// overTraces is a figure of one trace with its interval over orders, and of several with that over traces; nil where a trace
// does not have it, or has it in another currency.
func overTraces(all []Saving, of func(Saving) *Interval) (i *Interval) {
	var values []float64
	for _, s := range all {
		if i = of(s); i == nil || s.Currency != all[0].Currency {
			return nil
		}
		values = append(values, i.Mean)
	}
	if len(values) > 1 {
		i = intervalOf(values)
		i.scale(1)
	}
	return i
}

// savingsCaption explains the ends in brackets.
func savingsCaption(list []Comparison) string {
	of := ""
	switch {
	case len(list) > 1:
		of = "; in brackets the ends of the 95 % interval over traces"
	case list[0].Trace.Orders > 1:
		of = "; in brackets the ends of the 95 % interval over orders"
	}
	return "Saved against the best rule that is free, and against the present placement" + of
}

// risks are the items that an app of two or more loses by the failure of one machine, and of one zone, at the end of the order that is
// drawn.
func (c *Comparison) risks() (t sheet.Table) {
	var names, on, most, worst, zone []string
	for _, o := range c.outcomes() {
		l := o.result.Layout
		if l == nil {
			continue
		}
		r := l.risk()
		if r.apps == 0 {
			continue
		}
		names = append(names, o.result.Policy)
		on = append(on, sheet.Figure(r.together/float64(r.apps), 1, false))
		most = append(most, sheet.Figure(100*r.share/float64(r.apps), 1, false))
		worst = append(worst, fmt.Sprintf("%d of %d of %s", r.worst, r.worstOf, r.worstApp))
		zone = append(zone, sheet.Figure(100*r.zone/float64(r.apps), 1, false))
	}
	if len(names) == 0 {
		return t
	}
	t.Aside = true
	t.Caption = "What a failure takes of an app, in the mean over the apps with two items or more, at the end of " + c.drawnOrder()
	t.AddColumn(words("policy", "", names))
	t.AddColumn(sheet.Column{Head: "items of an app on a machine, at most"}, on)
	t.AddColumn(sheet.Column{Head: "a machine takes, %"}, most)
	t.AddColumn(words("the worst", "", worst))
	if c.Trace.Zones {
		t.AddColumn(sheet.Column{Head: "a zone takes, %"}, zone)
	}
	shorten(&t)
	return t
}

// A risk sums up the losses by failures of the apps with two items or more.
type risk struct {
	apps                  int
	together, share, zone float64 // over apps: the most items on a machine, that as a share, the same of a zone
	worst, worstOf        int32   // of the app that loses most
	worstApp              string
}

func (l *Layout) risk() (r risk) {
	groups := len(l.Instance.Groups)
	items, most, inZone := make([]int32, groups), make([]int32, groups), map[string][]int32{}
	for i := range l.Machines {
		here := make(map[int32]int32, len(l.Machines[i].Items))
		zone := l.Instance.Machines[l.Machines[i].Line].Zone
		if inZone[zone] == nil {
			inZone[zone] = make([]int32, groups)
		}
		for _, e := range l.Machines[i].Items {
			g := l.Instance.Apps[e.App].Group
			here[g] += e.Count
			items[g] += e.Count
			inZone[zone][g] += e.Count
			most[g] = max(most[g], here[g])
		}
	}
	for g, n := range items {
		if n < 2 {
			continue
		}
		share, zone := float64(most[g])/float64(n), int32(0)
		for _, counts := range inZone {
			zone = max(zone, counts[g])
		}
		r.apps++
		r.together += float64(most[g])
		r.share += share
		r.zone += float64(zone) / float64(n)
		// Of several that lose all, the largest.
		if old := float64(r.worst) / float64(max(1, r.worstOf)); share > old || share == old && n > r.worstOf {
			r.worst, r.worstOf, r.worstApp = most[g], n, l.Instance.Groups[g].Name
		}
	}
	return r
}

// asides are the small tables of a page, below the first table.
func asides(list []Comparison) (out []sheet.Table) {
	if len(list) > 0 {
		out = append(out, savings(list))
	}
	for i := range list {
		own := []sheet.Table{list[i].risks()}
		if Mixed(list) {
			own = append(own, savings(list[i:i+1]))
		}
		for _, t := range own {
			if len(list) > 1 {
				t.Caption += " of " + list[i].Trace.Name
			}
			out = append(out, t)
		}
	}
	return slices.DeleteFunc(out, func(t sheet.Table) bool { return len(t.Rows) == 0 })
}

// drawnOrder names the order whose machines are drawn.
func (c *Comparison) drawnOrder() string {
	for _, r := range c.Results {
		if r.Layout != nil && r.Layout.Order > 0 {
			return fmt.Sprintf("shuffled order %d", r.Layout.Order)
		}
	}
	return "the order of the file"
}
