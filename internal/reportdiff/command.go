package reportdiff

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// A Shell holds the program's services for the command.
type Shell struct {
	Out   io.Writer
	Do    func(func(*cobra.Command, []string) error) func(*cobra.Command, []string) error // wraps the command's function
	Usage func(format string, args ...any) error                                          // the error of wrong use
	Group func(*cobra.Command)                                                            // makes a command a group of commands
}

// Command is "sigma report", the group of commands on pages.
func (s Shell) Command() *cobra.Command {
	group := &cobra.Command{Use: "report", Short: "Compare the pages that sigma writes, and bring them out of a cluster", Example: "  sigma report diff before.html after.html"}
	s.Group(group)
	format := ""
	diff := &cobra.Command{
		Use:   "diff A.html B.html",
		Short: "Say what changed between two pages of compare, mpa simulate or flow simulate",
		Long: `Diff reads the data inside of two pages that "sigma compare --report" or "sigma mpa
simulate --report" wrote, and prints what changed: the verdict, the inputs and policy files
whose digests differ, and each policy's figures with the difference B − A and its 95 %
interval.

Where all inputs of a trace are equal, runs are paired by order or seed (Student's t); else the
interval is that of two independent samples (Welch). "higher" and "lower" mean that it does not
hold 0. A file without such data, and pages of two kinds or versions, are refused.`,
		Example: `  sigma report diff before.html after.html
  sigma report diff before.html after.html --format json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return s.Usage("want two pages; the use is %s", cmd.UseLine())
			}
			return nil
		},
		RunE: s.Do(func(_ *cobra.Command, args []string) error {
			if format != "table" && format != "json" {
				return s.Usage("unknown format %q; there are table, json", format)
			}
			d, err := Files(args[0], args[1])
			if err != nil {
				return err
			}
			if format == "json" {
				return sheet.JSON(s.Out, d)
			}
			return d.Table(s.Out)
		}),
	}
	diff.Flags().StringVar(&format, "format", "table", "table or json")
	diff.ValidArgsFunction = cobra.FixedCompletions([]string{"html"}, cobra.ShellCompDirectiveFilterFileExt)
	group.AddCommand(diff)
	return group
}

// mostTraces is the number of traces up to which the table shows each.
const mostTraces = 3

// Table writes the changes for people.
func (d *Diff) Table(w io.Writer) error {
	var b strings.Builder
	if d.A.Verdict == d.B.Verdict {
		fmt.Fprintf(&b, "verdict: unchanged: %s\n", d.A.Verdict)
	} else {
		fmt.Fprintf(&b, "verdict A: %s\nverdict B: %s\n", d.A.Verdict, d.B.Verdict)
	}
	b.WriteString("\n")
	if len(d.Inputs) == 0 {
		b.WriteString("inputs: the same\n")
	} else {
		t := table("trace", "input", "A", "B")
		for _, in := range d.Inputs {
			t.Add(cmp.Or(in.Trace, "-"), in.Name, cmp.Or(in.A, "-"), cmp.Or(in.B, "-"))
		}
		t.Text(&b)
	}
	if len(d.Overall) > 0 {
		fmt.Fprintf(&b, "\nall traces that both pages have, paired by trace\n")
		d.table(&b, d.Overall)
	}
	for i := range d.Traces {
		t := &d.Traces[i]
		switch {
		case t.Only != "":
			fmt.Fprintf(&b, "\n%s: only in %s\n", t.Name, strings.ToUpper(t.Only))
		case len(d.Traces) > mostTraces:
		case t.Paired:
			fmt.Fprintf(&b, "\n%s: the same inputs, paired by run\n", t.Name)
			d.table(&b, t.Rows)
		default:
			fmt.Fprintf(&b, "\n%s: inputs differ, runs are independent\n", t.Name)
			d.table(&b, t.Rows)
		}
	}
	if len(d.Traces) > mostTraces {
		fmt.Fprintf(&b, "\n--format json has the %d traces, each by itself.\n", len(d.Traces))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (d *Diff) table(b *strings.Builder, rows []Row) {
	what := "policy"
	if d.Kind != kinds[0] {
		what = "agent"
	}
	t := table(what, "figure", "A", "B", "B − A", "95 %", "change")
	last := ""
	for _, r := range rows {
		name := r.Name
		if name == last {
			name = ""
		}
		last = r.Name
		ends := "-"
		if !math.IsNaN(float64(r.Low)) {
			ends = text(r.Low, true) + " to " + text(r.High, true)
		}
		t.Add(name, r.Figure, text(r.A, false), text(r.B, false), text(r.Difference, true), ends, r.Change)
	}
	t.Text(b)
}

// text is a figure with at most four digits where its size allows.
func text(v sheet.Number, sign bool) string {
	f := float64(v)
	return sheet.Figure(f, sheet.Decimals(2, []float64{f}), sign)
}

// table has columns aligned left.
func table(heads ...string) sheet.Table {
	t := sheet.Table{Align: sheet.Left}
	for _, head := range heads {
		t.Columns = append(t.Columns, sheet.Column{Head: head})
	}
	return t
}
