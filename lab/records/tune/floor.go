// Package tune measures `sigma tune` on kinds of clusters, two of which only the laboratory has.
package tune

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	product "github.com/sigma-scheduler/sigma/internal/tune"
	"github.com/sigma-scheduler/sigma/lab/records"
)

// A Config has the settings of [Floor].
type Config struct {
	Docs string // folder of documents; empty = the page is not written
	Log  io.Writer
	// Version is the program's, Seconds the CPU seconds of this process.
	Version string
	Seconds func() float64
	First   uint64 // seed
	// Clusters of each kind, of which the first Trained are also tuned with training.
	Clusters, Trained int
	// Limited gives shares of .5 to .9 of the Deployments one pod a node.
	Limited bool
}

const (
	day = 24 * 3600.
	// FloorPage is below the folder of documents.
	FloorPage = "results/tune-floor.md"
	// LimitedPage has clusters where most Deployments have one pod a node.
	LimitedPage = "results/tune-floor-limited.md"
	installed   = "learned"
)

// shares are those of the Deployments that have one pod a node, cluster by cluster.
var shares = []string{".5", ".6", ".7", ".8", ".9"}

// freeRules are compared in hindsight.
var freeRules = []string{"bestfit", "mostallocated", "worstfit", "firstfit", "dotproduct"}

// A row has the second days of some clusters under the advice of one way to tune, in percent of others.
type row struct {
	inForce, bestFit, free []float64
	changed                int
	seconds                float64
}

