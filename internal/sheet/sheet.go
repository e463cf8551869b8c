package sheet

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// A Report is a description of results, without a format.
type Report struct {
	Title   string
	Summary string // the verdict, in a sentence
	Next    *Step  // nil = none is proposed
	Figures string // the sentence with the figures behind the verdict, where that has none
	About   string // the setting in a line, for a terminal; pages have Facts
	Facts   []Definition
	Cards   []Card // in place of the first table on a narrow screen

	Sections []Section
	Reading  string // explains the figures
	Lists    []List // and the terms; HTML adds the columns of the tables
	Data     *Data
}

// A Step is proposed to the reader, with its command.
type Step struct{ Text, Command string }

// Words are those of the command: a page breaks its line between them.
func (s *Step) Words() []string { return strings.Split(s.Command, " ") }

// A Definition is a term and its meaning.
type Definition struct{ Term, Text string }

// A List of terms.
type List struct {
	Name  string
	Terms []Definition
}

// A Card has the main figures of a row.
type Card struct {
	Name, About string
	Strong      bool
	Figures     []Definition
}

// A Section of a report: its parts are in the order of the fields.
type Section struct {
	ID, Class    string // of the page's style
	Name, About  string
	Folded, Open bool // a reader folds it
	Caption      string
	Facts        []Definition
	Tables       []Table
	Notes        []string
	Picture      *Picture
	Charts       []Chart
	Copy         string // a text to copy
	Sections     []Section
}

// A Chart is a plot with its caption.
type Chart struct {
	Plot
	Caption string
}

// A Plot draws itself. Its picture is empty where there is nothing to draw.
type Plot interface {
	SVG() template.HTML
	Legend() template.HTML
}

// A Picture shows machines and the items on them, side by side.
type Picture struct {
	Panels []Panel
	Key    []Definition // colours and their owners
	Rest   bool         // other things have colours, too
}

// A Panel is one of them. Its table has a row for each column that is drawn.
type Panel struct {
	ID, Name, Note string
	SVG            template.HTML
	Table          Table
}

var (
	//go:embed style.css
	style string
	//go:embed script.js
	script string
	//go:embed page.html
	pageText string
	page     = template.Must(template.New("page").Funcs(template.FuncMap{
		"style":    func() template.CSS { return template.CSS(style) }, //nolint:gosec // our own
		"script":   func() template.JS { return template.JS(script) },  //nolint:gosec // our own
		"unbroken": unbroken,
	}).Parse(pageText))
)

// HTML writes the report as a page of one file.
func (r *Report) HTML(w io.Writer) error {
	full := *r
	full.Lists = append(full.Lists, columns(r.Sections)...)
	full.Sections = drawn(r.Sections)
	if err := page.Execute(w, full); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// columns lists the meaning of the tables' columns. A section explains no column that one before it explains.
func columns(sections []Section) []List {
	list := List{Name: "Columns"}
	seen := map[string]bool{}
	var explain func(sections []Section)
	explain = func(sections []Section) {
		for _, s := range sections {
			var heads []string
			for _, t := range s.Tables {
				for _, c := range t.Columns {
					if c.About != "" && !seen[c.Head] {
						heads = append(heads, c.Head)
						list.Terms = append(list.Terms, Definition{c.Head, c.About})
					}
				}
			}
			for _, head := range heads {
				seen[head] = true
			}
			explain(s.Sections)
		}
	}
	if explain(sections); len(list.Terms) == 0 {
		return nil
	}
	return []List{list}
}

// drawn leaves out charts without a picture.
func drawn(sections []Section) []Section {
	var out []Section
	for _, s := range sections {
		var charts []Chart
		for _, c := range s.Charts {
			if svg := c.SVG(); svg != "" {
				charts = append(charts, Chart{fixed{svg, c.Legend()}, c.Caption})
			}
		}
		s.Charts, s.Sections = charts, drawn(s.Sections)
		out = append(out, s)
	}
	return out
}

// fixed is a plot that is drawn.
type fixed struct{ svg, legend template.HTML }

func (f fixed) SVG() template.HTML    { return f.svg }
func (f fixed) Legend() template.HTML { return f.legend }

// Text writes summary, setting, tables and notes for a terminal.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", r.Summary, r.About)
	for _, s := range r.Sections {
		for i := range s.Tables {
			b.WriteString("\n")
			if s.Tables[i].Title != "" {
				b.WriteString(s.Tables[i].Title + "\n")
			}
			s.Tables[i].Text(&b)
		}
		if len(s.Notes) > 0 {
			b.WriteString("\n" + strings.Join(s.Notes, "\n") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// JSON writes a value as people and programs read it: indented, one element a line.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
