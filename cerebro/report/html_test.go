package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
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

// link finds what would make a browser fetch something, or run it but for the
// script of the picture.
var link = regexp.MustCompile(`(?i)https?:|//[a-z]|<script[^>]|<link|<img|<iframe|@import|url\(|\son[a-z]+=|src=|href=`)

var script = regexp.MustCompile(`(?s)<script>.*?</script>`)

func TestHTML(t *testing.T) {
	for name, comparisons := range pages() {
		t.Run(name, func(t *testing.T) {
			writer := func(w io.Writer) error { return HTML(w, comparisons, []string{"a note on the run"}) }
			page := render(t, writer)
			if page != render(t, writer) {
				t.Error("two renderings differ")
			}
			if found := link.FindString(page); found != "" {
				t.Errorf("the page holds %q", found)
			}
			for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "&lt;svg", "%!"} {
				if strings.Contains(page, bad) {
					t.Errorf("the page holds %q", bad)
				}
			}
			wellFormed(t, script.ReplaceAllString(page, ""))
			if got, want := len(script.FindAllString(page, -1)), strings.Count(page, `class="picture`); got != want {
				t.Errorf("%d scripts, want %d", got, want)
			}
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

// wellFormed checks that elements close in order, ids are unique and every
// plot has a title and a description of its own.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict = false
	d.AutoClose = xml.HTMLAutoClose
	d.Entity = xml.HTMLEntity
	ids := map[string]bool{}
	var labels, stack []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			stack = append(stack, token.Name.Local)
			for _, a := range token.Attr {
				if a.Name.Local == "id" && ids[a.Value] {
					t.Errorf("id %q twice", a.Value)
				} else if a.Name.Local == "id" {
					ids[a.Value] = true
				}
				if a.Name.Local == "aria-labelledby" {
					labels = append(labels, strings.Fields(a.Value)...)
				}
			}
		case xml.EndElement:
			if len(stack) == 0 || stack[len(stack)-1] != token.Name.Local {
				t.Fatalf("</%s> closes %v", token.Name.Local, stack)
			}
			stack = stack[:len(stack)-1]
		}
	}
	if len(stack) > 0 {
		t.Errorf("left open: %v", stack)
	}
	for _, l := range labels {
		if !ids[l] {
			t.Errorf("aria-labelledby %q has no such element", l)
		}
	}
}

// Names come from traces and command lines.
func TestHTMLEscapes(t *testing.T) {
	evil := `<script>alert("x")</script>`
	l := layout(fleet(binpack.Open, 3), 4, .9)
	l.Instance.Apps[0].Name, l.Instance.Machines[0].Name, l.Instance.Dimensions[0].Name = evil, evil, evil
	c := Build(Trace{Name: evil, Dimensions: []string{evil}}, Bound{Machines: 1, Cost: 1, Method: evil},
		[]PolicyRuns{{Policy: evil, Knowledge: evil, Exposure: evil, Digest: evil, Runs: packed(2, 3, 4), Layout: l}})
	page := render(t, func(w io.Writer) error { return HTML(w, []Comparison{c}, nil) })
	if strings.Contains(script.ReplaceAllString(page, ""), "<script") || strings.Count(page, "<script") != 1 {
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

func TestThinKeepsPeaks(t *testing.T) {
	var series []cerebro.Sample
	for i := range 10000 {
		series = append(series, cerebro.Sample{Time: float64(i), Machines: 5})
	}
	series[4321].Machines = 99
	series[9999].Machines = 3
	out := thin(series, 0, 9999, func(s cerebro.Sample) float64 { return float64(s.Machines) })
	peak := 0
	for _, s := range out {
		peak = max(peak, s.Machines)
	}
	if len(out) > 302 || peak != 99 || out[len(out)-1].Machines != 3 {
		t.Errorf("%d samples, peak %d, end %d", len(out), peak, out[len(out)-1].Machines)
	}
}

func TestAxis(t *testing.T) {
	for _, c := range []struct{ low, high, wantLow, wantHigh, step float64 }{
		{15, 27, 14, 28, 2},
		{15, 15, 15, 16, 0.2},
		{0, 4.2, 0, 5, 1},
		{0, 0.0123, 0, 0.015, 0.005},
		{0, 5e-324, 0, 1, 0.2},
	} {
		a := newAxis(c.low, c.high, 0, 100)
		near(t, "low", a.low, c.wantLow)
		near(t, "high", a.high, c.wantHigh)
		near(t, "step", a.step, c.step)
		if len(a.ticks()) > 12 {
			t.Fatalf("%d ticks from %v to %v", len(a.ticks()), c.low, c.high)
		}
		if a.at(a.low) != 0 || a.at(a.high) != 100 {
			t.Errorf("ends at %v and %v", a.at(a.low), a.at(a.high))
		}
	}
}
