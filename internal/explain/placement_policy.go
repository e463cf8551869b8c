package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// PolicyLogged returns the policy that made a logged decision.
func PolicyLogged(q *snapshot.Question) (compare.Found, error) {
	if q.Object == nil || strings.HasPrefix(q.Decision.Cause, ledger.CauseFallback) {
		return compare.Found{Policy: rule.Fallback{}, Name: "bestfit"}, nil
	}
	return PolicyOf(q.Object, q)
}

// PolicyOf returns the policy of an object, if it suits the cluster.
func PolicyOf(object *policy.Object, q *snapshot.Question) (compare.Found, error) {
	if err := object.Spec.Suits(q.State.Columns().Instance()); err != nil {
		return compare.Found{}, fmt.Errorf("policy %s: %w", object.Metadata.Name, err)
	}
	p, err := object.Policy()
	return compare.Found{Policy: p, Name: object.Metadata.Name, Object: object}, err
}

// PolicyNamed finds a policy by its name on the command line. Among the shipped files
// it chooses as for a trace of the cluster.
func PolicyNamed(catalog *compare.Catalog, name string, q *snapshot.Question) (compare.Found, error) {
	state := q.State.Columns()
	inst := *state.Instance()
	inst.Apps = slices.Clone(inst.Apps)
	for i, n := range state.Known.Expected {
		inst.Apps[i].Expected = n
	}
	return catalog.Find(name, &trace.Trace{Name: "the cluster", Instance: &inst})
}
