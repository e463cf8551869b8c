package sheet

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersus(t *testing.T) {
	v := Scatter{Equal: true, ID: "v", Title: "t", XAxis: "bestfit", YAxis: "learned", XLimit: math.NaN(), YLimit: math.NaN(), Dots: []Dot{{About: "a", X: 10, Y: 8}, {About: "<c>", X: 4, Y: 5}}}
	text := string(v.SVG())
	require.Equal(t, 2, strings.Count(text, `class="dot"`))
	require.Contains(t, text, "<title>&lt;c&gt;</title>")
	require.NotContains(t, text, `class="name"`)
	require.Empty(t, Scatter{}.SVG())
	for range 30 {
		v.Dots = append(v.Dots, Dot{About: "more", X: 9, Y: 7})
	}
	v.Dots = append(v.Dots, Dot{About: "far", X: 1400, Y: 9})
	text = string(v.SVG())
	require.Equal(t, 1, strings.Count(text, `class="far"`))
	require.Contains(t, text, "far, beyond the scale")
}

func TestBetween(t *testing.T) {
	a := []Point{{0, 5}, {2, 7}, {5, 1}}
	b := []Point{{1, 6}, {2, 6}, {4, 3}}
	require.Equal(t, []Range{{1, 5, 6}, {2, 6, 7}, {4, 3, 7}, {5, 1, 3}}, Between(a, b))
	require.Empty(t, Between(a, nil))
}
