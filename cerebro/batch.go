package cerebro

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/usage"
)

// Batch fills the cpu that items leave on their machines with tasks of an endless queue. Items have
// precedence: tasks share the cpu that these do not use, as BestEffort pods do.
type Batch struct {
	Cores  float64 // of a task
	Memory float64 // of a task, in bytes of the demand that items leave; 0 = not counted
	// Mean is that of the exponential distribution of a task's work: the seconds that it takes with all of its cores.
	Mean float64
	// Grace is the seconds for which tasks may hold more than is offered; then the youngest leave.
	Grace float64
	Seed  uint64
	// Expected are the cores of an item of an app at a time, by samples before the last midnight.
	Expected func(midnight, at float64) func(app int32) float64
	// Offer, if set, replaces [usage.Offer] as the cores for tasks on a machine.
	Offer func(capacity, used float64) float64
}

// BatchUse sums up the tasks on machines with items, over the judged time.
type BatchUse struct {
	Capacity, Offered float64 // core-seconds
	Held, Starved     float64 // core-seconds of tasks; Starved in steps with less than all of their cores
	Delivered, Lost   float64 // core-seconds; Lost is the part of Delivered of tasks that left before their end
	Started, Evicted  int
}

// ParseBatch reads a [Batch] such as "cores=1,mean=1h"; settings that are left out have these values.
func ParseBatch(text string) (*Batch, error) {
	b := &Batch{Cores: 1, Mean: 3600, Grace: usage.BatchGrace, Seed: 1}
	seconds := func(to *float64, least float64) func(string) error {
		return func(text string) error {
			d, err := time.ParseDuration(text)
			if err != nil || d.Seconds() < least {
				return errors.New("want a time with its unit, such as 1h, of at least " + duration(least).String())
			}
			*to = d.Seconds()
			return nil
		}
	}
	amount := func(to *float64) func(string) error {
		return func(text string) error {
			q, err := trace.ParseQuantity(text)
			if err != nil {
				return err
			}
			if *to = q.Float(); !(*to > 0) {
				return errors.New("want more than 0")
			}
			return nil
		}
	}
	return b, settings(text, map[string]func(string) error{
		"cores": amount(&b.Cores), "memory": amount(&b.Memory), "mean": seconds(&b.Mean, 1), "grace": seconds(&b.Grace, 0),
		"seed": func(text string) (err error) {
			b.Seed, err = strconv.ParseUint(text, 10, 64)
			return err
		},
	})
}

// tasks are those of one machine.
type tasks struct {
	list  []task // oldest first
	offer usage.Offer
	above float64 // seconds for which they hold more than is offered
}

type task struct{ left, done float64 } // core-seconds

// A filler runs a Batch beside a meter.
type filler struct {
	*Batch
	rng      *rand.Rand
	cpu      int // judged dimension
	memory   int // dimension; -1 = not counted
	first    float64
	machines []tasks
	slots    [3][]float64 // expected cores by machine
	out      BatchUse
}

// beginBatch starts the tasks of a run.
func (r *Replayer) beginBatch(first float64) error {
	r.meter.filler = nil
	if r.run.opt.Batch == nil {
		return nil
	}
	f := &filler{Batch: r.run.opt.Batch, cpu: -1, memory: -1, first: first}
	for i, d := range r.meter.dims {
		if r.trace.Instance.Dimensions[d].Name == "cpu" {
			f.cpu = i
		}
	}
	for d, dimension := range r.trace.Instance.Dimensions {
		if dimension.Name == "memory" && f.Memory > 0 {
			f.memory = d
		}
	}
	switch {
	case f.cpu < 0:
		return errors.New("batch work wants the use of cpu: usage.csv.gz has none")
	case f.Memory > 0 && f.memory < 0:
		return errors.New("batch: the tasks ask for memory, which the trace does not have")
	}
	const stream = 0xba7c4
	f.rng = rand.New(rand.NewPCG(f.Seed, stream))
	r.meter.filler = f
	return nil
}

