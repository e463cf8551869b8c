package tune

import (
	"context"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// An Entry is a candidate.
type Entry struct {
	Policy    string `json:"policy"`
	Kind      string `json:"kind"`
	Knowledge string `json:"knowledge"`
	Digest    string `json:"digest"` // "" = built in
}

// A Row holds the costs of a candidate on a part. Saving is against the policy in force.
type Row struct {
	Policy       string   `json:"policy"`
	Kind         string   `json:"kind"`
	CostHours    float64  `json:"cost_hours"`
	WaitingHours float64  `json:"waiting_hours"`
	LeftOut      float64  `json:"left_out"` // items without a place at once
	Saving       Interval `json:"saving_percent"`
	Chosen       bool     `json:"chosen"`
	// Use is the risk of traces by use.
	Use *report.Use `json:"use,omitempty"`
}

// Savings in percent below which a policy that is there stays: less than that differs from day to day, built
// days from real ones by more, and numbers of pods without a place by yet more.
const (
	margin        = .5
	marginRules   = 1 // of some twenty rules the best of one day may be so by luck
	marginBuilt   = 3
	marginLeftOut = 10
)

// least is the margin of a part.
func (r *run) least(part []span) float64 {
	switch {
	case r.measure == byLeftOut:
		return marginLeftOut
	case r.isBuilt(part):
		return marginBuilt
	}
	return margin
}

// judged are candidates with their losses on a part. The policy in force is the first.
type judged struct {
	all   []*candidate
	lost  []losses
	built bool // on built days, which do not show how recorded ones differ
}

// judge adds candidates to those that are judged on a part.
func (r *run) judge(ctx context.Context, j *judged, part []span, list ...*candidate) error {
	j.built = r.isBuilt(part)
	lost, err := judge(ctx, r.traces, part, list, r.draws(part), r.cfg.Seed, r.cfg.Workers)
	if err != nil {
		return err
	}
	for i, l := range lost {
		if l == nil {
			r.note("%s is no candidate: too little of the use on its nodes is recorded to show its risk", list[i].name)
			continue
		}
		j.all, j.lost = append(j.all, list[i]), append(j.lost, l)
	}
	return nil
}

// saving is that of one candidate over another.
func (r *run) saving(j *judged, own, other int) Interval {
	return r.savingOf(j.lost[own], j.lost[other], j.built)
}

// savingOf is the saving of losses over others, without limits on built days.
func (r *run) savingOf(own, other losses, built bool) Interval {
	s := r.measure.saving(own, other, r.cfg.Seed)
	if built {
		s.Low, s.High = math.NaN(), math.NaN()
	}
	return s
}

// allowed reports whether a policy lets items wait no longer than the policy in force, and puts
// machines above capacity no more, beyond a little.
func (r *run) allowed(of, inForce losses) bool { return r.forbids(of, inForce) == "" }

// forbids is the reason for which a policy is not allowed; "" = it is.
func (r *run) forbids(of, inForce losses) string {
	switch {
	case of.risk() > max(inForce.risk(), allowedOver):
		return "its nodes are above capacity for more of the time"
	case r.measure == byCost && of.sum().waiting > inForce.sum().waiting:
		return "its pods wait longer"
	}
	return ""
}

// best is the candidate from a place on that saves most over another, at least so many percent; other if
// none does. One that is always equal to the other is none. A policy with a forecast has to be surely
// better than one without: the declared counts change, and a history has one number for each app.
func (r *run) best(j *judged, from, other int, least float64) int {
	at, most := other, Interval{Mean: least}
	for i := from; i < len(j.all); i++ {
		s := r.saving(j, i, other)
		sure := s.Low
		if !s.known() {
			sure = s.Mean - r.least(r.split.validate)
		}
		unsure := at != other && j.all[i].forecasts() && !j.all[at].forecasts() && sure <= most.Mean
		if !r.measure.same(j.lost[i], j.lost[other]) && r.allowed(j.lost[i], j.lost[0]) && s.Mean >= least && (at == other || s.Mean > most.Mean) && !unsure {
			at, most = i, s
		}
	}
	return at
}

// better reports whether a policy is better than the policy in force on a part that judges: by the whole
// interval, or where there is none, since one day or built days judge, by the margin and clearly over the draws.
func (r *run) better(j *judged, own int, part []span) bool {
	s, least := r.saving(j, own, 0), r.least(part)
	if j.all[own].kind != trained {
		least = max(least, marginRules)
	}
	switch {
	case !r.allowed(j.lost[own], j.lost[0]):
		return false
	case !s.known():
		return s.Mean >= least && r.measure.clear(j.lost[own], j.lost[0])
	}
	return s.Low > 0
}

func (c *candidate) forecasts() bool { return c.kind == trained && c.policy.Knowledge().Forecast() }

// choose chooses on the validation part and judges on the test part. Of the policies that need no
// training the policy in force stays unless another is cheaper by the margin of rules, and a trained one has to
// be cheaper than that choice by the margin.
func (r *run) choose(ctx context.Context) error {
	untrained, err := r.untrained()
	if err != nil {
		return err
	}
	var j judged
	if err := r.judge(ctx, &j, r.split.validate, untrained...); err != nil {
		return err
	}
	// On a fixed fleet nodes that stay empty save less than pods without a place lose.
	if r.fixed() && (!fillUps(r.traces) || j.lost[0].sum().refused > 0) {
		r.measure = byLeftOut
	}
	least := r.least(r.split.validate)
	r.out.Measure = r.what()
	learned, err := r.trainAll(ctx)
	if err != nil {
		return err
	}
	free, before := r.best(&j, 1, 0, max(least, marginRules)), len(j.all)
	if err := r.judge(ctx, &j, r.split.validate, learned...); err != nil {
		return err
	}
	rival := r.best(&j, before, free, least)
	r.out.Validation = r.rows(&j, r.split.validate)
	r.out.Parts = Parts{Train: r.hours(r.split.train), Choose: r.hours(r.split.validate), Exposure: r.exposure()}
	for _, c := range j.all {
		e := Entry{Policy: c.name, Kind: c.kind, Knowledge: c.policy.Knowledge().String()}
		if c.object != nil {
			e.Digest = c.object.Digest()
		}
		r.out.Candidates = append(r.out.Candidates, e)
	}
	if sameDay(r.split.train, r.split.validate) {
		r.out.Parts.Train = "other draws of " + r.out.Parts.Train
	}
	if len(r.split.test) == 0 {
		return r.finish(untrained[0], j.all[rival])
	}
	r.out.Parts.Judge = r.hours(r.split.test)
	if r.again() {
		r.out.Parts.Judge = "other draws of the same day"
	}
	return r.verdict(ctx, &j, slices.Compact([]int{rival, free, 0}))
}

// verdict judges on the test part, in turn, the choices that may be adopted, of which the last is the policy in
// force.
func (r *run) verdict(ctx context.Context, j *judged, may []int) error {
	shown := may
	if len(may) == 1 { // the best other one is judged to be shown
		shown = slices.Compact([]int{r.best(j, 1, 0, math.Inf(-1)), 0})
	}
	test := judged{}
	list := []*candidate{j.all[0]}
	for _, i := range shown[:len(shown)-1] {
		list = append(list, j.all[i])
	}
	if err := r.judge(ctx, &test, r.split.test, list...); err != nil {
		return err
	}
	r.out.Test = r.rows(&test, r.split.test)
	at := 0
	for i := len(test.all) - 1; i > 0 && len(may) > 1; i-- {
		if r.better(&test, i, r.split.test) {
			at = i
		}
	}
	r.out.Test[at].Chosen = true
	if len(test.all) > 1 {
		r.out.Saving = &r.out.Test[max(1, at)].Saving
		r.out.forbidden = r.forbids(test.lost[1], test.lost[0])
	}
	return r.finish(j.all[0], test.all[at])
}

// untrained are the candidates that need no training: the policy in force, the rules, and the shipped
// files.
func (r *run) untrained() ([]*candidate, error) {
	current, err := r.inForce()
	if err != nil {
		return nil, err
	}
	list := []*candidate{current}
	free, err := rules(r.cfg.Target, r.traces[0].Instance, r.cfg.Seed)
	if err != nil {
		return nil, err
	}
	for i := range free {
		if free[i].name != current.name && checkSuits(free[i].name, free[i].object, r.traces) == nil {
			list = append(list, &free[i])
		}
	}
	if !r.cfg.Target.runsFiles() {
		return list, nil
	}
	ready, err := shippedFiles(r.traces)
	return append(list, ready...), err
}

// shippedFiles are those that the installed policy may choose, each by itself; where items leave
// those that it then chooses: hours are too few to choose among more.
func shippedFiles(traces []*trace.Trace) (list []*candidate, err error) {
	inst := traces[0].Instance
	for _, f := range policy.ShippedFiles() {
		forDevices, suits := f.Object.Spec.Model == "devices", f.Departures
		if inst.Fleet == binpack.Fixed {
			suits = f.Fixed
		}
		if !fillUps(traces) && !suits && !forDevices {
			continue
		}
		know, _ := binpack.ParseKnowledge(f.Object.Spec.Knowledge)
		if forDevices && !devices(inst) || know.Forecast() && !forecast(traces) || checkSuits(f.Name, f.Object, traces) != nil {
			continue
		}
		p, err := f.Object.Policy()
		if err != nil {
			return nil, err
		}
		list = append(list, &candidate{name: f.Name, kind: shipped, policy: p, object: f.Object})
	}
	return list, nil
}

// inForce is the policy that the cluster has.
func (r *run) inForce() (*candidate, error) {
	found, err := r.cfg.Catalog.Find(r.cfg.InForce, r.traces[0])
	if err != nil {
		return nil, err
	}
	if err := checkSuits(r.cfg.InForce, found.Object, r.traces); err != nil {
		return nil, err
	}
	return &candidate{name: r.cfg.InForce, kind: inForce, policy: r.cfg.Target.ties(found.Policy, r.cfg.Seed), object: found.Object}, nil
}

// rows are the figures of candidates on a part.
func (r *run) rows(j *judged, part []span) (rows []Row) {
	for i, c := range j.all {
		sum, n := j.lost[i].sum(), float64(r.draws(part).count)
		rows = append(rows, Row{
			Policy: c.name, Kind: c.kind, CostHours: round(sum.cost / hour / n), WaitingHours: round(sum.waiting / hour / n),
			LeftOut: round(sum.refused / n), Saving: r.saving(j, i, 0),
			Use: j.lost[i].use(),
		})
	}
	return rows
}

// finish completes the result.
func (r *run) finish(current, chosen *candidate) error {
	out := &r.out
	out.Better, out.Against = chosen != current, current.name
	r.chosen, r.current = chosen, current
	switch {
	case !out.Better:
		return nil
	case chosen.kind == builtIn || chosen.kind == settings:
		out.Rule = chosen.name
	}
	if chosen.object == nil {
		out.Chosen = chosen.name
		return nil
	}
	var err error
	out.Object, err = r.written(chosen)
	return err
}

// written is the object of a candidate, of a built-in rule one that names it, as it is written.
func (r *run) written(c *candidate) (*policy.Object, error) {
	object := c.object
	if object == nil {
		object = ruleObject(rule.Settings{Choice: rule.Choice{Name: c.name}})
	}
	out := *object
	out.Metadata.Name, out.Spec.Mode = r.cfg.Name, policy.DefaultMode
	return &out, r.provenance(&out, c)
}
