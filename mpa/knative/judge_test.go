package knative

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// By chance alone hardly any canary that is as good is judged, however often one looks.
func TestJudgeByChance(t *testing.T) {
	lo, hi := wilson(0, 0)
	assert.Equal(t, []float64{0, 1}, []float64{lo, hi})
	lo, hi = wilson(50, 1000)
	assert.InDelta(t, .035, lo, .002)
	assert.InDelta(t, .071, hi, .002)
	judged := 0
	for seed := range 200 {
		random := seeded(seed)
		s, c := arm("a", 0, 0, 0, 0), arm("b", 0, 0, 0, 0)
		for range 240 {
			for _, of := range []struct {
				a *v1alpha1.Arm
				n int
			}{{&s, 90}, {&c, 10}} {
				for range of.n {
					of.a.Requests++
					if random.Float64() < .05 {
						of.a.Late++
					}
				}
				of.a.PodSeconds += float64(of.n)
			}
			if verdict, _ := Judge(trial(start, s, c)); verdict != Open && verdict != Level {
				judged++
				break
			}
		}
	}
	assert.LessOrEqual(t, judged, 10, "of 200")
}
