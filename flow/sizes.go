package flow

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// A Point of a distribution: the share of flows that have at most so many bytes.
type Point struct{ Size, CDF float64 }

// Sizes is a distribution of flow sizes in bytes. Between two points it is uniform; with
// [Steps] every point is a size by itself. A first point with a share above 0, and two
// points of one size, are sizes that many flows have.
type Sizes struct {
	Name   string
	points []Point
	guide  []int32 // the first point at or above each of equal shares
}

const (
	largestSize = 1e15 // bytes
	guides      = 1024
	// CDF files end at 1 up to the rounding of a sum of weights.
	endTolerance = 1e-6
)

// NewSizes makes a distribution of points, ascending and ending at 1. steps means that
// there is nothing between them.
func NewSizes(name string, points []Point, steps bool) (*Sizes, error) {
	if len(points) == 0 {
		return nil, errors.New("no sizes")
	}
	for i, p := range points {
		if err := fits(points[:i], p); err != nil {
			return nil, fmt.Errorf("point %d: %w", i+1, err)
		}
	}
	if last := points[len(points)-1]; math.Abs(last.CDF-1) > endTolerance {
		return nil, fmt.Errorf("the last cdf is %v, want 1", last.CDF)
	}
	s := &Sizes{Name: name, points: slices.Clone(points)}
	if steps {
		s.points = s.points[:0]
		for i, p := range points {
			if i > 0 {
				s.points = append(s.points, Point{p.Size, points[i-1].CDF})
			}
			s.points = append(s.points, p)
		}
	}
	s.points[len(s.points)-1].CDF = 1
	if s.Mean() <= 0 {
		return nil, errors.New("every size is 0")
	}
	s.guide = make([]int32, guides+1)
	at := 0
	for g := range s.guide {
		for at < len(s.points)-1 && s.points[at].CDF < float64(g)/guides {
			at++
		}
		s.guide[g] = int32(at)
	}
	return s, nil
}

// fits returns the error of a point after others.
func fits(before []Point, p Point) error {
	last := Point{}
	if len(before) > 0 {
		last = before[len(before)-1]
	}
	switch {
	case !(p.Size >= 0 && p.Size <= largestSize):
		return fmt.Errorf("size_bytes: %v: want 0 to 1e15", p.Size)
	case !(p.CDF >= 0 && p.CDF <= 1+endTolerance):
		return fmt.Errorf("cdf: %v: want 0 to 1", p.CDF)
	case p.Size < last.Size:
		return fmt.Errorf("size_bytes: %v comes after %v: want them ascending", p.Size, last.Size)
	case p.CDF < last.CDF:
		return fmt.Errorf("cdf: %v comes after %v: want them ascending", p.CDF, last.CDF)
	case len(before) > 0 && p == last:
		return fmt.Errorf("size_bytes: %v, cdf %v: the same as before", p.Size, p.CDF)
	}
	return nil
}

// ParseSizes reads a CSV file with the columns size_bytes and cdf. Errors name file, line
// and field.
func ParseSizes(name string, r io.Reader, steps bool) (*Sizes, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = 2
	in.Comment = '#'
	in.ReuseRecord = true
	head, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: no line", name)
	}
	if err != nil {
		return nil, csvError(name, err)
	}
	line, _ := in.FieldPos(0)
	if head[0] != "size_bytes" || head[1] != "cdf" {
		return nil, fmt.Errorf("%s:%d: columns %q and %q, want size_bytes and cdf", name, line, head[0], head[1])
	}
	var points []Point
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, csvError(name, err)
		}
		line, _ = in.FieldPos(0)
		var p Point
		for i, to := range []*float64{&p.Size, &p.CDF} {
			if *to, err = strconv.ParseFloat(fields[i], 64); err != nil {
				return nil, fmt.Errorf("%s:%d: %s: %q is no number", name, line, []string{"size_bytes", "cdf"}[i], fields[i])
			}
		}
		if err := fits(points, p); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		points = append(points, p)
	}
	s, err := NewSizes(name, points, steps)
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, line, err)
	}
	if s.Mean() < 1 {
		return nil, fmt.Errorf("%s: size_bytes: the mean is %g, want at least one byte", name, s.Mean())
	}
	return s, nil
}

