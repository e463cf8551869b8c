package cerebro

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Use is a replay beside the measured use of its items. The machines are looked at every
// Step seconds. A machine is judged where the items with samples have half of the demand on it, or more. The others count
// as those then: used = sampled × demand of all ÷ demand of those with samples, the ratio estimator (Cochran, Sampling
// Techniques). It is judged, too, where the samples alone exceed its capacity.
type Use struct {
	Step        float64
	From, Until float64 // of the time that is judged
	NodeSeconds float64 // of machines that hold an item
	ItemSeconds float64 // of items
	Most        int     // machines that hold an item
	Dimensions  []DimensionUse
	// Nodes are the machines that were above capacity in some dimension, worst first.
	Nodes   []NodeUse
	Nightly bool // sizes followed use
	// Resized are the moves of nights, Relieved those of machines above capacity.
	Resized, Relieved int
	// MostMoved is the largest share of the living items that moved between two nights.
	MostMoved float64
	// Allowed is the most moves that were allowed between two nights: 0 where [Nightly.Moves] of
	// the living items is less than one.
	Allowed int
	Batch   *BatchUse // nil without Options.Batch
}

// Mean is the mean number of machines that hold an item.
func (u *Use) Mean() float64 { return u.NodeSeconds / (u.Until - u.From) }

// A DimensionUse sums up a dimension.
type DimensionUse struct {
	Dimension int32
	Judged    float64 // seconds of machines with enough samples, summed
	Over      float64 // of them, those above capacity
	// JudgedDays and Days are Judged and Over of each 24 hours from Use.From on; the last has 12 to 36.
	JudgedDays, Days []float64
	Covered          float64 // seconds of items with samples
	Worst            float64 // largest use ÷ capacity
}

// A NodeUse is one machine; slices are as Use.Dimensions.
type NodeUse struct {
	Machine     string
	Seconds     float64
	Over, Worst []float64
	Judged      []float64 // seconds with enough samples
}

// mostSteps bounds the looks at all machines: a year of half minutes has a million.
const mostSteps = 2_000_000

// overTolerance is the relative excess that only rounding makes.
const overTolerance = 1e-6

// A meter looks at the machines of a replay, step by step.
type meter struct {
	usage  *trace.Usage
	series [][]*trace.Series // by judged dimension and item; nil = no series
	app    []int32           // by item
	demand [][]float64       // by judged dimension and app, in amounts of 1: that of the night
	start  float64           // of the grid of steps
	end    float64
	dims   []int32

	// Of the current run.
	until   float64 // judged up to here
	next    float64 // number of the next step
	from    float64 // judged from here
	living  []int32
	used    [][]float64 // by judged dimension and machine
	lacks   [][]float64 // the demand of items without samples
	known   [][]float64 // the demand of the others; negative = there are none
	streak  []float64   // seconds that a machine has been above capacity without a break
	nodes   []NodeUse
	out     *Use
	nightAt float64
	tonight int    // moves since the last night
	movedOf []int  // of them, by app
	fixed   []bool // by request: it must not move
	ended   bool   // the last event is over
	filler  *filler
}

// newMeter prepares the parts that all runs share.
func (r *Replayer) newMeter(u *trace.Usage) (*meter, error) {
	m := &meter{usage: u, app: make([]int32, len(r.where))}
	step := math.Inf(1)
	byApp := map[[2]int32]*trace.Series{} // by dimension and app
	own := map[int32][]*trace.Series{}    // by dimension, then item
	u.Items(r.trace, func(s *trace.Series, request, number int32) {
		step = min(step, s.Step)
		if !slices.Contains(m.dims, s.Dimension) {
			m.dims = append(m.dims, s.Dimension)
		}
		if number < 0 {
			byApp[[2]int32{s.Dimension, s.App}] = s
			return
		}
		if own[s.Dimension] == nil {
			own[s.Dimension] = make([]*trace.Series, len(r.where))
		}
		own[s.Dimension][r.base[request]+number] = s
	})
	if len(m.dims) == 0 {
		return nil, errors.New("usage.csv.gz has no series of the trace's items")
	}
	slices.Sort(m.dims)
	for _, d := range m.dims {
		series := make([]*trace.Series, len(r.where))
		for request, q := range r.trace.Requests {
			for item := r.base[request]; item < r.base[request+1]; item++ {
				m.app[item] = q.App
				if series[item] = byApp[[2]int32{d, q.App}]; own[d] != nil && own[d][item] != nil {
					series[item] = own[d][item]
				}
			}
		}
		m.series, m.demand = append(m.series, series), append(m.demand, make([]float64, len(r.trace.Instance.Apps)))
	}
	m.start, m.end = u.Span()
	m.out = &Use{Step: step}
	return m, nil
}

