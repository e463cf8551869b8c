package train

import (
	"image/color"
	"io"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colours of the picture: the chosen points are highlighted.
var (
	frontGray = color.RGBA{R: 0x9a, G: 0xa5, B: 0xb1, A: 0xff}
	frontBlue = color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}
)

// svg draws a panel for each pair of objectives.
func (f *Front) svg(w io.Writer, choices []Choice) error {
	var panels []*plot.Plot
	for i := range f.Objectives {
		for k := i + 1; k < len(f.Objectives); k++ {
			p, err := f.panel(choices, i, k)
			if err != nil {
				return err
			}
			panels = append(panels, p)
		}
	}
	const side = 11 * vg.Centimeter
	columns := min(3, len(panels))
	rows := (len(panels) + columns - 1) / columns
	canvas := vgsvg.New(vg.Length(columns)*side, vg.Length(rows)*side)
	tiles := draw.Tiles{
		Rows: rows, Cols: columns, PadX: vg.Centimeter, PadY: vg.Centimeter,
		PadTop: vg.Centimeter / 2, PadBottom: vg.Centimeter / 2, PadLeft: vg.Centimeter / 2, PadRight: vg.Centimeter,
	}
	for i, p := range panels {
		p.Draw(tiles.At(draw.New(canvas), i%columns, i/columns))
	}
	_, err := canvas.WriteTo(w)
	return err
}

func (f *Front) panel(choices []Choice, x, y int) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = axisLabel(f.Objectives[x]), axisLabel(f.Objectives[y])
	all := make(plotter.XYs, len(f.Points))
	for i, point := range f.Points {
		all[i] = plotter.XY{X: point.Objectives[x], Y: point.Objectives[y]}
	}
	labels, at := plotter.XYLabels{}, map[int]int{}
	for _, c := range choices {
		if i, ok := at[c.Point]; ok {
			labels.Labels[i] += ", " + c.Name
			continue
		}
		at[c.Point] = len(labels.Labels)
		labels.XYs = append(labels.XYs, all[c.Point])
		labels.Labels = append(labels.Labels, c.Name)
	}
	dots, err := plotter.NewScatter(all)
	if err != nil {
		return nil, err
	}
	dots.GlyphStyle = draw.GlyphStyle{Color: frontGray, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
	picked, err := plotter.NewScatter(labels.XYs)
	if err != nil {
		return nil, err
	}
	picked.GlyphStyle = draw.GlyphStyle{Color: frontBlue, Radius: vg.Points(3.5), Shape: draw.CircleGlyph{}}
	names, err := plotter.NewLabels(labels)
	if err != nil {
		return nil, err
	}
	names.Offset = vg.Point{X: vg.Points(4), Y: vg.Points(4)}
	p.Add(plotter.NewGrid(), dots, picked, names)
	p.X.Tick.Marker, p.Y.Tick.Marker = exactTicks{}, exactTicks{}
	// Names begin at their point: room for them at the right.
	p.X.Max += .3 * (p.X.Max - p.X.Min)
	return p, nil
}

// exactTicks are the usual ticks with all their digits: the usual labels are rounded,
// so that 1.15 and 1.2 both read 1.2.
type exactTicks struct{ plot.DefaultTicks }

// Ticks implements [plot.Ticker].
func (t exactTicks) Ticks(low, high float64) []plot.Tick {
	ticks := t.DefaultTicks.Ticks(low, high)
	for i, tick := range ticks {
		if !tick.IsMinor() {
			ticks[i].Label = strconv.FormatFloat(tick.Value, 'g', 6, 64)
		}
	}
	return ticks
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
