package main

import (
	"context"
	"encoding/csv"
	"errors"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/train"
)

const (
	frontTable   = "front.csv"
	frontPicture = "front.svg"
)

// replaceableFront refuses a folder that holds anything but an earlier front.
func replaceableFront(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return writable("out", dir)
	}
	if err != nil {
		return usagef("--out %s: with --objectives it is the name of a folder: %w", dir, err)
	}
	earlier := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == frontTable })
	for _, e := range entries {
		ours := e.Name() == frontTable || e.Name() == frontPicture || filepath.Ext(e.Name()) == ".yaml"
		if !earlier || !ours || e.IsDir() {
			return usagef("--out %s is a folder with %s in it, which is no earlier front: take another one", dir, e.Name())
		}
	}
	return nil
}

// writeFront writes a folder aside and renames it.
func writeFront(ctx context.Context, dir string, f *train.Front, points int, validate []*trace.Trace) error {
	choices := f.Choose(points)
	chosen := make([]int, len(choices))
	for i, c := range choices {
		chosen[i] = c.Point
	}
	var heldOut [][]float64
	if len(validate) > 0 {
		var err error
		if heldOut, err = f.On(ctx, validate, chosen); err != nil {
			return err
		}
	}
	aside, err := os.MkdirTemp(filepath.Dir(filepath.Clean(dir)), ".sigma-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(aside) }() // nothing is there once it is renamed
	for _, c := range choices {
		object := *f.Points[c.Point].Object
		object.Metadata.Name = c.Name
		if err := object.Save(filepath.Join(aside, c.Name+".yaml")); err != nil {
			return err
		}
	}
	table := func(w io.Writer) error { return frontCSV(w, f, choices, heldOut) }
	picture := func(w io.Writer) error { return frontSVG(w, f, choices) }
	err = errors.Join(writeFile(filepath.Join(aside, frontTable), table), writeFile(filepath.Join(aside, frontPicture), picture),
		os.Chmod(aside, 0o755))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil { // an earlier front
		return err
	}
	return os.Rename(aside, dir)
}

// frontCSV has a line for each policy of the front, with its weights and
// parameters.
func frontCSV(w io.Writer, f *train.Front, choices []train.Choice, heldOut [][]float64) error {
	files, measured := map[int][]string{}, map[int][]float64{}
	for i, c := range choices {
		files[c.Point] = append(files[c.Point], c.Name+".yaml")
		if heldOut != nil {
			measured[c.Point] = heldOut[i]
		}
	}
	out := csv.NewWriter(w)
	spec := f.Points[0].Object.Spec
	var parameters []string
	for name := range spec.Parameters {
		parameters = append(parameters, name)
	}
	slices.Sort(parameters)
	head := append([]string{"policy"}, f.Objectives...)
	if heldOut != nil {
		for _, name := range f.Objectives {
			head = append(head, "validate:"+name)
		}
	}
	head = append(append(head, spec.Features...), parameters...)
	if err := out.Write(head); err != nil {
		return err
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	for i, p := range f.Points {
		line := []string{strings.Join(files[i], " ")}
		for _, v := range p.Objectives {
			line = append(line, number(v))
		}
		for k := range f.Objectives {
			switch v := measured[i]; {
			case heldOut == nil:
			case v == nil:
				line = append(line, "")
			default:
				line = append(line, number(v[k]))
			}
		}
		for _, v := range p.Object.Spec.Weights {
			line = append(line, number(v))
		}
		for _, name := range parameters {
			line = append(line, number(p.Object.Spec.Parameters[name]))
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// Colours of the picture: those that were chosen stand out.
var (
	frontGray = color.RGBA{R: 0x9a, G: 0xa5, B: 0xb1, A: 0xff}
	frontBlue = color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}
)

// frontSVG draws a panel for each pair of objectives.
func frontSVG(w io.Writer, f *train.Front, choices []train.Choice) error {
	var panels []*plot.Plot
	for i := range f.Objectives {
		for k := i + 1; k < len(f.Objectives); k++ {
			p, err := frontPanel(f, choices, i, k)
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

func frontPanel(f *train.Front, choices []train.Choice, x, y int) (*plot.Plot, error) {
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

// exactTicks are the usual ones with all their digits: the usual labels are rounded
// until 1.15 and 1.2 are both 1.2.
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

// axisLabel says what an objective is, with its unit.
func axisLabel(objective string) string {
	switch objective {
	case "machines", "mean_machines", "cost":
		return strings.ReplaceAll(objective, "_", " ") + " ÷ bound"
	case "spread":
		return "1 − spread"
	}
	return objective
}
