package sheet

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImage(t *testing.T) {
	line := LineChart{ID: "a", Title: "t", Axis: "freed", Unit: "moved, %", Limit: math.NaN(), Lines: []Line{{Label: "<x>", Points: []Point{{0, 1}, {9, 2}}}, {Label: "y", Points: []Point{{0, 2}, {9, 5}}}}}
	var b strings.Builder
	require.NoError(t, Image(&b, Chart{line, "the first"}, Chart{LineChart{ID: "none"}, "empty"}, Chart{Scatter{ID: "s", Dots: []Dot{{Label: "d", X: 1, Y: 2}}, XLimit: math.NaN(), YLimit: math.NaN()}, "the second"}))
	text := b.String()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	require.Equal(t, 2, strings.Count(text, `role="img"`))
	require.Contains(t, text, ">&lt;x&gt;</text>")
	require.Contains(t, text, "the first</text>")
	require.NotContains(t, text, "empty")
	require.NotContains(t, text, "var(", "programs other than browsers have no variables")
	require.Contains(t, text, "prefers-color-scheme: dark")
	require.Equal(t, strings.Count(text, "{"), strings.Count(text, "}"))
	require.Contains(t, text, "svg .line { fill: none;")
	require.Contains(t, text, ".p5 { stroke: #5b6675;")
}
