package prometheus

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/internal/usage"
)

// A Namer names the workload of a pod of a day; "" = unknown.
type Namer func(d *Day, pod Pod) string

// A ContainerOf is a container of the pods of a workload.
type ContainerOf struct{ Workload, Container string }

// Histories are the use of workloads up to a midnight.
type Histories struct {
	// Pods are those of whole pods, by workload; Containers, if wanted, those of each container.
	Pods       map[string]*usage.History
	Containers map[ContainerOf]*usage.History
	// Used is the cpu in use by workload, in cores × steps; "" = by pods whose workload is not known.
	Used map[string]float64
	// Partial is the share of the pods' time in which a container lacks its sample.
	Partial float64
	Dropped Dropped
	At      float64 // the midnight, in seconds since 1970
}

// Histories folds the days before one into histories.
func (rec *Record) Histories(before int64, containers bool, name Namer) (*Histories, error) {
	h := &Histories{
		Pods: map[string]*usage.History{}, Containers: map[ContainerOf]*usage.History{},
		Used: map[string]float64{}, At: float64(beginOf(before).Unix()),
	}
	byPod, byContainer := folded(h.Pods), folded(h.Containers)
	steps, partial := 0, 0
	for _, n := range rec.Days {
		if n >= before {
			break
		}
		d, err := rec.Day(n)
		if err != nil {
			return nil, err
		}
		for pods := d.Containers; len(pods) > 0; {
			one := pods[:d.containersOf(pods)]
			pods = pods[len(one):]
			workload := name(d, one[0].Pod)
			whole, err := rec.wholeOf(d, one)
			if err != nil {
				return nil, err
			}
			steps, partial = steps+whole.steps, partial+whole.partial
			if h.Used[workload] += total(whole.CPU); workload == "" {
				continue
			}
			if err := byPod.add(workload, d, &whole.Container); err != nil {
				return nil, err
			}
			for i, v := range whole.least {
				if v == v {
					h.Pods[workload].RaiseMemory(float64(d.Begin().Unix())+float64(i)*Step.Seconds(), float64(v))
				}
			}
			for i := range one {
				if !containers {
					break
				}
				if err := byContainer.add(ContainerOf{workload, one[i].Name}, d, &one[i]); err != nil {
					return nil, err
				}
			}
		}
		byPod.endDay()
		byContainer.endDay()
		h.Dropped.Merge(d.Dropped)
	}
	if steps > 0 {
		h.Partial = float64(partial) / float64(steps)
	}
	return h, nil
}

