package flow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Bins of a Sketch: eight to an octave, up to the largest size.
const (
	SketchBins = 400
	perOctave  = 8
	// MostCount is the most flows of a bin: 400 of them take less than 4 kB as text.
	MostCount = 9_999_999
)

// A Sketch counts flows by the logarithm of their sizes: bin i has those from 2^(i/8) bytes up to the next bin. It has few
// bytes, and a size drawn from it is within 9 % of one that was seen. The zero value is empty.
type Sketch struct {
	First  int     // the first bin that has flows
	Counts []int64 // of it and those after it
}

// Add counts a flow. It refuses a size that a [Window] would refuse.
func (s *Sketch) Add(size float64) error {
	if !(size >= 1 && size <= largestSize) {
		return fmt.Errorf("size: %v bytes: want 1 to 1e15", size)
	}
	s.add(min(int(math.Log2(size)*perOctave), SketchBins-1), 1)
	return nil
}

func (s *Sketch) add(bin int, n int64) {
	switch {
	case len(s.Counts) == 0:
		s.First = bin
	case bin < s.First:
		s.Counts = slices.Concat(make([]int64, s.First-bin), s.Counts)
		s.First = bin
	}
	for len(s.Counts) <= bin-s.First {
		s.Counts = append(s.Counts, 0)
	}
	at := &s.Counts[bin-s.First]
	*at = min(*at+n, MostCount)
}

// Merge adds the flows of another.
func (s *Sketch) Merge(o Sketch) {
	for i, n := range o.Counts {
		if n > 0 {
			s.add(o.First+i, n)
		}
	}
}

// Flows is how many there are.
func (s *Sketch) Flows() (n int64) {
	for _, c := range s.Counts {
		n += c
	}
	return n
}

// Validate returns the error of a sketch from elsewhere.
func (s *Sketch) Validate() error {
	if s.First < 0 || s.First+len(s.Counts) > SketchBins {
		return fmt.Errorf("sketch: bins %d to %d, want 0 to %d", s.First, s.First+len(s.Counts)-1, SketchBins-1)
	}
	for i, c := range s.Counts {
		if c < 0 || c > MostCount {
			return fmt.Errorf("sketch: %d flows in bin %d, want 0 to %d", c, s.First+i, MostCount)
		}
	}
	return nil
}

// Draw returns the sizes of at most so many flows in a random order, each flow at most once. Inside a bin sizes are
// spread evenly by their logarithm.
func (s *Sketch) Draw(most int, rng *rand.Rand) []float64 {
	left := slices.Clone(s.Counts)
	n := s.Flows()
	var sizes []float64
	for ; n > 0 && len(sizes) < most; n-- {
		at := rng.Int64N(n)
		bin := 0
		for at >= left[bin] {
			at -= left[bin]
			bin++
		}
		left[bin]--
		sizes = append(sizes, min(math.Exp2((float64(s.First+bin)+rng.Float64())/perOctave), largestSize))
	}
	return sizes
}
