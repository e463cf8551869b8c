package sheet

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersus(t *testing.T) {
	v := Versus{ID: "v", Title: "t", XAxis: "bestfit", YAxis: "learned", Pairs: []Pair{{"a", 10, 8}, {"b", math.NaN(), 3}, {"<c>", 4, 5}}}
	text := string(v.SVG())
	require.Equal(t, 2, strings.Count(text, `class="dot"`))
	require.Contains(t, text, "<title>a: 8 against 10</title>")
	require.Contains(t, text, "&lt;c&gt;: 5 against 4")
	require.Empty(t, Versus{}.SVG())
	for range 30 {
		v.Pairs = append(v.Pairs, Pair{"more", 9, 7})
	}
	v.Pairs = append(v.Pairs, Pair{"far", 1400, 9})
	text = string(v.SVG())
	require.Equal(t, 1, strings.Count(text, `class="far"`))
	require.Contains(t, text, "far: 9 against 1400, beyond the scale")
}

func TestBetween(t *testing.T) {
	a := []Point{{0, 5}, {2, 7}, {5, 1}}
	b := []Point{{1, 6}, {2, 6}, {4, 3}}
	require.Equal(t, []Range{{1, 5, 6}, {2, 6, 7}, {4, 3, 7}, {5, 1, 3}}, Between(a, b))
	require.Empty(t, Between(a, nil))
}
