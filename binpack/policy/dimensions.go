package policy

import (
	"fmt"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

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
