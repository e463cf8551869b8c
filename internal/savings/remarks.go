package savings

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sigma-scheduler/sigma/internal/plural"
)

// A remark is a line below the table: groups, of which those that the line has no room for are counted.
type remark struct {
	head   string
	groups []string
}

func (r remark) line() string {
	text := r.head
	if len(r.groups) == 0 {
		return clip(text)
	}
	if whole := text + ": " + strings.Join(r.groups, "; "); utf8.RuneCountInString(whole) <= screenWidth {
		return whole
	}
	text += ": " + r.groups[0]
	const more = len("; 99 more")
	left := 0
	for _, group := range r.groups[1:] {
		if utf8.RuneCountInString(text+"; "+group) > screenWidth-more {
			left++
			continue
		}
		text += "; " + group
	}
	if left == 0 {
		return clip(text)
	}
	return clipTo(text, screenWidth-more) + fmt.Sprintf("; %d more", left)
}

// remarks are pods that wait, pods that stay, nodes that take none, and the source of prices.
func (b *Bill) remarks() (lines []remark) {
	add := func(head string, groups ...string) {
		if len(groups) > 0 {
			lines = append(lines, remark{head, groups})
		}
	}
	var pending, lost, stay, closed, kept, shares, models []string
	for _, p := range b.Pending {
		pending = append(pending, fmt.Sprintf("%d %s", p.Count, p.Reason))
	}
	for _, p := range b.LeftOut {
		lost = append(lost, fmt.Sprintf("%d (%s)", p.Count, p.Reason))
	}
	for _, p := range b.Pinned {
		stay = append(stay, fmt.Sprintf("%d %s", p.Count, which(p.Reason)))
	}
	for _, x := range b.Excluded {
		to := &closed
		if x.Takes {
			to = &kept
		}
		*to = append(*to, fmt.Sprintf("%s %s (%s)", x.Node, x.Reason, b.money(x.Money)))
	}
	for _, n := range b.Namespaces[:min(10, len(b.Namespaces))] {
		if b.Cost.Now > 0 && n.Namespace != "" {
			shares = append(shares, fmt.Sprintf("%s %.0f %%", n.Namespace, 100*float64(n.Share)/float64(b.Cost.Now)))
		}
	}
	switch model, all := b.Prices.Nodes["model"], b.Prices.Nodes["annotation"]; {
	case b.nodes == 0:
	case b.Currency != "" && model > 0:
		models = append(models, fmt.Sprintf("none is known of %s: a linear model has theirs (docs/prices.md)", plural.Of(model, "node")))
	case b.Currency == "" && model == 0 && all > 0:
		models = append(models, "units are those of the nodes' annotations")
	case b.Currency == "":
		models = append(models, "units of a linear model, no money: give --prices FILE (docs/prices.md)")
	}
	if n := b.Prices.Nodes["model of Linux"]; n > 0 {
		models = append(models, plural.Of(n, "Windows node")+" as in a linear model of Linux (docs/prices.md)")
	}
	add("Pending", pending...)
	add("Prices", models...)
	add("Must not move", stay...)
	add("No room", closed...)
	add("Kept", kept...)
	add("In no count", lost...)
	add("Share of the bill", shares...)
	add("Left out", b.unplaced...)
	add("Not read", b.Missing...)
	if b.unknown > 0 {
		add("Used is without", plural.Of(b.unknown, "pod")+" that no metrics are of")
	}
	return lines
}

// dependsOn begins the reason of pods with constraints that a trace lacks.
const dependsOn = "where it may go depends on "

// which describes the pods that stay for a reason, in words that follow "pods". The page has all of the reason.
func which(why string) string {
	why, _, _ = strings.Cut(why, ", while ")
	for _, of := range []struct{ one, many string }{
		{"it has no controller that would replace it, and it has ", "without a controller and with "},
		{"it has no controller that would replace it", "without a controller"},
		{"it has ", "with "},
		{"it is ", ""},
		{"its annotation forbids it: ", "with the annotation "},
		{"its node stays: ", "on nodes that stay: "},
		{"its ", "whose "},
		{"another scheduler places it: ", "of the scheduler "},
		{dependsOn + "its ", "with "},
		{dependsOn, "bound by "},
	} {
		if rest, ok := strings.CutPrefix(why, of.one); ok {
			rest = strings.NewReplacer(", its ", ", ", "its workload", "their workload", "its container", "the container").Replace(rest)
			return of.many + rest
		}
	}
	return "that stay: " + why
}
