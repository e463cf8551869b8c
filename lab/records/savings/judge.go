package savings

import (
	"context"
	"encoding/csv"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	bills "github.com/sigma-scheduler/sigma/internal/savings"
	"github.com/sigma-scheduler/sigma/lab/clusters"
)

const monthHours = 730

// A judge checks the figures of one dump.
type judge struct {
	*shell
	cfg    *Config
	style  clusters.Style
	broken map[string]verdict // by trace, before anything is placed
	wrong  []string
	moves  int     // that were checked
	orders int     // replays
	always float64 // the cost a month of nodes that no step removes and that hold nothing of the trace
	plans  int     // files of placements that the checker accepted
}

func (j *judge) path(name string) string { return filepath.Join(j.dir, name) }

func (j *judge) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintln(j.log, "   WRONG:", text)
	j.wrong = append(j.wrong, text)
}

func (j *judge) faults(where string, list []string) {
	for i, text := range list {
		if i == 3 {
			j.fault("%s: and %d more", where, len(list)-3)
			return
		}
		j.fault("%s: %s", where, text)
	}
}

// near holds that two amounts of money are the same but for the rounding of sums.
func (j *judge) near(what string, got, want float64) {
	if math.Abs(got-want) > .021 {
		j.fault("%s: %.2f, want %.2f", what, got, want)
	}
}

