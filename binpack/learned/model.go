package learned

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// MaxWeight bounds weights so that scores stay far from [EmptyPenalty].
const MaxWeight = 100.0

// A Model is one kind of learned policy. The scorers of its policies implement
// [binpack.Explainer].
type Model struct {
	Name string
	// Knowledge lists the levels that the model can use; nil = all. Basis gives the
	// reason and completes a sentence: the model plan "follows the true counts".
	Knowledge []binpack.Knowledge
	Basis     string
	// OneDimension: the model packs only instances of one dimension.
	OneDimension bool
	// Features have a weight each. With Classes each has one for each class of items,
	// and is listed as name@class.
	Features []Feature
	Classes  []string
	// Parameters are the numbers that are not weights.
	Parameters []Parameter
	// Learns returns the features and parameters that training searches by default,
	// at a level of knowledge and for a fixed or an open fleet.
	Learns func(k binpack.Knowledge, fixed bool) []string
	// Build makes the policy of a spec that has passed Check. It refuses invalid
	// combinations of fields; Check looks at one field at a time.
	Build func(Spec) (binpack.Policy, error)
	// Contents is the part of the model outside the spec, as text for the digest; nil = no such part.
	Contents func() string
	// NotLive is the reason why a live cluster cannot use the model; empty = it can.
	NotLive string
}

// A Spec is the part of a policy file that a model reads.
type Spec struct {
	Knowledge  binpack.Knowledge
	Features   []string
	Weights    []float64 // one for each of Features
	Parameters map[string]float64
}

// A Feature is one number about placing an item on a machine. docs/features.md
// is generated from these texts. A change of a Formula, Unit or Normaliser raises
// the version of the features.
type Feature struct {
	Name       string
	Meaning    string
	Formula    string
	Unit       string
	Range      string
	Normaliser string // divisor of the amount; empty = no divisor
	// PerDimension: the feature also exists for a dimension alone, as name:cpu.
	PerDimension bool
}

// A Parameter is a number of a model that is not a weight.
type Parameter struct {
	Name      string
	Low, High float64
	Meaning   string
}

// FeatureNames lists the features as a policy file names them, without those of
// a single dimension.
func (m *Model) FeatureNames() []string { return FeatureNames(m.Features, m.Classes) }

// FeatureNames lists the features of a table, with classes if there are any.
func FeatureNames(table []Feature, classes []string) []string {
	var names, all []string
	for _, f := range table {
		names = append(names, f.Name)
	}
	if classes == nil {
		return names
	}
	for _, class := range classes {
		for _, name := range names {
			all = append(all, name+"@"+class)
		}
	}
	return all
}

// Feature finds a feature by its name in a policy file, as [FindFeature] does.
func (m *Model) Feature(name string) (index int, of string) {
	return FindFeature(m.Features, m.Classes, name)
}

// FindFeature finds a feature by its name in a policy file: its index in the
// table, and the dimension or class that the name ends with. The index is -1 when
// there is no such feature.
func FindFeature(table []Feature, classes []string, name string) (index int, of string) {
	separator := ":"
	if classes != nil {
		separator = "@"
	}
	base, of, partial := strings.Cut(name, separator)
	index = slices.IndexFunc(table, func(f Feature) bool { return f.Name == base })
	switch {
	case index < 0:
		return -1, ""
	case classes != nil && !slices.Contains(classes, of),
		classes == nil && partial && (of == "" || !table[index].PerDimension):
		return -1, ""
	}
	return index, of
}

// ParameterNames lists the parameters in alphabetical order.
func (m *Model) ParameterNames() []string {
	var names []string
	for _, p := range m.Parameters {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// Parameter finds a parameter.
func (m *Model) Parameter(name string) (p Parameter, ok bool) {
	i := slices.IndexFunc(m.Parameters, func(p Parameter) bool { return p.Name == name })
	if i < 0 {
		return Parameter{}, false
	}
	return m.Parameters[i], true
}

// Levels names the levels of knowledge that the model can use.
func (m *Model) Levels() string {
	var names []string
	for _, k := range m.Knowledge {
		names = append(names, k.String())
	}
	return strings.Join(names, " or ")
}

// Takes reports whether the model can use a level of knowledge.
func (m *Model) Takes(k binpack.Knowledge) bool {
	return m.Knowledge == nil || slices.Contains(m.Knowledge, k)
}

// Check reports the first field of a spec that does not suit the model.
func (m *Model) Check(s Spec) error {
	if len(s.Weights) != len(s.Features) {
		return fmt.Errorf("spec.weights has %d numbers for %d features", len(s.Weights), len(s.Features))
	}
	for i, name := range s.Features {
		if len(m.Features) == 0 {
			return fmt.Errorf("spec.features[%d] %q: the model %s has no features", i, name, m.Name)
		}
		if f, _ := m.Feature(name); f < 0 {
			return fmt.Errorf("spec.features[%d] %q: known are %s", i, name, strings.Join(m.FeatureNames(), ", "))
		}
		if slices.Contains(s.Features[:i], name) {
			return fmt.Errorf("spec.features[%d] %q is listed twice", i, name)
		}
		if w := s.Weights[i]; math.IsNaN(w) || math.Abs(w) > MaxWeight {
			return fmt.Errorf("spec.weights[%d] %v of feature %q: want a number within ±%g", i, w, name, MaxWeight)
		}
	}
	names := make([]string, 0, len(s.Parameters))
	for name := range s.Parameters {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p, ok := m.Parameter(name)
		if !ok {
			known := cmp.Or(strings.Join(m.ParameterNames(), ", "), "no parameters")
			return fmt.Errorf("spec.parameters.%s: the model %s has %s", name, m.Name, known)
		}
		if v := s.Parameters[name]; !(v >= p.Low && v <= p.High) {
			return fmt.Errorf("spec.parameters.%s %v: want %g to %g", name, v, p.Low, p.High)
		}
	}
	if !m.Takes(s.Knowledge) {
		return fmt.Errorf("spec.knowledge %q: the model %s needs %s", s.Knowledge, m.Name, m.Levels())
	}
	return nil
}

// Suits reports why a policy of the model that looks at such features cannot
// serve an instance; nil when it can.
func (m *Model) Suits(features []string, inst *binpack.Instance) error {
	var dimensions []string
	for _, d := range inst.Dimensions {
		dimensions = append(dimensions, d.Name)
	}
	if m.OneDimension && len(dimensions) != 1 {
		return fmt.Errorf("the model %s packs one dimension; there are %s", m.Name, strings.Join(dimensions, ", "))
	}
	if m.Classes != nil {
		return nil
	}
	for i, name := range features {
		// The weight of a dimension that is not there would do nothing.
		if _, dim := m.Feature(name); dim != "" && !slices.Contains(dimensions, dim) {
			return fmt.Errorf("features[%d] %q: there is no dimension %q; there are %s",
				i, name, dim, strings.Join(dimensions, ", "))
		}
	}
	return nil
}
