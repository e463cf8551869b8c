package binpack_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// zonedInstance is a random instance whose machines are in zones, some in none, with hard
// limits and rules by zone.
func zonedInstance(d dice) *binpack.Instance {
	inst := randomInstance(d, d.IntN(3) == 0)
	names := oneOf(d, []string{"x", "y", "z"}, []string{"x", "y", ""}, []string{"x", "y", "z", ""}, []string{""})
	for i := range inst.Machines {
		inst.Machines[i].Zone = names[i%len(names)]
	}
	for range 2 * len(names) { // every zone has several lines
		line := oneOf(d, inst.Machines...)
		line.Name, line.Zone, line.Type = fmt.Sprint("m", len(inst.Machines)), oneOf(d, names...), int32(d.IntN(len(inst.Types)))
		inst.Machines = append(inst.Machines, line)
	}
	for g := range inst.Groups {
		if inst.Groups[g].Limit = 0; d.IntN(3) > 0 {
			inst.Groups[g].Zone = binpack.ZoneLimits{
				Limit: oneOf[int32](d, 0, 0, 0, 1, 2, 4), SpreadMin: oneOf[int32](d, 0, 0, 0, 1, 2, 3), Skew: oneOf[int32](d, 0, 1, 1, 2),
			}
		}
	}
	for range d.IntN(4) {
		if a, b := int32(d.IntN(len(inst.Groups))), int32(d.IntN(len(inst.Groups))); a != b {
			inst.ZoneRules = append(inst.ZoneRules, binpack.Rule{A: a, B: b, Max: int32(d.IntN(3))})
		}
	}
	return inst
}

// whyZone is the definition of the limits and rules by zone, from the list of items.
func (w *world) whyZone(a *binpack.App, zone string) binpack.Reason {
	limits := w.inst.Groups[a.Group].Zone
	if zone == "" {
		if limits.Limit > 0 || limits.SpreadMin > 1 || limits.Skew > 0 {
			return binpack.Reason{Kind: binpack.NoZone, Zone: true}
		}
		return binpack.Reason{}
	}
	in := map[string]map[int32]int32{zone: {a.Group: 1}} // with the item there
	for _, p := range w.items {
		at := w.inst.Machines[p.line].Zone
		if in[at] == nil {
			in[at] = map[int32]int32{}
		}
		in[at][w.inst.Apps[p.app].Group]++
	}
	here, stands := in[zone], int32(0)
	for at, counts := range in {
		if at != "" && counts[a.Group] > 0 {
			stands++
		}
	}
	if limits.Limit > 0 && here[a.Group] > limits.Limit {
		return binpack.Reason{Kind: binpack.LimitReached, Zone: true}
	}
	if here[a.Group] > 1 && stands < limits.SpreadMin {
		return binpack.Reason{Kind: binpack.SpreadWanted, Zone: true}
	}
	for _, ml := range w.inst.Machines {
		usable := a.Types == nil
		for _, t := range a.Types {
			usable = usable || t == ml.Type
		}
		if usable && ml.Zone != "" && limits.Skew > 0 && here[a.Group]-in[ml.Zone][a.Group] > limits.Skew {
			return binpack.Reason{Kind: binpack.Uneven, Zone: true}
		}
	}
	for i, r := range w.inst.ZoneRules {
		if (r.A == a.Group || r.B == a.Group) && here[r.A] > 0 && here[r.B] > r.Max {
			return binpack.Reason{Kind: binpack.RuleForbids, Index: i, Zone: true}
		}
	}
	return binpack.Reason{}
}

// TestZonesAgainstDefinition: State, checker and definition are of one mind about hard limits
// and rules by zone, placement by placement, and policies choose what the definition allows.
func TestZonesAgainstDefinition(t *testing.T) {
	placed, kinds := 0, map[binpack.Reason]int{}
	for seed := range uint64(700) {
		d := seeded(seed + 70_000)
		b := newBench(t, zonedInstance(d))
		for range 60 {
			b.step(d)
			app := int32(d.IntN(len(b.inst.Apps)))
			if m := int32(d.IntN(max(1, b.state.Size()))); b.state.Size() > 0 {
				line, index := b.state.Position(m)
				got := b.state.Why(app, m)
				require.Equal(t, b.world.why(app, spot{line, index}), got)
				got.Index = 0
				kinds[got]++
			}
		}
		placed += int(b.state.Placements())
	}
	refused := 0
	for kind, n := range kinds {
		if kind.Zone {
			refused += n
		}
	}
	t.Logf("%d placements, %d machines closed by a zone", placed, refused)
	require.Greater(t, placed, 10_000)
	for _, kind := range []binpack.ReasonKind{binpack.LimitReached, binpack.RuleForbids, binpack.SpreadWanted, binpack.NoZone, binpack.Uneven} {
		require.Greater(t, kinds[binpack.Reason{Kind: kind, Zone: true}], 50, "reason %d", kind)
	}
}

// TestPoliciesKeepZones: what tells a policy which machines come first knows no zones, so that
// the choice among all machines must be the first of the ranking of those that take the item.
func TestPoliciesKeepZones(t *testing.T) {
	everyPolicy(t, func(t *testing.T, pol binpack.Policy) {
		chosen := 0
		for seed := range uint64(25) {
			run(zonedInstance(seeded(seed+80_000)), pol, seed, 50, func(s *binpack.State, scorer binpack.Scorer, item binpack.Item) {
				allowed := s.Feasible(item.App, nil)
				m, err := s.Choose(scorer, item)
				if len(allowed) == 0 {
					require.ErrorIs(t, err, binpack.ErrNoFit)
					return
				}
				ranked, bad := s.Rank(scorer, item, allowed, 1, nil)
				require.NoError(t, bad)
				require.NoError(t, err)
				require.Equal(t, ranked[0].Machine, m)
				require.True(t, s.Fits(item.App, m))
				chosen++
			})
		}
		require.Greater(t, chosen, 300)
	})
}
