package sheet

import (
	_ "embed"
	"html/template"
)

var (
	//go:embed style.css
	style string
	//go:embed skeleton.html
	skeleton string
)

// Template parses a page. It may use
//
//	{{template "head" .}}      up to </head>; takes .Title
//	{{template "facts" .}}     takes .Facts, definitions
//	{{template "table" .}}     takes .Caption and .Table, a Table
//	{{template "charts" …}}    takes charts
//	{{template "data" …}}      takes Data
func Template(text string) *template.Template {
	t := template.New("page").Funcs(template.FuncMap{"style": func() template.CSS { return template.CSS(style) }}) //nolint:gosec // our own
	return template.Must(template.Must(t.Parse(skeleton)).Parse(text))
}

// A Chart is a plot with its caption, and a legend of its lines by number.
type Chart struct {
	SVG     template.HTML
	Caption string
	Legend  []string
	Marks   template.HTML // the legend of marks
}

// A Definition is a term and its meaning.
type Definition struct{ Term, Text string }

// A Table of a page; its first column names the rows. Stacked breaks cells at their
// text's line breaks.
type Table struct {
	Heads   []Cell
	Rows    []Row
	Stacked bool
}

// A Row of a table; Break, where set, is a line above it.
type Row struct {
	Cells []Cell
	Break string
}

// A Cell holds a figure, or words, which are aligned left. About explains a column. Over
// names the limit that a figure exceeds, which is marked and coloured.
type Cell struct {
	Text, About string
	Words       bool
	Over        string
}
