package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
)

// Messages of a connection of 8 bytes a second, beside a long flow, by hand.
func TestConnectionByHand(t *testing.T) {
	long := Flow{At: 0, Size: 80}
	for name, c := range map[string]struct {
		gap      float64
		messages []Flow
		want     []float64
	}{
		// The long flow leaves the first band at 1. The message is alone there from 2 to 2.5.
		"the first": {1, []Flow{{At: 2, Size: 4, Connection: 1}}, []float64{.5}},
		// The first 8 are sent at 3, the next come after a silence of 2.
		"after a silence": {1, []Flow{{At: 2, Size: 8, Connection: 1}, {At: 5, Size: 4, Connection: 1}}, []float64{1, .5}},
		// With a longer gap they share the last band.
		"without a silence": {3, []Flow{{At: 2, Size: 8, Connection: 1}, {At: 5, Size: 4, Connection: 1}}, []float64{1, 1}},
		"of another":        {3, []Flow{{At: 2, Size: 8, Connection: 1}, {At: 5, Size: 4, Connection: 2}}, []float64{1, .5}},
		"of none":           {3, []Flow{{At: 2, Size: 8, Connection: 1}, {At: 5, Size: 4}}, []float64{1, .5}},
		// The first 8 of the message of 16 go from 2 to 3, and the last share the band with the long flow. The short message comes
		// at 4, when the connection is not silent, and three share: both have 4 more at 5.5.
		"at once": {0, []Flow{{At: 2, Size: 16, Connection: 1}, {At: 4, Size: 4, Connection: 1}}, []float64{3.5, 1.5}},
		// Half of it is in the first band.
		"a part": {3, []Flow{{At: 2, Size: 4, Connection: 1}, {At: 5, Size: 8, Connection: 1}}, []float64{.5, 1.5}},
	} {
		l := NewLink(64)
		l.Gap = c.gap
		flows := append([]Flow{long}, c.messages...)
		fct := make([]float64, len(flows))
		l.Bands(flows, flow.Thresholds{8}, fct)
		require.InDeltaSlice(t, c.want, fct[1:], 1e-12, name)
	}
}

// Short messages of connections that are kept open go first where a silence ends a message; where none does they wait behind
// flows that begin, and take longer than where nothing is ordered.
func TestConnectionsAreMessages(t *testing.T) {
	alone := traffic(t, .8, 0)
	shared := *alone
	shared.Connections = 3000
	const n = 20_000
	var short [3]float64
	l := NewLink(alone.Rate)
	fct := make([]float64, n)
	for i, run := range []struct {
		traffic    *Traffic
		thresholds flow.Thresholds
		gap        float64
	}{{&shared, nil, 0}, {&shared, bands, 0}, {&shared, bands, 1e9}} {
		flows := run.traffic.Generate(n, 1)
		l.Gap = run.gap
		l.Bands(flows, run.thresholds, fct)
		short[i] = Summarise(flows, fct, 0, alone.Rate)[1].Mean
	}
	require.Less(t, short[1], short[0]/2, "%v", short)
	require.Greater(t, short[2], 2*short[0], "%v", short)
}
