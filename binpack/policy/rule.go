package policy

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/sigma-scheduler/sigma/binpack"
)

// RuleModel is the model of a policy file that is a built-in rule with settings.
const RuleModel = "rule"

// ruleField is the field of a policy file with the settings.
const ruleField = "spec.rule"

// buildRule builds the rule of a spec. Its knowledge is K0, and it has no numbers.
func (s *Spec) buildRule() (binpack.Policy, error) {
	switch {
	case s.Rule == nil:
		return nil, fmt.Errorf("%s is missing: the model rule needs it", ruleField)
	case s.Knowledge != binpack.K0.String():
		return nil, fmt.Errorf("spec.knowledge %q: the model rule needs K0", s.Knowledge)
	case len(s.Features) > 0:
		return nil, fmt.Errorf("spec.features[0] %q: the model rule has no features", s.Features[0])
	case len(s.Weights) > 0:
		return nil, fmt.Errorf("spec.weights has %d numbers: the model rule has no weights", len(s.Weights))
	case len(s.Parameters) > 0:
		return nil, fmt.Errorf("spec.parameters has %d numbers: the model rule has no parameters", len(s.Parameters))
	}
	return s.Rule.Policy(ruleField)
}

// fraction finds a fraction below a node; nil = no such node.
func fraction(at *yaml.Node) *yaml.Node {
	if at.Tag == "!!float" {
		return at
	}
	for _, below := range at.Content {
		if found := fraction(below); found != nil {
			return found
		}
	}
	return nil
}
