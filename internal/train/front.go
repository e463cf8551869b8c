package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack/measure"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/swarm"
)

// An objective is one of several that a search minimises. The penalty of rejected
// items is added to each as in [Cost].
type objective struct {
	name string
	of   func(r *cerebro.Replayer, run cerebro.Run, s scale) float64
}

// objectives by name. The counts of machines and the cost are in units of the
// trace's volume bound.
var objectives = []objective{
	{"machines", func(_ *cerebro.Replayer, run cerebro.Run, s scale) float64 { return float64(run.Machines) / s.machines }},
	{"mean_machines", func(r *cerebro.Replayer, run cerebro.Run, s scale) float64 {
		if span := span(r.Trace()); span > 0 {
			return run.MachineSeconds / span / s.machines
		}
		return float64(run.Machines) / s.machines
	}},
	{"cost", func(r *cerebro.Replayer, run cerebro.Run, s scale) float64 {
		if r.Deletes() {
			return run.CostSeconds / s.cost
		}
		return run.Cost / s.cost
	}},
	{"balance", func(r *cerebro.Replayer, _ cerebro.Run, _ scale) float64 { return measure.Balance(r.State()) }},
	{"spread", func(r *cerebro.Replayer, _ cerebro.Run, _ scale) float64 { return 1 - measure.Spread(r.State()) }},
}

// span is the time that machine-seconds are counted over.
func span(t *trace.Trace) float64 {
	from, to := t.Events[0].Time, t.Events[len(t.Events)-1].Time
	if !math.IsNaN(t.MeasureFrom) {
		from = t.MeasureFrom
	}
	return to - from
}

// Objectives lists the names that [Config.Objectives] takes.
func Objectives() []string {
	names := make([]string, len(objectives))
	for i, o := range objectives {
		names[i] = o.name
	}
	return names
}

// CheckObjectives returns an error for an invalid choice of objectives.
func CheckObjectives(names []string) error {
	for i, name := range names {
		if !slices.Contains(Objectives(), name) {
			return fmt.Errorf("unknown objective %q: there are %s", name, strings.Join(Objectives(), ", "))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("objective %q: given twice", name)
		}
	}
	if len(names) < 2 {
		return fmt.Errorf("objectives %s: want at least two of %s", strings.Join(names, ", "), strings.Join(Objectives(), ", "))
	}
	return nil
}

// costs returns the cost of a run: one number, or one for each objective.
func (e *evaluator) costs(r *cerebro.Replayer, run cerebro.Run, s scale) []float64 {
	moves := e.cfg.MovePrice * float64(run.Moves) / s.machines
	if len(e.cfg.Objectives) == 0 {
		return []float64{Cost(r, run, s.cost, e.cfg.Untied) + moves}
	}
	list := make([]float64, len(e.cfg.Objectives))
	for i, name := range e.cfg.Objectives {
		at := slices.IndexFunc(objectives, func(o objective) bool { return o.name == name })
		list[i] = objectives[at].of(r, run, s) + penalty(run) + moves
	}
	return list
}

// A Front holds the non-dominated policies of a search with several objectives: no
// other policy found is at least as good in all and better in one.
type Front struct {
	Objectives []string
	Points     []FrontPoint // in the order of their objectives

	cfg Config
	sp  *space
}

// A FrontPoint is one policy of a [Front]. Objectives are means over the
// scenarios plus ρ·(worst − mean).
type FrontPoint struct {
	Objectives []float64
	Object     *policy.Object
	position   []float64
}