// Floor measures the advice of `sigma tune` on day two, against the policy in force and the best free
// rule in hindsight.
func Floor(ctx context.Context, cfg Config) error {
	table := records.Table{Right: []int{3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, Heads: []string{"nodes", "record", "training", "clusters", "advice to change", "against the policy in force, %", "worse by > 1 %", "worst, %", "against Best-Fit, %", "against the best free rule, %", "> 1 % behind it", "worst, %", "CPU-seconds a cluster"}}
	var list []string
	ways := []struct {
		record   string
		seeds, n int
	}{{"none", 0, cfg.Clusters}, {"one day", 0, cfg.Clusters}, {"a snapshot", 0, cfg.Clusters}, {"one day", product.DefaultSeeds, cfg.Trained}, {"a snapshot", product.DefaultSeeds, cfg.Trained}}
	for _, fleet := range []string{"one", "open"} {
		rows := make([]row, len(ways))
		for i := range cfg.Clusters {
			seed := cfg.First + uint64(i)
			sets := map[string]string{"fleet": fleet}
			if cfg.Limited {
				sets["limited"] = shares[i%len(shares)]
			}
			t, err := generate.Generate("kubernetes", seed, sets)
			if err != nil {
				return err
			}
			present, err := secondDay(t, policy.Shipped(), "")
			if err != nil {
				return err
			}
			best, bestFit := math.Inf(1), 0.
			for k, name := range freeRules {
				cost, err := secondDay(t, nil, name)
				if err != nil {
					return err
				}
				if best = min(best, cost); k == 0 {
					bestFit = cost
				}
			}
			for w, way := range ways {
				r := &rows[w]
				if i >= way.n {
					continue
				}
				if way.record == "none" {
					r.add(present, present, bestFit, best)
					continue
				}
				before := cfg.Seconds()
				out, err := product.Run(ctx, product.Config{
					Traces: []*trace.Trace{recorded(t, way.record)}, Target: product.Live, InForce: installed, Catalog: compare.Catalog{Shipped: policies.Files},
					Evaluations: product.DefaultEvaluations, Seeds: way.seeds, Seed: 1, Workers: 1, Name: "tuned",
				})
				if err != nil {
					return err
				}
				r.seconds += cfg.Seconds() - before
				cost := present
				if out.Better {
					r.changed++
					if cost, err = secondDay(t, out.Object, out.Chosen); err != nil {
						return err
					}
				}
				r.add(cost, present, bestFit, best)
				if out.Better {
					list = append(list, fmt.Sprintf("%s %d, %s, %d trainings: day two %+.2f %%; %s", fleet, seed, way.record, way.seeds, 100*(cost/present-1), out.Sentence()))
				}
				fmt.Fprintf(cfg.Log, "%s %d %s, %d trainings: day two %+.2f %%; %s\n", fleet, seed, way.record, way.seeds, 100*(cost/present-1), out.Sentence())
			}
		}
		for w, way := range ways {
			if len(rows[w].inForce) > 0 {
				table.Rows = append(table.Rows, rows[w].cells(fleet, way.record, way.seeds))
			}
		}
	}
	fmt.Fprintln(cfg.Log, table.Markdown())
	if cfg.Docs == "" {
		return nil
	}
	title, kind, page, flag := "The advice of tune on the second day", "kubernetes", FloorPage, ""
	if cfg.Limited {
		title += " where most Deployments have one pod a node"
		kind, page, flag = "kubernetes --set limited="+strings.Join(shares, "|"), LimitedPage, " --limited"
	}
	p := records.NewPage(title)
	p.Text(fmt.Sprintf("Clusters of `sigma generate %s`, two days, seeds from %d, which nothing was developed on; pods one by one. `sigma tune` has the first day\n"+
		"(`--until 24h`), or the living pods at its end as a snapshot; without a record the installed policy stays. Its advice, or the installed policy where the verdict is to keep it,\n"+
		"replays both days, and the second counts. The best free rule is the best of %v in hindsight. ± is a standard error; training is by the defaults.", kind, cfg.First, freeRules))
	p.Table(table)
	p.Heading("Advice to change")
	p.List(list)
	p.Commands(cfg.Seconds(), "sigma-lab records tune-floor", cfg.Version, []string{fmt.Sprintf("bin/sigma-lab records tune-floor --first %d --clusters %d --trained %d%s", cfg.First, cfg.Clusters, cfg.Trained, flag)})
	return p.Save(filepath.Join(cfg.Docs, page))
}

func (r *row) add(cost, present, bestFit, best float64) {
	r.inForce, r.bestFit, r.free = append(r.inForce, 100*(cost/present-1)), append(r.bestFit, 100*(cost/bestFit-1)), append(r.free, 100*(cost/best-1))
}

// recorded is the first day of a trace, or the items that live at its end as a snapshot.
func recorded(t *trace.Trace, record string) *trace.Trace {
	start := t.Events[0].Time
	if record == "one day" {
		return t.Window(start, start+day, nil)
	}
	now := t.Window(start+day, start+day, nil)
	now.Initial, now.Events = len(now.Requests), nil
	return now
}

// secondDay is the cost of the second day under a policy, of an object or by the name of a rule.
func secondDay(t *trace.Trace, o *policy.Object, name string) (float64, error) {
	p, err := func() (binpack.Policy, error) {
		if o != nil {
			return o.Policy()
		}
		return rule.ByName(name, rule.Options{Seed: 1, TiesByPosition: true})
	}()
	if err != nil {
		return 0, err
	}
	w := *t
	w.MeasureFrom = t.Events[0].Time + day
	run, err := cerebro.NewReplayer(&w).Run(p, cerebro.Options{Retry: true, Brief: true, Fallback: rule.Fallback{}})
	return run.CostSeconds, err
}

func (r *row) cells(fleet, record string, seeds int) []string {
	sizes, training := "one size", "no"
	if fleet == "open" {
		sizes = "several sizes"
	}
	if seeds > 0 {
		training = "yes"
	}
	n := len(r.inForce)
	return []string{
		sizes, record, training, fmt.Sprint(n), fmt.Sprint(r.changed), spread(r.inForce), fmt.Sprint(above(r.inForce)), fmt.Sprintf("%+.2f", slices.Max(r.inForce)),
		spread(r.bestFit), spread(r.free), fmt.Sprint(above(r.free)), fmt.Sprintf("%+.2f", slices.Max(r.free)), fmt.Sprintf("%.1f", r.seconds/float64(n)),
	}
}

// spread is a mean with its standard error.
func spread(values []float64) string {
	mean, square := 0., 0.
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	n := float64(len(values))
	return fmt.Sprintf("%+.2f ± %.2f", mean, math.Sqrt(square/(n*max(1, n-1))))
}

// above counts those above 1 %.
func above(values []float64) (n int) {
	for _, v := range values {
		if v > 1 {
			n++
		}
	}
	return n
}
