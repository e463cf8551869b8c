package sheet_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/internal/sheet/sheettest"
)

func full() *sheet.Report {
	t := sheet.Table{Title: "Times", Columns: []sheet.Column{{Head: "policy", Words: true}, {Head: "gap %", About: "above the bound"}, {Head: "seen", Words: true, About: "by training"}}}
	t.Add("best|fit", "-1.5", "-")
	t.Add("a", "12.0 ±3.0", "held-out")
	t.Rows[1].Break, t.Rows[1].About = "apart:", "the letter"
	t.Rows[0].Mark(1, "over the limit")
	line := sheet.LineChart{ID: "l", Title: "t", Limit: math.NaN(), Lines: []sheet.Line{{Label: "<one>", Points: []sheet.Point{{Time: 0, Value: 1}, {Time: 9, Value: 2}}}, {Label: "two"}}, Marks: []sheet.Mark{{Kind: "kill", Count: 1}, {Kind: "kill", Count: 1}}}
	empty := line
	empty.ID, empty.Lines = "empty", nil
	return &sheet.Report{
		Title: "A & B", Summary: "a is better.", About: "on one trace", Figures: "12 against −1.5", Next: &sheet.Step{Text: "Apply it:", Command: "kubectl apply"},
		Facts: []sheet.Definition{{Term: "seed", Text: "7"}}, Cards: []sheet.Card{{Name: "a", About: "a.yaml", Figures: []sheet.Definition{{Term: "machines", Text: "3"}}}},
		Sections: []sheet.Section{
			{Tables: []sheet.Table{t}, Notes: []string{"a note"}, Charts: []sheet.Chart{{Plot: line, Caption: "drawn"}, {Plot: empty, Caption: "not drawn"}}},
			{ID: "x", Name: "More", About: "about it", Folded: true, Open: true, Copy: "kind: <X>", Sections: []sheet.Section{{Name: "inner", Caption: "caption", Tables: []sheet.Table{t}}}},
		},
		Reading: "lower is better", Lists: []sheet.List{{Name: "Levels", Terms: []sheet.Definition{{Term: "K0", Text: "nothing"}}}},
		Data: &sheet.Data{Kind: "sigma test", Version: sheet.DataVersion, Parts: []sheet.DataPart{}},
	}
}

func TestText(t *testing.T) {
	var b strings.Builder
	require.NoError(t, full().Text(&b))
	first, _, _ := strings.Cut(b.String(), "\na note\n")
	require.Equal(t, `a is better.

on one trace

Times
policy        gap %  seen
best|fit       -1.5  -
apart:
a         12.0 ±3.0  held-out
`, first)
	table := full().Sections[0].Tables[0]
	for align, want := range map[sheet.Align]string{sheet.Left: "best|fit  -1.5       -", sheet.Right: "  best|fit       -1.5         -"} {
		b.Reset()
		table.Align = align
		table.Text(&b)
		require.Equal(t, want, strings.Split(b.String(), "\n")[1])
	}
	b.Reset()
	table.Markdown(&b)
	require.Equal(t, "| policy | gap % | seen |\n| --- | ---: | --- |\n| best\\|fit | -1.5 | - |\n| a | 12.0 ±3.0 | held-out |\n", b.String())
}

func TestPage(t *testing.T) {
	var b strings.Builder
	require.NoError(t, full().HTML(&b))
	page := b.String()
	sheettest.Check(t, page)
	for _, want := range []string{
		"<title>A &amp; B</title>", `<p class="summary">a is better.</p>`, "<code><span>kubectl</span> <span>apply</span></code>", `<p class="figures">12 against −1.5</p>`,
		"<dt>seed</dt><dd>7</dd>", `<strong title="a.yaml">a</strong><span><b>3</b> machines</span>`,
		`<caption><span>Times</span></caption>`, `title="above the bound">gap` + "\u00a0%</th>", `<td class="over" title="over the limit">−1.5</td>`, `<td class="words">–</td>`, `<td class="words">held-out</td>`,
		`<tr class="break"><td colspan="3">apart:</td></tr>`, `<th scope="row" class="words" title="the letter">a</th>`, "<li>a note</li>",
		"<figcaption>drawn</figcaption>", "</svg>&lt;one&gt;</li>", `<details id="x" open>`, "<summary><strong>More</strong> <span>about it</span></summary>", "kind: &lt;X&gt;</pre>", "<h2>inner</h2>", `<p class="caption">caption</p>`,
		"<p>lower is better</p>", "<h3>Levels</h3>", "<h3>Columns</h3>", "<dt>gap %</dt><dd>above the bound</dd>", `"kind":"sigma test"`,
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "not drawn")
	require.Equal(t, 1, strings.Count(page, "above the bound</dd>"), "a column is explained once")
	require.Equal(t, 1, strings.Count(page, "</svg>kill</li>"))
}

// A table that is built by columns has their cells by row, and a stacked one breaks before an interval.
func TestColumns(t *testing.T) {
	var table sheet.Table
	table.AddColumn(sheet.Column{Head: "policy", Words: true}, []string{"a/b.yaml", "c"})
	table.AddColumn(sheet.Column{Head: "cost"}, []string{"1 ±2", "lost in 1 of 3"})
	require.Equal(t, []string{"c", "lost in 1 of 3"}, table.Rows[1].Cells)
	table.Rows[0].Short, table.Rows[1].About = "b", "the third"
	require.Equal(t, []string{"b", "a/b.yaml", "c", "the third"}, []string{table.Rows[0].Name(), table.Rows[0].Title(), table.Rows[1].Name(), table.Rows[1].Title()})
	table.Stacked = true
	require.Equal(t, "lost\nin 1 of 3", table.Cell(1, "lost in 1 of 3"))
	require.Equal(t, "1\n±2", table.Cell(1, "1 ±2"))
}
