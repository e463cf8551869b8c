package ledger_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// logOf is the log of events, as a file holds it.
func logOf(tb testing.TB, events []*ledger.Event) string {
	tb.Helper()
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for i, e := range events {
		e.Seq = uint64(i + 1)
		require.NoError(tb, enc.Encode(e))
	}
	return text.String()
}

// copied are events that can be changed.
func copied(tb testing.TB, events []*ledger.Event) []*ledger.Event {
	tb.Helper()
	var out []*ledger.Event
	dec := json.NewDecoder(strings.NewReader(logOf(tb, events)))
	for range events {
		e := &ledger.Event{}
		require.NoError(tb, dec.Decode(e))
		out = append(out, e)
	}
	return out
}

// calm is a run on a small cluster that does not change, is short of cpu, and has
// machines that are alike.
func calm(tb testing.TB, seed uint64) *scene {
	tb.Helper()
	s := &scene{tb: tb, d: seeded(seed), l: ledger.New(), demands: 3, time: 1.7e9}
	s.do(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{
		Version: ledger.Version, Fleet: oneOf(s.d, "open", "fixed"), Units: map[string]string{"cpu": "m"},
	}})
	for n := range 12 {
		s.do(&ledger.Event{Kind: ledger.KindNode, Node: fmt.Sprint("n", n+10), Machine: &ledger.Machine{
			Capacity: map[string]int64{"cpu": 6000, "memory": 64, "pods": 40}, Cost: 1,
		}})
	}
	for a := range 5 {
		s.do(&ledger.Event{Kind: ledger.KindApp, App: fmt.Sprint("a", a), Spec: &ledger.App{
			Group: fmt.Sprint("a", a), MaxPerMachine: 4,
			Demand: map[string]int64{"cpu": 500 * int64(1+s.d.IntN(3)), "memory": 1, "pods": 1},
		}})
	}
	s.policy(ledger.Primary)
	for range 400 {
		if s.d.IntN(4) == 0 && len(s.w.pods) > 40 {
			s.remove()
		} else {
			s.decide()
		}
	}
	return s
}

func verify(tb testing.TB, text string) *ledger.Verdict {
	tb.Helper()
	v, err := ledger.Verify("d.jsonl", strings.NewReader(text))
	require.NoError(tb, err)
	return v
}

// No score is read, nor any other field that is for people.
func TestVerifyReadsNoScore(t *testing.T) {
	for seed := range uint64(10) {
		s := calm(t, seed)
		events := copied(t, s.events)
		for _, e := range events {
			if e.Kind == ledger.KindDecide {
				e.Score, e.RunnerUpScore = float64(s.d.IntN(99)), float64(s.d.IntN(99))
				e.Mode, e.Request, e.Pod, e.Time = "x", "y", "z", 0
			}
		}
		v := verify(t, logOf(t, events))
		require.Nil(t, v.First)
		require.Greater(t, v.Agreed, 100)
	}
}

// A node that has other cpu than the live scheduler saw is found, whichever it is.
func TestVerifyFindsChangedCapacity(t *testing.T) {
	for seed := range uint64(10) {
		s := calm(t, seed)
		for i, e := range s.events {
			if e.Kind != ledger.KindNode {
				continue
			}
			events := copied(t, s.events)
			events[i].Machine.Capacity["cpu"] -= 1000
			require.NotNil(t, verify(t, logOf(t, events)).First, "seed %d, %s", seed, e.Node)
		}
	}
}

// The tie-break is by name: with the names turned round, decisions between equal
// scores differ.
func TestVerifyFindsOtherTieBreak(t *testing.T) {
	for seed := range uint64(10) {
		s := calm(t, seed)
		require.Nil(t, verify(t, logOf(t, s.events)).First)
		mirrored := func(node string) string {
			for n := range 12 {
				if node == fmt.Sprint("n", n+10) {
					return fmt.Sprint("n", 21-n)
				}
			}
			return node
		}
		events := copied(t, s.events)
		for _, e := range events {
			e.Node = mirrored(e.Node)
			if e.Decision != nil {
				e.Choice = mirrored(e.Choice)
				for i := range e.Infeasible {
					e.Infeasible[i] = mirrored(e.Infeasible[i])
				}
				for i := range e.Extra {
					e.Extra[i] = mirrored(e.Extra[i])
				}
			}
		}
		first := verify(t, logOf(t, events)).First
		require.NotNil(t, first, "seed %d", seed)
		require.Equal(t, "equal scores go to the first by name", first.Reason)
		require.Equal(t, first.ComputedScore, *first.LoggedComputed)
		require.Less(t, first.Computed, first.Logged)
	}
}

