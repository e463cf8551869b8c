package savings

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/shellword"
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

// A textLine is a line of the screen in one style.
type textLine struct {
	text  string
	style func(pen, string) string // nil = as it is
}

// Print writes the bill as a screen of at most 25 lines of 80 columns, and the simulated month below it.
func (b *Bill) Print(out io.Writer, colours bool) error {
	var lines []textLine
	add := func(texts ...string) {
		for _, text := range texts {
			lines = append(lines, textLine{text: text})
		}
	}
	add(b.head())
	least := ""
	if b.nodes > 0 && !slices.Contains(b.Missing, podKind) {
		least = fmt.Sprintf("; cannot be below %s%s", b.money(b.Cost.Floor), b.because())
	}
	lines = append(lines, textLine{clip("cost " + b.money(b.Cost.Now) + " " + b.unit() + " a month" + least), pen.strong})
	if text := b.shares(); text != "" {
		add(text)
	}
	if b.Snapshot != "" && b.next() != "" {
		add(command("type first: ", b.Snapshot)...)
	}
	add("")
	var rules []textLine
	switch {
	case b.nodes == 0:
		add(noNodes)
	case slices.Contains(b.Missing, podKind):
		add("No pods were read, so nothing is known of where the cost goes.")
	case b.empty():
		add(b.nothing())
		for i := range b.Steps {
			if s := &b.Steps[i]; s.Money == nil {
				add(clip("Not known: " + s.text + "."))
			}
		}
		rules = b.rules()
	default:
		lines = append(lines, textLine{fmt.Sprintf("%-37s%12s%15s%16s", "what would save, in this order", "nodes saved", b.unit()+" a month", "at most"), pen.faint})
		parts := b.parts()
		for i := range b.Steps {
			lines = append(lines, b.stepLines(&b.Steps[i], parts[i])...)
		}
		add(row(restText, math.NaN(), b.money(parts[len(b.Steps)]), ""))
		rules = b.rules()
	}
	remarks := b.remarks()
	const leastRemarks = 2 // one, and the note of the others
	room := screenLines - len(lines) - min(leastRemarks, len(remarks))
	lines = append(lines, rules[:max(0, min(len(rules), room-1))]...)
	if add(""); room < 1 { // remarks are worth more than blank lines
		lines = slices.DeleteFunc(lines, func(line textLine) bool { return line.text == "" })
	}
	if over := len(lines) + len(remarks) - screenLines; over > 0 {
		kept := max(0, len(remarks)-over-1)
		var heads []string
		for _, r := range remarks[kept:] {
			heads = append(heads, r.head)
		}
		remarks = append(remarks[:kept:kept], remark{head: "More by --report FILE or --format json", groups: heads})
	}
	for _, r := range remarks {
		add(r.line())
	}
	if month := b.Month.lines(b); month != nil {
		lines = append(append(lines, textLine{}), month...)
	}
	var text strings.Builder
	for _, line := range lines {
		written := shellword.Clean(line.text)
		if line.style != nil {
			written = line.style(pen{colours}, written)
		}
		text.WriteString(written + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

const (
	noNodes  = "The cluster has no nodes: there is nothing to save."
	restText = "neither saved nor proven to be needed"
)

// rules are the lines of the constraints that cost most, of each kind one.
func (b *Bill) rules() (lines []textLine) {
	kinds := map[string]bool{}
	for i := range b.Constraint {
		c := &b.Constraint[i]
		if kinds[c.Kind] || len(kinds) == 2 {
			continue
		}
		kinds[c.Kind] = true
		text, figures := "  not added: "+Freed(c.What), row("", float64(c.Nodes), b.money(c.Money), b.atMost(c.Bound, 0))
		if n := utf8.RuneCountInString(text); n < len(figures)-len(strings.TrimLeft(figures, " ")) {
			lines = append(lines, textLine{text + figures[n:], pen.faint})
		} else { // a name that is cut cannot be typed
			lines = append(lines, textLine{clip(text), pen.faint}, textLine{figures, pen.faint})
		}
	}
	if b.Batch != nil {
		lines = append(lines, textLine{clip(b.Batch.line()), pen.faint})
	}
	return lines
}

// unit names the currency, or the linear model.
func (b *Bill) unit() string {
	if b.Currency == "" {
		return "units"
	}
	return b.Currency
}

// grain is the smallest amount that the bill shows: cents below 100 units, millions from 10⁹ on.
func (b *Bill) grain() Cents {
	switch {
	case b.Cost.Now >= 1e11:
		return 1e8
	case b.Cost.Now >= 1e4:
		return 100
	}
	return 1
}

// money is an amount for people, in grains.
func (b *Bill) money(c Cents) string {
	grain := b.grain()
	return written(Cents(math.Round(float64(c)/float64(grain)))*grain, grain)
}

// atMost is an upper limit of an amount that is shown: rounding puts it no lower.
func (b *Bill) atMost(limit, shown Cents) string {
	grain := b.grain()
	return written(max(shown, Cents(math.Round(float64(limit)/float64(grain)))*grain), grain)
}

func written(c, grain Cents) string {
	switch {
	case grain == 1e8:
		return humanize.Comma(int64(c/grain)) + " M"
	case c%100 == 0:
		return humanize.Comma(int64(c / 100))
	}
	return c.String()
}

// parts are the amounts of the steps and of the rest as they are shown: with the least they add up to the cost, each
// rounded. Each is the difference of two levels that are rounded.
func (b *Bill) parts() []Cents {
	level, grain := b.Cost.Now, b.grain()
	rounded := func(c Cents) Cents { return Cents(math.Round(float64(c)/float64(grain))) * grain }
	var parts []Cents
	for i := range b.Steps {
		before := level
		if m := b.Steps[i].Money; m != nil {
			level -= m.Mean
		}
		parts = append(parts, rounded(before)-rounded(level))
	}
	return append(parts, rounded(level)-rounded(b.Cost.Floor))
}

// head has the size of the cluster. A long name lacks its beginning.
func (b *Bill) head() string {
	text := ": " + b.size()
	name := []rune(b.name)
	if over := len(name) + utf8.RuneCountInString(text) - screenWidth; over > 0 {
		name = append([]rune("…"), name[min(over+1, len(name)):]...)
	}
	return string(name) + text
}

func (b *Bill) size() string {
	text := plural.Of(b.nodes, "node")
	n := 0
	for _, x := range b.Excluded {
		if !x.Takes {
			n++
		}
	}
	if n > 0 {
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

const shareGap = "     "

// shares are the requested and the used parts of the nodes.
func (b *Bill) shares() string {
	var parts []string
	for _, r := range []struct {
		name            string
		requested, have float64
		used            func(*Used) float64
	}{
		{"cpu", b.Requested.CPU, b.have.CPU, func(a *Used) float64 { return a.CPU }},
		{"memory", b.Requested.Memory, b.have.Memory, func(a *Used) float64 { return a.Memory }},
	} {
		if r.have <= 0 {
			continue
		}
		text := fmt.Sprintf("%s requested %.0f %%", r.name, 100*r.requested/r.have)
		if b.Used != nil && r.used(b.Used) > 0 {
			text += fmt.Sprintf(", used %.0f %%", 100*r.used(b.Used)/r.have)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, shareGap)
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

// stepLines are a step's row with its commands.
func (b *Bill) stepLines(s *Step, shown Cents) (lines []textLine) {
	add := func(texts ...string) {
		for _, text := range texts {
			lines = append(lines, textLine{text: text})
		}
	}
	if s.Money == nil {
		add(row("  "+s.text, math.NaN(), "unknown", b.atMost(s.Bound, 0)))
		add(command("    ", s.Command)...)
		return lines
	}
	text := b.money(shown)
	if s.Money.Low < s.Money.High {
		text += fmt.Sprintf(" ±%s", b.money((s.Money.High-s.Money.Low)/2))
	}
	line := row("  "+s.text, s.Nodes, text, b.atMost(s.Bound, shown))
	if s.Money.Mean == 0 {
		add(line)
		return lines
	}
	lines = append(lines, textLine{line, pen.strong})
	if s.advice != "" {
		add(clip("    " + s.advice))
	}
	add(b.removal(s)...)
	add(command("    ", s.Command)...)
	return lines
}

// removal is the command that removes the nodes of a step, or lists them where they are many.
func (b *Bill) removal(s *Step) []string {
	if s.deletion == "" {
		return nil
	}
	const head = "    end in the cloud, then: "
	if lines := command(head, s.deletion); len(lines) == 1 {
		return lines
	}
	return append([]string{"    end in the cloud, then kubectl delete node each of these:"},
		command("    ", "sigma savings --trace "+b.source.Path()+" --format json | jq -r '.steps[0].remove[]'")...)
}

// row is a line of the table.
func row(text string, nodes float64, money, bound string) string {
	count := ""
	if !math.IsNaN(nodes) {
		count = fewer(nodes)
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

// fewer is a number of nodes that a step saves, to tenths; it is negative where there are more.
func fewer(nodes float64) string { return strconv.FormatFloat(math.Round(10*nodes)/10+0, 'f', -1, 64) }

// command is a command in lines of the screen's width.
func command(head, text string) []string {
	if text == "" {
		return nil
	}
	var lines []string
	line := head
	words := flagged(shellword.Split(text))
	for i, word := range words {
		room := screenWidth
		if i < len(words)-1 {
			room -= len(" \\") // the line may have to go on
		}
		switch {
		case i == 0:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room:
			lines, line = append(lines, line+` \`), strings.Repeat(" ", min(len(head)+2, 6))+word
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

// clip cuts a text at a space, so that no name is cut.
func clip(text string) string { return clipTo(text, screenWidth) }

func clipTo(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	text = string([]rune(text)[:width-1])
	if at := strings.LastIndexByte(strings.TrimRight(text, " "), ' '); at > width/2 {
		text = text[:at+1]
	}
	return text + "…"
}

// because names the cause of the floor.
func (b *Bill) because() string {
	if b.binds == "" || b.Cost.Floor == 0 {
		return ""
	}
	return " (" + b.binds + ")"
}

// next is the command to type first; "" = there is nothing to save.
func (b *Bill) next() string {
	if b.nodes == 0 || b.empty() || slices.Contains(b.Missing, podKind) {
		return ""
	}
	if b.source.Snapshot != "" {
		return b.source.Snapshot
	}
	for i := range b.Steps {
		if s := &b.Steps[i]; s.Command != "" && s.Money != nil && s.Money.Mean > 0 {
			return s.Command
		}
	}
	return ""
}
