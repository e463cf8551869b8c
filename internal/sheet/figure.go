package sheet

import (
	"math"
	"strconv"
	"strings"
)

// Decimals returns how many digits after the point the numbers of a column need: at most
// most, and at most four digits in all where the size allows. NaN is ignored.
func Decimals(most int, values []float64) int {
	whole, largest := true, 0.0
	for _, v := range values {
		if math.IsNaN(v) {
			continue
		}
		whole = whole && v == math.Trunc(v)
		largest = max(largest, math.Abs(v))
	}
	if whole {
		return 0
	}
	for left := 3; largest >= 10 && left > 0; left-- { // digits after the point for 10, 100, 1000
		most = min(most, left-1)
		largest /= 10
	}
	return most
}

// Figure formats a number with the given digits after the point; NaN is a hyphen. sign
// adds a plus to positive numbers.
func Figure(v float64, digits int, sign bool) string {
	if math.IsNaN(v) {
		return "-"
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-") // no minus zero
	} else if sign && v > 0 {
		s = "+" + s
	}
	return s
}

// Short formats a number alone, with at most four digits where its size allows.
func Short(v float64) string { return Figure(v, Decimals(1, []float64{v}), false) }
