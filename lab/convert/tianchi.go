package convert

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// tianchi is the Alibaba Global Scheduling Algorithm Competition of 2018:
// instances with a day's curve of cpu and memory (98 steps), disk and three
// counts of important instances (P, M, PM), and rules between apps. The four
// files have no header:
//
//	app_resources      app, cpu curve, memory curve, disk, P, M, PM
//	machine_resources  machine, cpu, memory, disk, P, M, PM
//	instance_deploy    instance, app, machine (empty: not deployed)
//	app_interference   app, other, k
//
// cpu is in cores, memory and disk in G. A rule (A, B, k) allows at most k
// instances of B beside one of A; for A = B it counts the others, so it is a
// limit of k+1.
//
// To train on a part, some apps are drawn whose instances are kept, and some of these
// instances; all apps, machines and rules stay.
var tianchi = Format{
	Name: "tianchi",
	Help: "app_resources, machine_resources, instance_deploy, app_interference of 2018",
	options: func(flags *flag.FlagSet, o *Options) {
		flags.BoolVar(&o.LargeFirst, "large-first", false, "large machines come first")
		flags.BoolVar(&o.Empty, "empty", false, "ignore the initial deployment, so that every instance arrives")
		flags.Float64Var(&o.Apps, "apps", 0, "share of the apps whose instances are kept, by --seed (default all)")
		flags.Float64Var(&o.Instances, "instances", 0, "share of these instances, by --seed (default all)")
		flags.Int64Var(&o.Seed, "seed", defaultSeed, "of --apps and --instances")
	},
	convert: convertTianchi,
}

// A tianchiSet is what the four files say, before dimensions have units.
type tianchiSet struct {
	points int // of each curve
	apps   map[string]int32
	inst   *binpack.Instance
	files  map[string]any // digests by name

	// classes are the machines of equal capacity, a class being a line of
	// machines.csv; machines are their members in file order.
	classes  map[string]int
	members  [][]string
	capacity [][]trace.Quantity // per class and dimension
	demand   [][]trace.Quantity // per app and dimension
	class    map[string]int     // of a machine

	deployed []tianchiInstance // in file order
	sampled  map[string]any    // how, nil = all
}

type tianchiInstance struct {
	name    string
	app     int32
	machine string // empty: not deployed
}

func convertTianchi(in inputs, opt Options, emit Emit) error {
	s := &tianchiSet{
		apps: map[string]int32{}, files: map[string]any{},
		classes: map[string]int{}, class: map[string]int{},
		inst: &binpack.Instance{Fleet: binpack.Open},
	}
	for _, step := range []struct {
		word    string
		columns []string
		row     func(fields []string) error
	}{
		{"app_resources", []string{"app", "cpu", "mem", "disk", "P", "M", "PM"}, s.app},
		{"machine_resources", []string{"machine", "cpu", "mem", "disk", "P", "M", "PM"}, s.machine},
		{"app_interference", []string{"app", "other", "k"}, s.rule()},
		{"instance_deploy", []string{"instance", "app", "machine"}, s.instance()},
	} {
		f, err := in.one(step.word)
		if err != nil {
			return err
		}
		content, err := f.read()
		if err != nil {
			return err
		}
		s.files[f.name] = digest(content)
		if err := f.rows(content, step.columns, step.row); err != nil {
			return err
		}
	}
	if err := s.setDimensions(); err != nil {
		return err
	}
	if err := s.sample(opt); err != nil {
		return err
	}
	if opt.LargeFirst {
		s.largeFirst()
	}
	return emit(s.trace(opt), 1)
}

func (s *tianchiSet) app(fields []string) error {
	name := strings.Clone(fields[0])
	if _, ok := s.apps[name]; ok {
		return fmt.Errorf("app %q: duplicate app", name)
	}
	cpu, mem := strings.Split(fields[1], "|"), strings.Split(fields[2], "|")
	if s.points == 0 {
		s.points = len(cpu)
		if 2*s.points+4 > binpack.MaxDimensions {
			return fmt.Errorf("cpu: %d points, more than %d", s.points, (binpack.MaxDimensions-4)/2)
		}
	}
	if len(cpu) != s.points {
		return fmt.Errorf("cpu: %d points, other apps and curves have %d", len(cpu), s.points)
	}
	if len(mem) != s.points {
		return fmt.Errorf("mem: %d points, other apps and curves have %d", len(mem), s.points)
	}
	demand, err := quantities(cpu, mem, fields[3:])
	if err != nil {
		return err
	}
	s.apps[name] = int32(len(s.apps))
	s.demand = append(s.demand, demand)
	addApp(s.inst, name, nil)
	return nil
}

