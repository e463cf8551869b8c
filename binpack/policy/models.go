package policy

import (
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/learned/devices"
	"github.com/sigma-scheduler/sigma/binpack/learned/linear"
	"github.com/sigma-scheduler/sigma/binpack/learned/planned"
)

// models are the models that a policy file may name, in the order in which they
// are shown.
var models = []*learned.Model{
	&linear.Model,
	&planned.Model,
	&devices.Model,
	&shippedModel,
}

// Laboratory are models that only sigma-lab registers.
var Laboratory = []string{"population", "rollout"}

// Register adds a model. Call it in an init function. It panics when the name is taken.
func Register(m *learned.Model) {
	if m.Name == RuleModel || ModelOf(m.Name) != nil {
		panic(fmt.Sprintf("policy: there is a model %s already", m.Name))
	}
	models = append(models, m)
}

// TrainableNames lists the names of the models that have numbers to train.
func TrainableNames() []string {
	var names []string
	for _, m := range models {
		if m.Learns != nil {
			names = append(names, m.Name)
		}
	}
	return names
}

// Models lists the models that a policy file may name.
func Models() []*learned.Model { return slices.Clone(models) }

// ModelNames lists the names of the models.
func ModelNames() []string {
	var names []string
	for _, m := range models {
		names = append(names, m.Name)
	}
	return names
}

// ModelOf finds a model by its name; nil = there is no such model.
func ModelOf(name string) *learned.Model {
	for _, m := range models {
		if m.Name == name {
			return m
		}
	}
	return nil
}
