package trace

import (
	"math"
	"strconv"

	"github.com/sigma-scheduler/sigma/binpack"
)

// FormatAmount returns the amount of value units of dim for people: as Kubernetes
// writes it where that is short, in whole Mi or Gi for bytes, else rounded to a
// thousandth.
func FormatAmount(value int64, dim binpack.Dimension) string {
	const short = 6 // letters
	v := float64(value) / float64(dim.One)
	binary := dim.One == 1 && value%(1<<10) == 0
	switch {
	case binary && value&(1<<30-1) == 0 && value != 0:
		return strconv.FormatInt(value>>30, 10) + "Gi"
	case binary && value&(1<<20-1) == 0 && value != 0:
		return strconv.FormatInt(value>>20, 10) + "Mi"
	}
	if exact := FormatQuantity(value, dim); len(exact) <= short {
		return exact
	}
	unit, suffix := 1.0, ""
	switch size := math.Abs(v); {
	case binary && size >= 1<<30:
		unit, suffix = 1<<30, "Gi"
	case binary && size >= 1<<20:
		unit, suffix = 1<<20, "Mi"
	case size >= 1e9:
		unit, suffix = 1e9, "G"
	case size >= 1e6:
		unit, suffix = 1e6, "M"
	}
	return strconv.FormatFloat(math.Round(1000*v/unit)/1000, 'f', -1, 64) + suffix
}
