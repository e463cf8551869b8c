package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// A loss is the cost of a policy in one day of one order.
type loss struct {
	cost, waiting float64
	refused       float64 // items that found no machine on arrival
	// preferring is the number of items with preferences, and givenUp sums up the shares of
	// them that they did not get; both are 0 but where the price of preferences is searched.
	preferring, givenUp float64
	use                 *report.Use // of the span, in its first block; nil of traces by request
}

// Losses are those of one policy on a part, by day and order.
type losses [][]loss

func (l losses) sum() (total loss) {
	for _, orders := range l {
		for _, o := range orders {
			total.cost += o.cost
			total.waiting += o.waiting
			total.refused += o.refused
			total.preferring += o.preferring
			total.givenUp += o.givenUp
		}
	}
	return total
}

// draws are the replays that judge a part: count of them, from the first on.
type draws struct{ first, count int }

// An unknownRisk is the reason why the risk of a policy is not known.
type unknownRisk struct{ reason error }

func (u *unknownRisk) Error() string { return u.reason.Error() }

// judge replays each candidate on the spans in some draws (see [ledIn]). A candidate that may be left out has
// no losses where its risk is not known; of another that is an error.
func judge(ctx context.Context, traces []*trace.Trace, spans []span, candidates []*candidate, d draws, seed uint64, workers int) ([]losses, error) {
	var parts [][]*trace.Trace // by order
	for order := range d.count {
		parts = append(parts, ledIn(traces, spans, seed, d.first+order, d.count))
	}
	use := map[int]*trace.Usage{} // of traces by use
	for i, t := range traces {
		if u, err := compare.UsageOf(t, 0); err != nil {
			return nil, err
		} else if sized.BySize(t) {
			use[i] = u
		}
	}
	out, errs := make([]losses, len(candidates)), make([]error, len(candidates))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(workers, len(candidates)) {
		group.Go(func() {
			replayers := map[*trace.Trace]*cerebro.Replayer{}
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(candidates) {
					return
				}
				out[i], errs[i] = candidates[i].losses(ctx, replayers, parts, spans, use, seed)
			}
		})
	}
	group.Wait()
	if err := leaveOut(candidates, errs); err != nil {
		return nil, err
	}
	return out, ctx.Err()
}

// leaveOut is the first error of candidates, but for those that may be left out since their risk is not known.
func leaveOut(candidates []*candidate, errs []error) error {
	for i, err := range errs {
		if _, unknown := errors.AsType[*unknownRisk](err); err != nil && (!unknown || !candidates[i].mayLack()) {
			return err
		}
	}
	return nil
}

func (c *candidate) losses(ctx context.Context, replayers map[*trace.Trace]*cerebro.Replayer, parts [][]*trace.Trace, spans []span, use map[int]*trace.Usage, seed uint64) (losses, error) {
	var all losses
	for order, part := range parts {
		block := 0
		for i, t := range part {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if replayers[t] == nil {
				replayers[t] = cerebro.NewReplayer(t)
			}
			opt := cerebro.Options{Retry: true, Brief: true, Fallback: rule.Fallback{}, Marks: spans[i].marks, GivenUp: c.prefers}
			if spans[i].whole {
				opt.Retry, opt.Marks, opt.Order, opt.Seed = false, nil, order, seed
			}
			if !spans[i].whole || order == 0 { // series are of times, which another order of a fill-up changes
				opt.Usage, opt.UsageUntil = use[spans[i].trace], spans[i].until
			}
			run, err := replayers[t].Run(c.policy, opt)
			if err != nil {
				return nil, fmt.Errorf("trace %q, policy %s: %w", t.Name, c.name, err)
			}
			parts := byMark(run.Marks)
			if spans[i].whole {
				parts = []loss{atEnd(&run)}
			}
			if parts[0].use = compare.UseOfRun(t, run); parts[0].use != nil {
				if err := compare.KnownRisk(t, parts[0].use); err != nil {
					return nil, &unknownRisk{err}
				}
			}
			for _, l := range parts {
				if order == 0 {
					all = append(all, nil)
				}
				all[block] = append(all[block], l)
				block++
			}
		}
	}
	return all, nil
}

// byMark are the losses between marks.
func byMark(marks []cerebro.Mark) (list []loss) {
	before := cerebro.Mark{}
	for _, m := range marks {
		list = append(list, loss{
			cost: m.CostSeconds - before.CostSeconds, waiting: m.WaitingSeconds - before.WaitingSeconds, refused: float64(m.Refused - before.Refused),
			preferring: float64(m.Preferring - before.Preferring), givenUp: m.GivenUp - before.GivenUp,
		})
		before = m
	}
	return list
}

