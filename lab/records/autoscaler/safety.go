package autoscaler

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/lab/safety"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

const (
	safetyPage    = "results/mpa-safety.md"
	safetyCommand = "make mpa-safety"
	safetyAbout   = "Agents on generated scenarios of the test side, beside the rules, `hpa+vpa`: `learned` with the shipped policy, and others below. The first seeds are made\n" +
		"hostile. A run **breaks** the promise when more requests were late or lost than the percentile forgives. **Pods** is the largest number that\n" +
		"the agent asked for ÷ 1.6 × work ÷ size + 1, with the work of the highest rate. A run **swings** when replicas or cpu return four times in an hour to what\n" +
		"they were less than 10 minutes before, while the load moves by less than 30 %. Each run is journaled, and each decision **computed again** from its journal."
)

// Safety compares agents with the rules on cfg's number of generated test scenarios, of
// which the first are hostile: learned, learned that begins in OnlineTraining and, where it
// is the path of a file, a network within its band. It replaces the page, or prints it, and
// fails where [safety.Result.Breach] finds something, after the page is written.
func Safety(ctx context.Context, runs, hostile int, network string, cfg Config) error {
	if runs < 2 || hostile < 1 || hostile >= runs {
		return fmt.Errorf("%d runs, %d of them hostile: want some of both", runs, hostile)
	}
	names := []string{pair, "learned", "learned@" + string(mpa.OnlineTraining)}
	var files []string
	if network != "" {
		names, files = append(names, network+"@band"), []string{network}
	}
	list, err := scaling.Agents(names, "")
	if err != nil {
		return err
	}
	weights, err := scaling.Weights(files)
	if err != nil {
		return err
	}
	p := records.NewPage("The safety of the agent that learns")
	p.Text(safetyAbout)
	var breaches []string
	each := rightTable(append([]string{"agent"}, safetyHeads[1:]...))
	for i, a := range list[1:] {
		rows, err := safetyOf(ctx, []scaling.Agent{list[0], a}, weights, runs, hostile, cfg)
		if err != nil {
			return err
		}
		if i == 0 {
			table := rightTable(append([]string{"load"}, safetyHeads[1:]...))
			for _, r := range rows {
				table.Rows = append(table.Rows, safetyRow(r.Name, &r))
			}
			p.Text("`learned` in Serving, by loads:")
			p.Table(table)
		}
		name, total := "`"+a.Name+"`", &rows[len(rows)-1]
		if a.Band {
			name = "a network of `ddpg` within its band"
		}
		each.Rows = append(each.Rows, safetyRow(name, total))
		if breach := total.Breach(); breach != "" {
			breaches = append(breaches, fmt.Sprintf("%s: %s", name, breach))
		}
	}
	p.Text("All loads, by agents. OnlineTraining goes over into Serving where the figures allow it; OfflineTraining is the rules themselves:")
	p.Table(each)
	if breaches == nil {
		p.Text("Over all runs nothing was found that must not be: promises broken at most 1.1 × as often as by the rules, pods at most 1, no swing, all decisions computed again.")
	} else {
		p.Text("**Must not be**, over all runs: " + strings.Join(breaches, "; ") + ".")
	}
	p.Text(fmt.Sprintf("Seeds from %d, of which %d are hostile; policy `%s`. %.0f CPU-seconds, `%s`.", sim.FirstTestSeed, hostile, list[1].Policy.Digest, math.Ceil(cfg.Seconds()), safetyCommand))
	if cfg.Print != nil {
		_, err = io.WriteString(cfg.Print, p.String())
	} else {
		err = p.Save(filepath.Join(cfg.Docs, safetyPage))
	}
	if err == nil && breaches != nil {
		err = fmt.Errorf("%s: %s", safetyPage, strings.Join(breaches, "; "))
	}
	return err
}

// safetyOf returns figures by loads, and of all loads as the last.
func safetyOf(ctx context.Context, list []scaling.Agent, weights agents.Weights, runs, hostile int, cfg Config) ([]safety.Result, error) {
	var rows []safety.Result
	total := safety.Result{Name: "all"}
	for _, g := range []scaling.Generated{
		{Seed: sim.FirstTestSeed, Count: hostile, Hostile: true},
		{Seed: sim.FirstTestSeed + uint64(hostile), Count: runs - hostile},
	} {
		g.Side, g.Agents, g.Workers = "test", list, cfg.Workers
		if cfg.Data != "" {
			g.Traces = filepath.Join(cfg.Data, "workloads")
		}
		loads, err := safety.Compare(ctx, &g, weights)
		if err != nil {
			return nil, err
		}
		sum := safety.Result{Name: "all of these"}
		for i := range loads {
			sum.Add(&loads[i])
		}
		total.Add(&sum)
		rows = append(append(rows, loads...), sum)
	}
	return append(rows, total), nil
}

var safetyHeads = []string{"", "runs", "rules break", "agent breaks", "more kills in", "pods", "swing", "decisions", "computed again"}

func safetyRow(name string, r *safety.Result) []string {
	return []string{
		name, fmt.Sprint(r.Runs), fmt.Sprint(r.Rules), fmt.Sprint(r.Broke), fmt.Sprint(r.Kills), fmt.Sprintf("%.2f", r.Most),
		fmt.Sprint(r.Swinging), fmt.Sprint(r.Decisions), fmt.Sprint(r.Equal),
	}
}
