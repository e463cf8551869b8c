package records

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Capability is a part of the summary: a table of rows that sections have measured.
type Capability struct {
	Title, About string
	Parts        []Highlight
}

// A Highlight names the rows of one section that the summary shows.
type Highlight struct {
	Name  string // of the section
	Page  string // below the folder of documents
	Maker string // the command that makes the page, with the name behind it
	Lines []Pick // rows of a [LineTable]
	// Table makes a table of those of the page, where it has no lines.
	Table func([]Table) (Table, error)
}

// A Pick is one row of a [LineTable], by its first two cells.
type Pick struct {
	Work, Figure string // of Work, * is any text
	As           string // what the summary calls it
	Limit        string // the bound or the optimum
	Offline      bool   // a live scheduler refuses such policies, or runs them in a planned window alone
	Brief        bool   // of the peers the part before the first semicolon
}

const summaryHead = `# Results

Every figure is measured on instances, orders or data sets that no policy was trained on, beside peers of the
same run. *Limit* is a bound that no scheduler can beat, or the optimum. *Must* is what the product promises, *aim*
is where it wants to be. ± is the standard error over instances unless the section's page says otherwise.
K0 knows only the past; +clock also the elapsed share of the arrival period; K1 a forecast per app; K2 the true counts.
*Offline only*: a live scheduler refuses the policy, as those of K2, roll-outs and plans, or decides with it only inside
[planned windows](windows.md), as with +clock.
Whole stacks of today and Sigma's beside each other are on [a page of their own](results/month.md). The pages of the sections have all figures and the commands that made them. [The demo](results/demo.md) has figures too.
`

// Summarise writes results.md below the folder of documents from the pages of sections.
// A section that was never measured is named.
func Summarise(docs string, list []Capability) error {
	var body strings.Builder
	reached := map[string]int{}
	var misses []string
	for _, c := range list {
		fmt.Fprintf(&body, "\n## %s\n\n%s\n", c.Title, strings.TrimSpace(c.About))
		lines := Table{Heads: []string{"figure", "Sigma", "peers", "limit", "must", "aim", "reached"}, Right: []int{1, 3, 4, 5}}
		var others []Table
		makers := map[string][]string{}
		var absent []string
		for _, h := range c.Parts {
			tables, err := readTables(filepath.Join(docs, h.Page))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err != nil {
				absent = append(absent, "section "+h.Name)
				continue
			}
			makers[h.Maker] = append(makers[h.Maker], fmt.Sprintf("[%s](%s)", h.Name, h.Page))
			misses = append(misses, count(tables, reached)...)
			if len(h.Lines) > 0 {
				rows, left := pickLines(tables, h.Lines)
				lines.Rows = append(lines.Rows, rows...)
				absent = append(absent, left...)
				continue
			}
			if h.Table == nil {
				continue
			}
			t, err := h.Table(tables)
			if err != nil {
				return fmt.Errorf("%s: %w", h.Page, err)
			}
			others = append(others, t)
		}
		slices.SortStableFunc(lines.Rows, func(a, b []string) int { return offline(a) - offline(b) })
		for _, t := range append([]Table{lines}, others...) {
			if len(t.Rows) > 0 {
				body.WriteString("\n" + t.Markdown())
			}
		}
		if len(makers) > 0 {
			body.WriteByte('\n')
		}
		for _, maker := range slices.Sorted(maps.Keys(makers)) {
			fmt.Fprintf(&body, "All figures, by `%s`: %s.\n", maker, strings.Join(makers[maker], ", "))
		}
		if len(absent) > 0 {
			fmt.Fprintf(&body, "\nNot measured: %s.\n", strings.Join(absent, "; "))
		}
	}
	head := fmt.Sprintf("%s\nOf the %d targets with *must* and *aim*, %d are missed", summaryHead, reached[reachAim]+reached[reachMust]+reached[missed], reached[missed])
	if len(misses) > 0 {
		head += " (" + strings.Join(misses, "; ") + ")"
	}
	head += fmt.Sprintf("; %d reach the aim.\n", reached[reachAim])
	return Replace(filepath.Join(docs, "results.md"), head+body.String())
}

func readTables(path string) ([]Table, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	tables, err := ParseTables(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return tables, nil
}

// count adds the verdicts of a page and returns the quoted names of the works that missed a target.
func count(tables []Table, reached map[string]int) (misses []string) {
	for _, t := range tables {
		at := slices.Index(t.Heads, "reached")
		if at < 0 {
			continue
		}
		for _, row := range t.Rows {
			reached[row[at]]++
			if row[at] == missed && !slices.Contains(misses, "“"+row[0]+"”") {
				misses = append(misses, "“"+row[0]+"”")
			}
		}
	}
	return misses
}

// offlineOnly marks the rows of policies that a live scheduler refuses, which come last.
const offlineOnly = " (offline only)"

func offline(row []string) int {
	if strings.HasSuffix(row[0], offlineOnly) {
		return 1
	}
	return 0
}

// pickLines returns the rows of the summary and the names of those that no table has.
func pickLines(tables []Table, picks []Pick) (rows [][]string, absent []string) {
	for _, p := range picks {
		var row []string
		for _, t := range tables {
			if slices.Equal(t.Heads, LineTable().Heads) {
				if at := slices.IndexFunc(t.Rows, func(r []string) bool { return p.isWork(r[0]) && r[1] == p.Figure }); at >= 0 {
					row = t.Rows[at]
				}
			}
		}
		if row == nil {
			absent = append(absent, p.As)
			continue
		}
		as := p.As
		if p.Offline {
			as += offlineOnly
		}
		peers := row[3]
		if p.Brief {
			peers, _, _ = strings.Cut(peers, ";")
		}
		rows = append(rows, []string{as, row[2], peers, p.Limit, row[4], row[5], row[6]})
	}
	return rows, absent
}

func (p *Pick) isWork(name string) bool {
	before, after, any := strings.Cut(p.Work, "*")
	return name == p.Work || any && len(name) >= len(before+after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

// Columns shows columns of the first table that has them all, in the rows whose first
// cell is one of names.
func Columns(heads, names []string) func([]Table) (Table, error) {
	return func(tables []Table) (Table, error) {
		for _, t := range tables {
			if out, ok := t.columns(heads, names); ok {
				return out, nil
			}
		}
		return Table{}, fmt.Errorf("no table has the columns %s", strings.Join(heads, ", "))
	}
}

func (t Table) columns(heads, names []string) (out Table, ok bool) {
	out.Heads = heads
	var at []int
	for i, h := range heads {
		from := slices.Index(t.Heads, h)
		if from < 0 {
			return out, false
		}
		at = append(at, from)
		if slices.Contains(t.Right, from) {
			out.Right = append(out.Right, i)
		}
	}
	for _, row := range t.Rows {
		if !slices.Contains(names, row[0]) {
			continue
		}
		cells := make([]string, len(at))
		for i, from := range at {
			cells[i] = row[from]
		}
		out.Rows = append(out.Rows, cells)
	}
	return out, true
}
