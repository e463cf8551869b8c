package policy

import (
	"fmt"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Suits reports why a policy cannot serve an instance; nil when it can.
func (s *Spec) Suits(inst *binpack.Instance) error {
	if s.Model == "population" && len(inst.Dimensions) != 1 {
		var names []string
		for _, d := range inst.Dimensions {
			names = append(names, d.Name)
		}
		return fmt.Errorf("the model population packs one dimension; there are %s", strings.Join(names, ", "))
	}
	return CheckDimensions(s.Features, inst)
}

// CheckDimensions reports the first feature that is about a dimension, as
// util:cpu, which an instance does not have: its weight would do nothing.
func CheckDimensions(features []string, inst *binpack.Instance) error {
	for i, name := range features {
		_, dimension := featureIndex(name)
		if dimension == "" {
			continue
		}
		var names []string
		found := false
		for _, d := range inst.Dimensions {
			names = append(names, d.Name)
			found = found || d.Name == dimension
		}
		if !found {
			return fmt.Errorf("features[%d] %q: there is no dimension %q; there are %s",
				i, name, dimension, strings.Join(names, ", "))
		}
	}
	return nil
}
