package ledger_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// clockPolicies are those that a live cluster can use in windows.
var clockPolicies = []string{"general-k1-clock", "general-k1-clock K0+clock"}

// windows plans roll-outs of some groups, or that there are none.
func (s *scene) windows() {
	e := &ledger.Event{Kind: ledger.KindWindow, Windows: map[string]*ledger.Window{}}
	for range 1 + s.d.IntN(4) {
		start := s.time + float64(s.d.IntN(400)-200)
		w := &ledger.Window{Start: start, End: start + float64(1+s.d.IntN(600))}
		if s.d.IntN(5) == 0 {
			w = nil
		}
		e.Windows[fmt.Sprint("g", s.d.IntN(3+s.apps))] = w
	}
	s.do(e)
}

// In a window that is the trace's arrival period, a policy that reads a clock decides as
// in Cerebro. In a longer one it does not, and without one the policy in its place decides.
func TestWindowLikeCerebro(t *testing.T) {
	const noon = 1.8e9
	traces := map[string]*trace.Trace{
		"large": byPods(t, "large2d", 90, map[string]string{"scale": ".2"}),
		"fixed": byPods(t, "fixed", 0, map[string]string{"scale": ".2"}),
		"churn": byPods(t, "churn", 90, map[string]string{"scale": ".1", "days": "1"}),
	}
	differ := 0
	for name, tr := range traces {
		asInACluster(tr.Instance)
		first, last := math.Inf(1), math.Inf(-1)
		for i := range tr.Events {
			e := &tr.Events[i]
			e.Time = math.Floor(e.Time*8) / 8 // so that times since 1970 are exact
			if e.Kind == trace.Create {
				first, last = min(first, e.Time), max(last, e.Time)
			}
		}
		windows := func(end float64) *ledger.Event {
			e := &ledger.Event{Kind: ledger.KindWindow, Windows: map[string]*ledger.Window{}}
			for _, g := range tr.Instance.Groups {
				e.Windows[g.Name] = &ledger.Window{Start: noon + first, End: noon + end}
			}
			return e
		}
		for _, p := range clockPolicies {
			t.Run(name+" "+p, func(t *testing.T) {
				object := shipped(t, p)
				asked, agreed := besideAt(t, tr, object, noon, windows(last))
				require.Greater(t, asked, 500)
				require.Equal(t, asked, agreed)
				_, longer := besideAt(t, tr, object, noon, windows(last+3*(last-first)))
				_, outside := besideAt(t, tr, object, noon)
				t.Logf("%d decisions, %d differ in a window four times as long, %d without one", asked, asked-longer, asked-outside)
				differ += min(1, asked-longer)
				require.Less(t, outside, asked)
			})
		}
	}
	require.Equal(t, 2, differ, "the clock says which machines of an open fleet to use; elsewhere it changes nothing")
}

// asInACluster gives an instance the dimension that a live cluster has, since the mean over
// dimensions is a feature, and hides the lifetimes, which no cluster declares.
func asInACluster(inst *binpack.Instance) {
	inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: "pods", One: 1})
	for i := range inst.Machines {
		inst.Machines[i].Capacity = append(inst.Machines[i].Capacity, 1e6)
	}
	for i := range inst.Apps {
		inst.Apps[i].Demand, inst.Apps[i].Lifetime = append(inst.Apps[i].Demand, 0), -1
	}
}

// Whatever happens, decisions in and outside of windows are functions of the events and
// the clock, and a log gives them again.
func TestWindowsInAScene(t *testing.T) {
	decisions, causes, agreed := 0, map[string]int{}, 0
	for seed := range uint64(30) {
		s := newSceneOf(t, seeded(8800+seed), true)
		decisions += pure(s, 60, s.step)
		v := verify(t, logOf(t, s.events))
		require.Nil(t, v.First, "seed %d: %v", seed, v.First)
		agreed += v.Agreed
		for cause, n := range v.Causes {
			causes[cause] += n
		}
	}
	t.Log(decisions, causes)
	require.Equal(t, causes[ledger.CausePolicy]+causes[ledger.CauseNoWindow], agreed)
	require.Greater(t, causes[ledger.CausePolicy], 100)
	require.Greater(t, causes[ledger.CauseNoWindow], 100)
}

