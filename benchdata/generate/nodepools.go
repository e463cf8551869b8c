package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

const (
	gpuDimension = "nvidia.com/gpu"
	mib          = gib >> 10

	// nodePoolsFull of the nodes of some sizes is the most that the pods fill which fit
	// no other size.
	nodePoolsFull = .7
)

// A nodeSize is a size sold by a cloud: cores, GiB of memory, GPUs.
type nodeSize struct{ cores, memory, gpus int64 }

var (
	nodeSizes = []nodeSize{{4, 16, 0}, {8, 32, 0}, {16, 64, 0}, {16, 128, 0}, {32, 128, 0}, {8, 64, 0}, {32, 256, 0}}
	gpuNode   = nodeSize{16, 64, 4}
)

// nodePools are the nodes of a kubernetes cluster: one line to a size; that of the
// nodes with GPUs, if there are any, is the last.
type nodePools struct {
	open     bool
	factor   float64
	target   float64 // nodes that the declared replicas fill
	gpus     bool
	sizes    []nodeSize
	shares   []float64 // of the nodes without GPUs
	capacity [][]int64 // per size
	mean     []float64 // capacity of a node without GPUs
}

func newNodePools(rng *rand.Rand, p Values) *nodePools {
	f := &nodePools{
		open:   p["fleet"] != kubernetesFixed,
		target: 20 * math.Pow(10, rng.Float64()), factor: 1.01 + .09*rng.Float64(), gpus: p["gpus"] > 0,
	}
	if p["nodes"] > 0 {
		f.target = p["nodes"]
	}
	if p["f"] > 0 {
		f.factor = p["f"]
	}
	n := 2 + rng.IntN(2)
	if p["fleet"] == kubernetesOne {
		n = 1
	}
	for _, i := range rng.Perm(len(nodeSizes))[:n] {
		f.sizes = append(f.sizes, nodeSizes[i])
	}
	sum := 0.
	for range f.sizes {
		share := .2 + .8*rng.Float64()
		f.shares = append(f.shares, share)
		sum += share
	}
	for i := range f.shares {
		f.shares[i] /= sum
	}
	if f.gpus {
		f.sizes = append(f.sizes, gpuNode)
	}
	// DaemonSets are part of their nodes, as in a snapshot.
	daemons := []int64{150 + 10*rng.Int64N(36), (200 + 10*rng.Int64N(81)) * mib, 0}
	f.mean = make([]float64, f.dimensions())
	for i, s := range f.sizes {
		whole := []int64{s.cores*940 - 60, (s.memory*1024*93/100 - 512) * mib, s.gpus}
		c := make([]int64, f.dimensions())
		for d := range c {
			c[d] = whole[d] - daemons[d]
			if i < len(f.shares) {
				f.mean[d] += f.shares[i] * float64(c[d])
			}
		}
		f.capacity = append(f.capacity, c)
	}
	return f
}

func (f *nodePools) dimensions() int {
	if f.gpus {
		return 3
	}
	return 2
}

// draw draws the request of a pod without GPUs, again and again until it fits a node
// of some size, or of every size.
func (f *nodePools) draw(rng *rand.Rand, every bool) []int64 {
	all := 1<<len(f.shares) - 1
	for {
		d := f.drawPlain(rng)
		if fits := f.fits(d); fits == all || fits > 0 && !every {
			return d
		}
	}
}

func (f *nodePools) drawPlain(rng *rand.Rand) []int64 {
	d := make([]int64, f.dimensions())
	d[0] = pick(rng, cpuRequests).cpu
	perCore := 2 * math.Pow(4, rng.Float64()) * Lognormal(rng, .7) // GiB
	d[1] = max(32, int64(math.Round(float64(d[0])/1000*perCore*1024))) * mib
	return d
}

// drawGPU draws the request of a pod with GPUs: at most its share of the node's cores
// and memory, so that GPUs run out first.
func (f *nodePools) drawGPU(rng *rand.Rand) []int64 {
	c := f.capacity[len(f.sizes)-1]
	gpus := []int64{1, 1, 1, 1, 1, 1, 1, 2, 2, 4}[rng.IntN(10)]
	for {
		d := f.drawPlain(rng)
		if d[0]*c[2] <= c[0]*gpus && d[1]*c[2] <= c[1]*gpus {
			d[2] = gpus
			return d
		}
	}
}

// fits is the set of sizes without GPUs that hold such a pod.
func (f *nodePools) fits(demand []int64) (set int) {
	for i := range f.shares {
		if demand[0] <= f.capacity[i][0] && demand[1] <= f.capacity[i][1] {
			set |= 1 << i
		}
	}
	return set
}

// crowded returns the largest workload of those that fit only some of the sizes, where
// together they would fill more than a fixed fleet has of these, or -1.
func (f *nodePools) crowded(work []workload) int {
	for set := 1; !f.open && set < 1<<len(f.shares)-1; set++ {
		var room, load [2]float64
		largest := -1
		for i, c := range f.capacity[:len(f.shares)] {
			for d := range room {
				if set>>i&1 == 1 {
					room[d] += nodePoolsFull * f.target * f.shares[i] * float64(c[d])
				}
			}
		}
		for i := range work {
			w := &work[i]
			if onGPU(w.demand) || f.fits(w.demand)&^set != 0 {
				continue
			}
			for d := range load {
				load[d] += w.most() * float64(w.demand[d])
			}
			if largest < 0 || w.most()*f.volumeOf(w.demand) > work[largest].most()*f.volumeOf(work[largest].demand) {
				largest = i
			}
		}
		if load[0] > room[0] || load[1] > room[1] {
			return largest
		}
	}
	return -1
}

