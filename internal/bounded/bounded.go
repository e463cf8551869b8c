// Package bounded converts numbers that users and other programs write, so that no product or sum of
// them leaves the range of its type: a value beyond the range is the nearest end of it. It cuts their texts
// likewise.
package bounded

import (
	"math"
	"strings"
	"time"
	"unicode"
)

// Longest is the longest duration of this package, a hundred years. Two of them added fit in a
// [time.Duration], and so does one added to a time.
const Longest = 100 * 365 * 24 * time.Hour

// Times returns n units of time, at most [Longest] and at least its negative.
func Times[N int32 | int64](n N, unit time.Duration) time.Duration {
	if unit <= 0 {
		panic("bounded: the unit of time is not positive")
	}
	most := int64(Longest / unit)
	return time.Duration(min(max(int64(n), -most), most)) * unit
}

// Seconds returns a number of seconds as a duration within the same bounds. NaN is 0.
func Seconds(n float64) time.Duration {
	return time.Duration(Int(min(max(n, -Longest.Seconds()), Longest.Seconds()) * float64(time.Second)))
}

// Int returns a number without its fraction. NaN is 0, and a number beyond the range of int64 is the end of
// it: Go leaves the result of such a conversion to the processor.
func Int(x float64) int64 {
	switch {
	case math.IsNaN(x):
		return 0
	case x >= math.MaxInt64:
		return math.MaxInt64
	case x <= math.MinInt64:
		return math.MinInt64
	}
	return int64(x)
}

// Text is a text of others on one line, cut to 1,024 bytes: no event and no condition of a status holds more.
func Text(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	const most, more = 1024, " …"
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(more)], "") + more
}