func TestElapsed(t *testing.T) {
	w := &ledger.Window{Start: 1000, End: 1100}
	for at, want := range map[float64]float64{999.5: -1, 1000: 0, 1025: .25, 1100: 1, 1100.5: -1} {
		require.InDelta(t, want, w.Elapsed(at), 0, at)
	}
	require.Negative(t, (*ledger.Window)(nil).Elapsed(1000))
}

// A policy that reads a clock needs another one for outside of windows, which reads none.
func TestOutside(t *testing.T) {
	l := pair(t, "fixed")
	load := func(policy, outside string) error {
		e := &ledger.Event{Kind: ledger.KindPolicy, Role: ledger.Primary, Policy: shipped(t, policy)}
		if outside != "" {
			e.Outside = shipped(t, outside)
		}
		return l.Apply(e)
	}
	require.ErrorContains(t, load("general-k1-clock", ""), "outside is missing: the policy knows K1+clock")
	require.ErrorContains(t, load("general-k1", "general-k1"), "outside goes with a policy that reads a clock, not with K1")
	require.ErrorContains(t, load("general-k1-clock", "general-k2"), "outside: spec.knowledge K2")
	require.ErrorContains(t, load("general-k1-clock", "general-k1-clock K0+clock"), "outside: it reads a clock itself")
	require.NoError(t, load("general-k1-clock", "hand-k1"))

	require.Nil(t, ledger.ClocklessPolicy(shipped(t, "general-k1"), binpack.Open))
	require.Equal(t, shipped(t, "kubernetes-k0"), ledger.ClocklessPolicy(shipped(t, "general-k1-clock"), binpack.Open))
	require.Equal(t, shipped(t, "kubernetes-k0-fixed"), ledger.ClocklessPolicy(shipped(t, "general-k1-clock K0+clock"), binpack.Fixed))
}

// A decision whose cause is not that of its clock is a difference.
func TestVerifyChecksWindows(t *testing.T) {
	object := shipped(t, "general-k1-clock K0+clock")
	inside, outside := object.Digest(), ledger.ClocklessPolicy(object, binpack.Open).Digest()
	first := func(cause, digest string, clock float64) *ledger.Difference {
		events := start(t)
		events[3].Policy, events[3].Outside = object, ledger.ClocklessPolicy(object, binpack.Open)
		events = append(events, &ledger.Event{Kind: ledger.KindWindow, Windows: map[string]*ledger.Window{"a": {Start: 1000, End: 2000}}})
		return verify(t, logOf(t, append(events, &ledger.Event{
			Kind: ledger.KindDecide, UID: "p", App: "a", Node: "n1", Decision: &ledger.Decision{Cause: cause, PolicyDigest: digest, Clock: clock},
		}))).First
	}
	require.Nil(t, first(ledger.CausePolicy, inside, 1000))
	require.Nil(t, first(ledger.CauseNoWindow, outside, 999))
	require.ErrorContains(t, first(ledger.CausePolicy, inside, 2001), "the log has the cause policy, but by its windows it is no-window at the clock 2001")
	require.ErrorContains(t, first(ledger.CauseNoWindow, outside, 1500), "the log has the cause no-window, but by its windows it is policy at the clock 1500")
	_, err := ledger.Verify("d.jsonl", strings.NewReader(logOf(t, append(start(t), &ledger.Event{
		Kind: ledger.KindDecide, UID: "p", App: "a", Node: "n1", Decision: &ledger.Decision{Cause: ledger.CauseNoWindow, PolicyDigest: shipped(t, "hand-k0").Digest()},
	}))))
	require.ErrorContains(t, err, "is none of a policy in use")
}
