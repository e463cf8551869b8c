// Command soak draws the samples of the servers' soak tests: a curve of each server in a panel each for the heap, the
// open files and the goroutines. Its argument is the folder of the samples, SERVER.csv with events, MiB, files and
// goroutines a line; it writes an SVG to standard output.
package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
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
	var panels []sheet.Chart
	for column, label := range []string{"heap, MiB", "open files", "goroutines"} {
		p := sheet.LineChart{ID: fmt.Sprint("panel-", column), Title: label + " over the events", Axis: label, Unit: "share of the events", Limit: math.NaN()}
		for _, name := range names {
			points, err := read(name, column+1)
			if err != nil {
				return err
			}
			p.Lines = append(p.Lines, sheet.Line{Label: strings.TrimSuffix(filepath.Base(name), ".csv"), Points: points})
		}
		panels = append(panels, sheet.Chart{Plot: p, Caption: p.Title})
	}
	return sheet.Image(w, panels...)
}

// read returns a column of a file over the share of the events.
func read(name string, column int) ([]sheet.Point, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	points := make([]sheet.Point, len(rows))
	for i, row := range rows {
		if points[i].Value, err = strconv.ParseFloat(row[column], 64); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		points[i].Time = float64(i+1) / float64(len(rows))
	}
	return points, nil
}
