package tune

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// With Choose nothing is judged: the last days choose, all before them train.
func TestChooseOnly(t *testing.T) {
	traces := []*trace.Trace{lasting(48)}
	out, err := Run(t.Context(), Config{
		Traces: traces, Choose: day, Target: Live, InForce: "mostallocated",
		Evaluations: 5, Seeds: 1, Seed: 1, Workers: 1, Name: "p",
	})
	require.NoError(t, err)
	require.Empty(t, out.Reason)
	require.NotEmpty(t, out.Validation)
	require.Empty(t, out.Test)
	require.Equal(t, Parts{Train: "hours 0 to 24", Choose: "hours 24 to 47.8", Exposure: "not judged"}, out.Parts)
}

// Choose keeps no hours for a price of preferences, which has to be judged, too.
func TestChooseHasNoPrice(t *testing.T) {
	cfg := Config{Traces: []*trace.Trace{lasting(48)}, Choose: day, PreferencesPercent: 1, Target: Live, InForce: "mostallocated", Evaluations: 5, Seeds: 1, Workers: 1}
	_, err := Run(t.Context(), cfg)
	require.EqualError(t, err, "the settings Choose 86400 s and PreferencesPercent 1 do not go together: the price of preferences is judged on hours of the history, and Choose leaves none for that")
}

// Days that cost 10 % less save 10 % in every draw; of a saving and a loss neither is sure.
func TestPaired(t *testing.T) {
	sure := Paired([]float64{90, 180, 45}, []float64{100, 200, 50}, .9, 1)
	require.InDelta(t, 10, sure.Low, 1e-9)
	require.InDelta(t, 10, sure.High, 1e-9)
	unsure := Paired([]float64{80, 110}, []float64{100, 100}, .9, 1)
	require.InDelta(t, 5, unsure.Mean, 1e-9)
	require.InDelta(t, -10, unsure.Low, 1e-9)
	require.InDelta(t, 20, unsure.High, 1e-9)
	narrow := Paired([]float64{80, 110}, []float64{100, 100}, .3, 1)
	require.InDelta(t, 5, narrow.Low, 1e-9)
}
