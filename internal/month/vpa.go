package month

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
)

// A VPA sizes each workload as the Vertical Pod Autoscaler does, in update mode InPlaceOrRecreate.
type VPA struct {
	inst        *binpack.Instance
	cpu, memory int
	apps        []vpaApp
	epoch       time.Time
}

type vpaApp struct {
	agent  *agents.VPA
	pods   []mpa.Pod // of the present step
	names  map[int32]string
	killed map[int32]time.Time
}

// NewVPA returns a VPA that has seen nothing.
func NewVPA(t *trace.Trace, cfg agents.VPAConfig) *VPA {
	v := &VPA{inst: t.Instance, epoch: time.Unix(0, 0).UTC(), apps: make([]vpaApp, len(t.Instance.Apps))}
	for d, dim := range t.Instance.Dimensions {
		switch dim.Name {
		case "cpu":
			v.cpu = d
		case "memory":
			v.memory = d
		}
	}
	target := mpa.Target{Replicas: mpa.Range{Min: 1, Max: math.MaxInt32}, Containers: []mpa.ContainerSpec{{Name: "pod", CPU: true, Memory: true}}}
	for a := range v.apps {
		v.apps[a] = vpaApp{agent: agents.NewVPA(target, cfg), names: map[int32]string{}, killed: map[int32]time.Time{}}
	}
	return v
}

// window is that of the metrics API.
const window = time.Minute

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Sample implements [stack.Sizer].
func (v *VPA) Sample(at float64, app, item int32, cpu, memory float64) {
	a := &v.apps[app]
	name, ok := a.names[item]
	if !ok {
		name = strconv.Itoa(int(item))
		a.names[item] = name
	}
	if len(a.pods) == cap(a.pods) {
		a.pods = append(a.pods, mpa.Pod{Ready: true, Containers: make([]mpa.Container, 1)})
	} else if a.pods = a.pods[:len(a.pods)+1]; a.pods[len(a.pods)-1].Containers == nil {
		a.pods[len(a.pods)-1] = mpa.Pod{Ready: true, Containers: make([]mpa.Container, 1)}
	}
	p := &a.pods[len(a.pods)-1]
	p.Name, p.Containers[0] = name, mpa.Container{
		Name: "pod", Killed: a.killed[item],
		Usage: mpa.Usage{Resources: mpa.Resources{CPU: int64(cpu*1000 + .5), Memory: int64(memory)}, Time: v.epoch.Add(seconds(at)), Window: window},
	}
}

// Killed implements [stack.Sizer].
func (v *VPA) Killed(at float64, app, item int32) {
	v.apps[app].killed[item] = v.epoch.Add(seconds(at))
}

// Demand implements [stack.Sizer].
func (v *VPA) Demand(at float64, app int32, present []int64) []int64 {
	a := &v.apps[app]
	if len(a.pods) == 0 {
		return nil
	}
	request := mpa.Resources{CPU: v.in(v.cpu, present, 1000), Memory: v.in(v.memory, present, 1)}
	for i := range a.pods {
		a.pods[i].Containers[0].Request = request
	}
	r := a.agent.Recommend(&mpa.Observation{Time: v.epoch.Add(seconds(at)), Replicas: int32(len(a.pods)), Pods: a.pods})
	a.pods = a.pods[:0]
	if len(r.Containers) == 0 {
		return nil
	}
	demand := slices.Clone(present)
	demand[v.cpu] = v.units(v.cpu, r.Containers[0].CPU, 1000)
	demand[v.memory] = v.units(v.memory, r.Containers[0].Memory, 1)
	return demand
}

// in is a demand in parts of an amount of 1.
func (v *VPA) in(d int, demand []int64, parts int64) int64 {
	return demand[d] * parts / v.inst.Dimensions[d].One
}

func (v *VPA) units(d int, amount, parts int64) int64 {
	one := v.inst.Dimensions[d].One
	return (amount*one + parts - 1) / parts
}

// ScalesLimits implements [stack.Sizer]: controlledValues RequestsAndLimits.
func (v *VPA) ScalesLimits() bool { return true }

// Evicts implements [stack.Sizer].
func (v *VPA) Evicts() bool { return true }
