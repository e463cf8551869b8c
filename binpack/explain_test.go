package binpack_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// why is the definition of [binpack.State.Why], from the list of items.
func (w *world) why(app int32, at spot) binpack.Reason {
	a, ml, here := &w.inst.Apps[app], &w.inst.Machines[at.line], w.on(at)
	for d, need := range a.Demand {
		for _, p := range here {
			need += w.inst.Apps[p.app].Demand[d]
		}
		if need > ml.Capacity[d] {
			return binpack.Reason{Kind: binpack.TooSmall, Index: d}
		}
	}
	for d := range a.Demand { // a world that looks at one dimension's devices
		only := *w.inst
		only.Dimensions = append([]binpack.Dimension{}, w.inst.Dimensions...)
		for other := range only.Dimensions {
			only.Dimensions[other].Device = other == d && w.inst.Dimensions[d].Device
		}
		if !(&world{inst: &only, items: w.items}).takesDevices(app, at) {
			return binpack.Reason{Kind: binpack.NoDevice, Index: d}
		}
	}
	if a.Types != nil {
		allowed := false
		for _, t := range a.Types {
			allowed = allowed || t == ml.Type
		}
		if !allowed {
			return binpack.Reason{Kind: binpack.WrongType}
		}
	}
	only := *w.inst
	only.Rules = nil
	if !(&world{inst: &only, items: w.items}).allows(a.Group, here) {
		return binpack.Reason{Kind: binpack.LimitReached}
	}
	for i, r := range w.inst.Rules {
		only.Rules = []binpack.Rule{r}
		if !(&world{inst: &only, items: w.items}).allows(a.Group, here) {
			return binpack.Reason{Kind: binpack.RuleForbids, Index: i}
		}
	}
	if !w.spreads(a.Group, here) {
		return binpack.Reason{Kind: binpack.SpreadWanted}
	}
	return w.whyZone(a, ml.Zone)
}

// TestWhy: the reason is the first clause of the definition that fails, none
// exactly where the item fits, and the counts are those of single machines.
func TestWhy(t *testing.T) {
	kinds := map[binpack.ReasonKind]int{}
	for seed := range uint64(200) {
		d := seeded(seed + 1000)
		b := newBench(t, randomInstance(d, true))
		for range 40 {
			b.step(d)
			app := int32(d.IntN(len(b.inst.Apps)))
			want, offered := map[binpack.Reason]int{}, b.world.offered()
			for _, at := range offered {
				m := b.state.MachineAt(at.line, at.index)
				got := b.state.Why(app, m)
				require.Equal(t, b.world.why(app, at), got)
				require.Equal(t, b.state.Fits(app, m), got == binpack.Reason{})
				kinds[got.Kind]++
				if got.Kind != binpack.Accepted {
					want[got]++
				}
			}
			got, n := b.state.Rejections(app)
			require.Equal(t, want, got)
			require.Equal(t, len(offered), n)
		}
	}
	for kind := binpack.Accepted; kind <= binpack.SpreadWanted; kind++ {
		require.Greater(t, kinds[kind], 20, "reason %d", kind)
	}
}
