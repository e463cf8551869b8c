package evidence

import (
	"cmp"
	"fmt"
	"math"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/learn/drift"
)

const (
	// slots of a day: each monitor has a value of each.
	slots = 6
	day   = 24 * hour
	// reference is the number of slots of a detector's reference: four days.
	reference = 4 * slots
	// relevant is the least factor that counts as a change: a workload without noise would else
	// change all the time.
	relevant = 1.15
	// least is the number of pods from which the means of a slot count.
	least = 10
)

// A Monitor watches the workload of a trace: the demands of its pods, their lifetimes, and their
// arrivals against the same hours of the days before. Its values are logarithms of means of four
// hours, less the mean of the same hours of the days before (a day has its ups and downs).
type Monitor struct {
	trace   *trace.Trace
	start   float64
	next    int // event
	slot    int // that is being filled
	series  []series
	created map[int32]float64 // arrival of the requests that live
	sums    sums
}

// A series is one thing that is watched.
type series struct {
	name   string
	detect *drift.PageHinkley
	sum    [slots]float64 // of the values of the days before, by slot
	count  [slots]float64
	recent []float64 // the last values, as detected
}

// sums are those of a slot.
type sums struct {
	arrived, left, lived float64
	demand               []float64
}

// A Change is a change that a monitor found.
type Change struct {
	Text  string  // with its figures
	Since float64 // seconds in the trace
}

// NewMonitor watches a trace from its first event on.
func NewMonitor(t *trace.Trace) (*Monitor, error) {
	m := &Monitor{trace: t, created: map[int32]float64{}}
	if len(t.Events) > 0 {
		m.start = t.Events[0].Time
	}
	names := []string{"pods that come", "hours that pods live"}
	for i, d := range t.Instance.Dimensions {
		if i == 0 {
			names = append(names, d.Name+" of a pod")
		} else {
			names = append(names, d.Name+" ÷ "+t.Instance.Dimensions[0].Name)
		}
	}
	for _, n := range names {
		detect, err := drift.NewPageHinkley(drift.Settings{Delta: drift.DefaultDelta, Lambda: drift.DefaultLambda, Reference: reference})
		if err != nil {
			return nil, err
		}
		m.series = append(m.series, series{name: n, detect: detect})
	}
	m.sums.demand = make([]float64, len(t.Instance.Dimensions))
	return m, nil
}

// Until takes the events before a time and returns the first change that they show; nil = no change.
func (m *Monitor) Until(now float64) (*Change, error) {
	var found *Change
	for {
		end := m.start + float64(m.slot+1)*day/slots
		if end > now {
			return found, nil
		}
		for ; m.next < len(m.trace.Events) && m.trace.Events[m.next].Time < end; m.next++ {
			m.take(m.trace.Events[m.next])
		}
		change, err := m.close(end)
		if err != nil {
			return nil, err
		}
		found = cmp.Or(found, change)
	}
}

func (m *Monitor) take(e trace.Event) {
	n := float64(e.Count)
	if e.Kind == trace.Delete {
		m.sums.left += n
		m.sums.lived += n * (e.Time - m.created[e.Request]) / hour
		return
	}
	m.created[e.Request] = e.Time
	m.sums.arrived += n
	for d, need := range m.trace.Instance.Apps[m.trace.Requests[e.Request].App].Demand {
		m.sums.demand[d] += n * float64(need)
	}
}

// close gives the values of a slot to the detectors.
func (m *Monitor) close(end float64) (*Change, error) {
	values := []float64{m.sums.arrived, m.sums.lived / m.sums.left}
	for d, sum := range m.sums.demand {
		if d == 0 {
			values = append(values, sum/m.sums.arrived/float64(m.trace.Instance.Dimensions[0].One))
		} else {
			values = append(values, sum/m.sums.demand[0])
		}
	}
	enough := m.sums.arrived >= least && m.sums.left >= least
	var found *Change
	for i, v := range values {
		if v = math.Log(v); !enough || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		change, err := m.series[i].observe(m.slot%slots, v, end)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.series[i].name, err)
		}
		found = cmp.Or(found, change)
	}
	m.slot++
	m.sums = sums{demand: make([]float64, len(m.sums.demand))}
	return found, nil
}

// observe takes the value of a slot of the day.
func (s *series) observe(slot int, v, end float64) (*Change, error) {
	if s.count[slot] == 0 {
		s.sum[slot], s.count[slot] = v, 1
		return nil, nil
	}
	off := v - s.sum[slot]/s.count[slot]
	s.recent = append(s.recent[max(0, len(s.recent)-slots/2):], off)
	change, err := s.detect.Observe(off)
	if err != nil || change == drift.None {
		s.sum[slot], s.count[slot] = s.sum[slot]+v, s.count[slot]+1
		return nil, err
	}
	mean := 0.
	for _, r := range s.recent {
		mean += r / float64(len(s.recent))
	}
	if math.Abs(mean) < math.Log(relevant) {
		s.sum[slot], s.count[slot] = s.sum[slot]+v, s.count[slot]+1
		return nil, nil
	}
	c := &Change{
		Text:  fmt.Sprintf("%s: %.2f times that of the same hours before", s.name, math.Exp(mean)),
		Since: end - float64(len(s.recent))*day/slots,
	}
	s.sum, s.count, s.recent = [slots]float64{}, [slots]float64{}, nil // a new workload
	return c, nil
}
