package placement

import (
	"strings"
)

var shipped = Section{
	Name:     "shipped",
	research: true,
	title:    "Shipped policies on unseen instances and public sets",
	about: "Shipped policies (`learned`)" + ` on test instances (seeds from 950,000, unseen while policies and
planner were developed) and shuffled orders, beside peers of the same run. ± is the standard error over instances.
K0 knows only the past; +clock also the elapsed share of the arrival period; K1 a forecast per app; K2 the true counts.`,
	run: runShipped,
}

// Files of the laboratory: for one dimension without limits, and for curves.
const plainLine, curves = "general-k0-plain-1d.yaml", "wide-k0.yaml"

// A showing is a comparison that the page shows as sigma compare prints it.
type showing struct {
	trace, policies string
	orders          int
	flags           []string
}

func knows(trace, policies string, orders int, knowledge ...string) (list []showing) {
	for _, k := range knowledge {
		list = append(list, showing{trace, policies, orders, []string{"--knowledge", k}})
	}
	return list
}

func runShipped(b *bench) error {
	const seed = 950_000
	for _, s := range []struct {
		name, kind string
		count      int
		sets       []string
	}{
		{"small", "small", 40, nil},
		{"large", "large", 8, nil},
		{"high", "large", 8, []string{"forecast=1.3"}},
		{"low", "large", 8, []string{"forecast=.7"}},
		{"noisy", "large", 8, []string{"noise=.7"}},
		{"large2d", "large2d", 8, nil},
		{"fixed", "fixed", 8, nil},
		{"churn", "churn", 4, nil},
		{"churn2", "churn", 6, nil},
		{"orlib", "orlib", 20, nil},
		{"weibull", "weibull", 4, nil},
	} {
		if _, err := b.generate(s.name, s.kind, seed, s.count, s.sets...); err != nil {
			return err
		}
	}
	const peers, wide = "bestfit,worstfit,learned", "bestfit,worstfit,dotproduct,learned"
	var wrong []showing
	for _, name := range []string{"high", "low", "noisy"} {
		wrong = append(wrong, knows(name, peers, 5, "K1+clock")...)
	}
	for _, part := range []struct {
		heading string
		list    []showing
	}{
		{"small: 40 instances × 20 orders", append(append(
			knows("small", "bestfit,worstfit,dotproduct,firstfit,hand,learned", 20, "K1"),
			knows("small", "bestfit,learned", 20, "K2")...), knows("small", "bestfit,learned", 20, "K0")...)},
		{"large at full scale: 8 instances × 20 orders", knows("large", wide, 20, "K1+clock", "K0+clock", "K1", "K0")},
		{"large, a forecast 30 % too high and too low: 8 instances × 5 orders", wrong},
		{"large2d at full scale: 8 instances × 10 orders", knows("large2d", peers, 10, "K1+clock", "K0+clock", "K0")},
		{"fixed fleets of 1.02 × the volume bound: 8 instances × 5 orders", knows("fixed", peers, 5, "K0")},
		{"churn: 4 instances in the file's order, 6 × 3 shuffled", append(
			knows("churn", "bestfit,worstfit,movetofront,learned", 0, "K0", "K1"), knows("churn2", "bestfit,learned", 3, "K0")...)},
		{"one dimension, fresh instances", []showing{
			{"orlib", "firstfit,bestfit,learned," + plainLine, 2, nil}, {"weibull", "firstfit,bestfit,learned," + plainLine, 2, nil},
		}},
	} {
		if err := b.show(part.heading, part.list); err != nil {
			return err
		}
	}
	return shippedPublic(b)
}

func shippedPublic(b *bench) error {
	for _, s := range []struct {
		name, format string
		paths        []string
		flags        []string
	}{
		{"or3", "funsearch", []string{"funsearch-binpack/or3.json"}, nil},
		{"weibull-5k", "funsearch", []string{"funsearch-binpack/weibull-5k.json"}, nil},
		{"tianchi", "tianchi", []string{"tianchi2018-common", "tianchi2018-prelim-b"}, []string{"--large-first", "--empty"}},
	} {
		if b.runner.Data == "" {
			b.leftOut(s.name)
			continue
		}
		if _, err := b.convert(s.name, s.format, s.paths, s.flags...); err != nil {
			return err
		}
	}
	if b.runner.Data == "" {
		return nil
	}
	return b.show("public sets", []showing{
		{"or3", "firstfit,bestfit-l1,learned," + plainLine, 0, nil},
		{"or3", "bestfit-l1,learned," + plainLine, 10, nil},
		{"weibull-5k", "firstfit,bestfit-l1,learned," + plainLine, 0, nil},
		{"weibull-5k", "bestfit-l1,learned," + plainLine, 5, nil},
		{"tianchi", "firstfit,bestfit,dotproduct,learned," + curves, 0, nil},
		{"tianchi", "bestfit,learned," + curves, 3, nil},
	})
}

// show adds a part of the page with what the command line prints.
func (b *bench) show(heading string, list []showing) error {
	for i, s := range list {
		if i > 0 {
			heading = ""
		}
		out, _, err := b.sigma(append(comparison(b.path(s.trace), s.policies, s.orders, "markdown"), s.flags...)...)
		if err != nil {
			return err
		}
		noted := b.runner.Noted()
		text := "```\n" + noted[len(noted)-1] + "\n```\n\n" + strings.TrimSpace(deeper(string(out)))
		b.parts = append(b.parts, part{heading, text})
	}
	return nil
}

// deeper moves headings one level down: they stand below a part's.
func deeper(text string) string {
	return strings.ReplaceAll("\n"+text, "\n## ", "\n### ")
}
