package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sigma-scheduler/sigma/mpa"
)

// No saving pays for a promise that is just broken, nor for a kill more than the reference
// has, and there is no cap.
func TestObjective(t *testing.T) {
	slo := mpa.SLO{Percentile: 99}
	pair := Result{CoreHours: 10, Requests: 10_000}
	free := Result{Requests: 10_000}
	assert.Zero(t, free.Objective(slo, &pair))
	free.Violations = 50 // half of what is forgiven
	assert.Zero(t, free.Objective(slo, &pair))
	free.Violations = 100
	assert.Greater(t, free.Objective(slo, &pair), 1.0)
	much := free
	much.Violations = 10_000
	assert.Greater(t, much.Objective(slo, &pair), 5.0)
	pair.Violations = 100
	assert.Zero(t, free.Objective(slo, &pair), "not worse than the reference")
	free.Kills = 1
	assert.InDelta(t, killPrice, free.Objective(slo, &pair), 1e-9)
}
