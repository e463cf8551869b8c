package cli

import (
	"fmt"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/sigma-scheduler/sigma/internal/rebalance"
)

// drawMoves draws the machines freed against the items moved, in % of those on machines, as
// an SVG: by these moves, by a drain without swaps, and at most.
func drawMoves(out io.Writer, r *rebalance.Result) error {
	const points = 500
	var lines [3]plotter.XYs
	for _, n := range steps(r.Emptying(), points) {
		p := r.After(n)
		for i, freed := range []int{p.Freed, p.DrainFreed, p.Most} {
			lines[i] = append(lines[i], plotter.XY{X: p.Percent, Y: float64(freed)})
		}
	}
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%d items on %d machines, bound %d", r.Items, r.MachinesBefore, r.Bound)
	p.X.Label.Text, p.Y.Label.Text = "items moved, %", "machines freed"
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i, name := range []string{"these moves", "drain without swaps", "at most"} {
		line, err := plotter.NewLine(lines[i])
		if err != nil {
			return err
		}
		line.StepStyle = plotter.PostStep
		line.LineStyle = draw.LineStyle{Color: plotutil.Color(i), Dashes: plotutil.Dashes(i), Width: vg.Points(1.5)}
		p.Add(line)
		p.Legend.Add(name, line)
	}
	canvas := vgsvg.New(16*vg.Centimeter, 10*vg.Centimeter)
	p.Draw(draw.New(canvas))
	_, err := canvas.WriteTo(out)
	return err
}

// steps are numbers of moves from 0 to the end, at most so many.
func steps(end, most int) []int {
	every := max(1, (end+most-1)/most)
	var list []int
	for n := 0; n < end; n += every {
		list = append(list, n)
	}
	return append(list, end)
}
