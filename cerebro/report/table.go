package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// Options of [Table] and [Markdown].
type Options struct {
	// Detail adds a table for each trace to the overview of several; a single trace
	// always has its table, and so have those of which some count items at their use and others do not.
	Detail bool
}

// Table writes the comparisons for a terminal: the summary, an overview when
// there are several traces, and a table per trace.
func Table(w io.Writer, comparisons []Comparison, options Options) error {
	var b strings.Builder
	b.WriteString(Summary(comparisons) + "\n")
	if len(comparisons) > 1 && !Mixed(comparisons) {
		fmt.Fprintf(&b, "\n%d traces  %s\n", len(comparisons), ordersOf(comparisons))
		writeTables(&b, overview(comparisons), comparisons, (*sheet.Table).Text)
		writeLines(&b, "", notes(comparisons))
	}
	if len(comparisons) == 1 || options.Detail || Mixed(comparisons) {
		for i := range comparisons {
			c := &comparisons[i]
			b.WriteString("\n")
			if len(comparisons) > 1 {
				b.WriteString(c.Summary() + "\n")
			}
			writeLines(&b, "", c.head())
			writeTables(&b, c.table(), alone(comparisons, i), (*sheet.Table).Text)
			writeLines(&b, "", notes(comparisons[i:i+1]))
		}
	}
	return write(w, b.String())
}

// Markdown is [Table] with pipe tables.
func Markdown(w io.Writer, comparisons []Comparison, options Options) error {
	var b strings.Builder
	b.WriteString(Summary(comparisons) + "\n")
	if len(comparisons) > 1 && !Mixed(comparisons) {
		fmt.Fprintf(&b, "\n%d traces, %s.\n\n", len(comparisons), ordersOf(comparisons))
		writeTables(&b, overview(comparisons), comparisons, markdown)
		writeItems(&b, notes(comparisons))
	}
	if len(comparisons) == 1 || options.Detail || Mixed(comparisons) {
		for i := range comparisons {
			c := &comparisons[i]
			fmt.Fprintf(&b, "\n## %s\n\n", c.Trace.Name)
			if len(comparisons) > 1 {
				b.WriteString(c.Summary() + "\n\n")
			}
			b.WriteString(strings.Join(c.head(), "  \n") + "\n\n")
			writeTables(&b, c.table(), alone(comparisons, i), markdown)
			writeItems(&b, notes(comparisons[i:i+1]))
		}
	}
	return write(w, b.String())
}

// writeTables writes a table and, where there is money to save, that of the savings.
func writeTables(b *strings.Builder, t sheet.Table, list []Comparison, as func(*sheet.Table, *strings.Builder)) {
	as(&t, b)
	if s := savings(list); len(s.Rows) > 0 && list[0].Trace.Currency != "" {
		b.WriteString("\n" + s.Caption + "\n\n")
		as(&s, b)
	}
}

func markdown(t *sheet.Table, b *strings.Builder) {
	t.Markdown(b)
	if slices.ContainsFunc(t.Rows, func(r sheet.Row) bool { return r.Break != "" }) {
		b.WriteString("\nThe last rows are nearly offline: K2 knows the true totals.\n")
	}
}

// alone is a comparison without an overview: the only one, or one of both kinds.
func alone(comparisons []Comparison, i int) []Comparison {
	if len(comparisons) == 1 || Mixed(comparisons) {
		return comparisons[i : i+1]
	}
	return nil
}

