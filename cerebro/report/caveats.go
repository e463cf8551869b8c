package report

import (
	"strings"

	"github.com/sigma-scheduler/sigma/internal/plural"
)

// Optimal is the result of a plan of which it is proven that none costs less.
const Optimal = "proven optimal"

// Qualified returns a result with its caveats: the number of items of which not all constraints count, and of those that
// must not move and are placed again.
func Qualified(result string, ignored, again int) string {
	if result == Optimal && ignored > 0 {
		return result + strings.TrimPrefix(caveats(ignored, again), ",")
	}
	return result + caveats(ignored, again)
}

func caveats(ignored, again int) (text string) {
	if ignored > 0 {
		text = ", without the constraints of " + plural.Of(ignored, "item")
	}
	if again > 0 {
		text += ", with " + plural.Of(again, "item") + " placed again that must not move"
	}
	return text
}

func caveatsOf(comparisons []Comparison) string {
	ignored, again, noPlace := 0, 0, ""
	for _, c := range comparisons {
		ignored, again, noPlace = ignored+c.Trace.Ignored, again+c.Trace.Again, noPlace+c.Trace.NoPlace.String()
	}
	return noPlace + caveats(ignored, again)
}
