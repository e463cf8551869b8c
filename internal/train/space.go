package train

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/swarm"
)

// space is the space of a search: one dimension for each feature's weight,
// then one for each parameter.
type space struct {
	model      string
	knowledge  binpack.Knowledge
	features   []string
	parameters []string
	box        swarm.Box
	rules      *Rules // nil = weights and parameters
}

func newSpace(cfg *Config) (*space, error) {
	if cfg.Rules != nil {
		return cfg.Rules.newSpace(), nil
	}
	sp := &space{model: cfg.Model, knowledge: cfg.Knowledge}
	model := policy.ModelOf(cfg.Model)
	names := cfg.Features
	if names == nil {
		names = model.Learns(cfg.Knowledge, cfg.Traces[0].Instance.Fleet == binpack.Fixed)
	}
	var weights, params []string
	for _, name := range names {
		if _, ok := model.Parameter(name); ok {
			params = append(params, name)
			continue
		}
		if i, _ := model.Feature(name); i < 0 {
			return nil, fmt.Errorf("unknown feature %q: there are %s and the parameters %s",
				name, strings.Join(model.FeatureNames(), ", "), strings.Join(model.ParameterNames(), ", "))
		}
		weights = append(weights, name)
	}
	sp.features, sp.parameters = weights, params
	for range weights {
		sp.box.Lo = append(sp.box.Lo, -1)
		sp.box.Hi = append(sp.box.Hi, 1)
	}
	for _, name := range params {
		p, _ := model.Parameter(name)
		sp.box.Lo = append(sp.box.Lo, p.Low)
		sp.box.Hi = append(sp.box.Hi, p.High)
	}
	if len(sp.box.Lo) == 0 {
		return nil, fmt.Errorf("model %s at %s has nothing to learn", cfg.Model, cfg.Knowledge)
	}
	_, err := sp.object(sp.box.Lo).Policy()
	return sp, err
}

// object returns the policy at a position. It first rounds numbers to six significant
// digits, so that the search judges the numbers of a file.
func (sp *space) object(x []float64) *policy.Object {
	o := &policy.Object{APIVersion: policy.APIVersion, Kind: policy.ObjectKind}
	o.Metadata.Name = "particle"
	o.Spec = policy.Spec{
		FeatureVersion: policy.FeatureVersion, Model: sp.model, Knowledge: sp.knowledge.String(),
		Features: sp.features, Weights: []float64{}, Mode: policy.DefaultMode,
	}
	if sp.rules != nil {
		o.Spec.Features, o.Spec.Rule = []string{}, &rule.Settings{Choice: sp.rules.choice(x)}
		return o
	}
	for i := range sp.features {
		o.Spec.Weights = append(o.Spec.Weights, round(x[i]))
	}
	if len(sp.parameters) > 0 {
		o.Spec.Parameters = map[string]float64{}
	}
	for i, name := range sp.parameters {
		at := len(sp.features) + i
		o.Spec.Parameters[name] = min(sp.box.Hi[at], max(sp.box.Lo[at], round(x[at])))
	}
	return o
}

// position is the inverse of object.
func (sp *space) position(o *policy.Object) ([]float64, error) {
	if sp.rules != nil {
		return sp.rules.position(o.Spec.Rule.Choice), nil
	}
	x := make([]float64, 0, len(sp.box.Lo))
	largest := 1.0 // the scale of a score does not count
	for _, w := range o.Spec.Weights {
		largest = max(largest, math.Abs(w))
	}
	for _, name := range sp.features {
		w := 0.0
		if i := slices.Index(o.Spec.Features, name); i >= 0 {
			w = o.Spec.Weights[i]
		}
		x = append(x, w/largest)
	}
	for i, name := range sp.parameters {
		v, ok := o.Spec.Parameters[name]
		if !ok {
			return nil, fmt.Errorf("policy %q has no parameter %s to start from", o.Metadata.Name, name)
		}
		at := len(sp.features) + i
		x = append(x, min(sp.box.Hi[at], max(sp.box.Lo[at], v)))
	}
	return x, nil
}

func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
