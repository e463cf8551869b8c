package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A few values far out do not flatten the rest: they are marks at the end of the scale.
func TestStripIsClipped(t *testing.T) {
	near := strip{id: "x", axis: "%", each: "trace", limit: 0, limitName: "bound", rows: []stripRow{{label: "bestfit", extra: nothing}}}
	for i := range 40 {
		near.rows[0].values = append(near.rows[0].values, 1+float64(i)/10)
	}
	require.NotContains(t, string(near.svg()), `class="far"`)
	far := near
	far.rows = []stripRow{{label: "bestfit", extra: nothing, values: append([]float64{1400, 900}, near.rows[0].values[2:]...)}}
	text := string(far.svg())
	require.Contains(t, text, `<title>bestfit: 2 beyond the scale, up to 1400</title>`)
	require.Equal(t, 1, strings.Count(text, `class="far"`))
	require.NotContains(t, text, `>1200<`, "a tick")
	require.NotContains(t, text, `<title>mean `, "it lies beyond")
	few := near
	few.rows = []stripRow{{label: "bestfit", extra: nothing, values: []float64{1, 2, 1400}}}
	require.NotContains(t, string(few.svg()), `class="far"`, "of three none is an outlier")
}