// setDemands takes the demands that the machines count items at from now on.
func (m *meter) setDemands(inst *binpack.Instance) {
	for i, d := range m.dims {
		for app := range inst.Apps {
			m.demand[i][app] = float64(inst.Apps[app].Demand[d]) / float64(inst.Dimensions[d].One)
		}
	}
}

// beginUse starts the judging of a run.
func (r *Replayer) beginUse(events []trace.Event) error {
	u := &r.run
	if u.opt.Usage == nil {
		switch {
		case u.opt.Nightly != nil:
			return errors.New("moves by use want a trace with usage.csv.gz")
		case u.opt.Batch != nil:
			return errors.New("batch work wants a trace with usage.csv.gz")
		}
		return nil
	}
	if r.meter == nil || r.meter.usage != u.opt.Usage {
		var err error
		if r.meter, err = r.newMeter(u.opt.Usage); err != nil {
			return err
		}
	}
	m := r.meter
	m.from = r.trace.MeasureFrom
	if math.IsNaN(m.from) {
		m.from = math.Inf(-1)
	}
	first := m.start
	if len(events) > 0 {
		m.from, first = max(m.from, events[0].Time), events[0].Time
	}
	m.from, m.until = max(m.from, m.start), m.end
	if u.opt.UsageUntil > 0 {
		m.until = min(m.until, u.opt.UsageUntil)
	}
	switch {
	case m.end < m.start:
		return errors.New("usage.csv.gz has no sample of the trace's items")
	case m.from >= m.until:
		return errors.New("usage.csv.gz ends before the trace begins")
	}
	step := m.out.Step
	if n := (m.until - first) / step; n > mostSteps {
		return fmt.Errorf("usage.csv.gz: its shortest step is %g seconds, so the %g days to judge have %.3g steps: want at most %g; take longer steps", step, math.Ceil((m.until-first)/day), n, float64(mostSteps))
	}
	m.out = &Use{Step: step, From: m.from, Until: m.until, Nightly: u.opt.Nightly != nil}
	days := max(1, int(math.Round((m.until-m.from)/day))) // a rest of less than half a day is part of the last
	for _, d := range m.dims {
		m.out.Dimensions = append(m.out.Dimensions, DimensionUse{Dimension: d, JudgedDays: make([]float64, days), Days: make([]float64, days)})
	}
	m.next = max(0, math.Ceil((first-m.start)/step-1e-9))
	m.living, m.nodes, m.streak, m.tonight, m.ended = m.living[:0], nil, m.streak[:0], 0, false
	m.used, m.lacks, m.known = make([][]float64, len(m.dims)), make([][]float64, len(m.dims)), make([][]float64, len(m.dims))
	for item, at := range r.where {
		if at >= 0 {
			m.living = append(m.living, int32(item))
		}
	}
	m.nightAt = day * (math.Floor(first/day) + 1)
	m.setDemands(r.state.Instance())
	if err := r.beginBatch(first); err != nil {
		return err
	}
	return r.beginNights(first)
}

// judge looks at all steps, and spends all nights, before a time.
func (r *Replayer) judge(before float64) {
	m, opt := r.meter, r.run.opt
	if opt.Usage == nil {
		return
	}
	for {
		at := m.start + m.next*m.out.Step
		if opt.Nightly != nil && m.nightAt <= at && m.nightAt < min(before, m.until) {
			r.night(m.nightAt)
			m.nightAt += day
			continue
		}
		if at >= before || at >= m.until {
			return
		}
		m.look(r, at)
		m.fill(r, at)
		if opt.Nightly != nil {
			r.relieve(at)
		}
		m.next++
	}
}

