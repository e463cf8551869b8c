package month

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/cerebro/stack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	product "github.com/sigma-scheduler/sigma/internal/month"
	"github.com/sigma-scheduler/sigma/lab/records"
)

const (
	hour = 3600.
	// faultAt is the time of day of a fault, faultDays are the days after it that are judged.
	faultAt, faultDays = 10 * hour, 3
	// surge is the load in multiples of the recorded one.
	surge = 3
)

// A fault happens at a time: nodes are lost, or the load differs from that of the days before.
type fault struct {
	text string
	lost func(at float64) []stack.Loss
	load func(t *trace.Trace, u *trace.Usage, at float64) (*trace.Trace, *trace.Usage)
}

var faults = []fault{
	{text: "none"},
	{text: "a tenth of the nodes, lost within an hour", lost: func(at float64) (list []stack.Loss) {
		for k := range 6 {
			list = append(list, stack.Loss{At: at + float64(k)*hour/6, Lost: func(node, _ int) bool { return node%60 == 10*k }})
		}
		return list
	}},
	{text: "a zone of three, for three hours", lost: func(at float64) []stack.Loss {
		return []stack.Loss{{At: at, Zone: "zone-1", Until: at + 3*hour}}
	}},
	{text: "three times the replicas for an hour", load: func(t *trace.Trace, u *trace.Usage, at float64) (*trace.Trace, *trace.Usage) {
		return replicas(t, u, at, at+hour)
	}},
	{text: "three times the cpu use for an hour", load: func(t *trace.Trace, u *trace.Usage, at float64) (*trace.Trace, *trace.Usage) {
		return t, use(u, at, at+hour)
	}},
}

// replicas multiplies the pods that live throughout a span. The new ones use as much as those that they are added to.
func replicas(t *trace.Trace, u *trace.Usage, from, until float64) (*trace.Trace, *trace.Usage) {
	left := make([]int32, len(t.Requests)) // items that live until the end
	for i, q := range t.Requests {
		left[i] = q.Count
	}
	for _, e := range t.Events {
		switch {
		case e.Kind == trace.Create && e.Time > from:
			left[e.Request] = 0
		case e.Kind == trace.Delete && e.Time <= until:
			left[e.Request] -= e.Count
		}
	}
	more, used := *t, &trace.Usage{Series: slices.Clone(u.Series)}
	more.Requests, more.Events = slices.Clone(t.Requests), slices.Clone(t.Events)
	copies := map[string]string{}
	for i, q := range t.Requests {
		if left[i] < 1 {
			continue
		}
		n, request := (surge-1)*left[i], int32(len(more.Requests))
		copies[q.Name] = q.Name + ",more"
		more.Requests = append(more.Requests, trace.Request{Name: copies[q.Name], App: q.App, Count: n})
		more.Events = append(more.Events, trace.Event{Time: from, Request: request, Count: n}, trace.Event{Time: until, Kind: trace.Delete, Request: request, Count: n})
	}
	slices.SortStableFunc(more.Events, func(a, b trace.Event) int { return cmp.Compare(a.Time, b.Time) })
	for _, s := range u.Series {
		if name, ok := copies[s.Item]; ok {
			first, last := steps(&s, from, until)
			s.Item, s.Start, s.Values = name, s.Start+float64(first)*s.Step, s.Values[first:last]
			used.Series = append(used.Series, s)
		}
	}
	return &more, used
}

// steps are the values of a series in a span.
func steps(s *trace.Series, from, until float64) (first, last int) {
	at := func(time float64) int {
		return max(0, min(len(s.Values), int(math.Round((time-s.Start)/s.Step))))
	}
	return at(from), at(until)
}

// use multiplies the cpu that all pods use in a span.
func use(u *trace.Usage, from, until float64) *trace.Usage {
	more := &trace.Usage{Series: slices.Clone(u.Series)}
	for i := range more.Series {
		s := &more.Series[i]
		if s.Dimension != 0 {
			continue
		}
		s.Values = slices.Clone(s.Values)
		first, last := steps(s, from, until)
		for k := range s.Values[first:last] {
			s.Values[first+k] *= surge
		}
	}
	return more
}

