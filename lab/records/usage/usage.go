package usage

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	product "github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/lab/records"
)

// Config of a record.
type Config struct {
	Docs, Out string
	Runner    records.Runner
	Seconds   func() float64 // CPU seconds of this process
}

const (
	pageFile       = "results/usage.md"
	maker          = "make usage-records"
	staticOrders   = 40
	judgedOrders   = 160 // of the row whose must is smaller than what 40 orders resolve
	rollingOrders  = 6
	clusters       = 20
	firstSeed      = 910_000
	fitDays, spare = 14, 14 // of a generated cluster: days fitted, days judged
)

type record struct {
	Config
	ctx   context.Context
	lines records.Table
	risk  records.Table
	// fitted and judged are the last two of the set's months, between which the mean use changes by a number of %.
	fitted, judged time.Time
	ofSet          int
	change         float64
	also           []string
	// replays is their number, all of them checked; unplaced are the items that no node took, by replay and app.
	replays  int
	unplaced []string
}

// noted counts the replays of a row, and the items that they did not place.
func (r *record) noted(row string, list ...figures) {
	for _, f := range list {
		r.replays += f.orders
		for _, app := range slices.Sorted(maps.Keys(f.unplaced)) {
			r.unplaced = append(r.unplaced, fmt.Sprintf("%d of %s (%s)", f.unplaced[app], app, row))
		}
	}
}

