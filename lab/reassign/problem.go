package reassign

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Problem is an instance of the challenge. Amounts are in the units of its files.
type Problem struct {
	Transient  []bool  // per resource: a process that moves uses it on both machines
	LoadWeight []int64 // per resource
	Machines   []Machine
	Services   []Service
	Processes  []Process
	Balances   []Balance
	// Weights of the moves of processes, of the service with the most moves, and of moves between machines.
	ProcessWeight, ServiceWeight, MachineWeight int64
	Start                                       []int32 // per process: its machine at the beginning

	locations, neighbourhoods int
	dependents                [][]int32 // per service: those that need it
}

// A Machine has a capacity and a safe load per resource, and a price of a move to each machine.
type Machine struct {
	Neighbourhood, Location int32
	Capacity, Safe, Move    []int64
}

// A Service runs each process on a machine of its own, in Spread locations at least, and only in
// neighbourhoods where each service of Needs runs.
type Service struct {
	Spread int
	Needs  []int32
}

// A Process is a part of a service.
type Process struct {
	Service int32
	Demand  []int64 // per resource
	Move    int64   // price of a move
}

// A Balance wants Target units of resource B free for each free unit of resource A.
type Balance struct {
	A, B           int
	Target, Weight int64
}

// words reads the whole numbers of a file.
type words struct {
	lines []string
	line  int
	left  []string
	err   error
}

func newWords(text string) *words { return &words{lines: strings.Split(text, "\n")} }

// next is the next number, from 0 to most.
func (w *words) next(what string, most int64) int64 {
	for w.err == nil && len(w.left) == 0 {
		if w.line == len(w.lines) {
			w.err = fmt.Errorf("%d: the file ends where %s should stand", max(1, w.line), what)
			return 0
		}
		w.left = strings.Fields(w.lines[w.line])
		w.line++
	}
	if w.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(w.left[0], 10, 64)
	if err != nil || n < 0 || n > most {
		w.err = fmt.Errorf("%d: %s %q: want a whole number from 0 to %d", w.line, what, w.left[0], most)
		return 0
	}
	w.left = w.left[1:]
	return n
}

func (w *words) list(what string, n int) []int64 {
	out := make([]int64, 0, min(n, 1024))
	for range n {
		if w.err != nil {
			break
		}
		out = append(out, w.next(what, maxAmount))
	}
	return out
}

// end is an error where something follows.
func (w *words) end() error {
	for w.err == nil && len(w.left) == 0 && w.line < len(w.lines) {
		w.left = strings.Fields(w.lines[w.line])
		w.line++
	}
	if w.err == nil && len(w.left) > 0 {
		w.err = fmt.Errorf("%d: %q follows the last number", w.line, w.left[0])
	}
	return w.err
}

const (
	maxAmount = 1 << 40 // of a number in a file
	maxCount  = 1 << 20
)

// Read reads a model and an assignment as the challenge publishes them. The error is of the form
// LINE: what, and file says of which text it is: "model" or "assignment".
func Read(model, assignment string) (p *Problem, file string, err error) {
	p = &Problem{}
	w := newWords(model)
	p.read(w)
	if err := w.end(); err != nil {
		return nil, "model", err
	}
	if p.highest() > 1<<62 {
		return nil, "model", errors.New("1: weights and amounts may cost more than 2⁶²")
	}
	w = newWords(assignment)
	for i := range p.Processes {
		m := w.next(fmt.Sprintf("the machine of process %d", i), int64(len(p.Machines)-1))
		p.Start = append(p.Start, int32(m))
	}
	if err := w.end(); err != nil {
		return nil, "assignment", err
	}
	p.index()
	if err := p.Check(p.Start); err != nil {
		return nil, "assignment", fmt.Errorf("1: %w", err)
	}
	return p, "", nil
}

func (p *Problem) read(w *words) {
	resources := int(w.next("the number of resources", 1<<10))
	for range resources {
		p.Transient = append(p.Transient, w.next("transient", 1) == 1)
		p.LoadWeight = append(p.LoadWeight, w.next("a weight", math.MaxInt32))
	}
	machines := int(w.next("the number of machines", 1<<16))
	for range machines {
		if w.err != nil {
			return
		}
		p.Machines = append(p.Machines, Machine{
			Neighbourhood: int32(w.next("a neighbourhood", maxCount)), Location: int32(w.next("a location", maxCount)),
			Capacity: w.list("a capacity", resources), Safe: w.list("a safety capacity", resources), Move: w.list("a price of a move", machines),
		})
	}
	services := int(w.next("the number of services", maxCount))
	for range services {
		if w.err != nil {
			return
		}
		s := Service{Spread: int(w.next("a spread", maxCount))}
		for range w.next("a number of dependencies", int64(services)) {
			s.Needs = append(s.Needs, int32(w.next("a dependency", int64(services-1))))
		}
		p.Services = append(p.Services, s)
	}
	for range w.next("the number of processes", maxCount) {
		if w.err != nil {
			return
		}
		p.Processes = append(p.Processes, Process{
			Service: int32(w.next("a service", int64(services-1))), Demand: w.list("a demand", resources), Move: w.next("a price of a move", maxAmount),
		})
	}
	for range w.next("the number of balances", maxCount) {
		if w.err != nil {
			return
		}
		p.Balances = append(p.Balances, Balance{
			A: int(w.next("a resource", int64(resources-1))), B: int(w.next("a resource", int64(resources-1))),
			Target: w.next("a target", math.MaxInt32), Weight: w.next("a weight", math.MaxInt32),
		})
	}
	p.ProcessWeight = w.next("the weight of moves of processes", math.MaxInt32)
	p.ServiceWeight = w.next("the weight of moves of services", math.MaxInt32)
	p.MachineWeight = w.next("the weight of moves between machines", math.MaxInt32)
}

