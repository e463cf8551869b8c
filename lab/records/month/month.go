// Package month measures whole stacks on clusters that no policy was trained on.
package month

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/cerebro/stack"
	product "github.com/sigma-scheduler/sigma/internal/month"
	"github.com/sigma-scheduler/sigma/lab/records"
)

// Page is below the folder of documents.
const Page = "results/month.md"

// A Config has the settings of [Run].
type Config struct {
	Docs string // folder of documents; empty = the page is not written
	Log  io.Writer
	// Version is the program's, Seconds the CPU seconds of this process.
	Version string
	Seconds func() float64
	First   uint64 // seed
	// Clusters of one node size and as many of several, and the Days that are judged.
	Clusters, Days int
	Faults         int // clusters of each kind under faults; 0 = none
}

const (
	day     = 86400.
	history = 14 // days of use before the time that is judged
)

// percentiles are targets of VPA for a comparison at equal risk.
var percentiles = []float64{.95, .98}

// Run simulates all stacks on each cluster.
func Run(ctx context.Context, cfg Config) error {
	p := records.NewPage("A month under whole stacks")
	p.Text(fmt.Sprintf("%d days of %d clusters of each kind of `sigma generate kubernetes --set usage=1`, seeds from %d, under the programs that people run beside each other, simulated by `cerebro/stack`. "+
		"%d days of use come before, so that sizes have a history; the cluster begins a week before, so that VPA has one. Replicas are those of the trace in every stack, as a HorizontalPodAutoscaler with amounts has them. "+
		"A node costs its cores from launch to removal, and boots for %g seconds. Evictions are of 100 pods a day, moves among them; waiting is of all pod-time; broken is the share of workload-time in which less than 95 %% of the cpu in use was served. A pod's memory limit is its request at first; VPA scales it, and sees a sample each five minutes. ± is a standard error over clusters.",
		cfg.Days, cfg.Clusters, cfg.First, history, product.Boot))
	stacks := append(product.Stacks(), product.Calm(15))
	for _, q := range percentiles {
		stacks = append(stacks, product.VPAAt(q))
	}
	var list []string
	for _, s := range stacks {
		list = append(list, fmt.Sprintf("**%s**: %s", s.Name, s.Text))
	}
	p.List(list)
	for _, kind := range []struct{ fleet, title string }{{"one", "One node size"}, {"open", "Several node sizes"}} {
		if cfg.Clusters == 0 {
			break
		}
		results := make([][]stack.Result, len(stacks)) // by stack and cluster
		for i := range cfg.Clusters {
			seed := cfg.First + uint64(i)
			t, err := generate.Generate("kubernetes", seed, map[string]string{"fleet": kind.fleet, "usage": "1", "days": fmt.Sprint(history + cfg.Days)})
			if err != nil {
				return err
			}
			use, err := t.Usage()
			if err != nil {
				return err
			}
			for k := range stacks {
				if err := ctx.Err(); err != nil {
					return err
				}
				before := cfg.Seconds()
				r, err := stacks[k].Run(t, use, history*day, float64(history+cfg.Days)*day)
				if err != nil {
					return fmt.Errorf("seed %d: %w", seed, err)
				}
				results[k] = append(results[k], r)
				fmt.Fprintf(cfg.Log, "%s %d, %s: cost %.0f, %.1f nodes, moved %d %v, killed %d, waited %.0f minutes, over %.5f, broken %.4f, left out %d, %.1f CPU-seconds\n", kind.fleet, seed, stacks[k].Name,
					r.Cost, r.NodeHours/24/float64(cfg.Days), r.Moved(), r.Evicted, r.Killed, r.WaitMinutes, r.Over, r.Broken/r.AppMinutes, r.Unplaced, cfg.Seconds()-before)
			}
		}
		table := records.Table{Heads: []string{"stack", "money against b, %", "worst, %", "evictions", "killed of 10,000 pod-days", "waiting, %", "over capacity, % of node-time", "broken, %"}, Right: []int{1, 2, 3, 4, 5, 6, 7}}
		for k, s := range stacks {
			table.Rows = append(table.Rows, row(s.Name, results[k], results[1]))
		}
		p.Heading(kind.title)
		p.Table(table)
		fmt.Fprintln(cfg.Log, table.Markdown())
	}
	if cfg.Faults > 0 {
		if err := underFaults(ctx, cfg, p); err != nil {
			return err
		}
	}
	if cfg.Docs == "" {
		return nil
	}
	p.Commands(cfg.Seconds(), "sigma-lab records month", cfg.Version, []string{fmt.Sprintf("bin/sigma-lab records month --first %d --clusters %d --days %d --faults %d", cfg.First, cfg.Clusters, cfg.Days, cfg.Faults)})
	return p.Save(filepath.Join(cfg.Docs, Page))
}

// row sums up a stack beside the one that others are compared with.
func row(name string, results, against []stack.Result) []string {
	var money []float64
	var moved, killed, waited, over, broken, podDays float64
	for i, r := range results {
		money = append(money, 100*(r.Cost/against[i].Cost-1))
		moved += float64(r.Moved())
		killed += float64(r.Killed)
		waited += r.WaitMinutes
		podDays += r.PodHours / 24
		over += 100 * r.Over / float64(len(results))
		broken += 100 * r.Broken / r.AppMinutes / float64(len(results))
	}
	mean, deviation := stat.MeanStdDev(money, nil)
	return []string{
		name, fmt.Sprintf("%+.2f ± %.2f", mean, stat.StdErr(deviation, float64(len(money)))), fmt.Sprintf("%+.2f", slices.Max(money)), fmt.Sprintf("%.1f", 100*moved/podDays),
		fmt.Sprintf("%.2f", 1e4*killed/podDays), fmt.Sprintf("%.4f", 100*waited/(24*60)/podDays), fmt.Sprintf("%.4f", over), fmt.Sprintf("%.4f", broken),
	}
}
