package aware

import (
	"context"
	"fmt"

	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

const (
	bootFirst = 620_000
	updatedBy = 1.4 // cpu of a request after the update
)

// tally sums runs of one agent over applications and episodes.
type tally struct {
	runs, kept, kills           int
	used, cost                  float64 // sums of shares
	core, busy, gib, memory     float64 // hours requested, and used
	requests, violations, rules int64
}

func (t *tally) add(a *application, r, rules *sim.Result) {
	t.runs++
	t.kills += r.Kills
	if a.kept(r) {
		t.kept++
	}
	t.used += a.used(r)
	t.cost += r.Cost() / rules.Cost()
	t.core, t.busy = t.core+r.CoreHours, t.busy+r.CoreHours*r.CPUUtilisation
	t.gib, t.memory = t.gib+r.GiBHours, t.memory+r.GiBHours*r.MemUtilisation
	t.requests, t.violations, t.rules = t.requests+r.Requests, t.violations+r.Violations, t.rules+rules.Violations
}

func (t *tally) merge(o tally) {
	t.runs, t.kept, t.kills = t.runs+o.runs, t.kept+o.kept, t.kills+o.kills
	t.used, t.cost = t.used+o.used, t.cost+o.cost
	t.core, t.busy, t.gib, t.memory = t.core+o.core, t.busy+o.busy, t.gib+o.gib, t.memory+o.memory
	t.requests, t.violations, t.rules = t.requests+o.requests, t.violations+o.violations, t.rules+o.rules
}

func (t *tally) cpu() float64 { return 100 * t.busy / t.core }
func (t *tally) mem() float64 { return 100 * t.memory / t.gib }

func (t *tally) meanUsed() float64 { return t.used / float64(t.runs) }

// tallyHeads are the columns of a tally's cells.
var tallyHeads = []string{"late or lost ÷ forgiven", "cost ÷ rules", "cpu %", "memory %", "SLO kept", "kills"}

func (t *tally) cells() []string {
	n := float64(t.runs)
	return []string{
		fmt.Sprintf("%.3f", t.used/n), fmt.Sprintf("%.2f", t.cost/n), fmt.Sprintf("%.1f", t.cpu()), fmt.Sprintf("%.1f", t.mem()),
		fmt.Sprintf("%d of %d", t.kept, t.runs), fmt.Sprint(t.kills),
	}
}

// A boot is what bootstrapping does on one application, and an update of it afterwards.
type boot struct {
	blocks [][]tally // [agent][block]: the ways, then learned, then the rules
	acting int       // first episode in which the bootstrapped student acted, −1 = none
	acted  int       // episodes
	// After the update: frozen and retrained of each way, learned, and the rules.
	before, frozen, retrained []tally
	others                    [2]tally
}

func (x *experiments) boot(ctx context.Context, a *application) (*boot, error) {
	b := &boot{acting: -1, blocks: make([][]tally, len(ways)+2)}
	for i := range b.blocks {
		b.blocks[i] = make([]tally, len(x.blocks()))
	}
	enter := func(agent int, runs []sim.Result) {
		for k := range runs {
			for j, span := range x.blocks() {
				if k >= span[0] && k < span[1] {
					b.blocks[agent][j].add(a, &runs[k], &a.rules[k])
				}
			}
		}
	}
	updated := &application{scenario: a.scenario, seed: a.seed, factor: updatedBy, hours: a.hours}
	for i, w := range ways {
		t, err := newTraining(w, a, a.seed)
		if err != nil {
			return nil, err
		}
		for k := range x.episodes {
			if err := t.next(ctx); err != nil {
				return nil, err
			}
			if t.way.bootstrap && t.acts {
				if b.acted++; b.acting < 0 {
					b.acting = k
				}
			}
			x.step()
		}
		enter(i, t.runs)
		if err := x.update(ctx, b, t, updated); err != nil {
			return nil, err
		}
	}
	runs := make([]sim.Result, x.episodes)
	for k := range runs {
		var err error
		if runs[k], err = a.run(ctx, k, x.learned(a)); err != nil {
			return nil, err
		}
	}
	enter(len(ways), runs)
	enter(len(ways)+1, a.rules[:x.episodes])
	for k := range x.served {
		k += x.episodes + x.retraining
		rules, err := updated.ruled(ctx, k)
		if err != nil {
			return nil, err
		}
		r, err := updated.run(ctx, k, x.learned(a))
		if err != nil {
			return nil, err
		}
		b.others[0].add(updated, &r, rules)
		b.others[1].add(updated, rules, rules)
	}
	return b, nil
}

// update changes the application and measures what was learned: frozen, and retrained.
func (x *experiments) update(ctx context.Context, b *boot, t *training, updated *application) error {
	serve := func(into *[]tally, app *application) error {
		var sum tally
		for k := range x.served {
			k += x.episodes + x.retraining
			rules, err := app.ruled(ctx, k)
			if err != nil {
				return err
			}
			r, err := app.run(ctx, k, t.agent())
			if err != nil {
				return err
			}
			sum.add(app, &r, rules)
		}
		*into = append(*into, sum)
		return nil
	}
	if err := serve(&b.before, t.app); err != nil {
		return err
	}
	if err := serve(&b.frozen, updated); err != nil {
		return err
	}
	t.app = updated
	if t.way.bootstrap {
		t.acts, t.since = false, len(t.runs)
	}
	for range x.retraining {
		if err := t.next(ctx); err != nil {
			return err
		}
	}
	return serve(&b.retrained, updated)
}

// lineOf is a line about all applications.
func lineOf(work, figure string, value float64, peers string, must, aim records.Target) records.Line {
	return records.Line{Work: work, Figure: figure, Value: value, Peers: peers, Must: must, Aim: aim, Format: "%.2f"}
}

// bootPage writes the answers to the third and the second question.
func (x *experiments) bootPage(p *records.Page) {
	names := make([]string, 0, len(ways)+2)
	for _, w := range ways {
		names = append(names, w.name)
	}
	names = append(names, "`learned`", "rules (`"+rules+"`)")
	first := make([]tally, len(names))
	early := records.Table{Heads: append([]string{"agent", "episodes"}, tallyHeads...), Right: []int{2, 3, 4, 5, 6, 7}}
	for i, name := range names {
		for j, span := range x.blocks() {
			var sum tally
			for _, b := range x.boots {
				sum.merge(b.blocks[i][j])
			}
			first[i].merge(sum)
			early.Rows = append(early.Rows, append([]string{name, fmt.Sprintf("%d–%d", span[0]+1, span[1])}, sum.cells()...))
		}
	}
	p.Heading("RQ3: what bootstrapping is worth")
	p.Text(fmt.Sprintf(`%d applications of the train side, %d episodes of %.1f hours each, each under a new wave of load. One update a step of 30 s.
All agents act inside the same guards. What counts is violating requests ÷ those that the promise forgives, as a mean over runs.`, x.bootApps, x.episodes, x.hours))
	p.Table(early)
	acted, acting := 0, ""
	for i, b := range x.boots {
		acted += b.acted
		if i > 0 {
			acting += ", "
		}
		if b.acting < 0 {
			acting += "never"
		} else {
			acting += fmt.Sprint(b.acting + 1)
		}
	}
	p.Text(fmt.Sprintf("The bootstrapped student acted in %d of %d episodes; by application first in episode %s. In the others the rules acted.", acted, x.bootApps*x.episodes, acting))
	table, work := records.LineTable(), fmt.Sprintf("first %d episodes", x.episodes)
	paper, promise, band, ruled := &first[0], &first[1], &first[2], &first[len(first)-1]
	for _, l := range []records.Line{
		lineOf(work, "violations of `ddpg` as in the paper ÷ bootstrapped", paper.meanUsed()/band.meanUsed(), "AWARE 16.9", records.AtLeast(17), records.AtLeast(50)),
		lineOf(work, "violations of `ddpg`, reward by promise ÷ bootstrapped", promise.meanUsed()/band.meanUsed(), "", records.Target{}, records.Target{}),
		lineOf(work, "violations bootstrapped ÷ rules", band.meanUsed()/ruled.meanUsed(), "", records.AtMost(1.1), records.AtMost(1)),
		lineOf(work, "cpu utilisation bootstrapped ÷ paper", band.cpu()/paper.cpu(), "AWARE 1.475", records.Target{}, records.Target{}),
		lineOf(work, "memory utilisation bootstrapped ÷ paper", band.mem()/paper.mem(), "AWARE 1.392 (slides 1.322)", records.Target{}, records.Target{}),
		lineOf(work, "violations of `ddpg` as in the paper ÷ rules", paper.meanUsed()/ruled.meanUsed(), "AWARE 56.1", records.Target{}, records.Target{}),
	} {
		table.Rows = append(table.Rows, l.Row())
	}
	p.Table(table)

	p.Heading("RQ2: what retraining is worth")
	p.Text(fmt.Sprintf(`After those episodes the application is updated: a request needs %.1f times the cpu. %d episodes that nobody was trained on; *frozen* is what was learned
before, *retrained* after %d more episodes of the updated one. `+"`learned`"+` and the rules are neither: they go by what they observe.`, updatedBy, x.served, x.retraining))
	after := records.Table{Heads: append([]string{"agent", "application"}, tallyHeads...), Right: []int{2, 3, 4, 5, 6, 7}}
	table = records.LineTable()
	for i, w := range ways {
		var was, frozen, again tally
		for _, b := range x.boots {
			was.merge(b.before[i])
			frozen.merge(b.frozen[i])
			again.merge(b.retrained[i])
		}
		after.Rows = append(after.Rows, append([]string{w.name, "as trained"}, was.cells()...),
			append([]string{w.name, "updated, frozen"}, frozen.cells()...), append([]string{w.name, "updated, retrained"}, again.cells()...))
		none := records.Target{}
		for _, l := range []records.Line{
			lineOf(w.name, "violations frozen ÷ retrained", frozen.meanUsed()/max(1e-9, again.meanUsed()), "AWARE 3.1", none, none),
			lineOf(w.name, "cpu utilisation retrained ÷ frozen", again.cpu()/frozen.cpu(), "AWARE 1.096", none, none),
			lineOf(w.name, "memory utilisation retrained ÷ frozen", again.mem()/frozen.mem(), "AWARE 1.148", none, none),
		} {
			table.Rows = append(table.Rows, l.Row())
		}
	}
	for i, name := range names[len(ways):] {
		var sum tally
		for _, b := range x.boots {
			sum.merge(b.others[i])
		}
		after.Rows = append(after.Rows, append([]string{name, "updated"}, sum.cells()...))
	}
	p.Table(after)
	p.Table(table)
}
