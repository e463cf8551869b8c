package train

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// svg draws a panel for each pair of objectives. The chosen points are named.
func (f *Front) svg(w io.Writer, choices []Choice) error {
	names := make([]string, len(f.Points))
	for _, c := range choices {
		names[c.Point] = strings.TrimPrefix(names[c.Point]+", "+c.Name, ", ")
	}
	var panels []sheet.Chart
	for i := range f.Objectives {
		for k := i + 1; k < len(f.Objectives); k++ {
			p := sheet.Scatter{
				ID: fmt.Sprintf("front-%d-%d", i, k), XAxis: axisLabel(f.Objectives[i]), YAxis: axisLabel(f.Objectives[k]), XLimit: math.NaN(), YLimit: math.NaN(),
			}
			p.Title = p.YAxis + " against " + p.XAxis
			for n, point := range f.Points {
				x, y := point.Objectives[i], point.Objectives[k]
				p.Dots = append(p.Dots, sheet.Dot{Label: names[n], About: fmt.Sprintf("%.6g, %.6g", x, y), X: x, Y: y, Strong: names[n] != ""})
			}
			panels = append(panels, sheet.Chart{Plot: p, Caption: p.Title + ": less is better. Blue: the policies in this folder."})
		}
	}
	return sheet.Image(w, panels...)
}

// axisLabel names an objective, with its unit.
func axisLabel(objective string) string {
	switch objective {
	case "machines", "mean_machines", "cost":
		return strings.ReplaceAll(objective, "_", " ") + " ÷ bound"
	case "spread":
		return "1 − spread"
	}
	return objective
}
