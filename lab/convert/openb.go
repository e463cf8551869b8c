package convert

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// openb is the GPU cluster of Weng et al. ("Beware of Fragmentation", USENIX
// ATC 2023; Alibaba's cluster-trace-gpu-v2023), in the protocol of its authors'
// simulator: only GPU nodes, no pod leaves, and pods arrive in random order until
// they ask for Load times the GPUs there are.
//
// The random stream is theirs too, so that a seed gives the same pods on the same
// machines; see openbStream.
var openb = Format{
	Name: "openb",
	Help: "openb_node_list_gpu_node, openb_pod_list_LIST: GPU sharing, pods drawn by the authors' protocol",
	options: func(flags *flag.FlagSet, o *Options) {
		flags.StringVar(&o.List, "list", "default", "the list of pods, openb_pod_list_LIST")
		flags.Int64Var(&o.Seed, "seed", defaultSeed, "of the order of pods and machines")
		flags.Float64Var(&o.Load, "load", 1.3, "GPUs asked for by all pods ÷ GPUs there are")
	},
	convert: convertOpenb,
}

// openbMaxLoad keeps the copies of pods few enough to be held.
const openbMaxLoad = 100

type openbSet struct {
	nodes []openbNode
	pods  []openbPod // sorted by name
	files map[string]any
}

type openbNode struct {
	name, model string
	capacity    []trace.Quantity
	milli       int64 // of all its GPUs
}

type openbPod struct {
	name, app string
	kind      string   // the app but for memory
	spec      []string // models it may use; nil = all
	demand    []trace.Quantity
	gpus      int64
	milli     int64 // of each of its GPUs
}

func convertOpenb(in inputs, opt Options, emit Emit) error {
	if !(opt.Load > 0 && opt.Load <= openbMaxLoad) {
		return fmt.Errorf("load %v: want a positive number, at most %d", opt.Load, openbMaxLoad)
	}
	set := openbSet{files: map[string]any{}}
	err := set.read(in, "node_list_gpu_node", []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}, 0, set.node())
	if err == nil {
		columns := []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"}
		err = set.read(in, "pod_list_"+opt.List+".", columns, 1, set.pod())
	}
	if err != nil {
		return err
	}
	slices.SortFunc(set.pods, func(a, b openbPod) int { return strings.Compare(a.name, b.name) })
	t, err := set.trace(opt)
	if err != nil {
		return err
	}
	return emit(t, 1)
}

func (s *openbSet) read(in inputs, word string, columns []string, optional int, each func([]string) error) error {
	f, err := in.one(word)
	if err != nil {
		return err
	}
	content, err := f.read()
	if err != nil {
		return err
	}
	s.files[f.name] = digest(content)
	rows := 0
	err = f.named(content, ',', columns, optional, func(fields []string) error {
		rows++
		return each(fields)
	})
	if err == nil && rows == 0 {
		err = fmt.Errorf("%s:1: column names alone", f.path)
	}
	return err
}

func (s *openbSet) node() func(fields []string) error {
	seen := map[string]bool{}
	return func(fields []string) error {
		n := openbNode{name: strings.Clone(fields[0]), model: strings.Clone(fields[4])}
		if n.name == "" || seen[n.name] {
			return fmt.Errorf("sn %q: empty or a duplicate", n.name)
		}
		seen[n.name] = true
		var amounts [3]int64
		if err := readCounts([]string{"cpu_milli", "memory_mib", "gpu"}, fields[1:4], amounts[:]); err != nil {
			return err
		}
		if strings.Contains(n.model, "|") || n.model == "" && amounts[2] > 0 {
			return fmt.Errorf("model %q: want one name", n.model)
		}
		n.milli = 1000 * amounts[2]
		var err error
		n.capacity, err = openbAmounts(amounts[0], amounts[1], n.milli)
		s.nodes = append(s.nodes, n)
		return err
	}
}