// ContainerHistories folds the days before one into the histories of the containers of pods whose
// workload has a name. Of other pods no sample is kept in memory.
func (rec *Record) ContainerHistories(ctx context.Context, before int64, name Namer) (map[ContainerOf]*usage.History, error) {
	all := folded(map[ContainerOf]*usage.History{})
	for _, n := range rec.Days {
		if n >= before {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d, err := readDay(rec.path(n), n, func(d *Day, pod Pod) bool { return name(d, pod) != "" })
		if err != nil {
			return nil, err
		}
		d.bound(rec.Most)
		for i := range d.Containers {
			c := &d.Containers[i]
			if err := all.add(ContainerOf{name(d, c.Pod), c.Name}, d, c); err != nil {
				return nil, err
			}
		}
		all.endDay()
	}
	return all.histories, nil
}

// containersOf is the number of leading containers that are of one pod.
func (d *Day) containersOf(list []Container) int {
	n := 1
	for n < len(list) && list[n].Pod == list[0].Pod {
		n++
	}
	return n
}

func total(values []float32) (sum float64) {
	for _, v := range values {
		if v == v {
			sum += float64(v)
		}
	}
	return sum
}

// A fold adds days to histories, one after another.
type fold[K comparable] struct {
	histories map[K]*usage.History
	means     map[K]*usage.Means // of the day that is being read
}

func folded[K comparable](histories map[K]*usage.History) *fold[K] {
	return &fold[K]{histories, map[K]*usage.Means{}}
}

// endDay counts the mean pods of a day.
func (f *fold[K]) endDay() {
	for key, m := range f.means {
		m.Move(f.histories[key])
	}
}

// add adds the samples of one day to the history of a key.
func (f *fold[K]) add(key K, d *Day, c *Container) error {
	h, m := f.histories[key], f.means[key]
	if h == nil {
		h, m = &usage.History{}, &usage.Means{}
		f.histories[key], f.means[key] = h, m
	}
	begin, step := float64(d.Begin().Unix()), Step.Seconds()
	for i, v := range c.CPU {
		if v == v {
			if err := h.AddCPU(begin+float64(i)*step, step, float64(v)); err != nil {
				return fmt.Errorf("pod %s/%s: %w", c.Namespace, c.Pod.Name, err)
			}
			m.Add(begin+float64(i)*step, step, float64(v))
		}
	}
	for i, v := range c.Memory {
		if v == v {
			if err := h.AddMemory(begin+float64(i)*step, step, float64(v)); err != nil {
				return fmt.Errorf("pod %s/%s: %w", c.Namespace, c.Pod.Name, err)
			}
		}
	}
	return nil
}

// A Judged is the use of the pods that are there now, and of those before them, over the days from one on.
type Judged struct {
	From   time.Time
	CPU    map[Pod][]float32 // cores by step, NaN = no sample
	Memory map[Pod][]float32 // bytes
	// Beyond is the share of the pods' time that is in no series, since there were more pods
	// at that time than now; Partial that in which a container lacks its sample.
	Beyond, Partial float64
	Dropped         Dropped
}

// Judge returns the use of the days from one on, for the present pods of each workload. The
// samples of a pod that is no longer there are those of a present pod of its workload that
// was not there yet.
func (rec *Record) Judge(from int64, present map[string][]Pod, name Namer) (*Judged, error) {
	j := &Judged{From: beginOf(from), CPU: map[Pod][]float32{}, Memory: map[Pod][]float32{}}
	days := int(rec.Until - from)
	is := map[Pod]bool{}
	for _, list := range present {
		for _, p := range list {
			is[p] = true
		}
	}
	seen, beyond, steps, partial := 0, 0, 0, 0
	for _, n := range rec.Days {
		if n < from {
			continue
		}
		d, err := rec.Day(n)
		if err != nil {
			return nil, err
		}
		former := map[string][]Container{}
		var workloads []string
		for pods := d.Containers; len(pods) > 0; {
			one := pods[:d.containersOf(pods)]
			pods = pods[len(one):]
			workload := name(d, one[0].Pod)
			if workload == "" || len(present[workload]) == 0 {
				continue
			}
			whole, err := rec.wholeOf(d, one)
			if err != nil {
				return nil, err
			}
			steps, partial = steps+whole.steps, partial+whole.partial
			seen += count(whole.CPU)
			if is[whole.Pod] {
				fill(j.CPU, whole.Pod, whole.CPU, int(n-from), days)
				fill(j.Memory, whole.Pod, whole.Memory, int(n-from), days)
				continue
			}
			if former[workload] == nil {
				workloads = append(workloads, workload)
			}
			former[workload] = append(former[workload], whole.Container)
		}
		for _, w := range workloads {
			beyond += j.succeed(former[w], present[w], int(n-from), days)
		}
		j.Dropped.Merge(d.Dropped)
	}
	if steps > 0 {
		j.Partial = float64(partial) / float64(steps)
	}
	if seen > 0 {
		j.Beyond = float64(beyond) / float64(seen)
	}
	return j, nil
}

// succeed gives the samples of former pods to present ones, each to the one that has fewest
// samples at the same time, and returns the number of those that are left.
func (j *Judged) succeed(former []Container, present []Pod, at, days int) (left int) {
	first := func(c Container) int { return slices.IndexFunc(c.CPU, func(v float32) bool { return v == v }) }
	slices.SortStableFunc(former, func(a, b Container) int { return cmp.Compare(first(a), first(b)) })
	for _, c := range former {
		best, least := -1, math.MaxInt
		for i, p := range present {
			both := 0
			for k, v := range c.CPU {
				if old := j.CPU[p]; v == v && old != nil && old[at*Steps+k] == old[at*Steps+k] {
					both++
				}
			}
			if both < least {
				best, least = i, both
			}
			if both == 0 {
				break
			}
		}
		if best < 0 {
			left += count(c.CPU)
			continue
		}
		left += least
		fill(j.CPU, present[best], c.CPU, at, days)
		fill(j.Memory, present[best], c.Memory, at, days)
	}
	return left
}

func count(values []float32) (n int) {
	for _, v := range values {
		if v == v {
			n++
		}
	}
	return n
}

// fill sets the samples of one of some days where there are none yet.
func fill(in map[Pod][]float32, p Pod, values []float32, at, days int) {
	if values == nil {
		return
	}
	all := in[p]
	if all == nil {
		all = make([]float32, days*Steps)
		for i := range all {
			all[i] = float32(math.NaN())
		}
		in[p] = all
	}
	for i, v := range values {
		if k := at*Steps + i; all[k] != all[k] {
			all[k] = v
		}
	}
}