// Every decision is looked at: whichever has another node is found, on its line.
func TestVerifyFindsChangedNode(t *testing.T) {
	s := calm(t, 3)
	tried := map[string]int{}
	for i, e := range s.events {
		if e.Kind != ledger.KindDecide || e.Cause != ledger.CausePolicy {
			continue
		}
		events := copied(t, s.events)
		other := fmt.Sprint("n", 10+s.d.IntN(12))
		was := &events[i].Node
		if e.Choice != "" {
			was = &events[i].Choice
		}
		if *was == other {
			other = "n9"
		}
		logged := *was
		*was = other
		v := verify(t, logOf(t, events))
		require.NotNil(t, v.First)
		require.Equal(t, i+1, v.First.Line)
		require.Equal(t, e.Pod, v.First.Pod)
		require.Equal(t, other, v.First.Logged)
		require.Equal(t, logged, v.First.Computed)
		require.Equal(t, v.Causes[ledger.CausePolicy], v.Agreed+1)
		require.ErrorContains(t, v.First, "the log has "+other+", computed is "+logged)
		tried[v.First.Reason]++
	}
	require.Equal(t, []string{
		"equal scores go to the first by name", "its score is higher", "the log's does not take it", "the log's is not there, or cordoned",
	}, slices.Sorted(maps.Keys(tried)))
}

// Decisions with other causes are applied, not computed.
func TestVerifyLeavesOtherCauses(t *testing.T) {
	s := calm(t, 4)
	for i, e := range s.events {
		if e.Kind != ledger.KindDecide || e.Cause == ledger.CausePolicy {
			continue
		}
		cut := copied(t, s.events[:i+1])
		cut[i].Node = fmt.Sprint("n", 10+s.d.IntN(12))
		cut[i].PolicyDigest = ""
		v := verify(t, logOf(t, cut))
		require.Nil(t, v.First)
		require.Positive(t, v.Causes[e.Cause])
	}
}

// What happened between decisions counts: a removal that is left out, a pod that
// was found elsewhere, a rule, a forecast, a weight.
func TestVerifyFindsChangedEvents(t *testing.T) {
	found := map[ledger.Kind]int{}
	tried := map[ledger.Kind]int{}
	for seed := range uint64(11) {
		s := newSceneOf(t, seeded(5000+seed), seed >= 8)
		for range 120 {
			s.step()
		}
		for i, e := range s.events {
			events := copied(t, s.events)
			switch e.Kind {
			case ledger.KindRemove:
				events = slices.Delete(events, i, i+1)
			case ledger.KindPlace:
				node, ok := s.someNode()
				if !ok {
					continue
				}
				events[i].Node = node
			case ledger.KindForecast:
				for app := range e.Expected {
					events[i].Expected[app] = 1000
				}
			case ledger.KindWindow:
				events[i].Windows = nil
			case ledger.KindRule:
				events[i].Rules = nil
			case ledger.KindApp:
				events[i].Spec.Demand["cpu"] *= 4
			case ledger.KindPolicy:
				if e.Policy == nil {
					continue
				}
				if settings := events[i].Policy.Spec.Rule; settings != nil {
					*settings = rule.Settings{Choice: rule.Choice{Name: "leastallocated"}}
				} else {
					events[i].Policy.Spec.Weights[0] += .5
				}
			default:
				continue
			}
			tried[e.Kind]++
			v, err := ledger.Verify("d.jsonl", strings.NewReader(logOf(t, events)))
			if err != nil || v.First != nil {
				found[e.Kind]++
			}
		}
	}
	for kind, n := range tried {
		t.Logf("%s: %d of %d found", kind, found[kind], n)
		require.Positive(t, found[kind], kind)
	}
}

// start is a log with one node, one app and a policy.
func start(tb testing.TB) []*ledger.Event {
	tb.Helper()
	return []*ledger.Event{
		{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "open"}},
		{Kind: ledger.KindNode, Node: "n1", Machine: &ledger.Machine{Capacity: map[string]int64{"cpu": 4, "pods": 9}}},
		{Kind: ledger.KindApp, App: "a", Spec: &ledger.App{Group: "a", Demand: map[string]int64{"cpu": 1}}},
		{Kind: ledger.KindPolicy, Role: ledger.Primary, Policy: shipped(tb, "hand-k0")},
	}
}

