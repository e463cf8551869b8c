package ledger_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// reserve reserves room for some pods of an app, whether there is any or not, or ends that.
func (s *scene) reserve() {
	app, okApp := s.someApp()
	node, okNode := s.someNode()
	if !okApp || !okNode {
		return
	}
	if n := s.w.reserved[[2]string{node, app}]; n > 0 {
		s.do(&ledger.Event{Kind: ledger.KindRelease, Node: node, App: app, Reserved: &ledger.Reserved{Pods: 1 + int32(s.d.IntN(int(n))), Reason: ledger.ReleaseWithdrawn}})
		return
	}
	s.do(&ledger.Event{Kind: ledger.KindReserve, Node: node, App: app, Reserved: &ledger.Reserved{Pods: 1 + int32(s.d.IntN(3)), Until: s.time + 600, By: "PlacementPlan/site"}})
}

func (s *scene) releaseAll(app string) {
	for node := range s.w.nodes {
		if n := s.w.reserved[[2]string{node, app}]; n > 0 {
			s.do(&ledger.Event{Kind: ledger.KindRelease, Node: node, App: app, Reserved: &ledger.Reserved{Pods: n, Reason: ledger.ReleaseWithdrawn}})
		}
	}
}

// take decides that a pod goes to a machine with room reserved for it, which it takes.
func (s *scene) take(e *ledger.Event, machine int32) {
	e.Cause, e.PolicyDigest, e.Mode, e.Clock, e.Node = ledger.CausePlanned, "", "", 0, s.l.NodeName(machine)
	s.do(e)
	for _, r := range s.l.Node(e.Node).Reservations() {
		if r.App.Group() == s.l.App(e.App).Group() {
			s.do(&ledger.Event{Kind: ledger.KindRelease, Node: e.Node, App: r.App.Name(), Reserved: &ledger.Reserved{Pods: 1, Reason: ledger.ReleaseTaken}})
			return
		}
	}
}

// reserving is a scene with reservations.
func reserving(tb testing.TB, seed uint64) *scene {
	s := newSceneOf(tb, seeded(seed), seed%2 == 1)
	s.reserves = true
	return s
}

// Reservations count in the columns as pods would, but are no placements and no arrivals; a
// new set of columns has them alike.
func TestReservationsAgainstRecount(t *testing.T) {
	planned := 0
	for seed := range uint64(40) {
		s := reserving(t, 8000+seed)
		for range 120 {
			s.step()
			s.w.agree(t, s.l)
		}
		pure(s, 60, s.step)
		for _, e := range s.events {
			if e.Decision != nil && e.Cause == ledger.CausePlanned {
				planned++
			}
		}
	}
	require.Greater(t, planned, 100)
}

// A log with reservations gives the same decisions; one that says something else of them
// does not.
func TestVerifyReservations(t *testing.T) {
	found, tampered := 0, 0
	for seed := range uint64(30) {
		s := reserving(t, 9000+seed)
		for range 200 {
			s.step()
		}
		v := verify(t, logOf(t, s.events))
		require.Nil(t, v.First, "seed %d: %v", seed, v.First)
		require.Positive(t, v.Agreed, "seed %d", seed)
		events := copied(t, s.events)
		for i, e := range events {
			if e.Kind == ledger.KindDecide && e.Cause == ledger.CausePlanned {
				e.Cause, e.PolicyDigest = ledger.CausePolicy, digestAt(s.events[:i])
				tampered++
				first := verify(t, logOf(t, events)).First
				require.NotNil(t, first, "seed %d", seed)
				require.Equal(t, i+1, first.Line)
				if strings.Contains(first.Reason, "room is reserved there") {
					found++
				}
				break
			}
		}
	}
	require.Greater(t, tampered, 20)
	require.Greater(t, found, tampered/2, "the others differ by their windows, or by the file that is chosen")
}

// digestAt is that of the primary policy after some events.
func digestAt(events []*ledger.Event) (digest string) {
	for _, e := range events {
		if e.Kind == ledger.KindPolicy && e.Role == ledger.Primary {
			digest = e.Policy.Digest()
		}
	}
	return digest
}