// underFaults simulates the stack that others are compared with and Sigma's under each fault.
func underFaults(ctx context.Context, cfg Config, p *records.Page) error {
	var stacks []product.Stack
	for _, s := range product.Stacks() {
		if slices.Contains([]string{"b", "e", "f"}, s.Name) {
			stacks = append(stacks, s)
		}
	}
	const at = history*day + faultAt
	results := make([][][]stack.Result, len(faults)) // by fault, stack and cluster
	for i := range 2 * cfg.Faults {
		fleet := []string{"one", "open"}[i%2]
		seed := cfg.First + uint64(i/2)
		t, err := generate.Generate("kubernetes", seed, map[string]string{"fleet": fleet, "usage": "1", "days": fmt.Sprint(history + faultDays + 1), "zones": "3"})
		if err != nil {
			return err
		}
		u, err := t.Usage()
		if err != nil {
			return err
		}
		for k, f := range faults {
			t, u := t, u
			var lost []stack.Loss
			if f.load != nil {
				t, u = f.load(t, u, at)
			}
			if f.lost != nil {
				lost = f.lost(at)
			}
			for j := range stacks {
				if err := ctx.Err(); err != nil {
					return err
				}
				r, err := stacks[j].Run(t, u, at, at+faultDays*day, lost...)
				if err != nil {
					return fmt.Errorf("seed %d, %s: %w", seed, f.text, err)
				}
				if results[k] == nil {
					results[k] = make([][]stack.Result, len(stacks))
				}
				results[k][j] = append(results[k][j], r)
				fmt.Fprintf(cfg.Log, "%s %d, %s, %s: cost %.0f, moved %d %v, killed %d, waited %.0f minutes, over %.5f, broken %.4f, left out %d\n",
					fleet, seed, f.text, stacks[j].Name, r.Cost, r.Moved(), r.Evicted, r.Killed, r.WaitMinutes, r.Over, r.Broken/r.AppMinutes, r.Unplaced)
			}
		}
	}
	table := records.Table{Heads: []string{"fault", "stack", "money against b, %", "waiting, minutes of 100 pods", "broken, %", "evictions", "over capacity, % of node-time", "killed of 10,000 pod-days"}, Right: []int{2, 3, 4, 5, 6, 7}}
	for k, f := range faults {
		for j, s := range stacks {
			table.Rows = append(table.Rows, faultRow(f.text, s.Name, results[k][j], results[k][0]))
		}
	}
	p.Heading("Faults")
	p.Text(fmt.Sprintf("Clusters of each kind with three zones: %d, from seed %d, for the %d days after a fault at 10 o'clock of a Thursday, when sizes know two weeks. Waiting is of all pods together, and evictions are of 100 pods a day, without those of lost nodes. "+
		"Under three times the replicas each pod that lives has two more beside it at once, as with an autoscaler that follows the load; under three times the use the pods stay, as with one at its largest number. In the lost zone no node is launched for three hours.",
		cfg.Faults, cfg.First, faultDays))
	p.Table(table)
	fmt.Fprintln(cfg.Log, table.Markdown())
	return nil
}

func faultRow(text, name string, results, against []stack.Result) []string {
	var money, moved, killed, waited, over, broken, podDays float64
	n := float64(len(results))
	for i, r := range results {
		money += 100 * (r.Cost/against[i].Cost - 1) / n
		moved += float64(r.Moved() - r.Evicted[stack.Lost])
		killed += float64(r.Killed)
		waited += r.WaitMinutes
		podDays += r.PodHours / 24
		over += 100 * r.Over / n
		broken += 100 * r.Broken / r.AppMinutes / n
	}
	return []string{
		text, name, fmt.Sprintf("%+.2f", money), fmt.Sprintf("%.1f", 100*faultDays*waited/podDays), fmt.Sprintf("%.4f", broken), fmt.Sprintf("%.1f", 100*moved/podDays), fmt.Sprintf("%.4f", over), fmt.Sprintf("%.2f", 1e4*killed/podDays),
	}
}