// volumeOf is how many nodes one pod fills.
func (f *nodePools) volumeOf(demand []int64) float64 {
	if onGPU(demand) {
		return float64(demand[2]) / float64(gpuNode.gpus)
	}
	return max(float64(demand[0])/f.mean[0], float64(demand[1])/f.mean[1])
}

func onGPU(demand []int64) bool { return len(demand) > 2 && demand[2] > 0 }

// volume is how many nodes the declared replicas fill.
func (f *nodePools) volume(work []workload) float64 {
	var load [2]float64
	gpus := 0.
	for i := range work {
		w := &work[i]
		n := float64(w.replicas)
		if onGPU(w.demand) {
			gpus += n * f.volumeOf(w.demand)
			continue
		}
		for d := range load {
			load[d] += n * float64(w.demand[d]) / f.mean[d]
		}
	}
	return max(load[0], load[1]) + gpus
}

// fill gives the workloads replicas in proportion to their weights, so that they
// fill the target.
func (f *nodePools) fill(work []workload) {
	low, high := 0., 1e6
	for range 80 {
		c := (low + high) / 2
		for i := range work {
			w := &work[i]
			most := max(1, kubernetesTop*f.target/f.volumeOf(w.demand))
			w.replicas = max(1, int(math.Round(min(most, c*w.weight))))
		}
		if f.volume(work) < f.target {
			low = c
		} else {
			high = c
		}
	}
}

// share is the part that a workload needs of the nodes that hold it, by its volume
// and its limit. Nodes with GPUs are too few to count on.
func (f *nodePools) share(w *workload) float64 {
	if onGPU(w.demand) {
		return math.Inf(1)
	}
	nodes := 0.
	for i, share := range f.shares {
		if f.fits(w.demand)>>i&1 == 1 {
			nodes += share * f.target
		}
	}
	need := w.most() * f.volumeOf(w.demand)
	if w.limit > 0 {
		need = max(need, math.Ceil(w.most()/float64(w.limit)))
	}
	return need / nodes
}

// types are the sizes that a pod may use; nil where all are alike to it.
func (f *nodePools) types(demand []int64) []int32 {
	if !f.gpus {
		return nil
	}
	last := int32(len(f.sizes) - 1)
	if onGPU(demand) {
		return []int32{last}
	}
	var out []int32
	for i := range last {
		out = append(out, i)
	}
	return out
}

// instance is the cluster without apps; an open fleet has no limit.
func (f *nodePools) instance() *binpack.Instance {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}},
		Fleet:      binpack.Fixed,
	}
	if f.open {
		inst.Fleet = binpack.Open
	}
	if f.gpus {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: gpuDimension, One: 1})
	}
	for i, s := range f.sizes {
		name, cost := fmt.Sprintf("%dc%dg", s.cores, s.memory), s.cores
		if s.gpus > 0 {
			name, cost = fmt.Sprintf("%s-%dgpu", name, s.gpus), cost+8*s.gpus
		}
		inst.Types = append(inst.Types, name)
		inst.Machines = append(inst.Machines, binpack.MachineLine{
			Name: name, Type: int32(i), Count: binpack.Unlimited, Cost: float64(cost), Capacity: f.capacity[i],
		})
	}
	return inst
}

// size counts the nodes of a fixed fleet, so that they hold factor times the peak
// volume of the trace in every dimension.
func (f *nodePools) size(t *trace.Trace) {
	plain, gpu := f.peaks(t)
	lines := t.Instance.Machines
	if f.gpus {
		lines[len(lines)-1].Count = int(math.Ceil(f.factor * gpu[2] / float64(gpuNode.gpus)))
	}
	// The largest mix in these shares that is not too large, then the smallest nodes.
	scale := f.factor * max(plain[0]/f.mean[0], plain[1]/f.mean[1])
	left := []float64{f.factor * plain[0], f.factor * plain[1]}
	smallest := 0
	add := func(i, n int) {
		lines[i].Count += n
		for d := range left {
			left[d] -= float64(n) * float64(f.capacity[i][d])
		}
	}
	for i, share := range f.shares {
		lines[i].Count = 0
		add(i, max(1, int(scale*share)))
		if slices.Compare(f.capacity[i], f.capacity[smallest]) < 0 {
			smallest = i
		}
	}
	for max(left[0], left[1]) > 0 {
		add(smallest, 1)
	}
}

// peaks are the largest demands per dimension, of the pods without GPUs and of
// those with.
func (f *nodePools) peaks(t *trace.Trace) (plain, gpu []float64) {
	n := f.dimensions()
	plain, gpu = make([]float64, n), make([]float64, n)
	now := [2][]float64{make([]float64, n), make([]float64, n)}
	for _, e := range t.Events {
		demand := t.Instance.Apps[t.Requests[e.Request].App].Demand
		load, peak := now[0], plain
		if onGPU(demand) {
			load, peak = now[1], gpu
		}
		sign := float64(e.Count)
		if e.Kind == trace.Delete {
			sign = -sign
		}
		for d := range load {
			load[d] += sign * float64(demand[d])
			peak[d] = max(peak[d], load[d])
		}
	}
	return plain, gpu
}
