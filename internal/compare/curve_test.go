package compare

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// curveTrace: items of 3 on machines of 4; x asks for two, y for one, x goes, z
// asks for one.
func curveTrace(fleet binpack.Fleet, machines int) *trace.Trace {
	tr := oneApp()
	tr.Instance.Fleet = fleet
	tr.Instance.Machines[0].Count = machines
	tr.Requests = []trace.Request{{Name: "x", Count: 2}, {Name: "y", Count: 1}, {Name: "z", Count: 1}}
	tr.Events = []trace.Event{
		{Time: 0, Request: 0, Count: 2},
		{Time: 1, Request: 1, Count: 1},
		{Time: 2, Kind: trace.Delete, Request: 0, Count: 2},
		{Time: 3, Request: 2, Count: 1},
	}
	return tr
}

func curves(t *testing.T, tr *trace.Trace, opt Options) string {
	t.Helper()
	opt.Curves, opt.Workers = true, 1
	result, err := Run(context.Background(), []*trace.Trace{tr}, []string{"firstfit"}, Catalog{}, opt)
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, WriteCurves(&text, result.Curves))
	return text.String()
}

func TestCurveFixed(t *testing.T) {
	// Two machines, 8 in all. After x 6 have come and stand: 75 %. y finds no
	// place; 9 of 8 is 112.5 %, which rounds to even. x goes; z stands.
	require.Equal(t, `policy,order,percent,dimension,allocation
firstfit,0,75,cpu,0.750000
firstfit,0,112,cpu,0.750000
firstfit,0,150,cpu,0.375000
`, curves(t, curveTrace(binpack.Fixed, 2), Options{}))
	// With retry y stands when x has gone, and is not counted twice.
	require.Contains(t, curves(t, curveTrace(binpack.Fixed, 2), Options{Retry: true}), "firstfit,0,150,cpu,0.750000\n")
}

func TestCurveOpen(t *testing.T) {
	// 12 in all come; one item a machine.
	text := curves(t, curveTrace(binpack.Open, binpack.Unlimited), Options{Orders: 1})
	require.Contains(t, text, `firstfit,0,50,cpu,0.750000
firstfit,0,75,cpu,0.750000
firstfit,0,100,cpu,0.750000
firstfit,1,`)
}

func TestCurveInitial(t *testing.T) {
	tr := curveTrace(binpack.Fixed, 3)
	tr.Requests = append([]trace.Request{{Name: "w", Count: 1}}, tr.Requests...)
	tr.Initial = 1
	tr.Placed = []trace.Placed{{Request: 0, Line: 0, Index: 2, Count: 1}}
	for i := range tr.Events {
		tr.Events[i].Request++
	}
	require.Contains(t, curves(t, tr, Options{}), "allocation\nfirstfit,0,75,cpu,0.750000\n", "w and x of 12")
	require.Empty(t, newRecorder(cerebro.NewReplayer(tr)).points())
}

// TestCurveBeyond: a demand far beyond the fleet is a point like another.
func TestCurveBeyond(t *testing.T) {
	tr := curveTrace(binpack.Fixed, 1)
	tr.Instance.Apps[0].Demand = []int64{binpack.MaxValue}
	require.Contains(t, curves(t, tr, Options{}), "firstfit,0,2147483647,cpu,0.000000\n")
}
