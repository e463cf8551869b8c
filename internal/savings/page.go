package savings

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/internal/shellword"
)

// Page describes the bill for a page: all rows, in the order of the screen.
func (b *Bill) Page() *sheet.Report {
	r := &sheet.Report{
		Title: "Savings of " + b.name, Summary: b.summary(),
		Facts: []sheet.Definition{
			{Term: "cost", Text: b.money(b.Cost.Now) + " " + b.unit() + " a month of 730 hours"},
			{Term: "cluster", Text: b.size()},
		},
		Reading: "Each step comes after those above it. Their money, what is left over and the proven least add up to the cost. " +
			"No remedy of a step's kind saves more than its limit: a lower bound of the same pods and nodes proves it. Constraints explain the least and are no part of the sum.",
	}
	if text := b.shares(); text != "" {
		r.Facts = append(r.Facts, sheet.Definition{Term: "requested and used", Text: strings.ReplaceAll(text, shareGap, "; ")})
	}
	if b.Currency == "" {
		r.Facts = append(r.Facts, sheet.Definition{Term: "unit", Text: "the linear model of cpu and memory, no money: no price list was given"})
	}
	if text := b.Prices.text(); text != "" {
		r.Facts = append(r.Facts, sheet.Definition{Term: "prices", Text: text})
	}
	if next := b.next(); next != "" {
		r.Next = &sheet.Step{Text: "Next:", Command: next}
	}
	r.Sections = append(r.Sections, b.stepsSection())
	for _, s := range []sheet.Section{b.constraintSection(), b.reasonSection(), b.nodeSection(), b.namespaceSection(), b.workloadSection()} {
		if len(s.Tables[0].Rows) > 0 {
			r.Sections = append(r.Sections, s)
		}
	}
	if b.Month != nil {
		r.Sections = append(r.Sections, b.Month.section(b))
	}
	if len(b.Missing)+len(b.notes) > 0 {
		s := sheet.Section{ID: "notes", Name: "Notes", Notes: b.notes}
		for _, m := range b.Missing {
			s.Notes = append([]string{"not read: " + m}, s.Notes...)
		}
		r.Sections = append(r.Sections, s)
	}
	return r
}

// text names the sources of prices with their nodes, and the built-in lists with their factors.
func (p *Prices) text() string {
	var of []string
	for _, by := range slices.Sorted(maps.Keys(p.Nodes)) {
		of = append(of, fmt.Sprintf("%s by %s", plural.Of(p.Nodes[by], "node"), by))
	}
	return strings.Join(append([]string{strings.Join(of, ", ")}, p.Lists...), "; ")
}

// summary is the verdict in a sentence.
func (b *Bill) summary() string {
	if b.nodes == 0 {
		return noNodes
	}
	saved := Cents(0)
	for i := range b.Steps {
		if m := b.Steps[i].Money; m != nil {
			saved += m.Mean
		}
	}
	cost := fmt.Sprintf("%s costs %s %s a month", b.name, b.money(b.Cost.Now), b.unit())
	if saved == 0 {
		return cost + "; no step saves anything."
	}
	return fmt.Sprintf("%s; %s of it can be saved, and no placement costs less than %s.", cost, b.money(saved), b.money(b.Cost.Floor))
}

func (b *Bill) stepsSection() sheet.Section {
	t := sheet.Table{Narrow: true, Caption: "cumulative: each step is after those above it", Columns: []sheet.Column{
		{Head: "cause", Words: true},
		{Head: "nodes saved", About: "so many fewer after the step; negative: more"},
		{Head: "a month", About: "what the step saves, a mean over orders of arrival where there are several"},
		{Head: "95 %", About: "the interval of that mean"},
		{Head: "at most", About: "no remedy of this kind saves more: proven by a lower bound"},
		{Head: "risk", Words: true},
	}}
	var typed script
	typed.add(b.Snapshot)
	parts := b.parts()
	for i := range b.Steps {
		s := &b.Steps[i]
		money, ends, nodes, shown := "unknown", "-", "-", Cents(0)
		if s.Money != nil {
			shown = parts[i]
			money, nodes = b.money(shown), fewer(s.Nodes)
			if s.Money.Low < s.Money.High {
				ends = b.money(s.Money.Low) + " to " + b.money(s.Money.High)
			}
		}
		t.Add(s.text, nodes, money, ends, b.atMost(s.Bound, shown), s.Risk)
		if s.Command == "" && s.deletion == "" {
			continue
		}
		if s.Money != nil {
			money += " " + b.unit() + " a month"
		}
		typed.note(s.text + ": " + money)
		typed.note(s.advice)
		if s.deletion != "" {
			typed.note("end in the cloud, then: " + s.deletion)
		}
		typed.add(s.Command)
	}
	t.Add(restText, "-", b.money(parts[len(b.Steps)]), "-", "-", "-")
	t.Add("proven least"+b.because(), "-", b.money(b.Cost.Floor), "-", "-", "-")
	return sheet.Section{ID: "steps", Name: "Where it goes", Tables: []sheet.Table{t}, Copy: string(typed)}
}

