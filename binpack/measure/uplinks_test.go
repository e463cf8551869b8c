package measure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/measure"
)

// Two machines with an uplink of 10, and one that is not in use. On the first two senders of 4 and
// one of their three receivers, on the second the third sender and two receivers.
func TestUplinks(t *testing.T) {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "egress", One: 1000}}, Types: []string{""},
		Groups:   []binpack.Group{{Name: "send"}, {Name: "get"}},
		Machines: []binpack.MachineLine{{Name: "m", Count: 3, Capacity: []int64{9, 10_000}}},
		Apps:     []binpack.App{{Name: "send", Demand: []int64{1, 4000}}, {Name: "get", Group: 1, Demand: []int64{1, 0}}},
	}
	var raised map[int32]float64
	of := func(limit float64, pairs ...binpack.Pair) measure.Uplinks {
		inst.Pairs = pairs
		blind := *inst
		blind.Apps = []binpack.App{inst.Apps[0], inst.Apps[1]}
		blind.Apps[0].Demand = []int64{1, 0}
		s := binpack.NewState(&blind)
		for _, at := range [][2]int32{{0, 0}, {0, 0}, {1, 0}, {0, 1}, {1, 1}, {1, 1}} {
			s.Place(binpack.Item{App: at[0]}, at[1], nil)
		}
		return measure.UplinksOf(s, inst, 1, limit, raised)
	}
	require.Equal(t, measure.Uplinks{Machines: 2, Over: 1, Most: .8}, of(.7))
	require.Equal(t, measure.Uplinks{Machines: 2, Over: 0, Most: .8}, of(.8), "the limit itself is not over")
	raised = map[int32]float64{0: 20}
	require.InDelta(t, .4, of(.7).Most, 1e-12)
	raised = nil
	// A third of what each of the two sends stays, and two thirds of the other's.
	all := of(.5, binpack.Pair{App: 0, Other: 1, Bits: 3})
	require.InDelta(t, (8-2.)/10, all.Most, 1e-12)
	require.InDelta(t, (2+2)/12., all.Local, 1e-12)
	// One of the two has a partner here.
	paired := of(.3, binpack.Pair{App: 0, Other: 1, Bits: 4, Paired: true})
	require.InDelta(t, .4, paired.Most, 1e-12)
	require.Equal(t, 1, paired.Over)
	require.InDelta(t, 8/12., paired.Local, 1e-12)
	// More than an item sends cannot stay.
	require.InDelta(t, .4, of(.3, binpack.Pair{App: 0, Other: 1, Bits: 400, Paired: true}).Most, 1e-12)
}
