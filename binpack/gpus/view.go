package gpus

import "github.com/sigma-scheduler/sigma/binpack"

// A View holds the inputs of FGD and of the policies that its authors compare it
// with (Weng et al., USENIX ATC 2023; their simulator). Its cpu is the first
// dimension that is no device, its GPUs are the first that is one. All other
// dimensions only decide whether an item fits. The scores of those policies are
// whole numbers and the lowest position breaks ties; both are part of these
// policies.
type View struct {
	State *binpack.State
	Apps  []binpack.App
	// The dimensions; -1 = no such dimension.
	CPU, GPU int
	// One is the number of units in a GPU.
	One int64
	// The largest machine divides all amounts: in the authors' fleet 128 cpu
	// and 8 GPUs.
	MaxCPU, MaxGPU int64
}

// ViewOf finds the dimensions of a state.
func ViewOf(s *binpack.State) View {
	v := View{State: s, Apps: s.Instance().Apps, CPU: -1, GPU: -1, One: 1, MaxCPU: 1, MaxGPU: 1}
	for d, dim := range s.Instance().Dimensions {
		if dim.Device && v.GPU < 0 {
			v.GPU, v.One = d, dim.One
		} else if !dim.Device && v.CPU < 0 {
			v.CPU = d
		}
	}
	for _, kind := range s.Kinds() {
		if v.CPU >= 0 {
			v.MaxCPU = max(v.MaxCPU, kind.Capacity[v.CPU])
		}
		if v.GPU >= 0 {
			v.MaxGPU = max(v.MaxGPU, kind.Capacity[v.GPU])
		}
	}
	return v
}

// Need is the demand of an item for cpu and GPUs.
func (v *View) Need(app int32) (cpu, gpu int64) {
	if v.CPU >= 0 {
		cpu = v.Apps[app].Demand[v.CPU]
	}
	if v.GPU >= 0 {
		gpu = v.Apps[app].Demand[v.GPU]
	}
	return cpu, gpu
}

// Classes groups apps with the same demand for cpu and GPUs, and lists the demands.
func (v *View) Classes() (of []int32, needs [][2]int64) {
	index := map[[2]int64]int32{}
	for app := range v.Apps {
		cpu, gpu := v.Need(int32(app))
		need := [2]int64{cpu, gpu}
		class, ok := index[need]
		if !ok {
			class = int32(len(needs))
			index[need] = class
			needs = append(needs, need)
		}
		of = append(of, class)
	}
	return of, needs
}

// Left is the free cpu and GPUs of a machine, its GPUs together.
func (v *View) Left(m int32) (cpu, gpu int64) {
	if v.CPU >= 0 {
		cpu = v.State.Free(v.CPU)[m]
	}
	if v.GPU >= 0 {
		gpu = v.State.Free(v.GPU)[m]
	}
	return cpu, gpu
}

// Devices are the free shares of a machine's GPUs.
func (v *View) Devices(m int32) []int64 {
	if v.GPU < 0 {
		return nil
	}
	return v.State.Devices(m, v.GPU)
}