// A script has commands to copy, with comments.
type script string

func (s *script) add(command string) {
	if command != "" {
		*s += script(strings.Replace(shellword.Clean(command), " && sigma ", " &&\n  sigma ", 1) + "\n")
	}
}

func (s *script) note(text string) {
	if text != "" {
		s.add("# " + text)
	}
}

func (b *Bill) constraintSection() sheet.Section {
	t := sheet.Table{Narrow: true, Caption: "by kind", Columns: []sheet.Column{
		{Head: "change", Words: true},
		{Head: "nodes saved"},
		{Head: "costs a month", About: "a plan without the constraint costs so much less"},
		{Head: "at most"},
	}}
	var typed script
	for _, c := range b.Constraint {
		typed.add(c.Command)
		t.Add(Freed(c.What), strconv.Itoa(c.Nodes), b.money(c.Money), b.atMost(c.Bound, 0))
	}
	tables := []sheet.Table{t}
	if x := b.Batch; x != nil {
		typed.add(x.Command)
		tables = append(tables, x.table())
	}
	return sheet.Section{ID: "constraints", Name: "What constraints cost", About: "They explain the least cost and are not added to the sum: without them other pods share a node. Node restrictions are selectors, affinity, taints, operating systems, spot nodes and the zones of volumes. Batch work may have cpu that the pods where they are now do not use, on nodes that no step saves.", Tables: tables, Copy: string(typed)}
}

func (b *Bill) reasonSection() sheet.Section {
	t := sheet.Table{Narrow: true, Caption: "by reason", Columns: []sheet.Column{{Head: "pods", Words: true}, {Head: "reason", Words: true}, {Head: "number"}, {Head: "the first", Words: true}}}
	for _, p := range b.Pending {
		t.Add("wait", p.Reason, strconv.Itoa(p.Count), p.First)
	}
	for _, p := range b.LeftOut {
		t.Add("in no count", p.Reason, strconv.Itoa(p.Count), p.First)
	}
	for _, p := range b.Pinned {
		t.Add("must not move", p.Reason, strconv.Itoa(p.Count), p.First)
	}
	return sheet.Section{ID: "pods", Name: "Pods that wait, and pods that stay", Tables: []sheet.Table{t}}
}

func (b *Bill) nodeSection() sheet.Section {
	t := sheet.Table{Narrow: true, Caption: "by node", Columns: []sheet.Column{{Head: "node", Words: true}, {Head: "reason", Words: true}, {Head: "a month"}}}
	for _, x := range b.Excluded {
		t.Add(x.Node, x.Reason, b.money(x.Money))
	}
	return sheet.Section{ID: "nodes", Name: "Nodes that take no pods, and nodes that are kept", Tables: []sheet.Table{t}}
}

func (b *Bill) namespaceSection() sheet.Section {
	t := b.shareTable("namespace")
	for _, n := range b.Namespaces {
		b.addShare(&t, cmp.Or(n.Namespace, "(none)"), n.Share, n.Requested, n.Used, n.Saves)
	}
	return sheet.Section{ID: "namespaces", Name: "By namespace", Tables: []sheet.Table{t}}
}

func (b *Bill) workloadSection() sheet.Section {
	t := b.shareTable("workload")
	rows := 0
	for _, n := range b.Namespaces {
		for _, w := range n.Workloads {
			name := w.Name
			if n.Namespace != "" {
				name = n.Namespace + "/" + name
			}
			b.addShare(&t, name, w.Share, w.Requested, w.Used, w.Saves)
			rows++
		}
	}
	return sheet.Section{ID: "workloads", Name: "By workload", Folded: true, Caption: plural.Of(rows, "workload"), Tables: []sheet.Table{t}}
}

func (b *Bill) shareTable(head string) sheet.Table {
	return sheet.Table{Narrow: true, Caption: "shares of the bill", Columns: []sheet.Column{
		{Head: head, Words: true},
		{Head: "a month", About: "its share of the nodes that its pods run on, half by cpu and half by memory requested"},
		{Head: "cpu", About: "cores requested"},
		{Head: "used", About: "cores used last"},
		{Head: "memory", About: "GiB requested"},
		{Head: "used GiB", About: "GiB used last"},
		{Head: "unused", About: "the part of its share that it requests and does not use, of the resource of which it uses more: requests nearer to use save no more than that"},
	}}
}

func (b *Bill) addShare(t *sheet.Table, name string, share Cents, requested Amounts, used *Used, saves *Cents) {
	const gib = 1 << 30
	cpu, memory, unused := "-", "-", "-"
	if used != nil && used.CPU > 0 {
		cpu = humanize.Ftoa(round(used.CPU))
	}
	if used != nil && used.Memory > 0 {
		memory = humanize.Ftoa(round(used.Memory / gib))
	}
	if saves != nil {
		unused = b.money(*saves)
	}
	t.Add(name, b.money(share), humanize.Ftoa(round(requested.CPU)), cpu, humanize.Ftoa(round(requested.Memory/gib)), memory, unused)
}

func round(v float64) float64 { return math.Round(100*v) / 100 }
