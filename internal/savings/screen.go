package savings

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/sigma-scheduler/sigma/internal/plural"
)

// The size of the screen.
const (
	screenWidth = 80
	screenLines = 25
)

// A pen writes text, in colours where a terminal shows them.
type pen struct{ colours bool }

func (p pen) strong(text string) string { return p.in("1", text) }
func (p pen) faint(text string) string  { return p.in("2", text) }
func (p pen) in(code, text string) string {
	if !p.colours || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Print writes the bill as a screen of at most 25 lines of 80 columns.
func (b *Bill) Print(out io.Writer, colours bool) error {
	p := pen{colours}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("%s", clip(b.head()))
	now, least := b.money(b.Cost.Now)+" "+b.unit(), ""
	if b.nodes > 0 && !slices.Contains(b.Missing, podKind) {
		least = fmt.Sprintf(", proven to be at least %s%s", b.money(b.Cost.Floor), b.because())
	}
	least = strings.TrimPrefix(clip("cost "+now+" a month"+least), "cost "+now)
	add("cost %s%s", p.strong(now), least)
	if text := b.shares(); text != "" {
		add("%s", text)
	}
	add("")
	switch {
	case b.nodes == 0:
		add("The cluster has no nodes: there is nothing to save.")
	case slices.Contains(b.Missing, podKind):
		add("%s", "The pods were not read, so nothing is known of where the cost goes.")
	case b.empty():
		add("%s", b.nothing())
		for i := range b.Steps {
			if s := &b.Steps[i]; s.Money == nil {
				add("%s", clip("Not known: "+s.text+"."))
			}
		}
	default:
		lines = append(lines, p.faint(fmt.Sprintf("%-42s%7s%15s%16s", "what saves, each after the line above", "nodes", cmp.Or(b.Currency, "units")+" a month", "at most")))
		for i := range b.Steps {
			lines = append(lines, b.stepLines(&b.Steps[i], p)...)
		}
		lines = append(lines, row("between these and the proven least", math.NaN(), b.money(b.Rest), ""))
	}
	if len(b.Constraint) > 0 && b.nodes > 0 && len(b.Steps) > 0 {
		lines = append(lines, p.faint("what rules cost: no part of the sum, and they overlap"))
		for i := range b.Constraint[:min(2, len(b.Constraint))] {
			c := &b.Constraint[i]
			lines = append(lines, p.faint(row("  "+short(c.What), float64(c.Nodes), b.money(c.Money), b.money(c.Bound))))
		}
	}
	add("")
	remarks := b.remarks()
	var last []string
	if next := b.next(); next != "" {
		last = command("Next: ", next)
	}
	if over := len(lines) + len(remarks) + len(last) - screenLines; over > 0 { // the next command is worth more than remarks
		remarks = append(remarks[:max(0, len(remarks)-over-1)], clip("…more with --report or --format json"))
	}
	lines = append(append(lines, remarks...), last...)
	_, err := io.WriteString(out, strings.Join(lines, "\n")+"\n")
	return err
}

// unit names the currency, or the linear model.
func (b *Bill) unit() string { return cmp.Or(b.Currency, "units") }

// money is an amount for people: whole units from 100 on, millions from 10⁹ on.
func (b *Bill) money(c Cents) string {
	if c >= 1e11 {
		return humanize.Comma(int64(math.Round(float64(c)/1e8))) + " M"
	}
	if c >= 10000 || c%100 == 0 {
		return humanize.Comma(int64(math.Round(float64(c) / 100)))
	}
	return c.String()
}

func (b *Bill) head() string {
	text := fmt.Sprintf("%s: %s", b.name, plural.Of(b.nodes, "node"))
	if n := len(b.Excluded); n > 0 {
		take := "take"
		if n == 1 {
			take = "takes"
		}
		text += fmt.Sprintf(" (%d %s no pods)", n, take)
	}
	text += ", " + plural.Of(b.pods, "pod")
	waiting := 0
	for _, p := range b.Pending {
		waiting += p.Count
	}
	if waiting > 0 {
		text += fmt.Sprintf(", %d pending", waiting)
	}
	return text
}

// shares are the requested and the used parts of the nodes.
func (b *Bill) shares() string {
	var parts []string
	for _, r := range []struct {
		name            string
		requested, have float64
		used            func(*Amounts) float64
	}{
		{"cpu", b.Requested.CPU, b.have.CPU, func(a *Amounts) float64 { return a.CPU }},
		{"memory", b.Requested.Memory, b.have.Memory, func(a *Amounts) float64 { return a.Memory }},
	} {
		if r.have <= 0 {
			continue
		}
		text := fmt.Sprintf("%s requested %.0f %%", r.name, 100*r.requested/r.have)
		if b.Used != nil {
			text += fmt.Sprintf(", used %.0f %%", 100*r.used(b.Used)/r.have)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "     ")
}

// empty reports whether no step is known to save anything and nothing is left over.
func (b *Bill) empty() bool {
	for i := range b.Steps {
		if m := b.Steps[i].Money; m != nil && m.Mean > 0 {
			return false
		}
	}
	return b.Rest == 0
}

// nothing is the sentence of a bill without savings.
func (b *Bill) nothing() string {
	stay := 0
	for _, p := range b.Pinned {
		stay += p.Count
	}
	if stay == 0 {
		return "Nothing can be saved: no placement of these pods on these nodes costs less."
	}
	return clip(fmt.Sprintf("Nothing can be saved while %s must not move.", plural.Of(stay, "pod")))
}

func (b *Bill) stepLines(s *Step, p pen) []string {
	if s.Money == nil {
		return append([]string{row("  "+s.text, math.NaN(), "unknown", "")}, command("    ", s.Command)...)
	}
	text := b.money(s.Money.Mean)
	if s.Money.Low < s.Money.High {
		text += fmt.Sprintf(" ±%s", b.money((s.Money.High-s.Money.Low)/2))
	}
	line := row("  "+s.text, s.Nodes, text, b.money(s.Bound))
	if s.Money.Mean == 0 {
		return []string{line}
	}
	lines := []string{p.strong(line)}
	if s.advice != "" {
		lines = append(lines, clip("    "+s.advice))
	}
	return append(lines, command("    ", s.Command)...)
}

// row is a line of the table, with the change in nodes: those that the bill has fewer are negative.
func row(text string, nodes float64, money, bound string) string {
	count := ""
	if !math.IsNaN(nodes) {
		if count = strconv.FormatFloat(0-math.Round(10*nodes)/10, 'f', -1, 64); nodes < 0 {
			count = "+" + count
		}
	}
	right := fmt.Sprintf("%7s%15s%16s", count, money, bound)
	if utf8.RuneCountInString(money) > 14 { // the columns of long amounts are narrower, and the text is shorter
		right = fmt.Sprintf("%38s", fmt.Sprintf("%4s %s %*s", count, money, min(15, max(0, 32-utf8.RuneCountInString(money))), bound))
	}
	room := screenWidth - utf8.RuneCountInString(right)
	if utf8.RuneCountInString(text) > room {
		text = string([]rune(text)[:room-1]) + "…"
	}
	space := strings.Repeat(" ", room-utf8.RuneCountInString(text))
	return strings.TrimRight(text+space+right, " ")
}

// command is a command in lines of the screen's width.
func command(head, text string) []string {
	if text == "" {
		return nil
	}
	var lines []string
	line := head
	words := flagged(strings.Split(text, " "))
	for i, word := range words {
		room := screenWidth
		if i < len(words)-1 {
			room -= len(" \\") // the line may have to go on
		}
		switch {
		case i == 0:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room:
			lines, line = append(lines, line+` \`), strings.Repeat(" ", len(head)+2)+word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// flagged joins flags with their values.
func flagged(words []string) (out []string) {
	for i, word := range words {
		if i > 0 && strings.HasPrefix(words[i-1], "--") && !strings.HasPrefix(word, "-") {
			out[len(out)-1] += " " + word
		} else {
			out = append(out, word)
		}
	}
	return out
}

func clip(text string) string {
	if utf8.RuneCountInString(text) <= screenWidth {
		return text
	}
	return string([]rune(text)[:screenWidth-1]) + "…"
}

// short is a reason for which pods stay, in words for the screen; the page has all of it.
func short(reason string) string {
	reason, _, _ = strings.Cut(reason, ", while ")
	for _, of := range []struct{ long, short string }{
		{"where it may go depends on its ", ""}, {"it has ", ""}, {"its node stays: ", "their node: "}, {"its workload has ", "a workload that has "},
	} {
		if rest, ok := strings.CutPrefix(reason, of.long); ok {
			return of.short + rest
		}
	}
	return reason
}

// because names the cause of the floor.
func (b *Bill) because() string {
	if b.binds == "" || b.Cost.Floor == 0 {
		return ""
	}
	return " (" + b.binds + ")"
}

// remarks are pods that wait, pods that stay, nodes that take none, and the source of prices.
func (b *Bill) remarks() (lines []string) {
	one := func(head string, groups []string) {
		if len(groups) > 0 {
			lines = append(lines, clip(head+strings.Join(groups, "; ")))
		}
	}
	var groups []string
	for _, p := range b.Pending {
		groups = append(groups, fmt.Sprintf("%d %s", p.Count, p.Reason))
	}
	one("Pending: ", groups)
	groups = nil
	for _, p := range b.LeftOut {
		groups = append(groups, fmt.Sprintf("%d (%s)", p.Count, p.Reason))
	}
	one("In no count: ", groups)
	groups = nil
	for _, p := range b.Pinned {
		groups = append(groups, fmt.Sprintf("%d (%s)", p.Count, short(p.Reason)))
	}
	one("Must not move: ", groups)
	groups = nil
	for _, x := range b.Excluded {
		groups = append(groups, fmt.Sprintf("%s %s (%s)", x.Node, x.Reason, b.money(x.Money)))
	}
	one("No room: ", groups)
	groups = nil
	for _, n := range b.Namespaces[:min(10, len(b.Namespaces))] {
		if b.Cost.Now > 0 && n.Namespace != "" {
			groups = append(groups, fmt.Sprintf("%s %.0f %%", n.Namespace, 100*float64(n.Share)/float64(b.Cost.Now)))
		}
	}
	one("Share of the bill: ", groups)
	for _, text := range b.unplaced {
		lines = append(lines, clip("Left out: "+text))
	}
	if len(b.Missing) > 0 {
		one("Not read: ", b.Missing)
	}
	if b.unknown > 0 {
		have := "have"
		if b.unknown == 1 {
			have = "has"
		}
		lines = append(lines, fmt.Sprintf("Used is without %s that %s no metrics.", plural.Of(b.unknown, "pod"), have))
	}
	switch model, all := b.Prices.Nodes["model"], b.Prices.Nodes["annotation"]; {
	case b.nodes == 0:
	case b.Currency != "" && model > 0:
		lines = append(lines, clip(fmt.Sprintf("Prices: none is known of %s; the linear model stands in (docs/prices.md).", plural.Of(model, "node"))))
	case b.Currency == "" && model == 0 && all > 0:
		lines = append(lines, "Units are those of the nodes' annotations.")
	case b.Currency == "":
		lines = append(lines, "Units are of the linear model, no money: give --prices FILE (docs/prices.md).")
	}
	return lines
}

// next is the command to type next.
func (b *Bill) next() string {
	if b.nodes == 0 || b.empty() || slices.Contains(b.Missing, podKind) {
		return ""
	}
	if b.source.Snapshot != "" {
		return b.source.Snapshot
	}
	best := ""
	most := Cents(0)
	for i := range b.Steps {
		if s := &b.Steps[i]; s.Money != nil && s.Money.Mean > most {
			best, most = s.Command, s.Money.Mean
		}
	}
	return best
}
