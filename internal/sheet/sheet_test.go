package sheet

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestThinKeepsPeaks(t *testing.T) {
	var points []Point
	for i := range 10000 {
		points = append(points, Point{float64(i), 5})
	}
	points[4320].Value = math.NaN()
	points[4321].Value = 99
	points[4322].Value = math.NaN()
	points[9999].Value = 3
	out := thin(points, 0, 9999)
	peak := 0.0
	for _, s := range out {
		peak = max(peak, s.Value)
	}
	assert.LessOrEqual(t, len(out), 302)
	assert.InDelta(t, 99, peak, 0)
	assert.InDelta(t, 3, out[len(out)-1].Value, 0)
}

func TestAxis(t *testing.T) {
	for _, c := range []struct{ low, high, wantLow, wantHigh, step float64 }{
		{15, 27, 14, 28, 2},
		{15, 15, 15, 16, 0.2},
		{0, 4.2, 0, 5, 1},
		{0, 0.0123, 0, 0.015, 0.005},
		{0, 5e-324, 0, 1, 0.2},
	} {
		a := NewAxis(c.low, c.high, 0, 100)
		assert.InDelta(t, c.wantLow, a.low, 1e-9)
		assert.InDelta(t, c.wantHigh, a.high, 1e-9)
		assert.InDelta(t, c.step, a.step, 1e-9)
		assert.LessOrEqual(t, len(a.ticks()), 12)
		assert.InDelta(t, 0, a.At(a.low), 0)
		assert.InDelta(t, 100, a.At(a.high), 0)
	}
}

func TestLogAxis(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		ticks     string
	}{
		{.001, 20, "0.001 0.01 0.1 1 10"},
		{.013, .4, "0.01 0.02 0.05 0.1 0.2 0.5"},
		{.2, .2, "0.2 0.5"},
		{1, math.NaN(), "1 2"},
		{5, 1000, "5 10 20 50 100 200 500 1000"},
	} {
		a := NewLogAxis(c.low, c.high, 0, 100)
		assert.Equal(t, c.ticks, strings.Join(a.texts(), " "), "%v to %v", c.low, c.high)
		assert.InDelta(t, 0, a.At(0), 0, "below the axis")
		assert.InDelta(t, 100, a.At(1e9), 0)
		assert.InDelta(t, 50, a.At(math.Sqrt(a.low*a.high)), 1e-9)
	}
	assert.Panics(t, func() { NewLogAxis(0, 1, 0, 100) })
}

func TestLineBreaks(t *testing.T) {
	x, y := NewAxis(0, 5, 0, 50), NewAxis(0, 10, 100, 0)
	none := math.NaN()
	points := []Point{{0, none}, {1, 10}, {2, 0}, {3, none}, {4, none}, {5, 5}}
	assert.Equal(t, "M10.0 0.0H20.0V100.0H30.0M50.0 50.0", steps(points, 0, 1, x, y))
	assert.Empty(t, LineChart{Lines: []Line{{Label: "a", Points: points[:1]}}}.SVG())
}

// Names of dots that stand close together do not cover each other.
func TestScatterPlaces(t *testing.T) {
	taken := []box{{92, 92, 108, 108}, {97, 95, 113, 111}}
	var names []box
	for _, at := range [][2]float64{{100, 100}, {105, 103}} {
		before := len(taken)
		place(&taken, 0, at[0], at[1], "hpa+vpa")
		names = append(names, taken[before:]...)
	}
	assert.Zero(t, names[0].overlap(names[1]))
	_, _, anchor := place(&taken, 0, Width-5, 300, "autopilot")
	assert.Equal(t, "end", anchor)
}

func ExampleFigure() {
	column := []float64{3.14159, 271.828, math.NaN()}
	for _, v := range column {
		fmt.Println(Figure(v, Decimals(3, column), false))
	}
	// Output:
	// 3.1
	// 271.8
	// -
}

func TestEstimate(t *testing.T) {
	// Student's t with two degrees of freedom is 4.303; the standard error 1 / √3.
	e := EstimateOf([]float64{1, 2, 3})
	assert.InDelta(t, 2, e.Mean, 1e-9)
	assert.InDelta(t, 4.303/math.Sqrt(3), e.Half, 1e-3)
	assert.Equal(t, Estimate{Mean: 7}, EstimateOf([]float64{7}))
}

// A limit that begins before the lines has its value of then where they begin.
func TestEarlyLimit(t *testing.T) {
	c := LineChart{ID: "l", Limit: math.NaN(), LimitName: "bound", Limits: []Point{{-50, 9}, {-20, 4}, {30, 6}}, Lines: []Line{{Label: "a", Points: []Point{{0, 1}, {100, 5}}}}}
	svg := string(c.SVG())
	assert.Contains(t, svg, `<path class="limit" d="M52.0 `)
	assert.Len(t, thin(c.Limits, 0, 100), 2)
}

// An axis from 1.04 to 1.25 has ticks that differ in the second digit only, and a narrow one in the third.
func TestTicksAreExact(t *testing.T) {
	assert.Equal(t, []string{"1.00", "1.05", "1.10", "1.15", "1.20", "1.25", "1.30"}, NewAxis(1.0427, 1.2525, 0, 1).texts())
	assert.Equal(t, []string{"1.000", "1.005", "1.010", "1.015", "1.020"}, NewAxis(1, 1.02, 0, 1).texts())
	assert.Equal(t, []string{"0", "5", "10"}, NewAxis(0, 20, 0, 1).texts()[:3:3])
}
