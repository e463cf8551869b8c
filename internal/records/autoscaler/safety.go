package autoscaler

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/sigma-scheduler/sigma/internal/records"
	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

const (
	safetyPage    = "results/mpa-safety.md"
	safetyCommand = "make mpa-safety"
	safetyAbout   = "The agent `learned` with the shipped policy, on generated scenarios of the test side, beside the rules, `hpa+vpa`. The first seeds are made\n" +
		"hostile. A run **breaks** the promise when more requests were late or lost than the percentile forgives. **Pods** is the largest number that\n" +
		"`learned` asked for ÷ 1.6 × work ÷ size + 1, with the work of the highest rate. A run **swings** when replicas or cpu return four times in an hour to what\n" +
		"they were less than 10 minutes before, while the load moves by less than 30 %. Each run is journaled, and each decision **computed again** from its journal."
)

// Safety compares the agent learned with the rules on cfg's number of generated test
// scenarios, of which the first are hostile, and replaces the page, or prints it. It fails
// where [scaling.Safety.Breach] finds something, after the page is written.
func Safety(ctx context.Context, runs, hostile int, cfg Config) error {
	if runs < 2 || hostile < 1 || hostile >= runs {
		return fmt.Errorf("%d runs, %d of them hostile: want some of both", runs, hostile)
	}
	list, err := scaling.Agents([]string{pair, "learned"}, "")
	if err != nil {
		return err
	}
	weights, err := scaling.Weights(nil)
	if err != nil {
		return err
	}
	var rows []scaling.Safety
	total := scaling.Safety{Name: "all"}
	for _, g := range []scaling.Generated{
		{Seed: sim.FirstTestSeed, Count: hostile, Hostile: true},
		{Seed: sim.FirstTestSeed + uint64(hostile), Count: runs - hostile},
	} {
		g.Side, g.Agents, g.Workers = "test", list, cfg.Workers
		if cfg.Data != "" {
			g.Traces = filepath.Join(cfg.Data, "workloads")
		}
		list, err := g.Safety(ctx, weights)
		if err != nil {
			return err
		}
		sum := scaling.Safety{Name: "all of these"}
		for i := range list {
			sum.Add(&list[i])
		}
		total.Add(&sum)
		rows = append(append(rows, list...), sum)
	}
	rows = append(rows, total)
	heads := []string{"load", "runs", "rules break", "learned breaks", "more kills in", "pods", "swing", "decisions", "computed again"}
	cells := make([][]string, 0, len(rows))
	for _, r := range rows {
		cells = append(cells, []string{
			r.Name, fmt.Sprint(r.Runs), fmt.Sprint(r.Rules), fmt.Sprint(r.Broke), fmt.Sprint(r.Kills), fmt.Sprintf("%.2f", r.Most),
			fmt.Sprint(r.Swinging), fmt.Sprint(r.Decisions), fmt.Sprint(r.Equal),
		})
	}
	p := records.NewPage("The safety of the agent that learns")
	p.Text(safetyAbout)
	table := rightTable(heads)
	table.Rows = cells
	p.Table(table)
	breach := total.Breach()
	if breach == "" {
		p.Text("Over all runs nothing was found that must not be: promises broken at most 1.1 × as often as by the rules, pods at most 1, no swing, all decisions computed again.")
	} else {
		p.Text("**Must not be**, over all runs: " + breach + ".")
	}
	p.Text(fmt.Sprintf("Seeds from %d, of which %d are hostile; policy `%s`. %.0f CPU-seconds, `%s`.", sim.FirstTestSeed, hostile, list[1].Policy.Digest, math.Ceil(cfg.Seconds()), safetyCommand))
	if cfg.Print != nil {
		_, err = io.WriteString(cfg.Print, p.String())
	} else {
		err = p.Save(filepath.Join(cfg.Docs, safetyPage))
	}
	if err == nil && breach != "" {
		err = fmt.Errorf("%s: %s", safetyPage, breach)
	}
	return err
}
