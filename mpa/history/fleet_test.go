package history

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/internal/usage/prometheus/prometheustest"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
)

// A sized is a workload of a pod, its use, and the controller that sizes it.
type sized struct {
	control     *mpa.Controller
	request     mpa.Resources
	cpu, memory float64
}

// decide observes a workload and carries its decision out.
func (w *sized) decide(s *site, name string) {
	now := s.clock.Now()
	use, _ := s.use(name)
	o := &mpa.Observation{Time: now, Replicas: 1, Use: use, Pods: []mpa.Pod{{
		Name: name, Phase: mpa.Running, Ready: true, Started: noon.Add(-day), Containers: []mpa.Container{{
			Name: "app", Request: w.request, Usage: mpa.Usage{Time: now, Window: time.Minute, Resources: mpa.Resources{CPU: int64(1000 * w.cpu), Memory: int64(w.memory)}},
		}},
	}}}
	if a := w.control.Decide(o).Action; a != nil && a.Containers != nil {
		w.request = a.Containers[0]
	}
}

// A tenth of the workloads suddenly has ten times the load, and twice the memory in use: no request shrinks, the memory
// in use stays covered once the night has counted it, and the others stay as they are.
func TestTenfoldLoad(t *testing.T) {
	for round := range 20 {
		r := rand.New(rand.NewPCG(uint64(round), 7))
		all := map[string]*sized{}
		var objects []client.Object
		var series []prometheustest.Series
		for i := range 10 {
			name := fmt.Sprint("web", i)
			w := &sized{request: mpa.Resources{CPU: 500, Memory: 512 * mi}, cpu: .03 + .1*r.Float64(), memory: float64(60+r.IntN(120)) * mi}
			guards := mpa.DefaultGuards()
			guards.DeadBand, guards.Headroom = 0, agents.UsageHeadroom
			target := mpa.Target{Replicas: mpa.Range{Min: 1, Max: 9}, Containers: []mpa.ContainerSpec{{Name: "app", CPU: true, Memory: true}}}
			var err error
			w.control, err = mpa.NewController(target, agents.NewUsage(target), guards)
			require.NoError(t, err)
			all[name] = w
			objects = append(objects, object(name))
			series = append(series, prometheustest.Of("shop", name+"-7c9d8f-x2k94", "app", func(int64) float64 { return w.cpu }, func(int64) float64 { return w.memory }))
		}
		s := newSite(t, objects...)
		s.main.Series = series
		live := func(minutes int) {
			for range minutes {
				s.Read(t.Context())
				for name, w := range all {
					w.decide(s, name)
				}
				s.clock.Step(time.Minute)
			}
		}
		live(100)
		before := map[string]mpa.Resources{}
		for name, w := range all {
			require.InDelta(t, 1000*w.cpu, w.request.CPU, 12, "%s round %d", name, round)
			before[name] = w.request
		}
		hot := all["web3"]
		hot.cpu, hot.memory = 10*hot.cpu, 2*hot.memory
		live(30)
		for name, w := range all {
			require.Equal(t, before[name], w.request, "by day nothing changes")
		}
		s.clock.SetTime(noon.Truncate(day).Add(day + delay))
		live(60)
		for name, w := range all {
			if w != hot {
				require.Equal(t, before[name], w.request, "%s round %d", name, round)
				continue
			}
			require.GreaterOrEqual(t, float64(w.request.CPU), min(1000, 1000*w.cpu)-1)
			require.GreaterOrEqual(t, float64(w.request.Memory), 1.15*w.memory-mi)
		}
	}
}
