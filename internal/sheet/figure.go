package sheet

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
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

// An Estimate is a mean over runs with half of its 95 % interval (Student's t), 0 for one run.
type Estimate struct{ Mean, Half float64 }

// EstimateOf is the estimate from some values; its mean is NaN without any.
func EstimateOf(values []float64) Estimate {
	e := Estimate{Mean: stat.Mean(values, nil)}
	if n := float64(len(values)); n > 1 {
		e.Half = Student(n-1) * stat.StdErr(stat.StdDev(values, nil), n)
	}
	return e
}

// Student is the factor of a 95 % interval with some degrees of freedom.
func Student(freedom float64) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile(.975)
}

// MarshalJSON writes null for a mean of no values.
func (e Estimate) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Mean Number `json:"mean"`
		Half Number `json:"half"`
	}{Number(e.Mean), Number(e.Half)})
}
