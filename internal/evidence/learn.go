package evidence

import (
	"context"
	"fmt"
	"time"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/tune"
)

// A Lesson is a history to learn from.
type Lesson struct {
	// History ends where the days begin that judge.
	History *trace.Trace
	// Choose is the last part of it, on which the candidate is chosen.
	Choose time.Duration
	// InForce is the active policy: a built-in name or a file.
	InForce     string
	Evaluations int // of each training
	Seeds       int // trainings of each method
	Seed        uint64
	Workers     int
	Name        string // of the object
	Checkpoint  string // folder; "" = no checkpoint
}

// Learn returns the policy that was best on the part that chooses: a trained one, one that is
// shipped, the active one, or a rule; or else the reason why there is none.
func Learn(ctx context.Context, l Lesson) (object *policy.Object, none string, err error) {
	result, err := tune.Run(ctx, tune.Config{
		Traces: []*trace.Trace{l.History}, Choose: l.Choose.Seconds(), Target: tune.Live, InForce: l.InForce,
		Catalog: compare.Catalog{Shipped: policies.Files}, Evaluations: l.Evaluations, Seeds: l.Seeds, Seed: l.Seed,
		Workers: l.Workers, Name: l.Name, Checkpoint: l.Checkpoint,
	})
	switch {
	case err != nil:
		return nil, "", err
	case result.Reason != "":
		return nil, result.Reason, nil
	case !result.Better:
		return nil, "nothing is better than the policy in force, " + l.InForce, nil
	case result.Object != nil:
		return result.Object, "", nil
	}
	object = &policy.Object{
		APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: l.Name},
		Spec: policy.Spec{
			FeatureVersion: policy.FeatureVersion, Model: policy.RuleModel, Knowledge: binpack.K0.String(),
			Rule: &rule.Settings{Choice: rule.Choice{Name: result.Chosen}}, Mode: policy.DefaultMode,
		},
	}
	if err := object.Validate(); err != nil {
		return nil, "", fmt.Errorf("the rule %s as a policy: %w", result.Chosen, err)
	}
	return object, "", nil
}
