package sim

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
)

// A Load is a rate of requests over time, constant within steps of equal length; after
// the last it begins again.
type Load struct {
	Step   float64   // seconds
	PerSec []float64 // rate in each step
}

// Rate is the rate at a time and how long it lasts.
func (l Load) Rate(t float64) (perSecond, until float64) {
	i := int(math.Floor(t/l.Step + 1e-9))
	return l.PerSec[i%len(l.PerSec)], float64(i+1) * l.Step
}

// Scale is the load with its largest rate set.
func (l Load) Scale(most float64) Load {
	high := 0.0
	for _, r := range l.PerSec {
		high = max(high, r)
	}
	out := Load{Step: l.Step, PerSec: make([]float64, len(l.PerSec))}
	for i, r := range l.PerSec {
		out.PerSec[i] = r / high * most
	}
	return out
}

// From is the load from a time on.
func (l Load) From(seconds float64) (Load, error) {
	i := int(seconds / l.Step)
	if i >= len(l.PerSec) {
		return Load{}, fmt.Errorf("the load has %.4g hours", float64(len(l.PerSec))*l.Step/3600)
	}
	return Load{Step: l.Step, PerSec: l.PerSec[i:]}, nil
}

// ReadLoad reads requests per minute: a CSV file with a header line and a column
// "count", one line a minute. Errors name file, line and field.
func ReadLoad(path string) (Load, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Load{}, err
	}
	r := csv.NewReader(bytes.NewReader(text))
	head, err := r.Read()
	if errors.Is(err, io.EOF) {
		return Load{}, fmt.Errorf("%s: the file is empty", path)
	}
	if err != nil {
		return Load{}, fmt.Errorf("%s: %w", path, err)
	}
	column := -1
	for i, name := range head {
		if name == "count" {
			column = i
		}
	}
	if column < 0 {
		return Load{}, fmt.Errorf("%s:1: there is no column count", path)
	}
	load := Load{Step: 60}
	for line := 2; ; line++ {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Load{}, fmt.Errorf("%s: %w", path, err)
		}
		n, err := strconv.ParseFloat(row[column], 64)
		if err != nil || !(n >= 0 && n < 1e12) {
			return Load{}, fmt.Errorf("%s:%d: count %q: want a number from 0 up", path, line, row[column])
		}
		load.PerSec = append(load.PerSec, n/60)
	}
	if len(load.PerSec) == 0 {
		return Load{}, fmt.Errorf("%s: no minutes", path)
	}
	return load, nil
}