// A planned decision for which nothing is reserved is a difference.
func TestVerifyPlannedWithoutReservation(t *testing.T) {
	s := calm(t, 3)
	events := copied(t, s.events)
	for i, e := range events {
		if e.Kind == ledger.KindDecide && e.Cause == ledger.CausePolicy && e.Choice == "" {
			e.Cause, e.PolicyDigest = ledger.CausePlanned, ""
			first := verify(t, logOf(t, events)).First
			require.NotNil(t, first)
			require.Equal(t, i+1, first.Line)
			require.ErrorContains(t, first, "no room is reserved for it there")
			return
		}
	}
	t.Fatal("no decision")
}

// What cannot be reserved or released is refused, and changes nothing.
func TestReservationsAreChecked(t *testing.T) {
	l := pair(t, "fixed")
	apply(t, l, &ledger.Event{Kind: ledger.KindReserve, Node: "a", App: "web", Reserved: &ledger.Reserved{Pods: 2, Until: 9, By: "x"}})
	before := l.Describe(byUID)
	event := func(kind ledger.Kind, node, app string, r *ledger.Reserved) *ledger.Event {
		return &ledger.Event{Kind: kind, Node: node, App: app, Reserved: r}
	}
	for _, tt := range []struct {
		e    *ledger.Event
		want string
	}{
		{event(ledger.KindReserve, "gone", "web", &ledger.Reserved{Pods: 1}), `node "gone" is unknown`},
		{event(ledger.KindReserve, "a", "gone", &ledger.Reserved{Pods: 1}), `app "gone" is unknown`},
		{event(ledger.KindReserve, "a", "web", nil), "reserved is missing"},
		{event(ledger.KindReserve, "a", "web", &ledger.Reserved{}), "reserved.pods 0: want 1 to 10000"},
		{event(ledger.KindReserve, "a", "web", &ledger.Reserved{Pods: 10_001}), "reserved.pods 10001: want 1 to 10000"},
		{event(ledger.KindRelease, "a", "web", &ledger.Reserved{Pods: 3}), `app "web" on node "a": fewer than 3 pods are reserved`},
		{event(ledger.KindRelease, "b", "web", &ledger.Reserved{Pods: 1}), `app "web" on node "b": fewer than 1 pods are reserved`},
		{&ledger.Event{Kind: ledger.KindForget, App: "web"}, `app "web": room is reserved for 2 of its pods`},
	} {
		require.ErrorContains(t, l.Apply(tt.e), tt.want)
	}
	require.Equal(t, before, l.Describe(byUID))
	apply(t, l, &ledger.Event{Kind: ledger.KindForget, Node: "a"}, &ledger.Event{Kind: ledger.KindForget, App: "web"})
}

// A node that reservations fill takes the pods that they are for, and no others.
func TestReservationIsForItsPods(t *testing.T) {
	l := pair(t, "fixed")
	apply(t, l,
		&ledger.Event{Kind: ledger.KindApp, App: "db", Spec: &ledger.App{Group: "db", Demand: map[string]int64{"cpu": 1, "pods": 1}}},
		&ledger.Event{Kind: ledger.KindApp, App: "web-large", Spec: &ledger.App{Group: "web", Demand: map[string]int64{"cpu": 2, "pods": 1}}},
		&ledger.Event{Kind: ledger.KindReserve, Node: "c", App: "web", Reserved: &ledger.Reserved{Pods: 4, Until: 9, By: "x"}},
		&ledger.Event{Kind: ledger.KindReserve, Node: "a", App: "web", Reserved: &ledger.Reserved{Pods: 4, Until: 9, By: "x"}})
	for app, want := range map[string]struct {
		nodes   []string
		planned string
	}{"web": {[]string{"a", "b", "c", "z"}, "a"}, "web-large": {[]string{"a", "b", "c", "z"}, "a"}, "db": {[]string{"b", "z"}, ""}} {
		var nodes []string
		fits := l.Fits(l.AppIndex(app), nil)
		for _, m := range fits {
			nodes = append(nodes, l.NodeName(m))
		}
		require.Equal(t, want.nodes, nodes, app)
		planned := ""
		if m := l.ReservedMachine(l.AppIndex(app), fits); m >= 0 {
			planned = l.NodeName(m)
		}
		require.Equal(t, want.planned, planned, app)
	}
}
