package capacity

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// The closed network says what the simulator of requests does with as many clients, within
// 2 %.
func TestNetworkAgainstSimulator(t *testing.T) {
	for _, m := range []Network{
		{Demand: .004, Cores: 1},
		{Demand: .004, Wait: .05, Cores: 1},
		{Demand: .004, Wait: .05, Cores: 2},
		{Demand: .001, Wait: .2, Cores: 1},
		{Demand: .01, Wait: .02, Cores: 4},
	} {
		for _, n := range []int{1, 3, 10, 40} {
			t.Run(fmt.Sprintf("%v/%d", m, n), func(t *testing.T) {
				s := loadsim.Service{
					Segments:    []loadsim.Segment{{CPU: loadsim.Dist{Mean: m.Demand, CV: 1}, Wait: loadsim.Dist{Mean: m.Wait, CV: 1}}},
					Parallelism: m.Cores, Clients: n, Queue: -1,
				}
				require.NoError(t, s.Prepare())
				e := loadsim.New(&s, 5, func(float64) (float64, float64) { return 0, math.Inf(1) })
				pod := s.NewPod(0)
				e.Open(&pod)
				e.Run(50)
				before := e.Counters().Served
				e.Run(450)
				assert.InEpsilon(t, m.Throughput(n), float64(e.Counters().Served-before)/400, .02)
			})
		}
	}
}
