package cerebro_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// stood has the line of each request's machine.
type stood struct {
	rule.FirstFit
	lines []int32
}

func (s stood) Where(request, _ int32) (line, index int32, devices []trace.Device, ok bool) {
	return s.lines[request], 0, nil, s.lines[request] >= 0
}

// Two small items on one machine leave no room for the second large one: it stays where it was, and the others arrive again. Then
// the first large one finds no place, and stays too.
func TestStay(t *testing.T) {
	tr := load(t, "trace.yaml", "name: stay\ndimensions: [cpu]\nfleet: fixed\n",
		"machines.csv", "machine,type,count,cost,cpu\na,m,1,1,4\nb,m,1,1,4\n",
		"apps.csv", "app,group,types,cpu,max_per_machine,spread_min,expected,lifetime\nsmall,,,1,,,,\nlarge,,,3,,,,\n",
		"events.csv", "time,kind,request,app,count\n0,create,s1,small,1\n0,create,s2,small,1\n0,create,l1,large,1\n0,create,l2,large,1\n")
	r := cerebro.NewReplayer(tr)
	run, err := r.Run(lowest, cerebro.Options{Check: true})
	require.NoError(t, err)
	require.Equal(t, 1, run.Unplaced)

	var decisions int
	options := cerebro.Options{Check: true, Stay: stood{lines: []int32{0, 1, 0, 1}}, Record: func(cerebro.Decision) { decisions++ }}
	run, err = r.Run(lowest, options)
	require.NoError(t, err)
	require.Equal(t, []int{0, 4, 2, 2, 0}, []int{run.Unplaced, run.Placed, run.Stayed, run.Machines, run.Violations})
	require.Equal(t, 4, decisions, "of the last replay alone")
	require.Equal(t, []float64{0}, run.Rejected)
	require.EqualValues(t, 2, r.State().SeenTotal(), "those that stay have not arrived")

	options.Stay = stood{lines: []int32{0, 1, 0, -1}} // nothing is known of the last one, so it is left out
	run, err = r.Run(lowest, options)
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, []int{run.Unplaced, run.Stayed})

	run, err = r.Run(lowest, cerebro.Options{Check: true})
	require.NoError(t, err)
	require.Equal(t, 1, run.Unplaced, "a later replay has none that stay")
}
