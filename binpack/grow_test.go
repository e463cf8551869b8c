package binpack_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A state that grows is the state of the whole instance: apps and rules come among
// placements and removals, and after each the answers are those of a new state.
func TestGrownState(t *testing.T) {
	grown := 0
	for seed := range uint64(300) {
		d := seeded(seed)
		whole := randomInstance(d, seed%4 == 0)
		whole.Groups = whole.Groups[:1+d.IntN(len(whole.Groups))]
		inst := part(whole)
		s := binpack.NewState(inst)
		s.Known.Expected = []float64{3}
		for _, app := range whole.Apps[1:] {
			app.Group = min(app.Group, int32(len(inst.Groups)), int32(len(whole.Groups)-1))
			var at []int32
			if int(app.Group) < len(inst.Groups) {
				at = s.GroupApps(app.Group)
			}
			a := s.AddApp(app, whole.Groups[app.Group], len(at))
			require.Equal(t, int(a), len(inst.Apps)-1)
			require.Equal(t, a, s.GroupApps(app.Group)[len(at)])
			grown++
			s.AddRules(slices.DeleteFunc(slices.Clone(whole.Rules), func(r binpack.Rule) bool {
				return int(max(r.A, r.B)) >= len(inst.Groups) || slices.Contains(inst.Rules, r)
			}))
			for range 6 {
				anything(d, s)
			}
			sameState(t, s)
		}
		require.Len(t, s.Known.Expected, len(inst.Apps))
	}
	require.Greater(t, grown, 1000)
}

// part is an instance with one app and its group.
func part(whole *binpack.Instance) *binpack.Instance {
	inst := *whole
	inst.Rules = nil
	inst.Groups = slices.Clone(whole.Groups[:1])
	inst.Apps = slices.Clone(whole.Apps[:1])
	inst.Apps[0].Group = 0
	return &inst
}

// anything places, finds or removes an item.
func anything(d dice, s *binpack.State) {
	app := int32(d.IntN(len(s.Instance().Apps)))
	if m := int32(d.IntN(max(1, s.Size()))); d.IntN(3) == 0 && int(m) < s.Size() && s.Items(m) > 0 {
		s.Remove(s.Contents(m)[0].App, m, nil)
		return
	}
	s.Arrive(app, 1)
	if takes := s.Feasible(app, nil); len(takes) > 0 {
		s.Book(app, takes[d.IntN(len(takes))])
	}
}

// sameState compares a state with one that is made of its instance and contents.
func sameState(t *testing.T, s *binpack.State) {
	t.Helper()
	other := binpack.NewState(s.Instance())
	at := make([]int32, s.Size())
	for m := range int32(s.Size()) {
		at[m] = other.MachineAt(s.Position(m))
		for _, e := range s.Contents(m) {
			for range e.Count {
				other.Book(e.App, at[m])
			}
		}
	}
	require.Equal(t, s.Alive(), other.Alive())
	for a := range int32(len(s.Instance().Apps)) {
		require.Equal(t, s.Spread(s.Instance().Apps[a].Group), other.Spread(s.Instance().Apps[a].Group))
		for m := range int32(s.Size()) {
			require.Equal(t, s.Fits(a, m), other.Fits(a, at[m]), "app %d on %d", a, m)
			closed := func(s *binpack.State, m int32) [2]bool {
				return [2]bool{s.Blocked(a)[m/64]>>(m%64)&1 != 0, s.BlockedApps(m)[a/64]>>(a%64)&1 != 0}
			}
			require.Equal(t, closed(s, m), closed(other, at[m]), "app %d on %d", a, m)
		}
	}
	for g := range int32(len(s.Instance().Groups)) {
		require.Equal(t, s.Effects(g), other.Effects(g))
		require.Equal(t, s.GroupApps(g), other.GroupApps(g))
	}
}
