package swarm

import (
	"errors"
	"fmt"
	"math"
)

// A Box is the feasible region: Lo[d] ≤ x[d] ≤ Hi[d] in each dimension d. A
// dimension with Lo = Hi is fixed.
type Box struct {
	Lo, Hi []float64
}

// maxWidth leaves room for steps of a few widths.
const maxWidth = math.MaxFloat64 / 16

// Cube returns the box [lo, hi] in each of n dimensions.
func Cube(n int, lo, hi float64) Box {
	b := Box{Lo: make([]float64, n), Hi: make([]float64, n)}
	for d := range n {
		b.Lo[d], b.Hi[d] = lo, hi
	}
	return b
}

// Dim is the number of dimensions.
func (b Box) Dim() int { return len(b.Lo) }

// Validate returns an error if b is unusable: no dimension, bounds of different
// lengths, not finite or in the wrong order, or so far apart that arithmetic on
// them would overflow.
func (b Box) Validate() error {
	if len(b.Lo) != len(b.Hi) {
		return fmt.Errorf("box: %d lower and %d upper bounds", len(b.Lo), len(b.Hi))
	}
	if len(b.Lo) == 0 {
		return errors.New("box: no dimension")
	}
	for d := range b.Lo {
		// Written so that NaN fails as well.
		if w := b.width(d); !(w >= 0 && w <= maxWidth && finite(b.Lo[d])) {
			return fmt.Errorf("box: dimension %d: no interval [%v, %v]", d, b.Lo[d], b.Hi[d])
		}
	}
	return nil
}

// Contains reports whether x has the box's dimensions and lies inside.
func (b Box) Contains(x []float64) bool {
	if len(x) != b.Dim() {
		return false
	}
	for d, v := range x {
		if !(b.Lo[d] <= v && v <= b.Hi[d]) {
			return false
		}
	}
	return true
}

// Reflect is Φ: it reflects x into the box, at each wall that x has crossed and as
// often as it takes, and turns the component of v in each dimension that met an odd
// number of walls. In a fixed dimension the velocity becomes 0. A nil v denotes a
// position without velocity.
func (b Box) Reflect(x, v []float64) {
	for d := range x {
		folded, turned := fold(x[d], b.Lo[d], b.Hi[d])
		x[d] = folded
		switch {
		case v == nil:
		case b.width(d) == 0:
			v[d] = 0
		case turned:
			v[d] = -v[d]
		}
	}
}

// fold reflects x into [lo, hi]; odd reports whether by an odd number of walls.
func fold(x, lo, hi float64) (folded float64, odd bool) {
	if lo <= x && x <= hi {
		return x, false
	}
	w := hi - lo
	if w == 0 || !finite(x-lo) {
		return lo, false
	}
	// The reflected line repeats itself every 2w: up in [0, w], down in [w, 2w].
	t := math.Mod(x-lo, 2*w)
	if t < 0 {
		t += 2 * w
	}
	if t > w {
		t, odd = 2*w-t, true
	}
	// Rounding may move lo + t past a wall.
	return min(max(lo+t, lo), hi), odd
}

func (b Box) width(d int) float64 { return b.Hi[d] - b.Lo[d] }

// distance is the root mean square over the dimensions of (x − y) ÷ width,
// fixed dimensions left out: 0 at the same position, 1 between opposite
// corners.
func (b Box) distance(x, y []float64) float64 {
	sum, n := 0.0, 0
	for d := range x {
		if w := b.width(d); w > 0 {
			r := (x[d] - y[d]) / w
			sum += float64(r * r)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return math.Sqrt(sum / float64(n))
}

// diversity is the mean distance of positions to best; 0 without a best.
func (b Box) diversity(positions [][]float64, best []float64) float64 {
	if best == nil || len(positions) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range positions {
		sum += b.distance(x, best)
	}
	return sum / float64(len(positions))
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