func (s *tianchiSet) machine(fields []string) error {
	name := strings.Clone(fields[0])
	if _, ok := s.class[name]; ok {
		return fmt.Errorf("machine %q: duplicate machine", name)
	}
	key := strings.Join(fields[1:], ",")
	class, ok := s.classes[key]
	if !ok {
		capacity, err := quantities(slices.Repeat(fields[1:2], s.points), slices.Repeat(fields[2:3], s.points), fields[3:])
		if err != nil {
			return err
		}
		class = len(s.classes)
		s.classes[key] = class
		s.capacity = append(s.capacity, capacity)
		s.members = append(s.members, nil)
		s.addClass(trimZeros(fields[1]), trimZeros(fields[2]))
	}
	s.class[name] = class
	s.members[class] = append(s.members[class], name)
	return nil
}

// addClass adds a line and a type, named 32c64g after cpu and memory.
func (s *tianchiSet) addClass(cpu, mem string) {
	name := cpu + "c" + mem + "g"
	for n := 2; slices.Contains(s.inst.Types, name); n++ {
		name = fmt.Sprintf("%sc%sg-%d", cpu, mem, n)
	}
	s.inst.Machines = append(s.inst.Machines, binpack.MachineLine{
		Name: name, Type: int32(len(s.inst.Types)), Cost: 1,
	})
	s.inst.Types = append(s.inst.Types, name)
}

func (s *tianchiSet) rule() func(fields []string) error {
	seen := map[binpack.Rule]bool{} // with Max 0
	return func(fields []string) error {
		a, ok := s.apps[fields[0]]
		if !ok {
			return fmt.Errorf("app %q: unknown app", fields[0])
		}
		b, ok := s.apps[fields[1]]
		if !ok {
			return fmt.Errorf("other %q: unknown app", fields[1])
		}
		k, err := strconv.ParseInt(fields[2], 10, 32)
		if err != nil || k < 0 || k == math.MaxInt32 {
			return fmt.Errorf("k %q: not a count", fields[2])
		}
		if seen[binpack.Rule{A: a, B: b}] {
			return fmt.Errorf("app %q, other %q: a second rule", fields[0], fields[1])
		}
		seen[binpack.Rule{A: a, B: b}] = true
		if a == b {
			s.inst.Groups[a].Limit = int32(k) + 1
		} else {
			s.inst.Rules = append(s.inst.Rules, binpack.Rule{A: a, B: b, Max: int32(k)})
		}
		return nil
	}
}

func (s *tianchiSet) instance() func(fields []string) error {
	seen := map[string]bool{}
	return func(fields []string) error {
		i := tianchiInstance{name: strings.Clone(fields[0]), machine: strings.Clone(fields[2])}
		if seen[i.name] {
			return fmt.Errorf("instance %q: duplicate instance", i.name)
		}
		seen[i.name] = true
		app, ok := s.apps[fields[1]]
		if !ok {
			return fmt.Errorf("app %q: unknown app", fields[1])
		}
		i.app = app
		if _, ok := s.class[i.machine]; !ok && i.machine != "" {
			return fmt.Errorf("machine %q: unknown machine", i.machine)
		}
		s.deployed = append(s.deployed, i)
		return nil
	}
}

// sample keeps the instances of some apps, and some of those.
func (s *tianchiSet) sample(opt Options) error {
	for _, o := range []struct {
		name  string
		share float64
	}{{"apps", opt.Apps}, {"instances", opt.Instances}} {
		if !(o.share >= 0 && o.share <= 1) {
			return fmt.Errorf("%s %v: want a share from 0 to 1", o.name, o.share)
		}
	}
	if opt.Apps == 0 && opt.Instances == 0 {
		return nil
	}
	apps, instances := cmp.Or(opt.Apps, 1), cmp.Or(opt.Instances, 1)
	rng := rand.New(rand.NewPCG(uint64(opt.Seed), 0))
	kept := make([]bool, len(s.inst.Apps))
	for a := range kept {
		kept[a] = rng.Float64() < apps
	}
	s.deployed = slices.DeleteFunc(s.deployed, func(i tianchiInstance) bool {
		return !kept[i.app] || rng.Float64() >= instances
	})
	s.sampled = map[string]any{"apps": apps, "instances": instances, "seed": opt.Seed}
	return nil
}

// largeFirst orders the classes by capacity, cpu before the others.
func (s *tianchiSet) largeFirst() {
	order := make([]int, len(s.members))
	for i := range order {
		order[i] = i
	}
	old := s.inst.Machines
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(old[b].Capacity, old[a].Capacity) })
	lines := make([]binpack.MachineLine, len(old))
	types := make([]string, len(old))
	members := make([][]string, len(old))
	for to, from := range order {
		lines[to], types[to], members[to] = old[from], s.inst.Types[old[from].Type], s.members[from]
		lines[to].Type = int32(to)
		for _, m := range members[to] {
			s.class[m] = to
		}
	}
	s.inst.Machines, s.inst.Types, s.members = lines, types, members
}