func (s *openbSet) pod() func(fields []string) error {
	seen := map[string]bool{}
	models := map[string]bool{}
	for _, n := range s.nodes {
		models[n.model] = true
	}
	return func(fields []string) error {
		p := openbPod{name: strings.Clone(fields[0])}
		if p.name == "" || seen[p.name] {
			return fmt.Errorf("name %q: empty or a duplicate", p.name)
		}
		seen[p.name] = true
		var amounts [4]int64
		if err := readCounts([]string{"cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, fields[1:5], amounts[:]); err != nil {
			return err
		}
		p.gpus, p.milli = amounts[2], amounts[3]
		switch {
		case p.milli > 1000 || p.gpus > 1 && p.milli != 1000:
			return fmt.Errorf("gpu_milli %d of %d GPUs: want at most one GPU, or several whole ones", p.milli, p.gpus)
		case (p.gpus == 0) != (p.milli == 0):
			return fmt.Errorf("gpu_milli %d of %d GPUs: only one of them is 0", p.milli, p.gpus)
		}
		if spec := fields[5]; spec != "" {
			for model := range strings.SplitSeq(spec, "|") {
				if models[model] && !slices.Contains(p.spec, model) { // the others are nowhere
					p.spec = append(p.spec, strings.Clone(model))
				}
			}
			if p.spec == nil {
				return fmt.Errorf("gpu_spec %q: no node has it", spec)
			}
		}
		// The names say all that pods of an app, or of a group, have in common.
		asks := fmt.Sprintf("%dx%dm", p.gpus, p.milli)
		if fields[5] != "" {
			asks += "-" + strings.ReplaceAll(fields[5], "|", "+")
		}
		p.app = fmt.Sprintf("%dm-%dMi-%s", amounts[0], amounts[1], asks)
		p.kind = fmt.Sprintf("%dm-%s", amounts[0], asks)
		var err error
		p.demand, err = openbAmounts(amounts[0], amounts[1], p.gpus*p.milli)
		s.pods = append(s.pods, p)
		return err
	}
}

var openbDimensions = []string{"cpu", "memory", "gpu"}

func openbAmounts(cpuMilli, memoryMi, gpuMilli int64) ([]trace.Quantity, error) {
	cpu, err1 := trace.MakeQuantity(cpuMilli, "m")
	memory, err2 := trace.ParseQuantity(strconv.FormatInt(memoryMi, 10) + "Mi")
	gpu, err3 := trace.MakeQuantity(gpuMilli, "m")
	return []trace.Quantity{cpu, memory, gpu}, errors.Join(err1, err2, err3)
}

// openbArrival is a pod of the list, perhaps a copy.
type openbArrival struct {
	name string
	pod  int // index into the sorted list
}

// openbDraws is the number of draws that other parts of the authors' program
// (the Kubernetes client, as far as one can see) take from the shared stream
// between the pods and the machines. It was found by trying: with 10 all their
// results come out, with others those of single seeds are off by up to 2 points.
const openbDraws = 10

// openbStream draws which pods arrive, and the position of each node, as the authors'
// program does from its one stream: a number for a debug line; a shuffle of the
// pods, sorted by name; pods of the sorted list again until Load is reached, or,
// where the list asks for more, pods taken out; openbDraws that are not ours; a
// permutation that goes in front of the nodes' names.
//
// The next copy is refused when one GPU's share of it would pass the load; all
// its GPUs count once it is taken.
func (s *openbSet) openbStream(opt Options) (arrivals []openbArrival, position []int) {
	rng := rand.New(rand.NewSource(opt.Seed))
	rng.Int()
	for i, p := range s.pods {
		arrivals = append(arrivals, openbArrival{p.name, i})
	}
	rng.Shuffle(len(arrivals), func(i, j int) { arrivals[i], arrivals[j] = arrivals[j], arrivals[i] })

	var there, asked int64
	for _, n := range s.nodes {
		there += n.milli
	}
	for _, p := range s.pods {
		asked += p.gpus * p.milli
	}
	limit := opt.Load * float64(there)
	switch {
	case asked == 0: // nothing to reach
	case float64(asked) > limit:
		for float64(asked) > limit {
			i := rng.Intn(len(arrivals))
			p := s.pods[arrivals[i].pod]
			asked -= p.gpus * p.milli
			arrivals = slices.Delete(arrivals, i, i+1)
		}
	case float64(asked) < limit:
		for copies := 0; ; copies++ {
			i := rng.Intn(len(s.pods))
			p := s.pods[i]
			if float64(asked+p.milli) > limit {
				break
			}
			asked += p.gpus * p.milli
			arrivals = append(arrivals, openbArrival{fmt.Sprintf("%s-tuned-%d", p.name, copies), i})
		}
	}
	for range openbDraws {
		rng.Int63()
	}
	return arrivals, rng.Perm(len(s.nodes))
}

// addApps makes an app of pods that ask for the same. Pods that differ only in memory
// are a group, without limits: the authors' FGD counts them together, and separates
// what is written differently.
func (s *openbSet) addApps(inst *binpack.Instance, types map[string]int32) (apps map[string]int32, demand [][]trace.Quantity) {
	apps = map[string]int32{}
	groups := map[string]int32{}
	for _, p := range s.pods {
		a, ok := apps[p.app]
		if !ok {
			a = int32(len(inst.Apps))
			apps[p.app] = a
			g, ok := groups[p.kind]
			if !ok {
				g = int32(len(inst.Groups))
				groups[p.kind] = g
				inst.Groups = append(inst.Groups, binpack.Group{Name: p.kind})
			}
			app := binpack.App{Name: p.app, Group: g, Lifetime: -1}
			for _, model := range p.spec {
				app.Types = append(app.Types, types[model])
			}
			slices.Sort(app.Types)
			inst.Apps = append(inst.Apps, app)
			demand = append(demand, p.demand)
		}
		inst.Apps[a].Expected++ // the list's own mix, before the draw
	}
	return apps, demand
}

func (s *openbSet) trace(opt Options) (*trace.Trace, error) {
	arrivals, position := s.openbStream(opt)
	inst := &binpack.Instance{Fleet: binpack.Fixed}
	nodes := make([]openbNode, len(s.nodes)) // by position
	for i, n := range s.nodes {
		nodes[position[i]] = n
	}
	types := map[string]int32{}
	for _, n := range nodes {
		if _, ok := types[n.model]; !ok {
			types[n.model] = int32(len(types))
			inst.Types = append(inst.Types, n.model)
		}
		inst.Machines = append(inst.Machines, binpack.MachineLine{Name: n.name, Type: types[n.model], Count: 1, Cost: 1})
	}
	apps, demand := s.addApps(inst, types)
	all := demand
	for _, n := range nodes {
		all = append(all, n.capacity)
	}
	for d, name := range openbDimensions {
		column := make([]trace.Quantity, len(all))
		for i, q := range all {
			column[i] = q[d]
		}
		dim, values, err := trace.NewDimension(name, name == "gpu", column)
		if err != nil {
			return nil, err
		}
		inst.Dimensions = append(inst.Dimensions, dim)
		for a := range inst.Apps {
			inst.Apps[a].Demand = append(inst.Apps[a].Demand, values[a])
		}
		for m := range inst.Machines {
			inst.Machines[m].Capacity = append(inst.Machines[m].Capacity, values[len(inst.Apps)+m])
		}
	}
	t := &trace.Trace{
		Name: fmt.Sprintf("openb-%s-%d", slug(opt.List), opt.Seed),
		Description: fmt.Sprintf("openb, list %s: %d of its %d pods and copies of them, on %d GPU nodes in drawn order",
			opt.List, len(arrivals), len(s.pods), len(nodes)),
		Source: map[string]any{
			"origin":     "openb",
			"files":      s.files,
			"seed":       opt.Seed,
			"parameters": map[string]any{"list": opt.List, "load": opt.Load},
			"method":     "the protocol of FGD (Weng et al. 2023) with its random stream; expected is the count in the list",
		},
		Instance:    inst,
		MeasureFrom: math.NaN(),
	}
	for i, arrival := range arrivals {
		t.Requests = append(t.Requests, trace.Request{Name: arrival.name, App: apps[s.pods[arrival.pod].app], Count: 1})
		t.Events = append(t.Events, trace.Event{Time: float64(i), Kind: trace.Create, Request: int32(i), Count: 1})
	}
	return t, nil
}