// RunFront trains policies for several objectives. The rest is as for [Run].
func RunFront(ctx context.Context, cfg Config) (*Front, error) {
	if err := CheckObjectives(cfg.Objectives); err != nil {
		return nil, err
	}
	archive := swarm.NewArchive(len(cfg.Objectives))
	ev, s, result, err := search(ctx, &cfg, archive)
	if archive.Len() == 0 {
		if err == nil {
			err = errors.New("no policy has finite objectives")
		}
		return nil, err
	}
	f := &Front{Objectives: cfg.Objectives, cfg: cfg, sp: ev.sp}
	for _, p := range archive.Points() {
		object := ev.sp.object(p.Position)
		object.Metadata.Name = cfg.Name
		object.Spec.Provenance = ev.provenance(s, result)
		values := map[string]any{}
		for i, name := range cfg.Objectives {
			values[name] = round(p.Objectives[i])
		}
		delete(object.Spec.Provenance, "fitness")
		object.Spec.Provenance["objectives"] = values
		f.Points = append(f.Points, FrontPoint{Objectives: p.Objectives, Object: object, position: p.Position})
	}
	return f, err
}

// On returns the objectives of some points on other traces, with the orders and
// the seed of the training.
func (f *Front) On(ctx context.Context, traces []*trace.Trace, points []int) ([][]float64, error) {
	cfg := f.cfg
	cfg.Traces, cfg.Sample, cfg.Renew = traces, 0, 0
	ev, err := newEvaluator(ctx, &cfg, f.sp)
	if err != nil {
		return nil, err
	}
	list := make([][]float64, len(points))
	tasks := make([]swarm.Task, len(points))
	for i, p := range points {
		tasks[i] = swarm.Task{Index: i, X: f.Points[p].position}
	}
	err = swarm.Parallel(cfg.Workers, ev.objective)(ctx, tasks, func(t swarm.Task, _ float64, objectives ...float64) error {
		list[t.Index] = objectives
		return nil
	})
	return list, err
}

// A Choice is a point of a front with a name.
type Choice struct {
	Name  string
	Point int
}

// Choose picks up to n points: "knee", the one nearest to the best values of
// all objectives, in units of the front's ranges; for each objective the best,
// by the objective's name; then, as "point-5" and so on, always the one that is
// farthest from those that were picked. One point may have several of the
// first names. n = 0 stops before the last kind.
func (f *Front) Choose(n int) []Choice {
	unit := f.units()
	list := []Choice{{"knee", lowest(unit, func(u []float64) float64 { return distance(u, make([]float64, len(u))) })}}
	for k, name := range f.Objectives {
		list = append(list, Choice{name, lowest(unit, func(u []float64) float64 { return u[k] })})
	}
	if n == 0 {
		return list
	}
	for len(list) < n {
		next := Choice{fmt.Sprintf("point-%d", len(list)+1), lowest(unit, func(u []float64) float64 { return -nearest(u, unit, list) })}
		if nearest(unit[next.Point], unit, list) == 0 {
			break // all are picked
		}
		list = append(list, next)
	}
	return list[:min(n, len(list))]
}

// nearest is the distance to the nearest of the choices.
func nearest(u []float64, unit [][]float64, choices []Choice) float64 {
	least := math.Inf(1)
	for _, c := range choices {
		least = min(least, distance(u, unit[c.Point]))
	}
	return least
}

// units are the objectives of the points as shares of the front's ranges.
func (f *Front) units() [][]float64 {
	unit := make([][]float64, len(f.Points))
	for i := range unit {
		unit[i] = make([]float64, len(f.Objectives))
	}
	for k := range f.Objectives {
		low, high := math.Inf(1), math.Inf(-1)
		for _, p := range f.Points {
			low, high = min(low, p.Objectives[k]), max(high, p.Objectives[k])
		}
		for i, p := range f.Points {
			if high > low {
				unit[i][k] = (p.Objectives[k] - low) / (high - low)
			}
		}
	}
	return unit
}

// lowest is the first of the points with the lowest value.
func lowest(points [][]float64, value func([]float64) float64) int {
	best, at := math.Inf(1), 0
	for i, p := range points {
		if v := value(p); v < best {
			best, at = v, i
		}
	}
	return at
}

func distance(a, b []float64) float64 {
	sum := 0.0
	for k := range a {
		sum += float64((a[k] - b[k]) * (a[k] - b[k]))
	}
	return math.Sqrt(sum)
}
