package flow

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// suffixes of amounts are decimal, as link rates are.
var suffixes = map[byte]float64{'k': 1e3, 'K': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12}

// ParseAmount reads a number above 0, with or without a decimal suffix k, M, G or T, such
// as 100k or 1.8M.
func ParseAmount(text string) (float64, error) {
	number := text
	if n := len(text); n > 0 && suffixes[text[n-1]] != 0 {
		// As an exponent, so that 8.36M is 8,360,000 to the byte.
		number = text[:n-1] + "e" + strconv.Itoa(int(math.Round(math.Log10(suffixes[text[n-1]]))))
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || strings.ContainsAny(number, "xXpP_nNiI") {
		return 0, fmt.Errorf("%q: want a number, with k, M, G or T or without", text)
	}
	if !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q: want a number above 0", text)
	}
	return v, nil
}

// FormatAmount is the shortest text that [ParseAmount] reads as v, with a suffix from a
// thousand up.
func FormatAmount(v float64) string {
	unit, suffix := 1., ""
	for _, s := range []string{"k", "M", "G", "T"} {
		if u := suffixes[s[0]]; math.Abs(v) >= u {
			unit, suffix = u, s
		}
	}
	text := strconv.FormatFloat(v/unit, 'f', -1, 64)
	if back, err := ParseAmount(text + suffix); err == nil && back == v {
		return text + suffix
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
