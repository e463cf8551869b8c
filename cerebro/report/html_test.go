package report

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/internal/sheet/sheettest"
)

func pages() map[string][]Comparison {
	var many []Comparison
	for i := range 40 {
		c := small()
		c.Trace.Name = fmt.Sprintf("small-%d", 900001+i)
		var runs []PolicyRuns
		for j, r := range c.Results {
			p := PolicyRuns{Policy: r.Policy, Knowledge: r.Knowledge, Exposure: r.Exposure}
			for order, run := range r.Runs {
				p.Runs = append(p.Runs, packed(run.Machines + (i*7+j*3+order)%3)[0])
				p.Runs[order].Order = order
			}
			runs = append(runs, p)
		}
		many = append(many, Build(c.Trace, c.Bound, runs))
	}
	return map[string][]Comparison{
		"small": {small()}, "fixed": {fixed()}, "churn": {churn()}, "several": several(), "many": many, "nothing": nil,
		"mixed": {small(), fixed(), churn()}, "drawn": {drawnSmall(16, 20)}, "wide": {drawnSmall(290, 312), small()},
	}
}

// script is that of all pages.
var script = regexp.MustCompile(`(?s)<script>.*?</script>`)

func TestHTML(t *testing.T) {
	for name, comparisons := range pages() {
		t.Run(name, func(t *testing.T) {
			writer := func(w io.Writer) error {
				return Page(comparisons, []string{"days/small"}, []string{"a note on the run"}).HTML(w)
			}
			page := render(t, writer)
			if page != render(t, writer) {
				t.Error("two renderings differ")
			}
			sheettest.Check(t, page)
			if !strings.Contains(page, `<p class="summary">`) {
				t.Error("no summary")
			}
			if n := strings.Count(page, "a note on the run"); n != min(1, len(comparisons)) {
				t.Errorf("the note stands %d times", n)
			}
			tables := len(comparisons)
			if tables > 1 {
				tables++
			}
			for _, mark := range []string{"<table>", "<caption>", `<th scope="col"`} {
				if strings.Count(page, mark) < tables {
					t.Errorf("%d of %q, want at least %d", strings.Count(page, mark), mark, tables)
				}
			}
			if dir := os.Getenv("REPORT_PAGES"); dir != "" { // to look at them
				if err := os.WriteFile(filepath.Join(dir, name+".html"), []byte(page), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Names come from traces and command lines.
func TestHTMLEscapes(t *testing.T) {
	evil := `<script>alert("x")</script>`
	l := layout(fleet(binpack.Open, 3), 4, .9)
	l.Instance.Apps[0].Name, l.Instance.Machines[0].Name, l.Instance.Dimensions[0].Name = evil, evil, evil
	c := Build(Trace{Name: evil, Dimensions: []string{evil}}, Bound{Machines: 1, Cost: 1, Method: evil},
		[]PolicyRuns{{Policy: evil, Knowledge: evil, Exposure: evil, Digest: evil, Runs: packed(2, 3, 4), Layout: l}})
	page := render(t, func(w io.Writer) error { return Page([]Comparison{c}, nil, nil).HTML(w) })
	if strings.Count(script.ReplaceAllString(page, ""), "<script") != 1 || strings.Count(page, "<script") != 2 { // the data are one
		t.Error("a name was not escaped")
	}
}

func TestAxisName(t *testing.T) {
	if got := axisName("memory"); got != "memory" {
		t.Errorf("%q", got)
	}
	if got, want := axisName(strings.Repeat("é", 300)), strings.Repeat("é", 26)+"…"; got != want {
		t.Errorf("%q", got)
	}
}
