package tune

import (
	"maps"
	"math"

	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// provenance records in a file the history on which it was chosen, and the reason.
func (r *run) provenance(o *policy.Object, chosen *candidate) error {
	p := maps.Clone(o.Spec.Provenance)
	if p == nil {
		p = map[string]any{}
	}
	var history []any
	for i, t := range r.cfg.Traces {
		instance, whole, err := t.Digests()
		if err != nil {
			return err
		}
		from, until := 0., 0.
		if part := r.traces[i].Events; len(part) > 0 {
			from, until = part[0].Time, part[len(part)-1].Time
		}
		history = append(history, map[string]any{"name": t.Name, "trace": whole, "instance": instance, "from": from, "until": until})
	}
	if chosen.kind == trained {
		p["traces"] = history
	}
	verdict := map[string]any{
		"verdict": r.out.verdict(), "chosen": chosen.name, "against": r.out.Against, "measure": r.what(), "history": history,
		"train": r.hours(r.split.train), "validate": r.hours(r.split.validate), "test": r.hours(r.split.test),
		"seed": r.cfg.Seed, "seeds": r.cfg.Seeds, "evaluations": r.cfg.Evaluations, "exposure": r.exposure(),
	}
	if s := r.out.Saving; s != nil {
		verdict["savingPercent"] = s.fields()
	}
	p["tune"] = verdict
	o.Spec.Provenance = p
	return nil
}

// exposure names the days that judge.
func (r *run) exposure() string {
	switch {
	case len(r.split.test) == 0:
		return "not judged"
	case r.isBuilt(r.split.test):
		return "built days"
	case r.again():
		return "the same day, other draws"
	}
	return "later days"
}

// what is the measure in plain words.
func (r *run) what() string {
	whole := fillUps(r.traces)
	switch {
	case r.measure == byLeftOut && whole:
		return "less demand left out"
	case r.measure == byLeftOut:
		return "fewer pods without a place at once"
	}
	machines := r.traces[0].Instance.Machines
	for _, m := range machines {
		if m.Cost != machines[0].Cost {
			return "lower cost of nodes"
		}
	}
	if whole {
		return "fewer nodes"
	}
	return "fewer node-hours"
}

// round keeps six significant digits.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) {
		return v
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
