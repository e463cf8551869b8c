package swarm

import (
	"fmt"
	"slices"

	"github.com/emirpasic/gods/maps/treemap"
)

// An Archive keeps the non-dominated points of a search with several
// objectives: those for which no other point is at least as good in every
// objective and better in one. Of points with equal objectives the first stays.
type Archive struct {
	objectives int
	// points maps objectives to positions, in lexicographic order. A point can
	// be dominated only by one that comes before it.
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

// Add keeps a point unless one that is kept is at least as good in every
// objective, drops the points that it dominates, and says whether it was kept.
// A point with an objective that is not finite is not kept.
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

// noWorse says whether a is at least as good as b in every objective.
func noWorse(a, b []float64) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

func allFinite(vs []float64) bool {
	for _, v := range vs {
		if !finite(v) {
			return false
		}
	}
	return true
}
