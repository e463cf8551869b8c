package records

import (
	"fmt"
	"slices"
	"strings"
)

// A Table of a page.
type Table struct {
	Heads []string
	Right []int // columns that are aligned right
	Rows  [][]string
}

// Markdown is the table as it stands on a page.
func (t Table) Markdown() string {
	rule := make([]string, len(t.Heads))
	for i := range rule {
		rule[i] = "---"
		if slices.Contains(t.Right, i) {
			rule[i] = "---:"
		}
	}
	var b strings.Builder
	for _, cells := range append([][]string{t.Heads, rule}, t.Rows...) {
		b.WriteString(RowText(cells) + "\n")
	}
	return b.String()
}

// RowText is one row of a table.
func RowText(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }

// ParseTables reads the tables of a page back.
func ParseTables(text string) ([]Table, error) {
	var tables []Table
	var at *Table
	for i, line := range strings.Split(text, "\n") {
		inner, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !ok {
			at = nil
			continue
		}
		cells := strings.Split(strings.TrimSuffix(inner, "|"), "|")
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		switch {
		case at == nil:
			tables = append(tables, Table{Heads: cells})
			at = &tables[len(tables)-1]
		case len(cells) != len(at.Heads):
			return nil, fmt.Errorf("line %d: %d cells in a table of %d columns", i+1, len(cells), len(at.Heads))
		case at.Rows == nil && strings.Trim(strings.Join(cells, ""), "-:") == "":
			for k, c := range cells {
				if strings.HasSuffix(c, ":") {
					at.Right = append(at.Right, k)
				}
			}
			at.Rows = [][]string{}
		default:
			at.Rows = append(at.Rows, cells)
		}
	}
	return tables, nil
}
