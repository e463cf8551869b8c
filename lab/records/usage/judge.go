package usage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/sheet"
	product "github.com/sigma-scheduler/sigma/internal/usage"
)

const (
	day  = 86400.
	seed = 1
	// nights are the settings of nightly rows.
	nights = "moves=1%,workload=25%,relief=10m"
)

// A set is a trace with the time from which it is judged.
type set struct {
	trace     *trace.Trace
	usage     *trace.Usage
	at, until float64
	from      float64 // of the samples of quantiles
	end       float64 // of the judged time; 0 = that of the usage
	leastDays int
}

func newSet(t *trace.Trace, at, until float64, leastDays int) (*set, error) {
	u, err := t.Usage()
	return &set{trace: sized.Finer(t), usage: u, at: at, until: until, leastDays: leastDays}, err
}

// figures are sums over orders of arrival.
type figures struct {
	orders                 int
	nodes, most            float64 // mean over time, and the most
	over, memory           float64 // % of the node-time
	worst, overMost        float64
	moves                  float64 // % of the items, in the mean of the days
	mostMoved              float64 // % of the items, on one day
	nights, atOnce         float64
	unplaced               map[string]int // by app
	least, mostOfAllOrders float64        // of the most nodes
	overs                  []float64
}

// half is half the width of the 95 % interval of a mean over draws: of orders or of clusters.
func half(draws []float64) float64 { return sheet.EstimateOf(draws).Half }

// options are those of a replay without nights, or with them if there are sizes. The slow checker
// follows every placement and every move.
func (s *set) options(sizes *sized.Sizes) (cerebro.Options, error) {
	opt := cerebro.Options{Usage: s.usage, UsageUntil: s.end, Fallback: rule.Fallback{}, Check: true}
	if sizes == nil {
		return opt, nil
	}
	var err error
	if opt.Nightly, err = cerebro.ParseNightly(nights); err == nil {
		opt.Nightly.Demands = sizes.Demands
	}
	return opt, err
}

// replay places the items of a window in a number of orders of those that are there at
// its beginning; nil sizes = without nights.
func (s *set) replay(w *trace.Trace, orders int, sizes *sized.Sizes) (f figures, err error) {
	f.least, f.unplaced = math.Inf(1), map[string]int{}
	opt, err := s.options(sizes)
	if err != nil {
		return f, err
	}
	for i := range orders {
		t := shuffled(w, uint64(i))
		run, err := cerebro.NewReplayer(t).Run(rule.BestFit{}, opt)
		if err != nil {
			return f, err
		}
		if run.Violations > 0 {
			return f, fmt.Errorf("trace %s, order %d: %d violated constraints", t.Name, i, run.Violations)
		}
		if err := f.add(t, run); err != nil {
			return f, fmt.Errorf("trace %s, order %d: %w", t.Name, i, err)
		}
	}
	n := float64(f.orders)
	for _, v := range []*float64{&f.nodes, &f.most, &f.over, &f.memory, &f.moves, &f.nights, &f.atOnce} {
		*v /= n
	}
	return f, nil
}

// add enters a replay. It fails where samples judge too little of the node-time of a dimension, none of it included.
func (f *figures) add(t *trace.Trace, run cerebro.Run) error {
	u := run.Use
	f.orders++
	f.nodes += u.Mean()
	f.most += float64(u.Most)
	f.least, f.mostOfAllOrders = min(f.least, float64(u.Most)), max(f.mostOfAllOrders, float64(u.Most))
	for _, d := range u.Dimensions {
		name := t.Instance.Dimensions[d.Dimension].Name
		if !(100*d.Judged >= report.LeastJudged*u.NodeSeconds && u.NodeSeconds > 0) {
			return fmt.Errorf("samples of %s judge %.4g of %.4g node-seconds: want %d %%", name, d.Judged, u.NodeSeconds, report.LeastJudged)
		}
		share := 100 * d.Over / d.Judged
		switch name {
		case "cpu":
			f.over += share
			f.overs = append(f.overs, share)
			f.overMost, f.worst = max(f.overMost, share), max(f.worst, d.Worst)
		case "memory":
			f.memory += share
		}
	}
	f.moves += 100 * float64(run.Moves) / math.Max(1, float64(run.Placed)) / ((u.Until - u.From) / day)
	f.mostMoved = max(f.mostMoved, 100*u.MostMoved)
	f.nights += float64(u.Resized)
	f.atOnce += float64(u.Relieved)
	for app, n := range run.LeftOut {
		f.unplaced[t.Instance.Apps[app].Name] += n
	}
	return nil
}

