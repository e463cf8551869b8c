package learned

import "github.com/sigma-scheduler/sigma/binpack"

const (
	// EmptyPenalty is subtracted from the score of an empty machine that is kept
	// back until no machine in use takes the item. Weights cannot outweigh it.
	EmptyPenalty = binpack.EmptyPenalty
	// MaxCached bounds the scores that a scorer keeps: demands × machines.
	MaxCached = 1 << 22
	// maxLeft: one item in so many may leave, see ItemsLeave.
	maxLeft = 50
)

// ItemsLeave reports whether more than one in maxLeft of the items placed has left.
// Models for items that stay are Best Fit from then on: they count a sum of peaks
// that do not occur at the same time.
func ItemsLeave(s *binpack.State) bool { return s.Left()*maxLeft > s.Placements() }

// CountApp is the number of items of an app among a machine's contents.
func CountApp(contents []binpack.Entry, app int32) int32 {
	for i := range contents {
		if contents[i].App == app {
			return contents[i].Count
		}
	}
	return 0
}

// Indicator is 1 where a condition holds, else 0.
func Indicator(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
