package sheet

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A few values far out do not flatten the rest: they are marks at the end of the scale.
func TestStripIsClipped(t *testing.T) {
	near := Strip{ID: "x", Axis: "%", Each: "trace", LimitName: "bound", Rows: []StripRow{{Label: "bestfit", Extra: math.NaN()}}}
	for i := range 40 {
		near.Rows[0].Values = append(near.Rows[0].Values, 1+float64(i)/10)
	}
	require.NotContains(t, string(near.SVG()), `class="far"`)
	far := near
	far.Rows = []StripRow{{Label: "bestfit", Extra: math.NaN(), Values: append([]float64{1400, 900}, near.Rows[0].Values[2:]...)}}
	text := string(far.SVG())
	require.Contains(t, text, `<title>bestfit: 2 beyond the scale, up to 1400</title>`)
	require.Equal(t, 1, strings.Count(text, `class="far"`))
	require.NotContains(t, text, `>1200<`, "a tick")
	require.NotContains(t, text, `<title>mean `, "it lies beyond")
	few := near
	few.Rows = []StripRow{{Label: "bestfit", Extra: math.NaN(), Values: []float64{1, 2, 1400}}}
	require.NotContains(t, string(few.SVG()), `class="far"`, "of three none is an outlier")
}
