package swarm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/emirpasic/gods/maps/treemap"
)

// An Archive keeps the non-dominated points of a search with several
// objectives: those for which no other point is at least as good in every
// objective and better in one. Of points with equal objectives the first stays.
type Archive struct {
	objectives int
	// points maps objectives to positions, in lexicographic order. A point can be
	// dominated only by an earlier one.
	points *treemap.Map
}

// A Point of an [Archive].
type Point struct {
	Objectives []float64 // lower is better in each
	Position   []float64
}

// NewArchive returns an empty archive for the given number of objectives.
func NewArchive(objectives int) *Archive {
	return &Archive{objectives: objectives, points: treemap.NewWith(func(a, b any) int {
		return slices.Compare(a.([]float64), b.([]float64))
	})}
}

// Add keeps a point unless one that is kept is at least as good in every objective,
// drops the points that it dominates, and reports whether it was kept. A point with
// an objective that is not finite is not kept.
func (a *Archive) Add(p Point) (bool, error) {
	if len(p.Objectives) != a.objectives {
		return false, fmt.Errorf("swarm: %d objectives for an archive of %d", len(p.Objectives), a.objectives)
	}
	if !allFinite(p.Objectives) {
		return false, nil
	}
	var dominated [][]float64
	for it := a.points.Iterator(); it.Next(); {
		kept := it.Key().([]float64)
		if noWorse(kept, p.Objectives) {
			return false, nil
		}
		if noWorse(p.Objectives, kept) {
			dominated = append(dominated, kept)
		}
	}
	for _, key := range dominated {
		a.points.Remove(key)
	}
	a.points.Put(slices.Clone(p.Objectives), slices.Clone(p.Position))
	return true, nil
}

// Len is the number of points.
func (a *Archive) Len() int { return a.points.Size() }

// Points returns the points in lexicographic order of their objectives.
func (a *Archive) Points() []Point {
	points := make([]Point, 0, a.Len())
	for it := a.points.Iterator(); it.Next(); {
		points = append(points, Point{
			Objectives: slices.Clone(it.Key().([]float64)),
			Position:   slices.Clone(it.Value().([]float64)),
		})
	}
	return points
}

// Hypervolume is the volume that the archive's points dominate up to reference:
// larger is better (Zitzler and Thiele 1999). A point that is not better than
// reference in every objective adds nothing.
func (a *Archive) Hypervolume(reference []float64) float64 {
	var front [][]float64
	for _, p := range a.Points() {
		if allLess(p.Objectives, reference) {
			front = append(front, p.Objectives)
		}
	}
	return hypervolume(front, reference)
}

// hypervolume cuts along the last objective: between two neighbouring values of
// it the volume is that of the points up to there in the other objectives.
func hypervolume(front [][]float64, reference []float64) float64 {
	k := len(reference) - 1
	if len(front) == 0 {
		return 0
	}
	if k == 0 {
		return reference[0] - slices.MinFunc(front, slices.Compare)[0]
	}
	front = slices.Clone(front)
	slices.SortFunc(front, func(p, q []float64) int { return cmp.Compare(p[k], q[k]) })
	sum := 0.0
	var below [][]float64 // without the last objective
	for i, p := range front {
		below = addPoint(below, p[:k])
		upper := reference[k]
		if i+1 < len(front) {
			upper = front[i+1][k]
		}
		if upper > p[k] {
			sum += (upper - p[k]) * hypervolume(below, reference[:k])
		}
	}
	return sum
}

// addPoint keeps the points that no other one dominates.
func addPoint(points [][]float64, p []float64) [][]float64 {
	for _, q := range points {
		if noWorse(q, p) {
			return points
		}
	}
	points = slices.DeleteFunc(points, func(q []float64) bool { return noWorse(p, q) })
	return append(points, p)
}

func allLess(a, b []float64) bool {
	for i := range a {
		if a[i] >= b[i] {
			return false
		}
	}
	return true
}

// update adds the results of a generation; without an archive it does nothing.
func (a *Archive) update(positions [][]float64, results []result, renewed bool) error {
	if a == nil {
		return nil
	}
	if renewed {
		a.points.Clear()
	}
	for i, r := range results {
		if _, err := a.Add(Point{Objectives: r.objectives, Position: positions[i]}); err != nil {
			return err
		}
	}
	return nil
}

// noWorse reports whether a is at least as good as b in every objective.
func noWorse(a, b []float64) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

func allFinite(vs []float64) bool {
	return !slices.ContainsFunc(vs, func(v float64) bool { return !finite(v) })
}