// atEnd is the cost of a fill-up: its machines for one hour, and for one hour the items that
// were left out, by their share of the demand.
func atEnd(run *cerebro.Run) loss {
	refused := slices.Max(run.Rejected) * float64(run.Placed+run.Unplaced)
	return loss{cost: hour * run.Cost, waiting: hour * refused, refused: refused, preferring: float64(run.Preferring), givenUp: run.GivenUp}
}

// An Interval is a figure and the limits of 95 % of its bootstrap over days; NaN of a single day, which does
// not show how days differ.
type Interval struct{ Mean, Low, High float64 }

// known reports whether the interval has limits.
func (i Interval) known() bool { return !math.IsNaN(i.Low) }

// fields are those of the interval; null where the limits are not known.
func (i Interval) fields() map[string]any {
	f := map[string]any{"mean": round(i.Mean), "low": nil, "high": nil}
	if i.known() {
		f["low"], f["high"] = round(i.Low), round(i.High)
	}
	return f
}

// MarshalJSON writes the fields.
func (i Interval) MarshalJSON() ([]byte, error) {
	limit := func(v float64) *float64 {
		if i.known() {
			return &v
		}
		return nil
	}
	return json.Marshal(struct {
		Mean float64  `json:"mean"`
		Low  *float64 `json:"low"`
		High *float64 `json:"high"`
	}{i.Mean, limit(i.Low), limit(i.High)})
}

// resamples is the number of draws of a bootstrap.
const resamples = 2000

// saving is the saving of a policy over another in percent, by a paired bootstrap over
// days and the orders within them. Draws in which neither costs anything do not count.
func (m measure) saving(own, other losses, seed uint64) Interval {
	if len(own) == 1 {
		return Interval{percent(m.of(own.sum()), m.of(other.sum())), math.NaN(), math.NaN()}
	}
	draws := m.draws(own, other, seed)
	if len(draws) == 0 {
		return Interval{}
	}
	return interval(draws, percent(m.of(own.sum()), m.of(other.sum())), .95)
}

// interval has the middle share of sorted draws.
func interval(draws []float64, mean, share float64) Interval {
	n := len(draws)
	tail := int(float64(n)*(1-share)/2 + 1e-9)
	return Interval{mean, draws[tail], draws[n-1-tail]}
}

// same reports whether two policies cost the same in every replay.
func (m measure) same(own, other losses) bool {
	for day := range own {
		for order := range own[day] {
			if m.of(own[day][order]) != m.of(other[day][order]) {
				return false
			}
		}
	}
	return true
}

// clear reports whether the saving of a policy over another, in the mean over all replays, exceeds twice its standard
// error. Replays of one day show that its draws agree, not that days do.
func (m measure) clear(own, other losses) bool {
	n, sum, square := 0., 0., 0.
	for day := range own {
		for order := range own[day] {
			s := percent(m.of(own[day][order]), m.of(other[day][order]))
			n, sum, square = n+1, sum+s, square+s*s
		}
	}
	return sum > 0 && sum*sum*(n-1) > 4*(n*square-sum*sum)
}

// Paired is the saving of one policy over another in percent, each by its costs on the same
// days: by a bootstrap over days, with the middle share of its draws.
func Paired(own, other []float64, share float64, seed uint64) Interval {
	var a, b losses
	for i := range own {
		a, b = append(a, []loss{{cost: own[i]}}), append(b, []loss{{cost: other[i]}})
	}
	draws := byCost.draws(a, b, seed)
	if len(draws) == 0 {
		return Interval{}
	}
	return interval(draws, percent(byCost.of(a.sum()), byCost.of(b.sum())), share)
}

// draws are those of the bootstrap, sorted.
func (m measure) draws(own, other losses, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, uint64(len(own))))
	var draws []float64
	for range resamples {
		a, b := 0., 0.
		for range own {
			block := rng.IntN(len(own))
			for range own[block] {
				order := rng.IntN(len(own[block]))
				a += m.of(own[block][order])
				b += m.of(other[block][order])
			}
		}
		if a > 0 || b > 0 {
			draws = append(draws, percent(a, b))
		}
	}
	slices.Sort(draws)
	return draws
}

// percent is the percentage by which a is below b, negative where it is above; -100 where b is 0.
func percent(a, b float64) float64 {
	switch {
	case a == b:
		return 0
	case b == 0:
		return -100
	}
	return 100 * (1 - a/b)
}

// A measure is the quantity compared. On a fixed fleet it is the number of items that find no machine on
// arrival; of fill-ups only where the policy in force leaves some out.
type measure int

const (
	byCost measure = iota
	byLeftOut
)

func (m measure) of(l loss) float64 {
	return [...]float64{l.cost, l.refused}[m]
}