func (p *Problem) index() {
	locations, neighbourhoods := map[int32]int32{}, map[int32]int32{}
	for i := range p.Machines {
		m := &p.Machines[i]
		m.Location, m.Neighbourhood = number(locations, m.Location), number(neighbourhoods, m.Neighbourhood)
	}
	p.locations, p.neighbourhoods = len(locations), len(neighbourhoods)
	p.dependents = make([][]int32, len(p.Services))
	for s, service := range p.Services {
		for _, need := range service.Needs {
			p.dependents[need] = append(p.dependents[need], int32(s))
		}
	}
}

// number gives names numbers from 0 on, in the order in which they come.
func number(numbers map[int32]int32, name int32) int32 {
	n, ok := numbers[name]
	if !ok {
		n = int32(len(numbers))
		numbers[name] = n
	}
	return n
}

// highest is more than any assignment costs.
func (p *Problem) highest() (sum float64) {
	move := 0.
	for _, m := range p.Machines {
		for r, weight := range p.LoadWeight {
			sum += float64(weight) * float64(m.Capacity[r])
		}
		for _, b := range p.Balances {
			sum += float64(b.Weight) * (float64(b.Target)*float64(m.Capacity[b.A]) + float64(m.Capacity[b.B]))
		}
		for _, price := range m.Move {
			move = max(move, float64(price))
		}
	}
	for _, process := range p.Processes {
		sum += float64(p.ProcessWeight)*float64(process.Move) + float64(p.ServiceWeight) + float64(p.MachineWeight)*move
	}
	return sum
}

// A Cost is what an assignment costs, in its parts with their weights.
type Cost struct {
	Load    int64 `json:"load"`
	Balance int64 `json:"balance"`
	Process int64 `json:"process_moves"`
	Service int64 `json:"service_moves"`
	Machine int64 `json:"machine_moves"`
}

// Total is the objective.
func (c Cost) Total() int64 { return c.Load + c.Balance + c.Process + c.Service + c.Machine }

// Cost computes what an assignment costs, from nothing.
func (p *Problem) Cost(assignment []int32) (c Cost) {
	used := p.used(assignment)
	for m, machine := range p.Machines {
		for r, weight := range p.LoadWeight {
			c.Load += weight * max(0, used[m][r]-machine.Safe[r])
		}
		for _, b := range p.Balances {
			free := func(r int) int64 { return machine.Capacity[r] - used[m][r] }
			c.Balance += b.Weight * max(0, b.Target*free(b.A)-free(b.B))
		}
	}
	moved := make([]int64, len(p.Services))
	for i, process := range p.Processes {
		from, to := p.Start[i], assignment[i]
		if from == to {
			continue
		}
		c.Process += p.ProcessWeight * process.Move
		c.Machine += p.MachineWeight * p.Machines[from].Move[to]
		moved[process.Service]++
		c.Service = max(c.Service, p.ServiceWeight*moved[process.Service])
	}
	return c
}

func (p *Problem) used(assignment []int32) [][]int64 {
	used := make([][]int64, len(p.Machines))
	for m := range used {
		used[m] = make([]int64, len(p.Transient))
	}
	for i, m := range assignment {
		for r, n := range p.Processes[i].Demand {
			used[m][r] += n
		}
	}
	return used
}

// Check reports the first constraint that an assignment breaks.
func (p *Problem) Check(assignment []int32) error {
	used := p.used(assignment)
	for i, m := range assignment {
		for r, n := range p.Processes[i].Demand {
			if p.Transient[r] && m != p.Start[i] {
				used[p.Start[i]][r] += n
			}
		}
	}
	for m, machine := range p.Machines {
		for r, c := range machine.Capacity {
			if used[m][r] > c {
				return fmt.Errorf("machine %d holds %d of resource %d, more than its %d", m, used[m][r], r, c)
			}
		}
	}
	type place struct{ service, at int32 }
	machines, locations, neighbourhoods := map[place]bool{}, map[place]bool{}, map[place]bool{}
	spread := make([]int, len(p.Services))
	for i, m := range assignment {
		s := p.Processes[i].Service
		if machines[place{s, m}] {
			return fmt.Errorf("machine %d has two processes of service %d", m, s)
		}
		machines[place{s, m}] = true
		neighbourhoods[place{s, p.Machines[m].Neighbourhood}] = true
		if at := (place{s, p.Machines[m].Location}); !locations[at] {
			locations[at] = true
			spread[s]++
		}
	}
	for s, service := range p.Services {
		if spread[s] < service.Spread {
			return fmt.Errorf("service %d is in %d locations, fewer than %d", s, spread[s], service.Spread)
		}
	}
	for i, m := range assignment {
		s := p.Processes[i].Service
		for _, need := range p.Services[s].Needs {
			if !neighbourhoods[place{need, p.Machines[m].Neighbourhood}] {
				return fmt.Errorf("service %d runs in neighbourhood %d without service %d", s, p.Machines[m].Neighbourhood, need)
			}
		}
	}
	return nil
}
