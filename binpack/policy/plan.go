package policy

import (
	"errors"

	"github.com/sigma-scheduler/sigma/binpack"
)

func newPlan(Spec) (binpack.Policy, error) { return nil, errors.New("spec.model plan: not built yet") }
