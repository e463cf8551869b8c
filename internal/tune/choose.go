package tune

import (
	"cmp"
	"context"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// An Entry is a candidate.
type Entry struct {
	Policy    string `json:"policy"`
	Kind      string `json:"kind"`
	Knowledge string `json:"knowledge"`
	Digest    string `json:"digest"` // "" = built in
}

// A Row holds the costs of a candidate on a part. Saving is against the best rule.
type Row struct {
	Policy       string   `json:"policy"`
	Kind         string   `json:"kind"`
	CostHours    float64  `json:"cost_hours"`
	WaitingHours float64  `json:"waiting_hours"`
	LeftOut      float64  `json:"left_out"` // items without a place at once
	Saving       Interval `json:"saving_percent"`
	Chosen       bool     `json:"chosen"`
}

// choose chooses on the validation part, trains the chosen kind on everything before test,
// judges it there once, and trains it again on the whole history.
func (r *run) choose(ctx context.Context, free []*candidate, reference *candidate, learned []*candidate) (*Result, error) {
	rivals := learned
	if r.cfg.Target.runsFiles() {
		current, err := r.inForce()
		if err != nil {
			return nil, err
		}
		ready, err := shippedFiles(r.traces)
		if err != nil {
			return nil, err
		}
		rivals = append(append(rivals, ready...), current)
	} else {
		// The free alternative is the choice that every cluster has.
		at := slices.IndexFunc(free, func(c *candidate) bool { return c.name == r.cfg.Target.safe() })
		if reference != free[at] {
			rivals = append(rivals, reference)
		} else {
			rivals = append(rivals, slices.DeleteFunc(slices.Clone(free), func(c *candidate) bool { return c == reference })...)
		}
		reference = free[at]
	}
	all := slices.Concat(free, rivals)
	if !r.cfg.Target.runsFiles() {
		all = slices.Concat(free, learned)
	}
	part := r.split.validate
	rows, found, err := r.rows(ctx, part, all, reference)
	if at := slices.Index(all, reference); err == nil && r.measure == byLeftOut && rows[at].LeftOut == 0 {
		part = r.split.before // where all find a place there is no choice
		rows, found, err = r.rows(ctx, part, all, reference)
	}
	if err != nil {
		return nil, err
	}
	kinds := savingOfKinds(all, rows, found)
	best := choice(all, rows, kinds, func(i int) bool { return found[i] && slices.Contains(rivals, all[i]) })
	if best >= 0 && !fillUps(r.traces) && all[best].kind == trained && all[best].policy.Knowledge() != binpack.K0 {
		// Declared items change with arriving and leaving pods, and a history has one number for each app.
		without := choice(all, rows, kinds, func(i int) bool {
			return found[i] && slices.Contains(rivals, all[i]) && all[i].policy.Knowledge() == binpack.K0 && kinds[i] >= rows[best].Saving.Low
		})
		if without >= 0 {
			best = without
		}
	}
	r.out.Validation = rows
	r.out.Parts = "Trained on " + r.hours(r.split.train) + ", chosen on " + r.hours(part)
	if len(r.split.test) > 0 {
		r.out.Parts += ", judged on " + r.hours(r.split.test)
	}
	for _, c := range all {
		e := Entry{Policy: c.name, Kind: c.kind, Knowledge: c.policy.Knowledge().String()}
		if c.object != nil {
			e.Digest = c.object.Digest()
		}
		r.out.Candidates = append(r.out.Candidates, e)
	}
	if best < 0 {
		return r.finish(ctx, reference, nil, false)
	}
	if r.cfg.Choose > 0 {
		return r.finish(ctx, reference, all[best], rows[best].Saving.Mean > 0)
	}
	rival, err := r.refit(ctx, all[best], r.split.before, "before")
	if err != nil {
		return nil, err
	}
	judged := []*candidate{reference, rival}
	for _, c := range all {
		if (c.kind == inForce || c.name == r.cfg.Target.safe()) && !slices.Contains(judged, c) {
			judged = append(judged, c)
		}
	}
	test, ok, err := r.rows(ctx, r.split.test, judged, reference)
	for err == nil && r.measure != byCost && test[1].Saving.Mean == 0 {
		r.measure--
		test, ok, err = r.rows(ctx, r.split.test, judged, reference)
	}
	if err != nil {
		return nil, err
	}
	r.out.Measure = r.what()
	chosen := decide(judged, test, ok)
	r.out.Saving = &test[max(1, chosen)].Saving
	if chosen > 0 {
		rival = judged[chosen]
	}
	test[chosen].Chosen = true
	r.out.Test = test
	return r.finish(ctx, reference, rival, chosen > 0)
}

// decide gives the place among the judged of the policy to take; the reference is the first, the chosen
// rival the second. Where that is no better, the active policy, which needs no choice, may be taken.
func decide(judged []*candidate, test []Row, ok []bool) int {
	for i, c := range judged {
		if ok[i] && (i == 1 || i > 1 && c.kind == inForce) && test[i].Saving.Low > 0 {
			return i
		}
	}
	return 0
}

// choice is the best candidate that may be taken, by its kind and then by itself; -1 = no candidate.
func choice(all []*candidate, rows []Row, kinds []float64, may func(i int) bool) int {
	best := -1
	for i := range all {
		if may(i) && (best < 0 || cmp.Or(cmp.Compare(kinds[i], kinds[best]), rows[i].compare(&rows[best])) > 0) {
			best = i
		}
	}
	return best
}

// compare is above 0 where a candidate is better than another: by its saving, then by the time
// that items wait, then by cost.
func (r *Row) compare(other *Row) int {
	return cmp.Or(cmp.Compare(r.Saving.Mean, other.Saving.Mean), cmp.Compare(other.WaitingHours, r.WaitingHours), cmp.Compare(other.CostHours, r.CostHours))
}

// savingOfKinds is the saving of each candidate, of a trained one the mean over those trainings of
// its kind that may be chosen: a kind is chosen before a seed, since the best of many seeds is
// lucky.
func savingOfKinds(all []*candidate, rows []Row, found []bool) []float64 {
	sum, n := map[string]float64{}, map[string]float64{}
	key := func(c *candidate) string {
		if c.kind == trained {
			return c.how.String()
		}
		return c.kind + " " + c.name
	}
	for i, c := range all {
		if found[i] {
			sum[key(c)] += rows[i].Saving.Mean
			n[key(c)]++
		}
	}
	list := make([]float64, len(all))
	for i, c := range all {
		list[i] = sum[key(c)] / n[key(c)]
	}
	return list
}

// refit trains a trained candidate once more on a part: more hours generalise better.
func (r *run) refit(ctx context.Context, c *candidate, part []span, name string) (*candidate, error) {
	if c.kind != trained {
		return c, nil
	}
	if c.members != nil {
		return r.average(ctx, c.how, part, c.members, "-"+name)
	}
	again := *c
	var err error
	if again.object, err = r.learn(ctx, c.how, part, c.seed, c.object, c.how.file()+"-"+name); err != nil {
		return nil, err
	}
	again.policy, err = r.cfg.Target.policy(again.object, r.cfg.Seed)
	return &again, err
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
	return &candidate{name: r.cfg.InForce, kind: inForce, policy: found.Policy, object: found.Object}, nil
}

// rows judges candidates on a part. ok marks those that leave no more waiting than
// the reference.
func (r *run) rows(ctx context.Context, part []span, candidates []*candidate, reference *candidate) (rows []Row, ok []bool, err error) {
	all, err := judge(ctx, r.traces, part, candidates, r.cfg.Seed, r.cfg.Workers)
	if err != nil {
		return nil, nil, err
	}
	against := all[slices.Index(candidates, reference)]
	for i, c := range candidates {
		sum := all[i].sum()
		rows = append(rows, Row{
			Policy: c.name, Kind: c.kind, CostHours: round(sum.cost / hour / variants), WaitingHours: round(sum.waiting / hour / variants),
			LeftOut: round(sum.refused / variants), Saving: r.measure.saving(all[i], against, r.cfg.Seed),
		})
		ok = append(ok, r.allows(all[i], against))
	}
	return rows, ok, nil
}

// finish completes the result.
func (r *run) finish(ctx context.Context, reference, rival *candidate, better bool) (*Result, error) {
	out := &r.out
	out.Better, out.Against = better, reference.name
	chosen := reference
	if better {
		chosen = rival
	}
	r.chosen, r.reference = chosen, reference
	switch {
	case chosen.kind == trained:
		last, err := r.refit(ctx, chosen, r.split.all, "whole")
		if err != nil {
			return nil, err
		}
		out.Object = last.object
	case chosen.object != nil:
		object := *chosen.object
		out.Object = &object
	default:
		out.Chosen = chosen.name
	}
	if out.Object != nil {
		out.Object.Metadata.Name = r.cfg.Name
		out.Object.Spec.Mode = policy.DefaultMode
		if err := r.provenance(out.Object, chosen); err != nil {
			return nil, err
		}
	}
	return out, nil
}
