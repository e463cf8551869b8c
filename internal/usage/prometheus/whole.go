package prometheus

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/internal/usage"
)

const (
	// beyond is the largest use ÷ capacity of a node that is a measurement: rate extrapolates a counter to
	// the ends of its five minutes.
	beyond = 1.25
	// unbounded is above every use.
	unbounded = 1 << 50
)

// Dropped are samples that are no use of a pod: negative, not finite, or more than any node has.
type Dropped struct {
	Count int
	First Pod // with one
}

func (d *Dropped) add(n int, pod Pod) {
	if d.Count == 0 && n > 0 {
		d.First = pod
	}
	d.Count += n
}

// Merge adds others.
func (d *Dropped) Merge(o Dropped) { d.add(o.Count, o.First) }

// bound drops the samples of a day beyond an amount.
func (d *Day) bound(most usage.Amounts) {
	for i := range d.Containers {
		c := &d.Containers[i]
		d.Dropped.add(bound(c.CPU, most.CPU)+bound(c.Memory, most.Memory), c.Pod)
	}
}

func bound(values []float32, most float64) (n int) {
	if most *= beyond; most == 0 {
		most = unbounded
	}
	for i, v := range values {
		if float64(v) > most {
			values[i] = float32(math.NaN())
			n++
		}
	}
	return n
}

// A life is the first and the last day with samples of a container.
type life struct {
	name        string
	first, last int64
}

// lives are the containers of each pod, by the heads of the files of all days.
func (rec *Record) lives() (map[Pod][]life, error) {
	if rec.alive != nil {
		return rec.alive, nil
	}
	all := map[Pod][]life{}
	for _, n := range rec.Days {
		list, err := readSeries(rec.path(n), n)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			pod := Pod{s.Namespace, s.Pod}
			i := slices.IndexFunc(all[pod], func(l life) bool { return l.name == s.Container })
			if i < 0 {
				all[pod] = append(all[pod], life{s.Container, n, n})
			} else {
				all[pod][i].last = n
			}
		}
	}
	rec.alive = all
	return all, nil
}

// A whole is the use of a pod on one day.
type whole struct {
	Container           // without the steps in which a container lacks its sample
	least     []float32 // the memory of the others in these, NaN elsewhere; nil = none
	steps     int       // with a sample of any container
	partial   int       // of these, those without that of another
}

// wholeOf sums up the containers of a pod that have samples on a day. A container is expected from its first to
// its last sample; those that run as long as the pod, from the first to the last of any of them.
func (rec *Record) wholeOf(d *Day, of []Container) (w whole, err error) {
	all, err := rec.lives()
	if err != nil {
		return w, err
	}
	pod := of[0].Pod
	expected := rec.expected(d, of, all[pod])
	if len(of) == 1 && len(expected) == 1 {
		w.Container = of[0]
		w.steps = max(count(of[0].CPU), count(of[0].Memory))
		return w, nil
	}
	w.Pod = pod
	cpu, memory := 0, 0
	w.CPU, cpu, _ = sum(expected, func(c *Container) []float32 { return c.CPU })
	w.Memory, memory, w.least = sum(expected, func(c *Container) []float32 { return c.Memory })
	w.partial = max(cpu, memory)
	w.steps = w.partial + max(count(w.CPU), count(w.Memory))
	d.Dropped.add(bound(w.CPU, rec.Most.CPU)+bound(w.Memory, rec.Most.Memory)+bound(w.least, rec.Most.Memory), pod)
	return w, nil
}

// A span is the steps of a day in which a container is expected.
type span struct {
	of          *Container // nil = it has no sample on that day
	first, last int
}

// expected are the containers that a pod has on a day.
func (rec *Record) expected(d *Day, of []Container, lives []life) (list []span) {
	var runs []string
	if rec.Runs != nil {
		runs = rec.Runs(of[0].Pod)
	}
	long := span{first: Steps, last: -1} // of those that run as long as the pod
	for _, l := range lives {
		s := span{first: Steps, last: -1}
		for i := range of {
			if of[i].Name == l.name {
				s = spanOf(&of[i])
			}
		}
		if l.first < d.Number && l.last >= d.Number {
			s.first = 0
		}
		if l.last > d.Number && l.first <= d.Number {
			s.last = Steps - 1
		}
		if slices.Contains(runs, l.name) {
			if l.first < d.Number {
				long.first = 0
			}
			if l.last > d.Number {
				long.last = Steps - 1
			}
			long.first, long.last = min(long.first, s.first), max(long.last, s.last)
		}
		if s.first <= s.last && !slices.Contains(runs, l.name) {
			list = append(list, s)
		}
	}
	for _, name := range runs {
		s := long
		for i := range of {
			if of[i].Name == name {
				s.of = &of[i]
			}
		}
		if s.first <= s.last {
			list = append(list, s)
		}
	}
	return list
}

// spanOf are the steps from the first to the last sample.
func spanOf(c *Container) span {
	s := span{of: c, first: Steps, last: -1}
	for _, values := range [][]float32{c.CPU, c.Memory} {
		for i, v := range values {
			if v == v {
				s.first, s.last = min(s.first, i), max(s.last, i)
			}
		}
	}
	return s
}

// sum adds up the samples of containers. The steps in which one lacks its sample have no sum, but their number, and the
// sums of the others; nil without any.
func sum(list []span, part func(c *Container) []float32) (values []float32, partial int, least []float32) {
	for i := range Steps {
		total, there, lacking := float32(0), false, false
		for _, s := range list {
			v := float32(math.NaN())
			if s.of != nil && part(s.of) != nil {
				v = part(s.of)[i]
			}
			switch {
			case v == v:
				total, there = total+v, true
			case i >= s.first && i <= s.last:
				lacking = true
			}
		}
		switch {
		case !there:
		case lacking:
			partial++
			least = set(least, i, total)
		default:
			values = set(values, i, total)
		}
	}
	return values, partial, least
}

// set sets the sample of a step.
func set(values []float32, i int, v float32) []float32 {
	if values == nil {
		values = make([]float32, Steps)
		for k := range values {
			values[k] = float32(math.NaN())
		}
	}
	values[i] = v
	return values
}
