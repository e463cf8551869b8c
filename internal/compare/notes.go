package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

// add adds a note once.
func (r *Result) add(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !slices.Contains(r.Notes, line) {
		r.Notes = append(r.Notes, line)
	}
}

// noteOn notes apps that no machine is large enough for.
func (r *Result) noteOn(t *trace.Trace) {
	const most = 5
	if apps := tooLarge(t.Instance); len(apps) > most {
		r.add("%s: no machine is large enough for an item of %s and %d more apps", t.Name, strings.Join(apps[:most], ", "), len(apps)-most)
	} else if len(apps) > 0 {
		r.add("%s: no machine is large enough for an item of %s", t.Name, strings.Join(apps, ", "))
	}
}

// notePlaced reports the use of placed.csv, and which machines could be drained.
func (c *comparison) notePlaced(r *Result, i int) {
	t := c.traces[i]
	if t.Initial == 0 {
		return
	}
	items, kept, last := 0, 0, 0
	if c.opt.Repack {
		last = t.Kept()
	}
	for i, q := range t.Requests[:t.Initial] {
		if i < last {
			kept += int(q.Count)
		} else {
			items += int(q.Count)
		}
	}
	switch {
	case kept == 1:
		r.add("%s: 1 item keeps its machine under every policy, since the trace lacks constraints of it", t.Name)
	case kept > 1:
		r.add("%s: %d items keep their machines under every policy, since the trace lacks constraints of them", t.Name, kept)
	}
	named := slices.ContainsFunc(c.policies[i], func(f Found) bool { return f.Name == Current })
	the, are, them := fmt.Sprintf("the %d items of placed.csv", items), "they are", "them"
	if items == 1 {
		the, are, them = "the item of placed.csv", "it is", "it"
	}
	if c.opt.Present {
		r.add("%s: %s, which must not move, stay%s under every policy; the others are placed again", t.Name, plural.Of(items, "item"), map[bool]string{true: "s"}[items == 1])
		return
	}
	switch {
	case !c.opt.Repack:
		r.add("%s: every policy leaves %s where %s; --repack places %s again", t.Name, the, are, them)
	case named:
		r.add("%s: current leaves %s where %s; the other policies place %s again, in the order of its lines", t.Name, the, are, them)
	default:
		r.add("%s: each policy places %s again, in the order of its lines", t.Name, the)
	}
	switch n := c.again(t); {
	case n == 1:
		r.add("%s: 1 item must not move, as trace.yaml says; this comparison places it again, sigma rebalance does not", t.Name)
	case n > 1:
		r.add("%s: %d items must not move, as trace.yaml says; this comparison places them again, sigma rebalance does not", t.Name, n)
	}
	if !named {
		return
	}
	drained, moved := drainable(t)
	stands := "as it stands"
	if t.Source[Placements] != nil {
		stands = "as it stood at the beginning"
	}
	const most = 8
	switch n := len(drained); {
	case n == 0:
		r.add("%s: %s no machine could be drained: of none may all items move and fit on the others in use", t.Name, stands)
	case n == 1:
		r.add("%s: %s 1 machine could be drained, with its items (%d) moved to others in use: %s", t.Name, stands, moved, drained[0])
	case n <= most:
		r.add("%s: %s %d machines could be drained, with their items (%d) moved to others in use: %s", t.Name, stands, n, moved, strings.Join(drained, ", "))
	default:
		r.add("%s: %s %d machines could be drained, with their items (%d) moved to others in use: %s and %d more",
			t.Name, stands, n, moved, strings.Join(drained[:most], ", "), n-most)
	}
}

// again is the number of items that must not move and that the policies place again.
func (c *comparison) again(t *trace.Trace) int {
	fixed, _ := t.Fixed()
	if !c.opt.Repack {
		return 0
	}
	n := len(fixed)
	for _, q := range t.Requests[:t.Kept()] {
		if fixed[q.Name] != nil {
			n--
		}
	}
	return n
}

// noteBounds notes where the bound is stronger than volume alone.
func (c *comparison) noteBounds(r *Result) {
	var last string
	n := 0
	for i, t := range c.traces {
		best, volume := c.limits[i].best, c.limits[i].volume
		figure, by, alone := "cost", best.Cost, volume.Cost
		switch {
		case best.CostSeconds > volume.CostSeconds:
			figure, by, alone = "cost-seconds", best.CostSeconds, volume.CostSeconds
		case best.Cost > volume.Cost:
		case best.Machines > volume.Machines:
			figure, by, alone = "machines", float64(best.Machines), float64(volume.Machines)
		default:
			continue
		}
		n++
		last = fmt.Sprintf("%s: the bound of %.6g %s is by %s; volume alone says %.6g", t.Name, by, figure, best.Method, alone)
	}
	switch {
	case n == 1:
		r.add("%s", last)
	case n > 1:
		r.add("in %d of %d traces the bound is stronger than volume alone; sigma bound lists all methods", n, len(c.traces))
	}
}

// note notes which shipped files were chosen, and where a policy lacks its forecast.
func (r *Result) note(found Found, t *trace.Trace, runs []cerebro.Run) {
	if found.File != "" {
		r.add("%s is %s (%s)", found.Name, found.File, found.Object.Spec.Knowledge)
	}
	most := 0
	for i := range runs {
		most = max(most, runs[i].Stayed)
	}
	if most > 0 {
		r.add("%s: up to %s of an order keep their present machines, since %s leaves them out otherwise", t.Name, plural.Of(most, "item"), found.Name)
	}
	if found.chooses() {
		switch names, shares := choices(runs); len(names) {
		case 0:
		case 1:
			chosen := names[0]
			if k := found.Policy.Knowledge().String(); !strings.HasSuffix(chosen, "("+k+")") {
				chosen = strings.TrimSuffix(chosen, ")") + ", less than the " + k + " that it may use)"
			}
			r.add("%s is %s", found.Name, chosen)
		default:
			r.add("%s: %s is %s", t.Name, found.Name, strings.Join(shares, ", "))
		}
		return
	}
	if found.Policy.Knowledge().Forecast() && !expects(t.Instance) {
		r.add("%s gives no forecast (expected in apps.csv): %s, a policy of %s, assumes that nothing will arrive",
			t.Name, found.Name, found.Policy.Knowledge())
	}
}

// choices lists the policies that decided on at least one item in a hundred, in the order of its
// first one, and its share of them.
func choices(runs []cerebro.Run) (names, shares []string) {
	items, all := map[string]int{}, 0
	for _, run := range runs {
		for _, c := range run.Choices {
			name := fmt.Sprintf("%s (%s)", c.Name, c.Knowledge)
			if items[name] == 0 {
				names = append(names, name)
			}
			items[name] += c.Items
			all += c.Items
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return 100*items[name] < all })
	for _, name := range names {
		shares = append(shares, fmt.Sprintf("%s for %.3g %% of the items", name, 100*float64(items[name])/float64(all)))
	}
	return names, shares
}

// tooLarge lists the apps whose items no empty machine can hold.
func tooLarge(in *binpack.Instance) []string {
	var names []string
	for _, a := range in.Apps {
		if !slices.ContainsFunc(in.Machines, func(m binpack.MachineLine) bool { return a.FitsEmpty(m.Type, m.Capacity) }) {
			names = append(names, a.Name)
		}
	}
	return names
}
