package tune

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// MarshalJSON writes the keys that the documents name.
func (out *Result) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Verdict    string    `json:"verdict"`
		Chosen     string    `json:"chosen"`
		Against    string    `json:"against"`
		Saving     *Interval `json:"saving_percent"`
		Validation []Row     `json:"validation"`
		Test       []Row     `json:"test"`
		Candidates []Entry   `json:"candidates"`

		Preferences *Preferences `json:"preferences,omitempty"`
	}{out.verdict(), out.Chosen, out.Against, out.Saving, orEmpty(out.Validation), orEmpty(out.Test), orEmpty(out.Candidates), out.Preferences})
}

// orEmpty writes a list without elements as [].
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (out *Result) verdict() string {
	if out.Better {
		return "better"
	}
	return "no better"
}

// Sentence is the verdict in one sentence.
func (out *Result) Sentence() string {
	switch {
	case out.Reason != "":
		return fmt.Sprintf("nothing learned, use %s: %s.", out.Chosen, out.Reason)
	case out.Better:
		return fmt.Sprintf("worth it: %s %s than %s.", out.Saving.text(), out.Measure, out.Against)
	case out.Saving == nil:
		return fmt.Sprintf("no better than %s: use that.", out.Against)
	}
	return fmt.Sprintf("no better than %s: use that. The best other policy (%s) has %s %s.", out.Against, out.Test[1].Policy, out.Saving.text(), out.Measure)
}

func (i *Interval) text() string {
	return fmt.Sprintf("%s %% ± %s", sheet.Figure(i.Mean, 1, false), sheet.Figure((i.High-i.Low)/2, 1, false))
}

// Table writes the verdict and the figures behind it.
func (out *Result) Table(w io.Writer) error {
	fmt.Fprintln(w, out.Sentence())
	if len(out.Validation) > 0 {
		fmt.Fprintf(w, "\n%s. saving %%: against %s, in %s, with the ends of its 95 %% interval.\n", out.Parts, out.Against, strings.TrimPrefix(strings.TrimPrefix(out.Measure, "fewer "), "lower "))
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, part := range out.parts() {
			fmt.Fprintf(t, "\n%s\tkind\tcost-hours\twaiting-hours\tleft out\tsaving %%\tfrom\tto\n", part.name)
			for _, r := range part.rows {
				fmt.Fprintln(t, strings.Join(r.cells(), "\t"))
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, n := range out.Notes {
		fmt.Fprintf(w, "\n%s\n", n)
	}
	_, err := fmt.Fprintf(w, "\n%s", out.How())
	return err
}

type partRows struct {
	name string
	rows []Row
}

func (out *Result) parts() []partRows {
	parts := []partRows{{"validation", out.Validation}, {"test", out.Test}}
	if len(out.Test) == 0 {
		parts = parts[:1]
	}
	return parts
}

func (r *Row) cells() []string {
	digits := func(v float64) string { return sheet.Figure(v, 2, false) }
	name := r.Policy
	if r.Chosen {
		name += " *"
	}
	return []string{name, r.Kind, sheet.Short(r.CostHours), sheet.Short(r.WaitingHours), sheet.Short(r.LeftOut), digits(r.Saving.Mean), digits(r.Saving.Low), digits(r.Saving.High)}
}

//go:embed page.html
var pageText string

var pageTemplate = sheet.Template(pageText)

type page struct {
	Title, Summary, Parts, How string
	Facts                      []sheet.Definition
	Tables                     []pageTable
	Notes                      []string
}

type pageTable struct {
	Caption string
	Table   sheet.Table
}

// HTML writes the result as a page of one file.
func (out *Result) HTML(w io.Writer) error {
	p := page{Title: "A policy for one’s own cluster", Summary: out.Sentence(), Parts: out.Parts, How: out.How(), Notes: out.Notes}
	p.Facts = []sheet.Definition{{Term: "verdict", Text: out.verdict()}, {Term: "chosen", Text: out.Chosen}, {Term: "against", Text: out.Against}, {Term: "measure", Text: out.Measure}}
	for _, part := range out.parts() {
		table := sheet.Table{Heads: []sheet.Cell{
			{Text: "policy", Words: true},
			{Text: "kind", Words: true},
			{Text: "cost-hours"},
			{Text: "waiting-hours"},
			{Text: "left out", About: "pods without a place at once"},
			{Text: "saving\u00a0%", About: out.Measure + " less than " + out.Against},
			{Text: "from"},
			{Text: "to"},
		}}
		for _, r := range part.rows {
			var row sheet.Row
			for i, text := range r.cells() {
				row.Cells = append(row.Cells, sheet.Cell{Text: text, Words: i < 2})
			}
			table.Rows = append(table.Rows, row)
		}
		if len(part.rows) > 0 {
			p.Tables = append(p.Tables, pageTable{"Candidates on the part for " + part.name + "; a star marks the chosen one", table})
		}
	}
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
