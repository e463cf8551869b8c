package flow

import (
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/internal/learn/drift"
)

// A window of sizes: how many it holds, how many new ones are compared with it at a time, and how unlikely they
// must be for it to be emptied.
const (
	WindowSizes  = 3000
	WindowStep   = 250
	WindowChange = .01
)

// A Window holds the sizes of the last flows. Each time it has WindowStep new ones, it compares them with the
// others (Kolmogorov–Smirnov); where they are of another distribution, it keeps only the new ones.
type Window struct {
	sizes   []float64 // the oldest first
	fresh   []float64 // not compared yet
	changes int
}

// Add takes the size of a flow that ended. It reports whether the distribution has changed. A size below 1 byte or
// above 1e15 is refused.
func (w *Window) Add(size float64) (changed bool, err error) {
	if !(size >= 1 && size <= largestSize) {
		return false, fmt.Errorf("size: %v bytes: want 1 to 1e15", size)
	}
	w.fresh = append(w.fresh, size)
	if len(w.fresh) < WindowStep {
		return false, nil
	}
	if len(w.sizes) > 0 {
		_, p, err := drift.KolmogorovSmirnov(w.sizes, w.fresh)
		if err != nil {
			return false, err
		}
		changed = p < WindowChange
	}
	if changed {
		w.changes++
		w.sizes = w.sizes[:0]
	}
	w.sizes = append(w.sizes, w.fresh...)
	w.sizes = slices.Delete(w.sizes, 0, max(0, len(w.sizes)-WindowSizes))
	w.fresh = w.fresh[:0]
	return changed, nil
}

// Sizes are those in the window, with those that are not compared yet.
func (w *Window) Sizes() []float64 { return slices.Concat(w.sizes, w.fresh) }

// Changes counts how often the distribution has changed.
func (w *Window) Changes() int { return w.changes }