// fill runs the tasks of all machines for the step from a time on, and then starts and evicts some.
func (m *meter) fill(r *Replayer, at float64) {
	f := m.filler
	if f == nil {
		return
	}
	size := r.state.Size()
	for len(f.machines) < size {
		f.machines = append(f.machines, tasks{})
	}
	next := at + m.out.Step
	midnight := max(f.first, day*math.Floor(next/day))
	hours := f.sums(m, r, midnight, next, size)
	for on := range int32(size) {
		t := &f.machines[on]
		if r.state.Items(on) == 0 {
			f.evict(m, at, t, 0)
			*t = tasks{}
			continue
		}
		capacity := m.capacity(r, f.cpu, on)
		used, ok := m.estimate(f.cpu, on)
		if !ok {
			continue // the cpu left is not known: the tasks pause, and the step does not count
		}
		f.deliver(m, at, t, max(0, capacity-used))
		offered := 0.
		if f.Offer != nil {
			offered = max(0, f.Offer(capacity, used))
		} else {
			most := 0.
			for _, sum := range f.slots[:hours] {
				most = max(most, sum[on])
			}
			offered = t.offer.Update(next, capacity, used, most)
		}
		if f.memory >= 0 {
			free := float64(max(0, r.state.Free(f.memory)[on])) / float64(r.trace.Instance.Dimensions[f.memory].One)
			offered = min(offered, f.Cores*math.Floor(free/f.Memory))
		}
		if at >= m.from {
			f.out.Capacity += capacity * m.out.Step
			f.out.Offered += offered * m.out.Step
		}
		f.adjust(m, at, t, offered)
	}
}

// sums are the expected cores of the items of each machine in the hours ahead. It returns the number of hours.
func (f *filler) sums(m *meter, r *Replayer, midnight, from float64, size int) (hours int) {
	if f.Offer != nil {
		return 0
	}
	usage.Expected(from, func(at float64) float64 {
		of := f.Expected(midnight, at)
		f.slots[hours] = append(f.slots[hours][:0], make([]float64, size)...)
		sum := f.slots[hours]
		for _, item := range m.living {
			if on := r.where[item]; on >= 0 {
				sum[on] += of(m.app[item])
			}
		}
		hours++
		return 0
	})
	return hours
}

// estimate is the use of a machine's items, those without a sample as [Use] counts them; ok is false where too few have one.
func (m *meter) estimate(d int, on int32) (used float64, ok bool) {
	used, known, lacks := m.used[d][on], m.known[d][on], m.lacks[d][on]
	if lacks > 0 && known >= lacks {
		used *= (known + lacks) / known
	}
	return used, known >= lacks
}

// deliver gives a machine's tasks the cpu that its items leave, and evicts those for which it is too little.
func (f *filler) deliver(m *meter, at float64, t *tasks, free float64) {
	if len(t.list) == 0 {
		return
	}
	held := f.Cores * float64(len(t.list))
	share := min(1, free/held)
	seconds := m.out.Step
	if at >= m.from {
		f.out.Held += held * seconds
		if share < 1-overTolerance {
			f.out.Starved += held * seconds
		}
	}
	kept := t.list[:0]
	for _, one := range t.list {
		got := min(one.left, f.Cores*share*seconds)
		one.left, one.done = one.left-got, one.done+got
		if at >= m.from {
			f.out.Delivered += got
		}
		if one.left > 0 {
			kept = append(kept, one)
		}
	}
	t.list = kept
	if share < usage.BatchDelivered {
		f.evict(m, at, t, int(free/usage.BatchDelivered/f.Cores))
	}
}

// adjust starts tasks up to the offered cores, or lets the youngest leave after the grace.
func (f *filler) adjust(m *meter, at float64, t *tasks, offered float64) {
	most := int(offered/f.Cores + overTolerance)
	if len(t.list) <= most {
		t.above = 0
	} else if t.above += m.out.Step; t.above > f.Grace {
		f.evict(m, at, t, most)
		t.above = 0
	}
	for len(t.list) < most {
		t.list = append(t.list, task{left: f.Cores * f.Mean * f.rng.ExpFloat64()})
		if at >= m.from {
			f.out.Started++
		}
	}
}

// evict keeps the oldest tasks of a machine.
func (f *filler) evict(m *meter, at float64, t *tasks, keep int) {
	for _, one := range t.list[min(keep, len(t.list)):] {
		if at >= m.from {
			f.out.Evicted++
			f.out.Lost += one.done
		}
	}
	t.list = t.list[:min(keep, len(t.list))]
}
