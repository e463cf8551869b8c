// Package sized counts the items of a trace by their use: it reads usage.csv.gz into
// histories (internal/usage) and gives each app its effective size, once or night by
// night.
//
// An app is a workload: the samples of all of its items are one history. Apps that
// trace.yaml lists under source.jobs count by request.
package sized

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/usage"
)

const day = 86400.

// Sizes finds the sizes of a trace's apps from its usage, at one time after the other.
type Sizes struct {
	trace       *trace.Trace
	series      []*trace.Series
	read        []float64 // per series: up to this time its samples are in the histories
	histories   []*usage.History
	jobs        map[string]bool
	leastDays   int
	cpu, memory int // dimensions; -1 = the trace lacks it
	requests    []usage.Amounts
	noted       map[string]any // the requests of apps whose demands are not theirs
	most        [][]int64      // per app: the largest capacity of a machine that it may use
	nights      map[float64]*night
	slots       []*usage.Slots // nil unless [Sizes.BySlot]
}

// A night has the demands, and with slots the cores of one item by slot.
type night struct {
	demands [][]int64
	slots   [][usage.SlotCount]float64
}

// New prepares a trace, whose cpu must be in units of at most a thousandth: see [Finer]. Apps with
// fewer days of history count by request; [usage.LeastDays] is the number for clusters.
func New(t *trace.Trace, u *trace.Usage, leastDays int) (*Sizes, error) {
	s := &Sizes{trace: t, leastDays: leastDays, jobs: map[string]bool{}, nights: map[float64]*night{}}
	s.histories = make([]*usage.History, len(t.Instance.Apps))
	s.cpu, s.memory = dimension(t, "cpu"), dimension(t, "memory")
	if s.cpu < 0 {
		return nil, fmt.Errorf("trace %s has no dimension cpu, which sizes by use count", t.Name)
	}
	if t.Instance.Dimensions[s.cpu].One < 1000 {
		panic("sized: cpu in whole cores")
	}
	for i := range u.Series {
		if d := int(u.Series[i].Dimension); d == s.cpu || d == s.memory {
			s.series = append(s.series, &u.Series[i])
			s.read = append(s.read, math.Inf(-1))
		}
	}
	if list, ok := t.Source["jobs"].([]any); ok {
		for _, name := range list {
			s.jobs[fmt.Sprint(name)] = true
		}
	}
	slices.SortStableFunc(s.series, func(a, b *trace.Series) int { return cmp.Compare(a.App, b.App) })
	var err error
	for a := range t.Instance.Apps {
		s.most = append(s.most, largest(t.Instance, &t.Instance.Apps[a]))
	}
	s.requests, err = s.requested()
	return s, err
}

// requested are the requests of the apps: those that [Trace] and [ByRequest] noted, else
// their demands.
func (s *Sizes) requested() ([]usage.Amounts, error) {
	t, field := s.trace, "source."+withoutRequest
	s.noted, _ = t.Source[withoutRequest].(map[string]any)
	all := BySize(t)
	if sizes, ok := t.Source["sizes"].(map[string]any); ok {
		if sizes["history"] != nil {
			return nil, errors.New("the days that the sizes follow from are not in usage.csv.gz, and nights need them")
		}
		field = "source.sizes.requests"
		s.noted, _ = sizes["requests"].(map[string]any)
	}
	out := make([]usage.Amounts, len(t.Instance.Apps))
	for a := range t.Instance.Apps {
		app := &t.Instance.Apps[a]
		out[a] = usage.Amounts{CPU: s.amount(app, s.cpu), Memory: s.amount(app, s.memory)}
		value, ok := s.noted[app.Name]
		if !ok && !all {
			continue
		}
		pair, _ := value.([]any)
		if len(pair) != 2 {
			return nil, fmt.Errorf("trace.yaml: %s: %s: want cpu and memory", field, app.Name)
		}
		for i, d := range []*float64{&out[a].CPU, &out[a].Memory} {
			q, err := trace.ParseQuantity(fmt.Sprint(pair[i]))
			if err != nil {
				return nil, fmt.Errorf("trace.yaml: %s: %s: %v: %w", field, app.Name, pair[i], err)
			}
			*d = q.Float()
		}
	}
	return out, nil
}

