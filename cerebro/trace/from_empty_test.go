package trace

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

func TestFromEmpty(t *testing.T) {
	tr := &Trace{
		Name: "x", MeasureFrom: math.NaN(),
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""},
			Machines: []binpack.MachineLine{{Name: "m", Count: 3, Cost: 1, Capacity: []int64{9}}},
			Groups:   []binpack.Group{{Name: "a"}}, Apps: []binpack.App{{Name: "a", Demand: []int64{1}, Expected: -1, Lifetime: -1}},
		},
		Requests: []Request{{"p", 0, 3}, {"q", 0, 1}, {"r", 0, 2}},
		Initial:  2,
		Placed:   []Placed{{Request: 0, Count: 2}, {Request: 0, Index: 1, Count: 1}, {Request: 1, Count: 1}},
		Events:   []Event{{5, Create, 2, 2}, {7, Delete, 0, 3}},
	}
	empty := tr.FromEmpty()
	require.Zero(t, empty.Initial)
	require.Empty(t, empty.Placed)
	require.Equal(t, tr.Requests, empty.Requests)
	require.Equal(t, []Event{{5, Create, 0, 3}, {5, Create, 1, 1}, {5, Create, 2, 2}, {7, Delete, 0, 3}}, empty.Events)
	require.Len(t, tr.Events, 2, "the trace itself stays as it is")
	require.Same(t, empty, empty.FromEmpty())

	// It is a trace like any other.
	dir := t.TempDir() + "/empty"
	require.NoError(t, empty.Write(dir))
	read, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, empty.Events, read.Events)

	tr.Events = nil
	require.Equal(t, []Event{{0, Create, 0, 3}, {0, Create, 1, 1}}, tr.FromEmpty().Events)

	// Leading items of which the trace lacks constraints stay.
	tr.Source = map[string]any{"ignored": map[string]any{"p": "its volumes", "r": "its volumes"}}
	kept := tr.FromEmpty()
	require.Equal(t, 1, kept.Initial)
	require.Equal(t, tr.Placed[:2], kept.Placed)
	require.Equal(t, []Event{{0, Create, 1, 1}}, kept.Events)
	require.Same(t, kept, kept.FromEmpty())
}