func csvError(name string, err error) error {
	if e, ok := errors.AsType[*csv.ParseError](err); ok {
		if errors.Is(err, csv.ErrFieldCount) {
			return fmt.Errorf("%s:%d: want two columns, size_bytes and cdf", name, e.Line)
		}
		return fmt.Errorf("%s:%d: %w", name, e.Line, e.Err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// SampleSizes is the distribution of observed flows: uniform between one size and the next
// larger one, since a size observed once represents those around it.
func SampleSizes(name string, seen []float64) (*Sizes, error) {
	sorted := slices.Clone(seen)
	slices.Sort(sorted)
	var points []Point
	n := float64(len(sorted))
	for i := 0; i < len(sorted); {
		end := i
		for end < len(sorted) && sorted[end] == sorted[i] {
			end++
		}
		// The middle of a single size is its place; several of one are a size by itself.
		low, high := (float64(i)+.5)/n, (float64(end)-.5)/n
		if i == 0 {
			low = 0
		}
		if end == len(sorted) {
			high = 1
		}
		points = append(points, Point{sorted[i], low})
		if high > low {
			points = append(points, Point{sorted[i], high})
		}
		i = end
	}
	return NewSizes(name, points, false)
}

// Quantile is the size that a share u of the flows does not pass.
func (s *Sizes) Quantile(u float64) float64 {
	p := s.points
	at := int(s.guide[min(max(int(u*guides), 0), guides)])
	for at < len(p)-1 && p[at].CDF < u {
		at++
	}
	for at > 0 && p[at-1].CDF >= u {
		at--
	}
	if at == 0 {
		return p[0].Size
	}
	low, high := p[at-1], p[at]
	if high.CDF == low.CDF {
		return high.Size
	}
	return low.Size + (high.Size-low.Size)*((u-low.CDF)/(high.CDF-low.CDF))
}

// CDF is the share of flows with at most x bytes.
func (s *Sizes) CDF(x float64) float64 {
	p := s.points
	at := sort.Search(len(p), func(i int) bool { return p[i].Size > x })
	if at == 0 {
		return 0
	}
	if at == len(p) {
		return 1
	}
	low, high := p[at-1], p[at]
	return low.CDF + (high.CDF-low.CDF)*((x-low.Size)/(high.Size-low.Size))
}

// Mean is E[X].
func (s *Sizes) Mean() float64 {
	mean, _ := s.Capped(math.Inf(1))
	return mean
}

// Largest is the largest size.
func (s *Sizes) Largest() float64 { return s.points[len(s.points)-1].Size }

// Capped returns E[min(X, a)] and E[min(X, a)²].
func (s *Sizes) Capped(a float64) (first, second float64) {
	first, second = s.Below(a)
	if over := 1 - s.CDF(a); over > 0 {
		first += over * a
		second += over * a * a
	}
	return first, second
}

// Below returns E[X; X ≤ a] and E[X²; X ≤ a].
func (s *Sizes) Below(a float64) (first, second float64) {
	last := Point{s.points[0].Size, 0}
	for _, p := range s.points {
		if last.Size > a {
			break
		}
		high, mass := p.Size, p.CDF-last.CDF
		if high > a {
			mass *= (a - last.Size) / (high - last.Size)
			high = a
		}
		first += mass * (last.Size + high) / 2
		second += mass * (last.Size*last.Size + last.Size*high + high*high) / 3
		last = p
	}
	return first, second
}

// Inverse returns E[1 ÷ X; a < X ≤ b], for a above 0.
func (s *Sizes) Inverse(a, b float64) float64 {
	sum := 0.
	last := Point{s.points[0].Size, 0}
	for _, p := range s.points {
		mass := p.CDF - last.CDF
		low, high := max(a, last.Size), min(b, p.Size)
		switch {
		case p.Size == last.Size && p.Size > a && p.Size <= b:
			sum += mass / p.Size
		case high > low:
			sum += mass / (p.Size - last.Size) * math.Log(high/low)
		}
		last = p
	}
	return sum
}

// Points are those of the distribution, with both sides of a size that many flows have.
func (s *Sizes) Points() []Point { return slices.Clone(s.points) }

// Scaled is the distribution of sizes times factor.
func (s *Sizes) Scaled(factor float64) *Sizes {
	c := &Sizes{Name: s.Name, points: slices.Clone(s.points), guide: s.guide}
	for i := range c.points {
		c.points[i].Size *= factor
	}
	return c
}

// Write writes a file that ParseSizes reads as the same distribution, with lines of comment before it.
func (s *Sizes) Write(w io.Writer, comments ...string) error {
	for _, c := range comments {
		if _, err := fmt.Fprintf(w, "# %s\n", strings.ReplaceAll(c, "\n", " ")); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(w, "size_bytes,cdf"); err != nil {
		return err
	}
	for _, p := range s.points {
		if _, err := fmt.Fprintf(w, "%s,%s\n", strconv.FormatFloat(p.Size, 'g', -1, 64), strconv.FormatFloat(p.CDF, 'g', -1, 64)); err != nil {
			return err
		}
	}
	return nil
}