// setDimensions finds the unit of every dimension from all its values.
func (s *tianchiSet) setDimensions() error {
	if len(s.inst.Apps) == 0 || len(s.members) == 0 {
		return errors.New("no apps or no machines")
	}
	var names []string
	for _, curve := range []string{"cpu", "mem"} {
		for i := range s.points {
			names = append(names, fmt.Sprintf("%s.%02d", curve, i))
		}
	}
	names = append(names, "disk", "p", "m", "pm")
	all := slices.Concat(s.capacity, s.demand)
	column := make([]trace.Quantity, len(all))
	for d, name := range names {
		for i, q := range all {
			column[i] = q[d]
		}
		dim, values, err := trace.NewDimension(name, false, column)
		if err != nil {
			return err
		}
		s.inst.Dimensions = append(s.inst.Dimensions, dim)
		for i := range s.inst.Machines {
			s.inst.Machines[i].Capacity = append(s.inst.Machines[i].Capacity, values[i])
		}
		for i := range s.inst.Apps {
			s.inst.Apps[i].Demand = append(s.inst.Apps[i].Demand, values[len(s.inst.Machines)+i])
		}
	}
	return nil
}

func (s *tianchiSet) trace(opt Options) *trace.Trace {
	for i, members := range s.members {
		s.inst.Machines[i].Count = len(members)
	}
	parameters := map[string]any{"empty": opt.Empty, "large-first": opt.LargeFirst}
	maps.Copy(parameters, s.sampled)
	t := &trace.Trace{
		Name:        "tianchi",
		Instance:    s.inst,
		MeasureFrom: math.NaN(),
		Source: map[string]any{
			"origin":     "tianchi",
			"files":      s.files,
			"parameters": parameters,
			"method":     "time is the index of an arriving instance, request its name, app its app",
		},
	}
	if !opt.Empty {
		s.place(t)
		t.Initial = len(t.Requests)
	}
	for _, i := range s.deployed {
		if i.machine != "" && !opt.Empty {
			continue
		}
		t.Events = append(t.Events, trace.Event{
			Time: float64(len(t.Events)), Kind: trace.Create, Request: int32(len(t.Requests)), Count: 1,
		})
		t.Requests = append(t.Requests, trace.Request{Name: i.name, App: i.app, Count: 1})
	}
	t.Description = fmt.Sprintf("Tianchi 2018: %d instances of %d apps, %d of them deployed at the start, on at most %d machines",
		len(t.Requests), len(s.inst.Apps), t.Initial, len(s.class))
	return t
}

// place adds the initial deployment as it is: it need not fit.
// Machines of a class are numbered from 0, those in use first and otherwise in
// file order, since the machines of an open fleet open in order.
func (s *tianchiSet) place(t *trace.Trace) {
	used := map[string]bool{}
	for _, i := range s.deployed {
		used[i.machine] = true
	}
	index := map[string]int32{}
	for _, members := range s.members {
		next := int32(0)
		for _, first := range []bool{true, false} {
			for _, m := range members {
				if used[m] == first {
					index[m] = next
					next++
				}
			}
		}
	}
	for _, i := range s.deployed {
		if i.machine == "" {
			continue
		}
		t.Placed = append(t.Placed, trace.Placed{
			Request: int32(len(t.Requests)), Line: int32(s.class[i.machine]), Index: index[i.machine], Count: 1,
		})
		t.Requests = append(t.Requests, trace.Request{Name: i.name, App: i.app, Count: 1})
	}
}

// quantities reads the values of one app or machine in order of the dimensions;
// rest is disk, P, M and PM.
func quantities(cpu, mem, rest []string) ([]trace.Quantity, error) {
	var out []trace.Quantity
	var err error
	read := func(field, suffix string, texts ...string) {
		for i, text := range texts {
			q, e := trace.ParseQuantity(trimZeros(text) + suffix)
			if e != nil && err == nil {
				err = fmt.Errorf("%s value %d %q: %w", field, i, text, e)
			}
			out = append(out, q)
		}
	}
	read("cpu", "", cpu...)
	read("mem", "G", mem...)
	read("disk", "G", rest[0])
	read("P", "", rest[1])
	read("M", "", rest[2])
	read("PM", "", rest[3])
	return out, err
}

// trimZeros shortens 8.000000 to 8, which is the same and reads faster.
func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
