package sheet

import (
	"cmp"
	"strings"
	"unicode/utf8"
)

// A Table has a name for each row in its first column.
type Table struct {
	Title   string // is above the table on a terminal
	Caption string // is on a page, in place of the title
	Aside   bool   // a small one below others
	Align   Align  // of columns in text
	Stacked bool   // a page breaks cells before an interval
	Narrow  bool   // a narrow page has a block for each row, with the heads in it, and words break
	Columns []Column
	Rows    []Row
}

// Align is how text aligns columns.
type Align int

// Words are aligned left and figures right, unless all columns are alike.
const (
	Mixed Align = iota
	Left
	Right
)

// A Column has figures, aligned right, or words. About is the meaning of the figures.
type Column struct {
	Head, About string
	Words       bool
}

// A Row has a cell of each column. Break is a line above it, Above such a line on a page alone. About explains the
// name of the row, and Short is that name as a page has it, where the name is long.
type Row struct {
	Cells                      []string
	Break, Above, About, Short string

	over map[int]string
}

// Mark names the limit that the figure in a column exceeds.
func (r *Row) Mark(column int, limit string) {
	if r.over == nil {
		r.over = map[int]string{}
	}
	r.over[column] = limit
}

// Name is the name of the row on a page, and Title explains it.
func (r *Row) Name() string { return cmp.Or(r.Short, r.Cells[0]) }

// Title is empty where a name needs no explanation.
func (r *Row) Title() string {
	if r.Short != "" {
		return r.Cells[0]
	}
	return r.About
}

// Class is the table's class on a page.
func (t *Table) Class() string {
	switch {
	case t.Narrow:
		return "narrow"
	case t.Stacked:
		return "stacked"
	}
	return ""
}

// Over is the limit that the figure in a column exceeds; "" = none.
func (r *Row) Over(column int) string { return r.over[column] }

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, Row{Cells: cells}) }

// AddColumn appends a column, with a cell of each row.
func (t *Table) AddColumn(c Column, cells []string) {
	t.Columns = append(t.Columns, c)
	for len(t.Rows) < len(cells) {
		t.Rows = append(t.Rows, Row{})
	}
	for i, text := range cells {
		t.Rows[i].Cells = append(t.Rows[i].Cells, text)
	}
}

// Text writes the table for a terminal: columns as wide as their widest cell, two spaces apart.
func (t *Table) Text(b *strings.Builder) {
	widths := make([]int, len(t.Columns))
	lines := [][]string{nil}
	for i, c := range t.Columns {
		lines[0] = append(lines[0], c.Head)
		widths[i] = utf8.RuneCountInString(c.Head)
	}
	for _, r := range t.Rows {
		lines = append(lines, r.Cells)
		for i, text := range r.Cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	for n, cells := range lines {
		if n > 0 && t.Rows[n-1].Break != "" {
			b.WriteString(t.Rows[n-1].Break + "\n")
		}
		var l strings.Builder
		for i, text := range cells {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			switch {
			case t.Align == Right:
				l.WriteString("  " + space + text)
			case t.Align == Left || t.Columns[i].Words:
				l.WriteString(text + space + "  ")
			default:
				l.WriteString(space + text + "  ")
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
}

// Markdown writes the table with pipes.
func (t *Table) Markdown(b *strings.Builder) {
	heads, rule := make([]string, len(t.Columns)), make([]string, len(t.Columns))
	for i, c := range t.Columns {
		heads[i], rule[i] = c.Head, "---:"
		if c.Words {
			rule[i] = "---"
		}
	}
	line := func(cells []string) {
		for _, text := range cells {
			b.WriteString("| " + strings.ReplaceAll(text, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
	}
	line(heads)
	line(rule)
	for _, r := range t.Rows {
		line(r.Cells)
	}
}

// Cell is a cell as a page has it: with signs for minus and for no value, and room to break where it is stacked.
func (t *Table) Cell(column int, text string) string {
	switch {
	case text == "-":
		return "–"
	case t.Columns[column].Words:
		return text
	}
	text = strings.ReplaceAll(text, "-", "−")
	if t.Stacked {
		text = strings.NewReplacer(" ±", "\n±", " in ", "\nin ").Replace(text)
	}
	return text
}

// unbroken keeps short heads in one line, and a unit next to its figure.
func unbroken(head string) string {
	const short = 12
	if utf8.RuneCountInString(head) < short {
		return strings.NewReplacer(" ", "\u00a0", "-", "\u2011").Replace(head)
	}
	return strings.ReplaceAll(head, " %", "\u00a0%")
}