func TestMalformedLogs(t *testing.T) {
	head := logOf(t, start(t))
	tests := []struct{ name, line, want string }{
		{"not JSON", `hello`, "invalid character 'h'"},
		{"an unknown kind", `{"seq":5,"kind":"lunch"}`, `kind "lunch" is unknown`},
		{"an unknown field", `{"seq":5,"kind":"rule","ruels":[]}`, `unknown field "ruels"`},
		{"a string for a number", `{"seq":5,"kind":"node","node":"n","machine":{"capacity":{"cpu":"4"}}}`, "machine.capacity"},
		{"two events", `{"seq":5,"kind":"rule"} {"seq":6,"kind":"rule"}`, "more than one event"},
		{"no machine", `{"seq":5,"kind":"node","node":"n"}`, "node: node or machine is missing"},
		{"a negative capacity", `{"seq":5,"kind":"node","node":"n","machine":{"capacity":{"cpu":-1}}}`, "node: machine.capacity.cpu -1: want 0 to 2^50"},
		{"a negative cost", `{"seq":5,"kind":"node","node":"n","machine":{"cost":-1}}`, "node: machine.cost -1"},
		{"no group", `{"seq":5,"kind":"app","app":"b","spec":{"demand":{}}}`, "app: app, spec or spec.group is missing"},
		{"too much demand", `{"seq":5,"kind":"app","app":"b","spec":{"group":"b","demand":{"cpu":2000000000000000}}}`, "app: spec.demand.cpu 2000000000000000"},
		{"a negative limit", `{"seq":5,"kind":"app","app":"b","spec":{"group":"b","maxPerMachine":-1}}`, "app: spec.maxPerMachine -1"},
		{"a limit as version 1 names it", `{"seq":5,"kind":"app","app":"b","spec":{"group":"b","max_per_machine":1}}`, `unknown field "max_per_machine"`},
		{"a rule without a group", `{"seq":5,"kind":"rule","rules":[{"app":"a","other":"b","max":0},{"app":"a","max":1}]}`, "rule: rules[1]"},
		{"a negative rule", `{"seq":5,"kind":"rule","rules":[{"app":"a","other":"b","max":-1}]}`, "rule: rules[0]"},
		{"a window that ends before it starts", `{"seq":5,"kind":"window","windows":{"a":{"start":5,"end":4}}}`, "window: windows.a from 5 to 4: want an end"},
		{"too high a forecast", `{"seq":5,"kind":"forecast","expected":{"a":1e300}}`, "forecast: expected.a 1e+300"},
		{"a role", `{"seq":5,"kind":"policy","role":"bestfit"}`, `policy: role "bestfit"`},
		{"no policy", `{"seq":5,"kind":"policy","role":"primary","policy":{"apiVersion":"v1"}}`, "policy: policy: apiVersion"},
		{"a node that is not there", `{"seq":5,"kind":"place","uid":"p","app":"a","node":"n2"}`, `place: node "n2" is unknown`},
		{"an app that is not there", `{"seq":5,"kind":"place","uid":"p","app":"b","node":"n1"}`, `place: app "b" is unknown`},
		{"an arrival of no app", `{"seq":5,"kind":"arrive","uid":"p","app":"b"}`, `arrive: app "b" is unknown`},
		{"an arrival of no pod", `{"seq":5,"kind":"arrive","app":"a"}`, "arrive: uid is missing"},
		{"no uid", `{"seq":5,"kind":"place","app":"a","node":"n1"}`, "place: uid is missing"},
		{"a pod that is not there", `{"seq":5,"kind":"remove","uid":"p"}`, `remove: pod "p" is unknown`},
		{"a failure of nothing", `{"seq":5,"kind":"bind-failed","uid":"p"}`, `bind-failed: pod "p" is unknown`},
		{"forgetting nothing", `{"seq":5,"kind":"forget","node":"n2"}`, `forget: node "n2" is unknown`},
		{"forgetting no app", `{"seq":5,"kind":"forget","app":"b"}`, `forget: app "b" is unknown`},
		{"no cause", `{"seq":5,"kind":"decide","uid":"p","app":"a","node":"n1"}`, "decide: cause is missing"},
		{"a decision on no app", `{"seq":5,"kind":"decide","uid":"p","app":"b","node":"n1","cause":"policy"}`, `decide: app "b" is unknown`},
		{"another policy", `{"seq":5,"kind":"decide","uid":"p","app":"a","node":"n1","cause":"policy","policyDigest":"sha256:0"}`, `decide: policyDigest "sha256:0"`},
		{"no start", `{"seq":5,"kind":"start"}`, "start: start is missing"},
		{"another version", `{"seq":5,"kind":"start","start":{"version":3,"fleet":"open"}}`, "start: start.version 3: this build reads 1 and 2"},
		{"another fleet", `{"seq":5,"kind":"start","start":{"version":2,"fleet":"loose"}}`, `start: start.fleet "loose"`},
		{"another unit", `{"seq":5,"kind":"start","start":{"version":2,"fleet":"open","units":{"cpu":"k"}}}`, `start: start.units.cpu "k"`},
		{"a missing line", `{"seq":6,"kind":"rule"}`, "seq 6 follows 4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Because of the line after it, it is not a line that a kill cut off.
			_, err := ledger.Verify("d.jsonl", strings.NewReader(head+tt.line+"\n"+`{"seq":6,"kind":"rule"}`+"\n"))
			require.ErrorContains(t, err, "d.jsonl:5: ")
			require.ErrorContains(t, err, tt.want)
		})
	}
	for name, text := range map[string]string{"nothing": "", "empty lines": "\n \n", "another file": "<html>\n"} {
		t.Run(name, func(t *testing.T) {
			_, err := ledger.Verify("d.jsonl", strings.NewReader(text))
			require.EqualError(t, err, "d.jsonl: nothing starts there: not a decision log")
		})
	}
	_, err := ledger.Verify("d.jsonl", strings.NewReader(`{"seq":1,"kind":"rule"}`))
	require.EqualError(t, err, "d.jsonl:1: nothing started yet: not the beginning of a decision log")
	require.ErrorContains(t, ledger.New().Apply(&ledger.Event{Kind: ledger.KindRule}), "there was no start yet")
}

