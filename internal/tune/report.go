package tune

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// MarshalJSON writes the keys that the documents name.
func (out *Result) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Verdict    string    `json:"verdict"`
		Chosen     string    `json:"chosen"`
		Against    string    `json:"against"`
		Saving     *Interval `json:"saving_percent"`
		Parts      Parts     `json:"parts"`
		Validation []Row     `json:"validation"`
		Test       []Row     `json:"test"`
		Candidates []Entry   `json:"candidates"`

		Preferences *Preferences `json:"preferences,omitempty"`
	}{out.verdict(), out.Chosen, out.Against, out.Saving, out.Parts, orEmpty(out.Validation), orEmpty(out.Test), orEmpty(out.Candidates), out.Preferences})
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

// Sentence is the verdict in one sentence, and for traces by use the risk of the chosen policy
// in a second.
func (out *Result) Sentence() string {
	chosen := slices.IndexFunc(out.Test, func(r Row) bool { return r.Chosen && r.Use != nil })
	if chosen < 0 {
		return out.sentence()
	}
	return out.sentence() + " By use: " + out.Test[chosen].Use.Text() + "."
}

func (out *Result) sentence() string {
	text := out.decision()
	if out.Saving != nil && out.Parts.Exposure != "later days" {
		text += " It was judged on " + out.Parts.Judge + ", not on later days."
	}
	return text
}

func (out *Result) decision() string {
	switch {
	case out.Reason != "":
		return fmt.Sprintf("keep what you have: %s.", out.Reason)
	case out.Better && out.Saving == nil:
		return fmt.Sprintf("%s was chosen over %s, and no part is left to judge it.", out.Chosen, out.Against)
	case out.Better && out.Rule != "":
		return fmt.Sprintf("use the rule %s: %s than %s.", out.Rule, out.Saving.text(out.Measure), out.Against)
	case out.Better:
		return fmt.Sprintf("worth it: %s than %s.", out.Saving.text(out.Measure), out.Against)
	case out.Saving == nil:
		return fmt.Sprintf("keep what you have: nothing is better than %s.", out.Against)
	case out.Saving.Mean <= 0:
		return fmt.Sprintf("keep what you have: nothing is better than %s. The best other policy (%s) has %s.", out.Against, out.Test[1].Policy, out.Saving.text(out.Measure))
	}
	return fmt.Sprintf("keep what you have: nothing is clearly better than %s. The best other policy (%s) has %s, %s.",
		out.Against, out.Test[1].Policy, out.Saving.text(out.Measure), out.doubt())
}

// doubt is the reason for which the best other policy is not adopted although it saves something.
func (out *Result) doubt() string {
	if out.forbidden != "" {
		return "but " + out.forbidden
	}
	return "too little to be sure"
}

// opposites are the words for a saving below 0.
var opposites = strings.NewReplacer("fewer ", "more ", "lower ", "higher ", "less ", "more ")

// quantity removes the direction of a measure.
var quantity = strings.NewReplacer("fewer ", "", "lower ", "", "less ", "")

// text is the saving in words of a measure.
func (i Interval) text(measure string) string {
	mean := i.Mean
	if mean < 0 {
		mean, measure = -mean, opposites.Replace(measure)
	}
	text := sheet.Figure(mean, 1, false) + " %"
	if i.known() {
		text += " ± " + sheet.Figure((i.High-i.Low)/2, 1, false)
	}
	return text + " " + measure
}

// Table writes the verdict and the figures behind it.
func (out *Result) Table(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, out.Sentence())
	if len(out.Validation) > 0 {
		fmt.Fprintf(&b, "\n%s. saving %%: against %s, in %s, with the ends of its 95 %% interval where several days judge.\n", out.Parts.text(), out.Against, quantity.Replace(out.Measure))
		for _, t := range out.tables() {
			t.Columns[0].Head = t.Title
			b.WriteString("\n")
			t.Text(&b)
		}
	}
	for _, n := range out.Notes {
		fmt.Fprintf(&b, "\n%s\n", n)
	}
	fmt.Fprintf(&b, "\n%s", out.How())
	_, err := io.WriteString(w, b.String())
	return err
}

// tables have the candidates, by part of the history.
func (out *Result) tables() (list []sheet.Table) {
	for _, part := range []struct {
		name string
		rows []Row
	}{{"validation", out.Validation}, {"test", out.Test}} {
		if len(part.rows) == 0 {
			continue
		}
		t := sheet.Table{Title: part.name, Caption: "Candidates on the part for " + part.name + "; a star marks the chosen one", Align: sheet.Left, Columns: []sheet.Column{
			{Head: "policy", Words: true},
			{Head: "kind", Words: true},
			{Head: "cost-hours"},
			{Head: "waiting-hours"},
			{Head: "left out", About: "pods without a place at once"},
			{Head: "saving %", About: "% " + out.Measure + " than " + out.Against},
			{Head: "from"},
			{Head: "to"},
		}}
		if part.rows[0].Use != nil {
			t.Columns = append(t.Columns, sheet.Column{Head: "risk", About: "share of node-time in which recorded use exceeds capacity, with its 95 % interval", Words: true})
		}
		for _, r := range part.rows {
			t.Add(r.cells()...)
		}
		list = append(list, t)
	}
	return list
}

func (r *Row) cells() []string {
	digits := func(v float64) string {
		if math.IsNaN(v) {
			return ""
		}
		return sheet.Figure(v, 2, false)
	}
	name := r.Policy
	if r.Chosen {
		name += " *"
	}
	cells := []string{name, r.Kind, sheet.Short(r.CostHours), sheet.Short(r.WaitingHours), sheet.Short(r.LeftOut), digits(r.Saving.Mean), digits(r.Saving.Low), digits(r.Saving.High)}
	if r.Use != nil {
		cells = append(cells, r.Use.Text())
	}
	return cells
}

// Report describes the result.
func (out *Result) Report() *sheet.Report {
	results := sheet.Section{Tables: out.tables(), Notes: out.Notes}
	if out.Parts.Choose != "" {
		results.About = out.Parts.text() + "."
	}
	return &sheet.Report{
		Title: "A policy for one’s own cluster", Summary: out.Sentence(),
		Facts:    []sheet.Definition{{Term: "verdict", Text: out.verdict()}, {Term: "chosen", Text: out.Chosen}, {Term: "against", Text: out.Against}, {Term: "measure", Text: out.Measure}},
		Sections: []sheet.Section{results, {Name: "How to use it", Copy: out.How()}},
	}
}
