// Package plural writes a number with its noun.
package plural

import "strconv"

// Of writes a number of things: "1 machine", "2 machines".
func Of(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