func dimension(t *trace.Trace, name string) int {
	return slices.IndexFunc(t.Instance.Dimensions, func(d binpack.Dimension) bool { return d.Name == name })
}

// largest is the most of each dimension that a machine has that an app may use.
func largest(inst *binpack.Instance, app *binpack.App) []int64 {
	most := make([]int64, len(inst.Dimensions))
	for _, line := range inst.Machines {
		if !app.MayUse(line.Type) {
			continue
		}
		for d, c := range line.Capacity {
			most[d] = max(most[d], c)
		}
	}
	return most
}

// At are the sizes by app from the samples before a time. Times must not decrease.
func (s *Sizes) At(at float64) ([]usage.Size, error) {
	var means usage.Means // of one app after the other
	for i, series := range s.series {
		h := s.histories[series.App]
		if h == nil {
			h = &usage.History{}
			s.histories[series.App] = h
		}
		if i > 0 && s.series[i-1].App != series.App {
			means.Move(s.histories[s.series[i-1].App])
		}
		add := func(at, seconds, v float64) error {
			switch {
			case int(series.Dimension) == s.memory:
				return h.AddMemory(at, seconds, v)
			case s.slots != nil:
				if err := s.slots[series.App].AddCPU(at, seconds, v); err != nil {
					return err
				}
			}
			if err := h.AddCPU(at, seconds, v); err != nil {
				return err
			}
			means.Add(at, seconds, v)
			return nil
		}
		if err := feed(add, series, s.read[i], at); err != nil {
			return nil, fmt.Errorf("app %s: %w", s.trace.Instance.Apps[series.App].Name, err)
		}
		s.read[i] = max(s.read[i], at)
	}
	if n := len(s.series); n > 0 {
		means.Move(s.histories[s.series[n-1].App])
	}
	out := make([]usage.Size, len(s.histories))
	for a, h := range s.histories {
		out[a] = usage.SizeOf(h, s.requests[a], s.jobs[s.trace.Instance.Apps[a].Name], s.leastDays, at)
	}
	return out, nil
}

