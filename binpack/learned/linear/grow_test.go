package linear

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// A scorer that was not asked about some requests, as of a canary, looks again at the
// machines that changed only.
func TestMissedRequestsTouchNoMachine(t *testing.T) {
	inst, _ := packtest.Large()
	s := binpack.NewState(inst)
	l := NewScorer(everyFeature(t, binpack.K0, true), s)
	for app := range int32(100) {
		s.Arrive(app, 1)
		m, err := s.Choose(l, binpack.Item{App: app})
		require.NoError(t, err)
		s.Place(binpack.Item{App: app}, m, nil)
	}
	out := []float64{0}
	l.Score(binpack.Item{App: 0}, []int32{0}, out)
	for app := range int32(3) {
		s.Arrive(app, 2)
	}
	l.Score(binpack.Item{App: 0}, []int32{0}, out)
	require.Empty(t, l.touched)
	want := []float64{0}
	NewScorer(l.p, s).Score(binpack.Item{App: 0}, []int32{0}, want)
	require.Equal(t, want, out)
}
