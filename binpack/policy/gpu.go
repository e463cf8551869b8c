package policy

import "github.com/sigma-scheduler/sigma/binpack"

// gpuView is what FGD and the policies that its authors compare it with look at
// (Weng et al., USENIX ATC 2023; their simulator): cpu, which is the first
// dimension that is no device, and GPUs, which are the first that is one. All
// other dimensions decide only whether an item fits. Scores are whole numbers
// and ties go to the lowest position; both are part of what these policies do.
type gpuView struct {
	state *binpack.State
	apps  []binpack.App
	// The dimensions; -1 = there is none.
	cpu, gpu int
	// one is the number of units in a GPU.
	one int64
	// The largest machine divides all amounts: in the authors' fleet 128 cpu
	// and 8 GPUs.
	maxCPU, maxGPU int64
}

func gpuViewOf(s *binpack.State) gpuView {
	v := gpuView{state: s, apps: s.Instance().Apps, cpu: -1, gpu: -1, one: 1, maxCPU: 1, maxGPU: 1}
	for d, dim := range s.Instance().Dimensions {
		if dim.Device && v.gpu < 0 {
			v.gpu, v.one = d, dim.One
		} else if !dim.Device && v.cpu < 0 {
			v.cpu = d
		}
	}
	for _, kind := range s.Kinds() {
		if v.cpu >= 0 {
			v.maxCPU = max(v.maxCPU, kind.Capacity[v.cpu])
		}
		if v.gpu >= 0 {
			v.maxGPU = max(v.maxGPU, kind.Capacity[v.gpu])
		}
	}
	return v
}

// need is what an item asks of cpu and GPUs.
func (v *gpuView) need(app int32) (cpu, gpu int64) {
	if v.cpu >= 0 {
		cpu = v.apps[app].Demand[v.cpu]
	}
	if v.gpu >= 0 {
		gpu = v.apps[app].Demand[v.gpu]
	}
	return cpu, gpu
}

// classes groups apps that ask for the same cpu and GPUs, and lists what they
// ask for.
func (v *gpuView) classes() (of []int32, needs [][2]int64) {
	index := map[[2]int64]int32{}
	for app := range v.apps {
		cpu, gpu := v.need(int32(app))
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

// left is what a machine has free, its GPUs together.
func (v *gpuView) left(m int32) (cpu, gpu int64) {
	if v.cpu >= 0 {
		cpu = v.state.Free(v.cpu)[m]
	}
	if v.gpu >= 0 {
		gpu = v.state.Free(v.gpu)[m]
	}
	return cpu, gpu
}

// devices are the free shares of a machine's GPUs.
func (v *gpuView) devices(m int32) []int64 {
	if v.gpu < 0 {
		return nil
	}
	return v.state.Devices(m, v.gpu)
}
