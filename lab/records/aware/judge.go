package aware

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// judge compares agents on the test side. Nothing in this file trains.
func (x *experiments) judge(ctx context.Context) error {
	paths, err := x.pooled.write(filepath.Join(x.cfg.Out, "aware"))
	if err != nil {
		return err
	}
	names := append([]string{rules, "learned"}, paths...)
	list, err := scaling.Agents(append(names, x.limits...), "")
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(a scaling.Agent) bool { return a.Name == paths[2] })
	list[at].Band = true
	g := scaling.Generated{Side: "test", Seed: sim.FirstTestSeed, Count: x.scenarios, Agents: list, Workers: x.cfg.Workers}
	x.test, err = g.Compare(ctx)
	return err
}

// judgePage shows what the agents are worth on the test side.
func (x *experiments) judgePage(p *records.Page) {
	p.Heading("On applications and loads of the test side")
	p.Text(fmt.Sprintf(`%d generated scenarios of 3 hours from seed %d. The networks were trained on the %d applications of the pool, %d episodes each, and do not learn any more. The last two rows are
limits: `+"`foresight`"+` is `+"`learned`"+` that is told the load to come and acts inside the guards; the oracle is bound by no guard, window or lag.`, x.scenarios, uint64(sim.FirstTestSeed), x.poolApps, x.poolEpisodes))
	t := records.Table{
		Heads: []string{"agent", "cost ÷ rules", "of sums", "worst", "late or lost ÷ forgiven", "cpu %", "memory %", "SLO kept", "kills"},
		Right: []int{1, 2, 3, 4, 5, 6, 7, 8},
	}
	names := []string{"rules (`" + rules + "`)", "`learned`", ways[0].name, ways[1].name, ways[2].name + ", in its band"}
	for _, name := range x.limits {
		names = append(names, "limit: `"+name+"`")
	}
	for i, f := range x.test.Agents {
		var used float64
		var all tally
		for _, run := range f.Runs {
			used += run.Used / float64(len(f.Runs))
			r := &run.Result
			all.core, all.busy = all.core+r.CoreHours, all.busy+r.CoreHours*r.CPUUtilisation
			all.gib, all.memory = all.gib+r.GiBHours, all.memory+r.GiBHours*r.MemUtilisation
		}
		t.Rows = append(t.Rows, []string{
			names[i], fmt.Sprintf("%.3f ± %.3f", f.Ratio, f.Half), fmt.Sprintf("%.3f", f.Sum), fmt.Sprintf("%.2f", f.Worst), fmt.Sprintf("%.3f", used),
			fmt.Sprintf("%.1f", all.cpu()), fmt.Sprintf("%.1f", all.mem()), fmt.Sprintf("%d of %d", f.Kept, len(f.Runs)), fmt.Sprint(f.Kills),
		})
	}
	p.Table(t)
}