// feed adds the samples of a series that end after from, up to a time.
func feed(add func(at, seconds, v float64) error, s *trace.Series, from, until float64) error {
	first := 0
	if !math.IsInf(from, -1) {
		first = max(0, int(math.Ceil((from-s.Start)/s.Step-1e-9)))
	}
	for i := first; i < len(s.Values); i++ {
		at, v := s.Start+float64(i)*s.Step, float64(s.Values[i])
		if at+1e-9*s.Step >= until {
			return nil
		}
		if v != v {
			continue
		}
		if err := add(at, min(s.Step, day), v); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sizes) amount(app *binpack.App, d int) float64 {
	if d < 0 {
		return 0
	}
	return float64(app.Demand[d]) / float64(s.trace.Instance.Dimensions[d].One)
}

// demand is a size in units, rounded up. An app that uses more than the largest machine
// has counts as much as that, so that it still has a place.
func (s *Sizes) demand(a int, size *usage.Size) []int64 {
	demand := slices.Clone(s.trace.Instance.Apps[a].Demand)
	set := func(d int, amount, request float64) {
		if d >= 0 {
			one := float64(s.trace.Instance.Dimensions[d].One)
			demand[d] = int64(math.Ceil(max(min(amount*one, float64(s.most[a][d])), min(amount, request)*one) - 1e-6))
		}
	}
	set(s.cpu, size.CPU, s.requests[a].CPU)
	set(s.memory, size.Memory, s.requests[a].Memory)
	return demand
}

// Demands are the demands of all apps from a midnight on, as [cerebro.Nightly] reads them.
// It keeps them, so that every order of arrival gets the same. It serves one goroutine.
func (s *Sizes) Demands(at float64) [][]int64 { return s.night(at).demands }

func (s *Sizes) night(at float64) *night {
	if n, ok := s.nights[at]; ok {
		return n
	}
	sizes, err := s.At(at)
	if err != nil {
		panic("sized: " + err.Error()) // the reader of the series refuses such samples
	}
	n := &night{demands: make([][]int64, len(sizes))}
	for a := range sizes {
		n.demands[a] = s.demand(a, &sizes[a])
	}
	if s.slots != nil {
		n.slots = s.bySlot(at, sizes)
	}
	s.nights[at] = n
	return n
}

// Finer returns the trace with cpu in units of a thousandth, if they are larger.
func Finer(t *trace.Trace) *trace.Trace {
	d := dimension(t, "cpu")
	if d < 0 || t.Instance.Dimensions[d].One >= 1000 {
		return t
	}
	inst := *t.Instance
	inst.Dimensions, inst.Machines, inst.Apps = slices.Clone(inst.Dimensions), slices.Clone(inst.Machines), slices.Clone(inst.Apps)
	inst.Dimensions[d].Unit, inst.Dimensions[d].One = "m", 1000
	for i := range inst.Machines {
		inst.Machines[i].Capacity = slices.Clone(inst.Machines[i].Capacity)
		inst.Machines[i].Capacity[d] *= 1000
	}
	for i := range inst.Apps {
		inst.Apps[i].Demand = slices.Clone(inst.Apps[i].Demand)
		inst.Apps[i].Demand[d] *= 1000
	}
	finer := *t
	finer.Instance = &inst
	return &finer
}

// Trace returns the part of a trace from a time on with the sizes of that time as demands,
// so that the later usage judges them. Its source names the apps that count by request, and
// those that use more than their request, each with the reason.
func Trace(t *trace.Trace, u *trace.Usage, leastDays int, at, until float64) (*trace.Trace, []usage.Size, error) {
	if BySize(t) {
		return nil, nil, fmt.Errorf("trace %s counts its items at what they use already", t.Name)
	}
	t = Finer(t)
	s, err := New(t, u, leastDays)
	if err != nil {
		return nil, nil, err
	}
	sizes, err := s.At(at)
	if err != nil {
		return nil, nil, err
	}
	w := t.Window(at, until, nil)
	keepMachines(t, w)
	s.set(w, sizes, at)
	w.SetUsage(cut(u, at-usage.Window*day, until)) // nights need the days before
	return w, sizes, nil
}

// keepMachines adds the machines of placed.csv to the source of a window, whose items arrive: as placements of later requests.
func keepMachines(t, w *trace.Trace) {
	known, _ := w.Source["placements"].(map[string]any)
	machines := map[string]any{}
	maps.Copy(machines, known)
	for _, p := range t.Placed {
		if q := &t.Requests[p.Request]; q.Count == p.Count && p.Devices == nil {
			machines[q.Name] = t.MachineName(p.Line, p.Index)
		}
	}
	if len(machines) > 0 {
		w.Source["placements"] = machines
	}
}

// set makes sizes the demands of a trace's apps. Its source keeps the requests, and names the
// apps above them and those by request.
func (s *Sizes) set(w *trace.Trace, sizes []usage.Size, at float64) {
	inst := *s.trace.Instance
	inst.Apps = slices.Clone(inst.Apps)
	above, byRequest, requests := map[string]any{}, map[string]any{}, map[string]any{}
	for a := range sizes {
		requests[inst.Apps[a].Name] = s.stated(a)
		inst.Apps[a].Demand = s.demand(a, &sizes[a])
		switch size := &sizes[a]; {
		case size.Above():
			above[inst.Apps[a].Name] = size.String()
		case size.ByRequest() != "":
			byRequest[inst.Apps[a].Name] = size.ByRequest()
		}
	}
	w.Instance = &inst
	if w.Source = maps.Clone(w.Source); w.Source == nil {
		w.Source = map[string]any{}
	}
	w.Source["sizes"] = map[string]any{
		"at": at, "days": s.leastDays, "above": above, "byRequest": byRequest, "requests": requests,
		"method": fmt.Sprintf("cpu halfway between the p99 of the mean pod and of one pod in the busiest two days in a row, and memory peak × 1.15, of the 28 days before; by request with fewer than %d days", s.leastDays),
	}
}

// ByRequest returns the part of a trace from a time on with its requests as demands: the
// baseline of [Trace], on the same days. Apps without a request count at the most that they
// used before, as there, since they are not free; its source names them.
func ByRequest(t *trace.Trace, u *trace.Usage, at, until float64) (*trace.Trace, error) {
	if BySize(t) {
		return nil, fmt.Errorf("trace %s counts its items at what they use: take the trace that it was made of", t.Name)
	}
	t = Finer(t)
	s, err := New(t, u, usage.LeastDays)
	if err != nil {
		return nil, err
	}
	sizes := make([]usage.Size, len(s.requests))
	if slices.ContainsFunc(s.requests, func(r usage.Amounts) bool { return r.CPU == 0 || r.Memory == 0 }) {
		if sizes, err = s.At(at); err != nil {
			return nil, err
		}
	}
	w := t.Window(at, until, nil)
	inst := *t.Instance
	inst.Apps = slices.Clone(inst.Apps)
	none := map[string]any{}
	for a := range sizes {
		if _, noted := s.noted[inst.Apps[a].Name]; noted {
			continue // it has such a demand
		}
		if demand := s.demand(a, &sizes[a]); sizes[a].CPUReason == usage.NoRequest || sizes[a].MemoryReason == usage.NoRequest {
			none[inst.Apps[a].Name] = s.stated(a)
			if sizes[a].CPUReason != usage.NoRequest {
				demand[s.cpu] = inst.Apps[a].Demand[s.cpu]
			}
			if s.memory >= 0 && sizes[a].MemoryReason != usage.NoRequest {
				demand[s.memory] = inst.Apps[a].Demand[s.memory]
			}
			inst.Apps[a].Demand = demand
		}
	}
	w.Instance = &inst
	if len(none) > 0 {
		maps.Copy(none, s.noted)
		w.Source = maps.Clone(w.Source)
		w.Source[withoutRequest] = none
	}
	w.SetUsage(cut(u, at-usage.Window*day, until))
	return w, nil
}

// withoutRequest is the key of a source with the requests of cpu and memory of apps that lack
// one: their demands are the most that they used.
const withoutRequest = "withoutRequest"

// stated are the requests of cpu and memory of an app, as quantities.
func (s *Sizes) stated(a int) []any {
	if pair, ok := s.noted[s.trace.Instance.Apps[a].Name].([]any); ok {
		return pair
	}
	pair := []any{"0", "0"}
	for i, d := range []int{s.cpu, s.memory} {
		if d >= 0 {
			pair[i] = trace.FormatQuantity(s.trace.Instance.Apps[a].Demand[d], s.trace.Instance.Dimensions[d])
		}
	}
	return pair
}

// LeastDays is the number of days of history that the sizes of a trace were made with.
func LeastDays(t *trace.Trace) int {
	if sizes, ok := t.Source["sizes"].(map[string]any); ok {
		if days, ok := sizes["days"].(int); ok && days > 0 {
			return days
		}
	}
	return usage.LeastDays
}

// From is the time of the sizes of a trace by use: the days before were fitted to.
func From(t *trace.Trace) (float64, error) {
	sizes, _ := t.Source["sizes"].(map[string]any)
	switch at := sizes["at"].(type) {
	case nil:
		return 0, nil
	case int:
		return float64(at), nil
	case float64:
		return at, nil
	default:
		return 0, fmt.Errorf("trace.yaml: source.sizes.at: %v: want a number of seconds", at)
	}
}

// BySize reports whether the demands of a trace are effective sizes.
func BySize(t *trace.Trace) bool { return t.Source["sizes"] != nil }

// cut is the part of the series from a time to before another.
func cut(u *trace.Usage, from, until float64) *trace.Usage {
	out := &trace.Usage{}
	for _, s := range u.Series {
		first := max(0, int(math.Floor((from-s.Start)/s.Step+1e-9)))
		last := min(len(s.Values), int(math.Ceil((until-s.Start)/s.Step-1e-9)))
		if first < last {
			s.Start += float64(first) * s.Step
			s.Values = s.Values[first:last]
			out.Series = append(out.Series, s)
		}
	}
	return out
}
