package agents_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// Two pods, as many as there may be, get twelve times the work and fourteen times the memory in an
// hour: their size follows, however often it has changed.
func TestSizeGrowsForAnHour(t *testing.T) {
	target := mpatest.Web()
	target.Replicas = mpa.Range{Min: 2, Max: 2}
	for name, agent := range map[string]mpa.Agent{
		"predictive": agents.NewPredictive(target),
		"learned":    agents.NewLearned(target, learned.General().Values),
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(agent)
			l.replicas, l.size = 2, mpa.Resources{CPU: 500, Memory: 512 << 20}
			l.live(30*time.Minute, 50, .15)
			tight := 0
			for i := range 60 {
				rate := 50 * (1 + float64(i)*11/60)
				l.memory = int64(math.Exp(float64(i)/22) * (200 << 20))
				l.replicas = 2
				l.live(time.Minute, rate, .15)
				if l.cores() < rate*.01 || l.size.Memory < l.memory {
					tight++
				}
			}
			assert.Zero(t, tight, "minutes, at the end %d cores, %d MiB", int(l.cores()), l.size.Memory>>20)
		})
	}
}