func write(w io.Writer, s string) error {
	if _, err := io.WriteString(w, s); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

func writeLines(b *strings.Builder, mark string, lines []string) {
	for _, l := range lines {
		b.WriteString(mark + l + "\n")
	}
}

// writeItems writes lines as a Markdown list, with the blank line it needs.
func writeItems(b *strings.Builder, lines []string) {
	if len(lines) > 0 {
		b.WriteString("\n")
	}
	writeLines(b, "- ", lines)
}

// head describes the trace and its bound.
func (c *Comparison) head() []string {
	t, limit := &c.Trace, "bound "+c.boundText()
	if b := c.bound(); b.Optimal != nil {
		limit += "  optimum " + sheet.Short(*b.Optimal)
	}
	return []string{
		fmt.Sprintf("trace %s  digests: instance %s  trace %s", t.Name, shortDigest(t.Digest.Instance), shortDigest(t.Digest.Trace)),
		fmt.Sprintf("items %d  apps %d  fleet %s  machines %s  %s  seed %d  orders %d",
			t.Items, t.Apps, t.Fleet, machineText(t.Machines), limit, t.Seed, t.Orders),
	}
}

func machineText(n int) string {
	if n < 0 {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

// boundText is the bound in machines, with the cost where that differs, and its method.
func (c *Comparison) boundText() string {
	if c.Trace.Retry {
		return "none, since items may wait"
	}
	b := c.bound()
	s := fmt.Sprint(b.Machines)
	if b.Cost != float64(b.Machines) {
		s += ", cost " + sheet.Short(b.Cost)
	}
	if c.Trace.Deletes {
		s += " at the peak, machine-seconds " + sheet.Figure(b.MachineSeconds, 0, false)
		if b.CostSeconds != b.MachineSeconds {
			s += ", cost-seconds " + sheet.Figure(b.CostSeconds, 0, false)
		}
	}
	return s + " (" + b.Method + ")"
}

// shortDigest keeps the first twelve hexadecimal digits.
func shortDigest(digest string) string {
	const keep = len("sha256:") + 12
	if digest == "" {
		return "-"
	}
	if strings.HasPrefix(digest, "sha256:") && len(digest) > keep {
		return digest[:keep]
	}
	return digest
}

// ordersOf writes seed and orders if all traces share them.
func ordersOf(comparisons []Comparison) string {
	first := comparisons[0].Trace
	for _, c := range comparisons {
		if c.Trace.Seed != first.Seed || c.Trace.Orders != first.Orders {
			return "seeds and orders differ"
		}
	}
	return fmt.Sprintf("seed %d  orders %d", first.Seed, first.Orders)
}

// notes are the caveats below a table.
func notes(comparisons []Comparison) []string {
	return slices.Concat(provenance(comparisons), ignoredNotes(comparisons), fallbackNotes(comparisons))
}

// provenance reports the quality of a forecast and the weights that decided.
func provenance(comparisons []Comparison) (lines []string) {
	weights := map[string]bool{}
	forecast := false
	for i := range comparisons {
		for j := range comparisons[i].Results {
			r := &comparisons[i].Results[j]
			forecast = forecast || strings.HasPrefix(r.Knowledge, "K1")
			if r.Digest != "" {
				weights[r.Policy+" "+shortDigest(r.Digest)] = true
			}
		}
	}
	if line := forecastLine(comparisons); forecast && line != "" {
		lines = append(lines, line)
	}
	for _, w := range slices.Sorted(maps.Keys(weights)) {
		lines = append(lines, "weights of "+w)
	}
	return lines
}

// ignoredNotes reports the number of items with constraints that no figure counts.
func ignoredNotes(comparisons []Comparison) (lines []string) {
	for i := range comparisons {
		if t := &comparisons[i].Trace; t.Ignored > 0 {
			lines = append(lines, fmt.Sprintf("%s: no figure counts all constraints of %s", t.Name, plural.Of(t.Ignored, "item")))
		}
	}
	return lines
}

// fallbackNotes reports the decisions that policies did not make.
func fallbackNotes(comparisons []Comparison) (lines []string) {
	causes := map[string]int{}
	for i := range comparisons {
		for j := range comparisons[i].Results {
			r := &comparisons[i].Results[j]
			for _, run := range r.counted() {
				for cause, n := range run.Fallbacks {
					causes[r.Policy+": "+cause] += n
				}
			}
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		if causes[cause] > 0 {
			lines = append(lines, fmt.Sprintf("not decided by %s: %s", cause, plural.Of(causes[cause], "item")))
		}
	}
	return lines
}

// forecastLine describes the quality of the forecast of K1.
func forecastLine(comparisons []Comparison) string {
	var ratios, errors []float64
	for _, c := range comparisons {
		if f := c.Trace.Forecast; f != nil {
			ratios = append(ratios, f.Ratio)
			errors = append(errors, f.AppError)
		}
	}
	if len(ratios) == 0 {
		return ""
	}
	ratio := sheet.Figure(slices.Min(ratios), 3, false)
	if most := sheet.Figure(slices.Max(ratios), 3, false); most != ratio {
		ratio += " to " + most
	}
	return fmt.Sprintf("forecast (K1): Σexpected/Σtrue %s, mean error per app %s %%",
		ratio, sheet.Figure(100*estimate(errors).mean, 1, false))
}