// world reads the dump anew.
func (j *judge) world() (*clusters.World, error) {
	file, err := os.Open(j.path("dump.json"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return clusters.Read(file)
}

// checker runs the other checker on placements of a trace; without one it does nothing. Pods that are on cordoned
// nodes and the like break its rules already: there may be no more of them.
func (j *judge) checker(ctx context.Context, dir, placements string) error {
	if j.cfg.Checker == "" {
		return nil
	}
	before, known := j.broken[dir]
	if !known {
		events, err := readCSV(j.path(dir + "/events.csv"))
		if err != nil {
			return err
		}
		rows := [][]string{placementsHead}
		for _, e := range events {
			rows = append(rows, []string{"0", e["request"], "0", e["app"], "", "", "unplaced"})
		}
		if err := j.write("nothing.csv", rows); err != nil {
			return err
		}
		if before, err = j.violations(ctx, dir, "nothing.csv"); err != nil {
			return err
		}
		j.broken[dir] = before
	}
	after, err := j.violations(ctx, dir, placements)
	j.plans++
	if after.count != before.count {
		j.fault("%s in %s, by the other checker: %s", placements, dir, after.text)
	}
	return err
}

var placementsHead = []string{"time", "request", "item", "app", "machine", "devices", "kind"}

// A verdict of the other checker.
type verdict struct{ count, text string }

var violations = regexp.MustCompile(`violations=(\d+)`)

func (j *judge) violations(ctx context.Context, dir, placements string) (verdict, error) {
	out, err := exec.CommandContext(ctx, "python3", j.cfg.Checker, j.path(dir), j.path(placements)).CombinedOutput()
	found := violations.FindSubmatch(out)
	if found == nil {
		return verdict{}, fmt.Errorf("%s %s %s: %w\n%s", j.cfg.Checker, dir, placements, err, out)
	}
	return verdict{string(found[1]), strings.TrimSpace(string(out))}, ctx.Err()
}

// rebalance checks the step moves: its command, and each of its moves in turn. It returns the cost an hour after it.
func (j *judge) rebalance(ctx context.Context, b *bill) (after float64, err error) {
	s := b.step("moves")
	type freed struct {
		Before   int     `json:"machines_before"`
		After    int     `json:"machines_after"`
		CostFrom float64 `json:"cost_before"`
		CostTo   float64 `json:"cost_after"`
		Saving   struct {
			Empty int     `json:"empty_machines"`
			Money float64 `json:"money_per_month"`
		}
	}
	if s.Command == "" {
		return 0, nil
	}
	r, err := parsed[freed](ctx, j.shell, s.Command+" --format json --quiet")
	if err != nil {
		return 0, err
	}
	if b.Currency != "" {
		j.near("moves: by its command", r.Saving.Money, s.mean())
	}
	if n := float64(r.Before - r.After + r.Saving.Empty); n != s.Nodes {
		j.fault("moves: %v nodes by its command, %v in the bill", n, s.Nodes)
	}
	w, err := j.world()
	if err != nil {
		return 0, err
	}
	moves, err := readCSV(j.path("moves.csv"))
	if err != nil {
		return 0, err
	}
	waiting, err := readCSV(j.path("snap/events.csv"))
	if err != nil {
		return 0, err
	}
	var bad []string
	rows := [][]string{placementsHead}
	for _, e := range waiting {
		rows = append(rows, []string{"0", e["request"], "0", e["app"], "", "", "unplaced"})
	}
	for _, m := range moves {
		if why := w.Move(m["request"], m["from"], m["to"]); why != "" {
			bad = append(bad, why)
		}
		rows = append(rows, []string{"1", m["request"], m["item"], m["app"], m["to"], m["devices"], "move"})
	}
	j.moves = len(moves)
	j.faults("a move", bad)
	if err := j.write("moves-placed.csv", rows); err != nil {
		return 0, err
	}
	if err := j.checker(ctx, "snap", "moves-placed.csv"); err != nil {
		return 0, err
	}
	of, err := costs(j.path("snap"))
	if err != nil {
		return 0, err
	}
	w.End()
	used := w.Taken()
	freedCost := 0.
	for name, cost := range of {
		if !used[name] && !w.Stays(name) {
			freedCost += cost
		}
	}
	j.always = b.Cost.Now - s.mean() - r.CostTo*monthHours
	j.near("moves: the nodes without pods", freedCost*monthHours, s.mean())
	return r.CostTo, nil
}

func (j *judge) write(name string, rows [][]string) error {
	file, err := os.Create(j.path(name))
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	return file.Close()
}

type comparison struct {
	Results []struct {
		Policy string
		Runs   []struct {
			Order, Unplaced, Violations int
			Cost                        float64
		}
	}
}

// packed checks a step of a policy: its command, and the placements of some orders.
func (j *judge) packed(ctx context.Context, s step, before float64, model string, ofDump bool) error {
	if s.Money == nil || s.Command == "" {
		return nil
	}
	compared, err := parsed[[]comparison](ctx, j.shell, s.Command+" --format json --quiet")
	if err != nil {
		return err
	}
	present, _, _ := strings.Cut(strings.TrimPrefix(s.Command, "sigma compare"), " --policy ")
	for _, r := range compared[0].Results {
		if r.Policy == "current" {
			continue
		}
		mean := 0.
		for _, run := range r.Runs {
			if run.Order == 0 {
				continue
			}
			if mean += run.Cost / 20; run.Unplaced > 0 {
				j.fault("%s: %s leaves %d pods out", s.Cause, r.Policy, run.Unplaced)
			}
			if run.Order > j.cfg.Orders {
				continue
			}
			file := fmt.Sprintf("%s-%d.csv", model, run.Order)
			if _, err := j.run(ctx, fmt.Sprintf("sigma replay%s --policy %s --order %d --placements %s --quiet", present, r.Policy, run.Order, file)); err != nil {
				return err
			}
			cost, err := j.placed(ctx, model, file, ofDump)
			if err != nil {
				return err
			}
			if math.Abs(cost-run.Cost) > 1e-6 {
				j.fault("%s: order %d: the machines in use cost %.6f, compare says %.6f", s.Cause, run.Order, cost, run.Cost)
			}
			j.orders++
		}
		j.near(s.Cause+": by its command", max(0, (before-mean)*monthHours), s.mean())
	}
	return nil
}

// placed checks placements of a model, and returns the cost an hour of the machines in use.
func (j *judge) placed(ctx context.Context, model, file string, ofDump bool) (float64, error) {
	if err := j.checker(ctx, model, file); err != nil {
		return 0, err
	}
	of, err := costs(j.path(model))
	if err != nil {
		return 0, err
	}
	used, err := machines(j.path(model+"/placed.csv"), j.path(file))
	if err != nil {
		return 0, err
	}
	if ofDump {
		w, err := j.world()
		if err != nil {
			return 0, err
		}
		rows, err := readCSV(j.path(file))
		if err != nil {
			return 0, err
		}
		w.End()
		to := map[string]string{}
		for _, row := range rows {
			to[row["request"]] = row["machine"]
		}
		j.faults(file, w.Replace(to))
	}
	return hourly(of, used), nil
}

// model writes the trace that a bill plans.
func (j *judge) model(from, to, moves string, change func(*trace.Trace) (*trace.Trace, error)) error {
	t, err := trace.Load(j.path(from))
	if err != nil {
		return err
	}
	if t, err = bills.Present(t, moves); err != nil {
		return err
	}
	t.SetUsage(nil)
	if change != nil {
		if t, err = change(t); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(j.path(to)); err != nil {
		return err
	}
	return t.Write(j.path(to))
}

// shapes checks a step of other nodes, whose model is changed.
func (j *judge) shapes(ctx context.Context, s step, level float64, change func(*trace.Trace) (*trace.Trace, error)) error {
	if s.mean() == 0 {
		return nil
	}
	type planned struct {
		Plan struct {
			Cost     float64
			Unplaced int
		}
	}
	p, err := parsed[[]planned](ctx, j.shell, s.Command+" --placements "+s.Cause+".csv --format json --quiet")
	if err != nil {
		return err
	}
	if err := j.model("snap", s.Cause, "", change); err != nil {
		return err
	}
	cost, err := j.placed(ctx, s.Cause, s.Cause+".csv", false)
	if err != nil {
		return err
	}
	if of := p[len(p)-1].Plan; math.Abs(cost-of.Cost) > 1e-6 || of.Unplaced > 0 { // after that of the present nodes
		j.fault("%s: the machines of the plan cost %.6f, the plan says %.6f", s.Cause, cost, of.Cost)
	}
	if saved := level - j.always - cost*monthHours; s.mean() > saved+.02 {
		j.fault("%s: %.2f, but its plan saves %.2f", s.Cause, s.mean(), saved)
	}
	return nil
}

// history adds four weeks of use to the trace of the dump: a share of the requests that differs by workload, more by day.
func (j *judge) history() error {
	t, err := trace.Load(j.path("snap"))
	if err != nil {
		return err
	}
	u := &trace.Usage{}
	for a, app := range t.Instance.Apps {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(app.Name))
		share := .05 + .4*float64(sum.Sum32()%1000)/1000
		for d, dim := range t.Instance.Dimensions {
			if dim.Name != "cpu" && dim.Name != "memory" || app.Demand[d] == 0 {
				continue
			}
			s := trace.Series{App: int32(a), Dimension: int32(d), Start: -28 * 86400, Step: 3600}
			for h := range 28 * 24 {
				use := share * (1 + .4*math.Sin(float64(h)*math.Pi/12)) * float64(app.Demand[d]) / float64(dim.One)
				if dim.Name == "cpu" {
					use = math.Round(use*1e4) / 1e4
				} else {
					use = math.Round(use/(1<<20)) * (1 << 20)
				}
				s.Values = append(s.Values, float32(use))
			}
			u.Series = append(u.Series, s)
		}
	}
	t.SetUsage(u)
	if err := os.RemoveAll(j.path("used")); err != nil {
		return err
	}
	return t.Write(j.path("used"))
}