// shuffled is a window with its first arrivals, those of one instant, in another order.
func shuffled(w *trace.Trace, order uint64) *trace.Trace {
	t := *w
	t.Events = slices.Clone(w.Events)
	n := 0
	for n < len(t.Events) && t.Events[n].Kind == trace.Create && t.Events[n].Time == t.Events[0].Time {
		n++
	}
	if order > 0 {
		rand.New(rand.NewPCG(seed, order)).Shuffle(n, func(i, j int) { t.Events[i], t.Events[j] = t.Events[j], t.Events[i] })
	}
	return &t
}

// byRequest is the window with its requests; what has none counts at the most it used before.
func (s *set) byRequest() (*trace.Trace, error) {
	return sized.ByRequest(s.trace, s.usage, s.at, s.until)
}

// bySize is the window with the sizes of its beginning.
func (s *set) bySize() (*trace.Trace, error) {
	w, _, err := sized.Trace(s.trace, s.usage, s.leastDays, s.at, s.until)
	return w, err
}

// sizes are those of the nights.
func (s *set) sizes() (*sized.Sizes, error) { return sized.New(s.trace, s.usage, s.leastDays) }

// changed is the window with other demands of cpu; memory has its effective size, so that
// all sizes of cpu are judged beside the same memory. Apps with too little history keep
// their request.
func (s *set) changed(cpu func(app int, request int64) int64) (*trace.Trace, error) {
	bySize, sizes, err := sized.Trace(s.trace, s.usage, s.leastDays, s.at, s.until)
	if err != nil {
		return nil, err
	}
	w, err := s.byRequest()
	if err != nil {
		return nil, err
	}
	inst := *w.Instance
	inst.Apps = slices.Clone(inst.Apps)
	for a := range inst.Apps {
		demand := slices.Clone(bySize.Instance.Apps[a].Demand)
		demand[0] = inst.Apps[a].Demand[0]
		if !sizes[a].CPUReason.ByRequest() {
			demand[0] = min(cpu(a, demand[0]), largest(&inst))
		}
		inst.Apps[a].Demand = demand
	}
	w.Instance = &inst
	return w, nil
}

func largest(inst *binpack.Instance) (most int64) {
	for _, m := range inst.Machines {
		most = max(most, m.Capacity[0])
	}
	return most
}

// quantile is the window with each app at a quantile of its samples before the window,
// times a margin.
func (s *set) quantile(q, margin float64) (*trace.Trace, error) {
	of := s.pooled(s.from, s.at, q)
	return s.changed(func(app int, _ int64) int64 { return int64(math.Ceil(margin * 1000 * of[app])) })
}

// pooled is the quantile of the cores in use by all items of each app together, from a time
// to before another: exact, by sorting; 0 without samples.
func (s *set) pooled(from, until, q float64) []float64 {
	samples := make([][]float32, len(s.trace.Instance.Apps))
	for i := range s.usage.Series {
		one := &s.usage.Series[i]
		if one.Dimension != 0 {
			continue
		}
		for k, v := range one.Values {
			if at := one.Start + float64(k)*one.Step; at >= from && at < until && v == v {
				samples[one.App] = append(samples[one.App], v)
			}
		}
	}
	out := make([]float64, len(samples))
	for app, list := range samples {
		if len(list) > 0 {
			slices.Sort(list)
			out[app] = float64(list[int(q*float64(len(list)-1))])
		}
	}
	return out
}

// hindsight is the window with each app at the plain p99 of cpu of the judged days, all of
// them together, and at the memory size that they would give. Jobs keep their requests.
func (s *set) hindsight() (*trace.Trace, error) {
	judged := &trace.Usage{}
	for _, one := range s.usage.Series {
		first := max(0, int(math.Ceil((s.at-one.Start)/one.Step)))
		if first < len(one.Values) {
			one.Start, one.Values = one.Start+float64(first)*one.Step, one.Values[first:]
			judged.Series = append(judged.Series, one)
		}
	}
	own, err := sized.New(s.trace, judged, 1)
	if err != nil {
		return nil, err
	}
	sizes, err := own.At(s.until)
	if err != nil {
		return nil, err
	}
	demands, p99 := own.Demands(s.until), s.pooled(s.at, s.until, product.Quantile)
	w := s.trace.Window(s.at, s.until, nil)
	inst := *w.Instance
	inst.Apps = slices.Clone(inst.Apps)
	for a := range inst.Apps {
		demand := slices.Clone(demands[a])
		if !sizes[a].CPUReason.ByRequest() {
			demand[0] = min(demand[0], int64(math.Ceil(float64(inst.Dimensions[0].One)*max(product.FloorCPU, p99[a]))))
		}
		inst.Apps[a].Demand = demand
	}
	w.Instance = &inst
	return w, nil
}
