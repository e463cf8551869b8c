package cli

import (
	"fmt"
	"io"
	"math"

	"github.com/sigma-scheduler/sigma/internal/defrag"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// drawMoves draws the machines freed against the items moved, in % of those on machines, as
// an SVG: by these moves, by a drain without swaps, and at most.
func drawMoves(out io.Writer, r *defrag.Result) error {
	const points = 500
	c := sheet.LineChart{
		ID: "moves", Title: "Machines freed by moves", Axis: "machines freed", Unit: "items moved, %", Limit: math.NaN(),
		Lines: []sheet.Line{{Label: "these moves"}, {Label: "drain without swaps"}, {Label: "at most"}},
	}
	for _, n := range steps(r.Emptying(), points) {
		p := r.After(n)
		for i, freed := range []int{p.Freed, p.DrainFreed, p.Most} {
			c.Lines[i].Points = append(c.Lines[i].Points, sheet.Point{Time: p.Percent, Value: float64(freed)})
		}
	}
	return sheet.Image(out, sheet.Chart{Plot: c, Caption: fmt.Sprintf("%d items on %d machines, bound %d", r.Items, r.MachinesBefore, r.Bound)})
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
