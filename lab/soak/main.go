// Command soak draws the samples of the servers' soak tests: a curve of each server in a panel each for the heap, the
// open files and the goroutines. Its argument is the folder of the samples, SERVER.csv with events, MiB, files and
// goroutines a line; it writes an SVG to standard output.
package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("want the folder of the samples")
	}
	if err := run(os.Args[1], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(dir string, w io.Writer) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	if err != nil {
		return err
	}
	panels := [][]*plot.Plot{{plot.New(), plot.New(), plot.New()}}
	for column, label := range []string{"heap, MiB", "open files", "goroutines"} {
		p := panels[0][column]
		p.X.Label.Text, p.Y.Label.Text = "share of the events", label
		p.X.Min, p.X.Max, p.Y.Min, p.Legend.Top = 0, 1, 0, true
		for i, name := range names {
			points, err := read(name, column+1)
			if err != nil {
				return err
			}
			line, err := plotter.NewLine(points)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			line.Color = plotutil.Color(i)
			p.Add(line)
			p.Legend.Add(strings.TrimSuffix(filepath.Base(name), ".csv"), line)
		}
		p.Y.Max *= 1.5 // room for the legend
	}
	const side = 9 * vg.Centimeter
	canvas := vgsvg.New(3*side, side)
	tiles := draw.Tiles{Rows: 1, Cols: 3, PadX: vg.Centimeter, PadTop: vg.Centimeter / 2, PadBottom: vg.Centimeter / 2, PadRight: vg.Centimeter / 2}
	for column, area := range plot.Align(panels, tiles, draw.New(canvas))[0] {
		panels[0][column].Draw(area)
	}
	_, err = canvas.WriteTo(w)
	return err
}

// read returns a column of a file over the share of the events.
func read(name string, column int) (plotter.XYs, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	points := make(plotter.XYs, len(rows))
	for i, row := range rows {
		if points[i].Y, err = strconv.ParseFloat(row[column], 64); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		points[i].X = float64(i+1) / float64(len(rows))
	}
	return points, nil
}