// look sums up the use of the items at a time.
func (m *meter) look(r *Replayer, at float64) {
	size := r.state.Size()
	for d := range m.used {
		m.used[d], m.lacks[d] = append(m.used[d][:0], make([]float64, size)...), append(m.lacks[d][:0], make([]float64, size)...)
		m.known[d] = append(m.known[d][:0], slices.Repeat([]float64{-1}, size)...)
	}
	kept := m.living[:0]
	for _, item := range m.living {
		on := r.where[item]
		if on < 0 {
			continue // it has left
		}
		kept = append(kept, item)
		if at >= m.from {
			m.out.ItemSeconds += m.out.Step
		}
		for d := range m.used {
			v, ok := m.sample(d, item, at)
			if !ok {
				m.lacks[d][on] += m.demand[d][m.app[item]]
				continue
			}
			m.used[d][on] += v
			m.known[d][on] = max(0, m.known[d][on]) + m.demand[d][m.app[item]]
			if at >= m.from {
				m.out.Dimensions[d].Covered += m.out.Step
			}
		}
	}
	m.living = kept
	for len(m.streak) < size {
		m.streak = append(m.streak, 0)
	}
	active := 0
	for on := range int32(size) {
		if r.state.Items(on) == 0 {
			m.streak[on] = 0
			continue
		}
		active++
		if m.count(r, on, at) {
			m.streak[on] += m.out.Step
		} else {
			m.streak[on] = 0
		}
	}
	if at >= m.from {
		m.out.Most = max(m.out.Most, active)
	}
}

// use is the amount of a judged dimension that an item uses at a time, 0 without a sample.
func (m *meter) use(d int, item int32, at float64) float64 {
	v, _ := m.sample(d, item, at)
	return v
}

// sample is the use of an item, and whether there is a sample of it.
func (m *meter) sample(d int, item int32, at float64) (v float64, ok bool) {
	if s := m.series[d][item]; s != nil {
		if v := s.At(at); v == v { // NaN is no sample
			return float64(v), true
		}
	}
	return 0, false
}

// count enters one machine and reports whether it is above capacity.
func (m *meter) count(r *Replayer, on int32, at float64) (above bool) {
	judged := at >= m.from
	if judged {
		m.out.NodeSeconds += m.out.Step
		for len(m.nodes) <= int(on) {
			m.nodes = append(m.nodes, NodeUse{Over: make([]float64, len(m.dims)), Worst: make([]float64, len(m.dims)), Judged: make([]float64, len(m.dims))})
		}
		m.nodes[on].Seconds += m.out.Step
	}
	for d := range m.dims {
		capacity := m.capacity(r, d, on)
		used, known, lacks := m.used[d][on], m.known[d][on], m.lacks[d][on]
		alone := used > capacity*(1+overTolerance)
		above = above || alone
		if !judged || known < lacks && !alone {
			continue
		}
		out, node, today := &m.out.Dimensions[d], &m.nodes[on], min(len(m.out.Dimensions[d].Days)-1, int((at-m.from)/day))
		if lacks > 0 && known >= lacks {
			used *= (known + lacks) / known
		}
		out.Judged += m.out.Step
		out.JudgedDays[today] += m.out.Step
		node.Judged[d] += m.out.Step
		if used > capacity*(1+overTolerance) {
			node.Over[d] += m.out.Step
			out.Over += m.out.Step
			out.Days[today] += m.out.Step
		}
		if capacity > 0 {
			node.Worst[d], out.Worst = max(node.Worst[d], used/capacity), max(out.Worst, used/capacity)
		}
	}
	return above
}

// capacity of a machine in amounts of 1.
func (m *meter) capacity(r *Replayer, d int, on int32) float64 {
	return float64(r.state.Capacity(on)[m.dims[d]]) / float64(r.trace.Instance.Dimensions[m.dims[d]].One)
}

// finishUse judges the time after the last event.
func (r *Replayer) finishUse() {
	if r.run.opt.Usage == nil {
		return
	}
	m := r.meter
	m.ended = true
	r.judge(math.Inf(1))
	for on := range m.nodes {
		n := m.nodes[on]
		if slices.Max(n.Over) > 0 {
			n.Machine = r.trace.MachineName(r.state.Position(int32(on)))
			m.out.Nodes = append(m.out.Nodes, n)
		}
	}
	slices.SortStableFunc(m.out.Nodes, func(a, b NodeUse) int { return slices.Compare(b.Over, a.Over) })
	if m.filler != nil {
		m.out.Batch = &m.filler.out
	}
	r.run.out.Use = m.out
}

const day = 86400.
