package rule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Settings are a rule as a policy file has it: one rule for all items, or one for items of
// which a machine holds only one and another for the rest. The lowest position breaks ties.
type Settings struct {
	Choice `yaml:",inline"`

	OnePerNode *Choice `yaml:"onePerNode,omitempty" json:"onePerNode,omitempty"`
	Others     *Choice `yaml:"others,omitempty" json:"others,omitempty"`
}

// A Choice is a rule and its settings. Those left out are the rule's own: every
// dimension has weight 1, the shape is 0 → 0, 100 → 10.
type Choice struct {
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Resources are the dimensions that count, with their weights.
	Resources map[string]int64 `yaml:"resources,flow,omitempty" json:"resources,omitempty"`
	// Shape is a broken line of points (utilisation in percent, score from 0 to 10).
	Shape [][]int64 `yaml:"shape,flow,omitempty" json:"shape,omitempty"`
}

// MaxResources bounds the resources of a [Choice].
const MaxResources = 64

// SettableNames lists the rules that [Settings] may name: those that need neither a
// seed nor a forecast.
func SettableNames() []string {
	return slices.DeleteFunc(Names(), func(name string) bool { return settable(name) != nil })
}

// settable reports why a file may not name a rule.
func settable(name string) error {
	i := slices.Index(Names(), name)
	if i < 0 {
		return fmt.Errorf("known are %s", strings.Join(SettableNames(), ", "))
	}
	p := known[i].make(Options{})
	if _, random := p.(Random); random {
		return errors.New("a rule that draws at random is no policy file")
	}
	if p.Knowledge() != binpack.K0 {
		return fmt.Errorf("it needs %s, and a rule in a policy file has K0", p.Knowledge())
	}
	return nil
}

// Policy builds the rule. An error begins with the field at fault, below field.
func (s *Settings) Policy(field string) (binpack.Policy, error) {
	if s.OnePerNode == nil && s.Others == nil {
		return s.policy(field)
	}
	switch {
	case s.Name != "":
		return nil, fmt.Errorf("%s.name %q: onePerNode and others take its place", field, s.Name)
	case s.Resources != nil:
		return nil, fmt.Errorf("%s.resources: want them in onePerNode or others", field)
	case s.Shape != nil:
		return nil, fmt.Errorf("%s.shape: want it in onePerNode or others", field)
	case s.OnePerNode == nil:
		return nil, fmt.Errorf("%s.onePerNode is missing beside others", field)
	case s.Others == nil:
		return nil, fmt.Errorf("%s.others is missing beside onePerNode", field)
	}
	one, err := s.OnePerNode.policy(field + ".onePerNode")
	if err != nil {
		return nil, err
	}
	others, err := s.Others.policy(field + ".others")
	return Split{OnePerNode: one, Others: others}, err
}

func (c *Choice) policy(field string) (binpack.Policy, error) {
	if c.Name == "" {
		return nil, fmt.Errorf("%s.name is missing: known are %s", field, strings.Join(SettableNames(), ", "))
	}
	if err := settable(c.Name); err != nil {
		return nil, fmt.Errorf("%s.name %q: %w", field, c.Name, err)
	}
	p, err := ByName(c.Name, Options{TiesByPosition: true})
	if err != nil {
		return nil, err
	}
	if err := c.checkResources(field + ".resources"); err != nil {
		return nil, err
	}
	if err := c.checkShape(field + ".shape"); err != nil {
		return nil, err
	}
	switch p := p.(type) {
	case MostAllocated:
		p.Resources = c.Resources
		return p, c.unshaped(field)
	case LeastAllocated:
		p.Resources = c.Resources
		return p, c.unshaped(field)
	case RequestedToCapacityRatio:
		p.Resources, p.Shape = c.Resources, c.Shape
		return p, nil
	}
	if c.Resources != nil {
		return nil, fmt.Errorf("%s.resources: %s has none; mostallocated, leastallocated and requestedtocapacityratio have", field, c.Name)
	}
	return p, c.unshaped(field)
}

func (c *Choice) unshaped(field string) error {
	if c.Shape != nil {
		return fmt.Errorf("%s.shape: %s has none; requestedtocapacityratio has", field, c.Name)
	}
	return nil
}

// checkResources checks weights as kube-scheduler does.
func (c *Choice) checkResources(field string) error {
	if c.Resources != nil && len(c.Resources) == 0 || len(c.Resources) > MaxResources {
		return fmt.Errorf("%s has %d entries: want 1 to %d", field, len(c.Resources), MaxResources)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Resources)) {
		if w := c.Resources[name]; w < 1 || w > 100 {
			return fmt.Errorf("%s.%s %d: want 1 to 100", field, name, w)
		}
	}
	return nil
}

// checkShape checks the points as kube-scheduler does.
func (c *Choice) checkShape(field string) error {
	if c.Shape != nil && len(c.Shape) == 0 {
		return fmt.Errorf("%s has no point", field)
	}
	for i, p := range c.Shape {
		switch {
		case len(p) != 2:
			return fmt.Errorf("%s[%d] %v: want a utilisation and a score", field, i, p)
		case p[0] < 0 || p[0] > maxNodeScore:
			return fmt.Errorf("%s[%d] %v: want a utilisation from 0 to 100", field, i, p)
		case p[1] < 0 || p[1] > maxShapeScore:
			return fmt.Errorf("%s[%d] %v: want a score from 0 to %d", field, i, p, maxShapeScore)
		case i > 0 && p[0] <= c.Shape[i-1][0]:
			return fmt.Errorf("%s[%d] %v: want a utilisation above %d", field, i, p, c.Shape[i-1][0])
		}
	}
	return nil
}

// choices lists the rules with their fields.
func (s *Settings) choices(field string) map[string]*Choice {
	if s.OnePerNode == nil {
		return map[string]*Choice{field: &s.Choice}
	}
	return map[string]*Choice{field + ".onePerNode": s.OnePerNode, field + ".others": s.Others}
}

// Suits reports a resource that is no dimension of an instance; nil if all are
// dimensions. Scalar resources may be missing, since one that no item requests never
// counts.
func (s *Settings) Suits(field string, inst *binpack.Instance) error {
	all := s.choices(field)
	for _, at := range slices.Sorted(maps.Keys(all)) {
		for _, name := range slices.Sorted(maps.Keys(all[at].Resources)) {
			here := func(d binpack.Dimension) bool { return d.Name == name }
			if !isScalar(binpack.Dimension{Name: name}) && !slices.ContainsFunc(inst.Dimensions, here) {
				return fmt.Errorf("%s.resources.%s: there is no such dimension", at, name)
			}
		}
	}
	return nil
}

// String is the rule for people.
func (s *Settings) String() string {
	if s.OnePerNode == nil {
		return s.Choice.String()
	}
	return "one per node: " + s.OnePerNode.String() + "; others: " + s.Others.String()
}

func (c *Choice) String() string {
	parts := []string{c.Name}
	for _, name := range slices.Sorted(maps.Keys(c.Resources)) {
		parts = append(parts, fmt.Sprintf("%s × %d", name, c.Resources[name]))
	}
	if c.Shape != nil {
		var points []string
		for _, p := range c.Shape {
			points = append(points, fmt.Sprintf("%d → %d", p[0], p[1]))
		}
		parts = append(parts, "shape "+strings.Join(points, ", "))
	}
	return strings.Join(parts, ", ")
}