// Run measures and writes the page.
func Run(ctx context.Context, cfg Config) error {
	began := cfg.Seconds()
	r := &record{Config: cfg, ctx: ctx, lines: records.LineTable()}
	r.risk = records.Table{
		Heads: []string{"nodes of 104 GHz, each VM counted at", "nodes", "cpu over, % of node-time", "± (95 %)", "in the worst order", "largest use ÷ capacity", "orders"},
		Right: []int{1, 2, 3, 4, 5, 6},
	}
	version, err := r.Runner.Version(ctx)
	if err != nil {
		return fmt.Errorf("%w: make build makes it", err)
	}
	steps := []func() error{
		func() error { return r.months(104, targets{42, 36, .02, .005, .01, .003}) },
		func() error { return r.months(42, targets{50, 46, 0, 0, .05, .02}) },
		r.planetlab,
		func() error { return r.generated("1", records.AtMost(.02), records.AtMost(.005)) },
		func() error { return r.generated("hot", records.AtMost(.05), records.AtMost(.01)) },
	}
	if r.Runner.Data == "" {
		steps = steps[3:]
		r.also = append(r.also, "The rows of public sets are left out: SIGMA_DATA is not set.")
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return r.page(version, cfg.Seconds()-began+r.Runner.Seconds())
}

// targets are of nodes in % of those by request, of over static and of over nightly.
type targets struct{ nodesMust, nodesAim, staticMust, staticAim, nightlyMust, nightlyAim float64 }

func (r *record) convert(name, format, flag string, node int) (*trace.Trace, error) {
	dir := filepath.Join(r.Out, "usage", name)
	_, _, err := r.Runner.Run(r.ctx, records.Command{Program: "bin/sigma-lab", Args: []string{
		"convert", format, filepath.Join(r.Runner.Data, "usage"), flag, fmt.Sprint(node), "--out", dir,
	}})
	if err != nil {
		return nil, err
	}
	return trace.Load(dir)
}

func (r *record) add(l records.Line) {
	r.lines.Rows = append(r.lines.Rows, l.Row())
	fmt.Fprintln(r.Runner.Log, "  ", records.RowText(l.Row()))
}

// lastMonths finds the last month of a converted set and the one before it, which has to be there.
func (r *record) lastMonths(t *trace.Trace, u *trace.Usage) error {
	files, _ := t.Source["files"].(map[string]any)
	months := map[time.Time]bool{}
	for name := range files {
		var year, month int
		if n, _ := fmt.Sscanf(name, "gwa_t12_rnd_cpu_%d-%d.csv", &year, &month); n == 2 {
			one := time.Date(year, time.Month(month), 1, 0, 0, 0, 0, time.UTC)
			if months[one] = true; one.After(r.judged) {
				r.judged = one
			}
		}
	}
	if r.fitted = r.judged.AddDate(0, -1, 0); !months[r.fitted] {
		return fmt.Errorf("GWA-T-12: no cpu file has %s, which is fitted: the last month, %s, is judged", r.fitted.Format(monthForm), r.judged.Format(monthForm))
	}
	r.ofSet = len(months)
	r.change = 100 * (meanUse(u, r.judged)/meanUse(u, r.fitted) - 1)
	return nil
}

const monthForm = "2006-01"

// meanUse is the sum of the mean use of cpu of each VM in a month.
func meanUse(u *trace.Usage, month time.Time) (sum float64) {
	from, until := float64(month.Unix()), float64(month.AddDate(0, 1, 0).Unix())
	for i := range u.Series {
		s := &u.Series[i]
		if s.Dimension != 0 {
			continue
		}
		used, n := 0., 0.
		for k, v := range s.Values {
			if at := s.Start + float64(k)*s.Step; at >= from && at < until && v == v {
				used, n = used+float64(v), n+1
			}
		}
		sum += used / max(1, n)
	}
	return sum
}

// month is the last month of the set, on nodes of so many GHz.
func (r *record) month(node int) (*set, error) {
	t, err := r.convert(fmt.Sprintf("gwa-%d", node), "gwa-t-12", "--node-ghz", node)
	if err != nil {
		return nil, err
	}
	u, err := t.Usage()
	if err != nil {
		return nil, err
	}
	if err := r.lastMonths(t, u); err != nil {
		return nil, err
	}
	next := float64(r.judged.AddDate(0, 1, 0).Unix())
	s, err := newSet(t, float64(r.judged.Unix()), next-day, product.LeastDays)
	if err != nil {
		return nil, err
	}
	s.from, s.end = float64(r.fitted.Unix()), next-7200 // the file of a month ends at 22:00 UTC
	return s, nil
}

// months fits the month before the last, and judges the last.
func (r *record) months(node int, want targets) error {
	s, err := r.month(node)
	if err != nil {
		return err
	}
	base, err := s.byRequest()
	if err != nil {
		return err
	}
	orders := staticOrders
	if node == 104 {
		orders = judgedOrders
	}
	requests, err := s.replay(base, staticOrders, nil)
	if err != nil {
		return err
	}
	w, err := s.bySize()
	if err != nil {
		return err
	}
	static, err := s.replay(w, orders, nil)
	if err != nil {
		return err
	}
	sizes, err := s.sizes()
	if err != nil {
		return err
	}
	rolling, err := s.replay(base, rollingOrders, sizes)
	if err != nil {
		return err
	}
	work := r.work(node)
	r.noted(work, requests, static, rolling)
	once := fmt.Sprintf("%s, static, %d orders", work, orders)
	by := fmt.Sprintf("± %.4f; by request, %d orders, %.2f nodes, over %.4f ± %.4f", half(static.overs), requests.orders, requests.most, requests.over, half(requests.overs))
	r.add(records.Line{
		Work: once, Figure: nodesFigure, Value: 100 * static.most / requests.most, Format: "%.1f",
		Peers: fmt.Sprintf("%.2f of %.2f nodes", static.most, requests.most),
		Must:  records.AtMost(want.nodesMust), Aim: records.AtMost(want.nodesAim),
	})
	over := records.Line{
		Work: once, Figure: overFigure, Value: static.over, Format: "%.4f",
		Peers: fmt.Sprintf("%s; worst order %.4f, worst node %.2f", by, static.overMost, static.worst),
	}
	if want.staticMust > 0 {
		over.Must, over.Aim = records.AtMost(want.staticMust), records.AtMost(want.staticAim)
	}
	r.add(over)
	r.add(records.Line{
		Work: work + nightlyRow, Figure: nodesFigure, Value: 100 * rolling.nodes / requests.nodes, Format: "%.1f",
		Peers: fmt.Sprintf("mean %.2f, at most %.0f nodes", rolling.nodes, rolling.mostOfAllOrders),
	})
	r.add(records.Line{
		Work: work + nightlyRow, Figure: overFigure, Value: rolling.over, Format: "%.4f",
		Peers: fmt.Sprintf("± %.4f; worst order %.4f, worst node %.2f; %.2f %% of the VMs moved a day, at most %.2f; %.1f at once", half(rolling.overs), rolling.overMost, rolling.worst, rolling.moves, rolling.mostMoved, rolling.atOnce),
		Must:  records.AtMost(want.nightlyMust), Aim: records.AtMost(want.nightlyAim),
	})
	r.add(records.Line{
		Work: work, Figure: "memory over, % of node-time", Value: max(static.memory, rolling.memory), Format: "%.4f",
		Peers: "active memory, less than resident", Must: records.AtMost(0), Aim: records.AtMost(0),
	})
	if node != 104 {
		return nil
	}
	return r.estimates(s, static, rolling)
}

// estimates fills the table of the risk of other sizes on the same nodes.
func (r *record) estimates(s *set, static, rolling figures) error {
	row := func(name string, f figures) {
		r.risk.Rows = append(r.risk.Rows, []string{name, fmt.Sprintf("%.1f", f.most), fmt.Sprintf("%.4f", f.over), fmt.Sprintf("%.4f", half(f.overs)), fmt.Sprintf("%.4f", f.overMost), fmt.Sprintf("%.2f", f.worst), fmt.Sprint(f.orders)})
	}
	share := func(by float64) func() (*trace.Trace, error) {
		return func() (*trace.Trace, error) {
			return s.changed(func(_ int, v int64) int64 { return int64(float64(v) / by) })
		}
	}
	quantile := func(q, margin float64) func() (*trace.Trace, error) {
		return func() (*trace.Trace, error) { return s.quantile(q, margin) }
	}
	fitted := r.fitted.Month().String()
	for _, one := range []struct {
		name string
		make func() (*trace.Trace, error)
	}{
		{"its request", share(1)},
		{"request ÷ 1.5", share(1.5)},
		{"request ÷ 2", share(2)},
		{"p90 of " + fitted + " × 1.1", quantile(.9, 1.1)},
		{"p95 of " + fitted + " × 1.1", quantile(.95, 1.1)},
		{"p99 of " + fitted, quantile(.99, 1)},
		{"p99.9 of " + fitted, quantile(.999, 1)},
	} {
		w, err := one.make()
		if err != nil {
			return err
		}
		f, err := s.replay(w, staticOrders, nil)
		if err != nil {
			return err
		}
		r.noted("104 GHz, "+one.name, f)
		row(one.name, f)
	}
	row("**its effective size**", static)
	row("**the same, nightly, up to 1 % moved a day**", rolling)
	return nil
}

func (r *record) planetlab() error {
	t, err := r.convert("planetlab", "planetlab", "--node-cores", 8)
	if err != nil {
		return err
	}
	const fit, least = 5, 2
	u, err := t.Usage()
	if err != nil {
		return err
	}
	_, until := u.Span()
	s, err := newSet(t, fit*day, until, least)
	if err != nil {
		return err
	}
	base, err := s.byRequest()
	if err != nil {
		return err
	}
	requests, err := s.replay(base, staticOrders, nil)
	if err != nil {
		return err
	}
	w, err := s.bySize()
	if err != nil {
		return err
	}
	static, err := s.replay(w, staticOrders, nil)
	if err != nil {
		return err
	}
	work := "PlanetLab, 8 cores, static, 40 orders"
	r.noted("PlanetLab", requests, static)
	r.add(records.Line{
		Work: work, Figure: nodesFigure, Value: 100 * static.most / requests.most, Format: "%.1f",
		Peers: fmt.Sprintf("%.2f of %.2f nodes", static.most, requests.most), Must: records.AtMost(50), Aim: records.AtMost(35),
	})
	r.add(records.Line{
		Work: work, Figure: overFigure, Value: static.over, Format: "%.4f",
		Peers: fmt.Sprintf("± %.4f; by request %.4f; worst order %.4f", half(static.overs), requests.over, static.overMost), Must: records.AtMost(.02), Aim: records.AtMost(.005),
	})
	return nil
}

// generated judges unseen clusters with nights, beside the sizes of the judged days.
func (r *record) generated(kind string, must, aim records.Target) error {
	var list [clusters]cluster
	group, ctx := errgroup.WithContext(r.ctx)
	group.SetLimit(runtime.NumCPU())
	for i := range list {
		group.Go(func() (err error) {
			if err = ctx.Err(); err == nil {
				list[i], err = judged(kind, firstSeed+uint64(i))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	ratio, mostRatio, over, memory, static, worst := 0., 0., 0., 0., 0., 0.
	var overs []float64
	for i, c := range list {
		fmt.Fprintf(r.Runner.Log, "   usage=%s, seed %d: nodes %.2f, in hindsight %.2f; over %.4f %%\n", kind, firstSeed+i, c.rolling.nodes, c.ideal.nodes, c.rolling.over)
		if kind == "1" {
			one := c.rolling.nodes / c.ideal.nodes
			ratio, mostRatio = ratio+one/clusters, max(mostRatio, one)
		}
		r.noted(fmt.Sprintf("usage=%s, seed %d", kind, firstSeed+i), c.rolling, c.static, c.ideal)
		over, memory, static = over+c.rolling.over/clusters, memory+c.rolling.memory/clusters, static+c.static.over/clusters
		worst, overs = max(worst, c.rolling.over), append(overs, c.rolling.over)
	}
	work := generatedWork(kind)
	if kind == "1" {
		r.add(records.Line{
			Work: work, Figure: idealFigure, Value: ratio, Format: "%.3f",
			Peers: fmt.Sprintf("at most %.3f", mostRatio),
			Must:  records.AtMost(1.12), Aim: records.AtMost(1.05),
		})
	}
	r.add(records.Line{
		Work: work, Figure: overFigure, Value: over, Format: "%.4f",
		Peers: fmt.Sprintf("± %.4f; worst cluster %.4f; static %.4f", half(overs), worst, static), Must: must, Aim: aim,
	})
	r.add(records.Line{Work: work, Figure: "memory over, % of node-time", Value: memory, Format: "%.4f", Must: records.AtMost(0), Aim: records.AtMost(0)})
	return nil
}

// A cluster is a generated one: with nights, placed once, and in hindsight, of usage=1 alone.
type cluster struct{ rolling, static, ideal figures }

func judged(kind string, seed uint64) (c cluster, err error) {
	t, err := generate.Generate("kubernetes", seed, map[string]string{"usage": kind, "days": fmt.Sprint(fitDays + spare)})
	if err != nil {
		return c, err
	}
	s, err := newSet(t, fitDays*day, (fitDays+spare)*day, product.LeastDays)
	if err != nil {
		return c, err
	}
	sizes, err := s.sizes()
	if err != nil {
		return c, err
	}
	base, err := s.byRequest()
	if err != nil {
		return c, err
	}
	if c.rolling, err = s.replay(base, 1, sizes); err != nil {
		return c, err
	}
	w, err := s.bySize()
	if err != nil {
		return c, err
	}
	if c.static, err = s.replay(w, 1, nil); err != nil || kind != "1" {
		return c, err
	}
	if w, err = s.hindsight(); err != nil {
		return c, err
	}
	c.ideal, err = s.replay(w, 1, nil)
	return c, err
}
