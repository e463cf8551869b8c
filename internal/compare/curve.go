package compare

import (
	"cmp"
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A Curve is the allocation against the arrived load, of one replay.
type Curve struct {
	Policy     string
	Order      int
	Dimensions []string
	Points     []Point // by percent, then dimension
}

// A Point is the mean allocation rate of a dimension over the arrivals at which the
// arrived demand was Percent percent: of the capacity of a fixed fleet, or, in an open
// fleet, of the demand of the whole trace. Departures do not reduce the arrived
// demand, and unplaced items count.
type Point struct {
	Percent    int
	Dimension  int
	Allocation float64 // as the allocation rate: of all machines (fixed), of those holding an item (open)
}

// WriteCurves writes a line for each point of the curves.
func WriteCurves(w io.Writer, curves []Curve) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"policy", "order", "percent", "dimension", "allocation"}); err != nil {
		return err
	}
	for _, c := range curves {
		for _, p := range c.Points {
			err := out.Write([]string{
				c.Policy, strconv.Itoa(c.Order), strconv.Itoa(p.Percent), c.Dimensions[p.Dimension],
				strconv.FormatFloat(p.Allocation, 'f', 6, 64),
			})
			if err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// A recorder follows the decisions of one replay. Its sums are floats: reports have six
// digits, and whole numbers are exact up to 2⁵³ units.
type recorder struct {
	trace   *trace.Trace
	state   *binpack.State // of the replay
	next    []int32        // per request: the item that arrives next
	whole   []float64      // per dimension: 100 percent
	fleet   []float64      // capacity of a fixed fleet; nil = open
	arrived []float64
	used    []float64
	// means by percent and dimension: few, even when arrivals far exceed the fleet.
	means map[Point]*mean
}

// A mean of allocation rates; its key is a [Point] without allocation.
type mean struct {
	sum   float64
	count int
}

// newRecorder prepares for a replay by r. Its Options.Record calls [recorder.record].
func newRecorder(r *cerebro.Replayer) *recorder {
	t := r.Trace()
	dims := len(t.Instance.Dimensions)
	c := &recorder{
		trace: t, state: r.State(), next: make([]int32, len(t.Requests)),
		whole: make([]float64, dims), arrived: make([]float64, dims), used: make([]float64, dims),
		means: map[Point]*mean{},
	}
	if t.Instance.Fleet == binpack.Fixed {
		for _, line := range t.Instance.Machines {
			for d, capacity := range line.Capacity {
				c.whole[d] += float64(capacity) * float64(line.Count)
			}
		}
		c.fleet = c.whole
	} else {
		for _, q := range t.Requests {
			add(c.whole, t.Instance.Apps[q.App].Demand, float64(q.Count))
		}
	}
	for _, p := range t.Placed {
		demand := t.Instance.Apps[t.Requests[p.Request].App].Demand
		add(c.arrived, demand, float64(p.Count))
		add(c.used, demand, float64(p.Count))
	}
	return c
}

// add adds sign·demand to sums.
func add(sums []float64, demand []int64, sign float64) {
	for d, need := range demand {
		sums[d] += sign * float64(need)
	}
}

// record follows a decision. A request has arrived with its last item.
func (c *recorder) record(d cerebro.Decision) {
	q := c.trace.Requests[d.Request]
	demand := c.trace.Instance.Apps[q.App].Demand
	switch {
	case d.Kind == cerebro.Place:
		add(c.used, demand, 1)
	case d.Kind == cerebro.Remove && d.Machine >= 0:
		add(c.used, demand, -1)
	}
	if d.Kind == cerebro.Remove || d.Kind == cerebro.Move || d.Item != c.next[d.Request] { // the item left, or is tried again
		return
	}
	c.next[d.Request]++
	add(c.arrived, demand, 1)
	if c.next[d.Request] == q.Count {
		c.sample()
	}
}

func (c *recorder) sample() {
	for d, whole := range c.whole {
		capacity := c.capacity(d)
		if whole == 0 || capacity == 0 {
			continue
		}
		percent := min(math.RoundToEven(100*c.arrived[d]/whole), math.MaxInt32)
		at := Point{Percent: int(percent), Dimension: d}
		if c.means[at] == nil {
			c.means[at] = &mean{}
		}
		c.means[at].sum += c.used[d] / capacity
		c.means[at].count++
	}
}

func (c *recorder) capacity(d int) float64 {
	if c.fleet != nil {
		return c.fleet[d]
	}
	sum := 0.0
	for k, n := range c.state.Held() {
		sum += float64(n) * float64(c.state.Kinds()[k].Capacity[d])
	}
	return sum
}

// points returns the means.
func (c *recorder) points() []Point {
	out := make([]Point, 0, len(c.means))
	for at, m := range c.means {
		at.Allocation = m.sum / float64(m.count)
		out = append(out, at)
	}
	slices.SortFunc(out, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Percent, b.Percent), cmp.Compare(a.Dimension, b.Dimension))
	})
	return out
}
