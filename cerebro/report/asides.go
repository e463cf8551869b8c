package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// An aside is a small table below that of the results.
type aside struct {
	Caption string
	Table   sheet.Table
}

// savings are the savings of each policy over the best rule that is free and over the present placement: of one trace with
// the 95 % interval over orders, of several with that over traces. There are no rows where costs do not compare.
func savings(list []Comparison) (g grid) {
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
				var values []float64
				i := (*Interval)(nil)
				for _, s := range all {
					if i = of(s); i == nil || s.Currency != currency {
						return ""
					}
					values = append(values, i.Mean)
				}
				if len(all) > 1 {
					i = intervalOf(values)
				}
				if i.Low == i.High {
					return text(i.Mean)
				}
				return fmt.Sprintf("%s (%s to %s)", text(i.Mean), text(i.Low), text(i.High))
			}
			names, against = append(names, r.Policy), append(against, base.Policy)
			cost = append(cost, figure(func(v float64) string { return sheet.Figure(v, 1, false) }, func(s Saving) *Interval { return s.Percent }))
			machines = append(machines, figure(sheet.Short, func(s Saving) *Interval { return s.Machines }))
			hours = append(hours, figure(sheet.Short, func(s Saving) *Interval { return s.MachineHours }))
			money = append(money, figure(sheet.Short, func(s Saving) *Interval { return s.Money }))
		}
	}
	g.rows, g.split = len(names), len(names)
	g.columns = []column{
		words("policy", "", names), words("saved against", "", against),
		{head: "cost %", cells: cost},
		{head: "machines", cells: machines},
		{head: "machine-hours", cells: dashes(hours)},
		{head: currency + " a month", cells: dashes(money)},
	}
	g.columns = slices.DeleteFunc(g.columns, func(c column) bool {
		return !c.text && !slices.ContainsFunc(c.cells, func(s string) bool { return s != "" && s != "-" })
	})
	return g
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
func (c *Comparison) risks() (g grid) {
	var names, on, most, worst, zone []string
	zoned := c.Trace.Zones
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
	g.rows, g.split = len(names), len(names)
	g.columns = []column{
		words("policy", "", names),
		{head: "items of an app on a machine, at most", cells: on},
		{head: "a machine takes, %", cells: most},
		words("the worst", "", worst),
	}
	if zoned {
		g.columns = append(g.columns, column{head: "a zone takes, %", cells: zone})
	}
	return g
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
func asides(list []Comparison) (out []aside) {
	if len(list) == 0 {
		return nil
	}
	if g := savings(list); g.rows > 0 {
		out = append(out, aside{savingsCaption(list), g.asideTable()})
	}
	for i := range list {
		c := &list[i]
		if g := c.risks(); g.rows > 0 {
			where := ""
			if len(list) > 1 {
				where = " of " + c.Trace.Name
			}
			out = append(out, aside{"What a failure takes of an app, in the mean over the apps with two items or more, at the end of " + c.drawnOrder() + where, g.asideTable()})
		}
	}
	return out
}

func (g grid) asideTable() sheet.Table {
	t := g.html()
	for i := range t.Rows {
		for k := range t.Rows[i].Cells {
			if c := &t.Rows[i].Cells[k]; !c.Words {
				c.Text = strings.ReplaceAll(c.Text, "-", "−")
			}
		}
	}
	return t
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
