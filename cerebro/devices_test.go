package cerebro_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
)

// TestInitialDevices: each item of a line of placed.csv uses the line's devices.
func TestInitialDevices(t *testing.T) {
	tr := load(t, "trace.yaml", "name: devices\ndimensions: [cpu, gpu]\ndevices: [gpu]\nfleet: fixed\n",
		"machines.csv", "machine,type,count,cost,cpu,gpu\nm,,1,1,9,2\n",
		"apps.csv", "app,group,types,cpu,gpu,max_per_machine,spread_min,expected,lifetime\na,,,1,400m,,,,\nb,,,1,1,,,,\n",
		"placed.csv", "request,app,machine,count,devices\np,a,m,2,1\n",
		"events.csv", "time,kind,request,app,count\n1,create,r,b,2\n2,create,s,a,1\n3,delete,p,,1\n4,create,u,a,2\n")
	run, lines := replay(t, cerebro.NewReplayer(tr), lowest, cerebro.Options{Check: true})
	require.Equal(t, []string{
		"1 place r.0 m 0",
		"1 unplaced r.1 -", // device 1 has .2 left
		"2 unplaced s.0 -",
		"3 remove p.1 m 1",
		"4 place u.0 m 1", // .6 free
		"4 unplaced u.1 -",
	}, lines)
	require.Zero(t, run.Violations)
}

// highDevices chooses as lowest does, and the devices of highest index.
type highDevices struct{ scoring }

func (p highDevices) Scorer(s *binpack.State) binpack.Scorer { return highScorer{p.scoring.Scorer(s)} }

type highScorer struct{ binpack.Scorer }

func (highScorer) ChooseDevices(item binpack.Item, _ int32, _ int, free []int64, devices []int32) []int32 {
	for i := len(free) - 1; i >= 0 && len(devices) == 0; i-- {
		if free[i] >= 400 {
			devices = append(devices, int32(i))
		}
	}
	return devices
}

// TestDeviceChooser: the policy that chooses the machine chooses the devices.
func TestDeviceChooser(t *testing.T) {
	r := cerebro.NewReplayer(load(t, "trace.yaml", "name: devices\ndimensions: [gpu]\ndevices: [gpu]\nfleet: fixed\n",
		"machines.csv", "machine,type,count,cost,gpu\nm,,1,1,3\n",
		"apps.csv", "app,group,types,gpu,max_per_machine,spread_min,expected,lifetime\na,,,400m,,,,\n",
		"events.csv", "time,kind,request,app,count\n1,create,r,a,3\n"))
	high := highDevices{lowest}
	nan := highDevices{scoring{score: func(_ *binpack.State, _ binpack.Item, _ []int32, out []float64) { out[0] = math.NaN() }}}
	for _, tc := range []struct {
		name             string
		policy, fallback binpack.Policy
		want             []string
	}{
		{"its own", high, lowest, []string{"2", "2", "1"}},
		{"the smallest that does", lowest, high, []string{"0", "0", "1"}},
		{"the fallback's", nan, high, []string{"2", "2", "1"}},
		{"of no fallback", nan, nil, []string{"0", "0", "1"}},
	} {
		_, lines := replay(t, r, tc.policy, cerebro.Options{Fallback: tc.fallback, Check: true})
		for i, device := range tc.want {
			require.Equal(t, fmt.Sprintf("1 place r.%d m %s", i, device), lines[i], tc.name)
		}
	}
}