// The lists of what filters refused are held against the model.
func TestVerifyChecksLists(t *testing.T) {
	decide := &ledger.Event{Kind: ledger.KindDecide, UID: "p", App: "a", Node: "n1", Decision: &ledger.Decision{
		Cause: ledger.CausePolicy, PolicyDigest: shipped(t, "hand-k0").Digest(),
	}}
	first := func(change func(*ledger.Decision)) *ledger.Difference {
		zero := &ledger.Event{Kind: ledger.KindNode, Node: "zero", Machine: &ledger.Machine{}}
		events := copied(t, append(start(t), zero, decide))
		change(events[5].Decision)
		return verify(t, logOf(t, events)).First
	}
	require.Nil(t, first(func(*ledger.Decision) {}))
	require.ErrorContains(t, first(func(d *ledger.Decision) { d.Infeasible = []string{"n2"} }), "only other filters refused n2")
	require.ErrorContains(t, first(func(d *ledger.Decision) { d.Infeasible = []string{"zero"} }), "only other filters refused zero")
	require.Nil(t, first(func(d *ledger.Decision) { d.Extra = []string{"zero"} })) // of equal scores, the first by name
	require.ErrorContains(t, first(func(d *ledger.Decision) { d.Extra = []string{"n1"} }), "our own model refused n1, but it does not")
	require.ErrorContains(t, first(func(d *ledger.Decision) { d.Extra = []string{"n2"} }), "our own model refused n2")
	require.ErrorContains(t, first(func(d *ledger.Decision) { d.Infeasible = []string{"n1"} }), "the log has n1, computed is no node: no machine is a candidate")
}

// FuzzVerify reads anything as a log: an error names the file, nothing panics, and
// the same log gives the same verdict.
func FuzzVerify(f *testing.F) {
	for seed := range uint64(4) {
		s := newScene(f, seeded(seed))
		for range 10 {
			s.step()
		}
		f.Add([]byte(logOf(f, s.events)))
	}
	f.Add([]byte(logOf(f, start(f))[:200]))
	f.Add([]byte(`{"seq":1,"kind":"start","start":{"version":1,"fleet":"open"}}` + "\n" + `{"seq":2,"kind":"forget"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := ledger.Verify("d.jsonl", bytes.NewReader(text))
		if err != nil {
			require.ErrorContains(t, err, "d.jsonl:")
		}
		again, other := ledger.Verify("d.jsonl", bytes.NewReader(text))
		require.Equal(t, v, again)
		require.Equal(t, err, other)
	})
}

// anyRule is any rule that a policy file may name, or two.
func anyRule(d dice) *rule.Settings {
	one, two := rule.Choice{Name: oneOf(d, rule.SettableNames()...)}, rule.Choice{Name: oneOf(d, rule.SettableNames()...)}
	switch d.IntN(3) {
	case 0:
		return &rule.Settings{Choice: one}
	case 1:
		return &rule.Settings{OnePerNode: &one, Others: &two}
	}
	return &rule.Settings{Choice: rule.Choice{
		Name: "requestedtocapacityratio", Resources: map[string]int64{"cpu": 1 + int64(d.IntN(9)), "disk": 1},
		Shape: [][]int64{{int64(d.IntN(50)), int64(d.IntN(11))}, {int64(50 + d.IntN(50)), int64(d.IntN(11))}},
	}}
}
