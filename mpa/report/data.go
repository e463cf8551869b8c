package report

import (
	"fmt"
	"maps"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// data is the content of the page, for programs.
func (c *Comparison) data() *sheet.Data {
	t, a := &c.Trace, &c.App
	part := sheet.DataPart{Name: a.Name + " on " + t.Name, Rows: []sheet.DataRow{}, Inputs: map[string]string{
		"application": fmt.Sprintf("%s, begins with %d × %g cores, %g GiB", a.Name, a.Replicas, a.Cores, a.GiB),
		"promise":     fmt.Sprintf("%g %% within %g ms", a.Percentile, 1000*a.Latency),
		"trace":       t.Digest,
		"load":        fmt.Sprintf("%s × %g, seed %d, hours %g to %g, warm-up %g, %d steps filled", t.Name, t.Scale, t.Seed, t.Skip, t.Skip+t.Hours, t.Warmup, t.Filled),
		"seeds":       strings.Trim(fmt.Sprint(c.Seeds), "[]"),
	}}
	for name, value := range maps.All(t.Parameters) {
		part.Inputs["load: "+name] = value
	}
	for i := range c.Agents {
		row := sheet.DataRow{Name: c.Agents[i].Name, Figures: []sheet.DataFigure{}}
		for _, m := range measures {
			f := sheet.DataFigure{Name: m.head}
			for k := range c.Agents[i].Runs {
				f.Runs = append(f.Runs, sheet.Number(m.value(&c.Agents[i].Runs[k].Result)))
			}
			row.Figures = append(row.Figures, f)
		}
		part.Rows = append(part.Rows, row)
	}
	return &sheet.Data{Kind: "sigma mpa simulate", Version: sheet.DataVersion, Verdict: c.Summary(), Parts: []sheet.DataPart{part}}
}
