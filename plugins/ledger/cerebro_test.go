package ledger_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// byPods is a generated trace as a scheduler meets it: one request a pod, and no
// more machines than machines.
func byPods(tb testing.TB, kind string, machines int, set map[string]string) *trace.Trace {
	tb.Helper()
	from, err := generate.Generate(kind, 1, set)
	require.NoError(tb, err)
	inst := *from.Instance
	inst.Machines = append([]binpack.MachineLine{}, inst.Machines...)
	for i := range inst.Machines {
		if inst.Machines[i].Count == binpack.Unlimited {
			inst.Machines[i].Count = machines
		}
	}
	to := &trace.Trace{Name: from.Name, Instance: &inst, MeasureFrom: from.MeasureFrom}
	pods := make([][]int32, len(from.Requests)) // of each request: those that are there
	for _, e := range from.Events {
		count := e.Count
		if e.Kind == trace.Create {
			count = from.Requests[e.Request].Count
		}
		for range count {
			if e.Kind == trace.Create {
				pod := int32(len(to.Requests))
				pods[e.Request] = append(pods[e.Request], pod)
				to.Requests = append(to.Requests, trace.Request{Name: fmt.Sprint("p", pod), App: from.Requests[e.Request].App, Count: 1})
				to.Events = append(to.Events, trace.Event{Time: e.Time, Kind: trace.Create, Request: pod, Count: 1})
				continue
			}
			list := pods[e.Request]
			to.Events = append(to.Events, trace.Event{Time: e.Time, Kind: trace.Delete, Request: list[len(list)-1], Count: 1})
			pods[e.Request] = list[:len(list)-1]
		}
	}
	return to
}

// told are the events that describe a trace's cluster.
func told(t *trace.Trace, object *policy.Object) []*ledger.Event {
	inst := t.Instance
	start := &ledger.Start{Version: ledger.Version, Fleet: inst.Fleet.String(), Units: map[string]string{}}
	events := []*ledger.Event{{Kind: ledger.KindStart, Start: start}}
	amounts := func(of []int64) map[string]int64 {
		m := map[string]int64{}
		for d, dim := range inst.Dimensions {
			start.Units[dim.Name] = dim.Unit
			m[dim.Name] = of[d]
		}
		return m
	}
	withPods := func(of map[string]int64, pods int64) map[string]int64 { // which is no constraint where the trace lacks it
		if _, ok := of["pods"]; !ok {
			of["pods"] = pods
		}
		return of
	}
	for line, ml := range inst.Machines {
		for i := range ml.Count {
			events = append(events, &ledger.Event{
				Kind: ledger.KindNode, Node: t.MachineName(int32(line), int32(i)),
				Machine: &ledger.Machine{Capacity: withPods(amounts(ml.Capacity), 1e6), Cost: ml.Cost, Labels: zoneLabels(ml.Zone)},
			})
		}
	}
	expected := map[string]float64{}
	for _, a := range inst.Apps {
		g := inst.Groups[a.Group]
		events = append(events, &ledger.Event{Kind: ledger.KindApp, App: a.Name, Spec: &ledger.App{
			Group: g.Name, MaxPerMachine: g.Limit, SpreadMin: g.SpreadMin, Demand: withPods(amounts(a.Demand), 0), Soft: softTexts(a.Soft), Sends: sendTexts(t, a.Name),
			MaxPerZone: g.Zone.Limit, ZoneSpreadMin: g.Zone.SpreadMin, ZoneSkew: g.Zone.Skew,
		}})
		expected[a.Name] = a.Expected
	}
	rules := &ledger.Event{Kind: ledger.KindRule}
	for _, r := range inst.Rules {
		rules.Rules = append(rules.Rules, ledger.Rule{App: inst.Groups[r.A].Name, Other: inst.Groups[r.B].Name, Max: r.Max})
	}
	for _, r := range inst.ZoneRules {
		rules.Rules = append(rules.Rules, ledger.Rule{App: inst.Groups[r.A].Name, Other: inst.Groups[r.B].Name, Max: r.Max, Scope: ledger.ZoneScope})
	}
	events = append(events, rules, &ledger.Event{Kind: ledger.KindForecast, Expected: expected})
	if object != nil {
		events = append(events, &ledger.Event{Kind: ledger.KindPolicy, Role: ledger.Primary, Policy: object, Outside: ledger.ClocklessPolicy(object, inst.Fleet)})
	}
	return events
}

func zoneLabels(zone string) map[string]string {
	if zone == "" {
		return nil
	}
	return map[string]string{"topology.kubernetes.io/zone": zone}
}

// sendTexts are the pairs of an app as a ledger knows them.
func sendTexts(t *trace.Trace, app string) (texts []string) {
	for _, p := range t.Instance.Pairs {
		if t.Instance.Apps[p.App].Name == app {
			group := t.Instance.Groups[t.Instance.Apps[p.Other].Group].Name
			texts = append(texts, binpack.Sending{Group: group, Bits: int64(p.Bits), Paired: p.Paired}.String())
		}
	}
	return texts
}

func softTexts(terms []binpack.SoftTerm) (texts []string) {
	for _, term := range terms {
		texts = append(texts, term.Text(""))
	}
	return texts
}

// beside replays a trace in Cerebro, enters the same placements in a ledger, and asks
// the ledger for every item.
func beside(tb testing.TB, t *trace.Trace, object *policy.Object) (asked, agreed int) {
	tb.Helper()
	return besideAt(tb, t, object, 0)
}

// besideAt is beside with a clock, which begins at a time.
func besideAt(tb testing.TB, t *trace.Trace, object *policy.Object, begin float64, more ...*ledger.Event) (asked, agreed int) {
	tb.Helper()
	l := ledger.New()
	apply(tb, l, told(t, object)...)
	apply(tb, l, more...)
	var p binpack.Policy = rule.BestFit{}
	role := ledger.BestFit
	if object != nil {
		var err error
		p, err = object.Policy()
		require.NoError(tb, err)
		role = ledger.Primary
	}
	r := cerebro.NewReplayer(t)
	_, err := r.Run(p, cerebro.Options{Brief: true, Record: func(d cerebro.Decision) {
		q := t.Requests[d.Request]
		name := t.Instance.Apps[q.App].Name
		app := l.AppIndex(name)
		node := ""
		if d.Machine >= 0 {
			node = t.MachineName(r.State().Position(d.Machine))
		}
		if d.Kind == cerebro.Remove {
			if node != "" {
				apply(tb, l, &ledger.Event{Kind: ledger.KindRemove, UID: q.Name})
			}
			return
		}
		fits := l.Fits(app, nil)
		if len(fits) > 0 { // kube-scheduler ranks nothing where no node passes its filters
			apply(tb, l, &ledger.Event{Kind: ledger.KindArrive, UID: q.Name, App: name})
		}
		l.SetClock(begin + d.Time)
		ranked, err := l.Rank(role, app, fits, 1, nil)
		require.NoError(tb, err)
		asked++
		if len(ranked) == 0 && node == "" || len(ranked) == 1 && l.NodeName(ranked[0].Machine) == node {
			agreed++
		}
		if node != "" {
			apply(tb, l, &ledger.Event{
				Kind: ledger.KindDecide, UID: q.Name, App: name, Node: node, Decision: &ledger.Decision{Cause: ledger.CausePolicy},
			})
		}
	}})
	require.NoError(tb, err)
	return asked, agreed
}

// A live cluster's columns and Cerebro's lead to the same machine: the policy is
// what was simulated.
func TestLikeCerebro(t *testing.T) {
	traces := map[string]*trace.Trace{
		"large": countingPods(byPods(t, "large2d", 90, map[string]string{"scale": ".2"})),
		"fixed": countingPods(byPods(t, "fixed", 0, map[string]string{"scale": ".2"})),
		"churn": countingPods(byPods(t, "churn", 90, map[string]string{"scale": ".1", "days": "1"})),
	}
	for name, tr := range traces {
		t.Run(name+" bestfit", func(t *testing.T) {
			asked, agreed := beside(t, tr, nil)
			require.Greater(t, asked, 500)
			require.Equal(t, asked, agreed)
		})
		for _, p := range livePolicies {
			t.Run(name+" "+p, func(t *testing.T) {
				asked, agreed := beside(t, tr, shipped(t, p))
				require.Equal(t, asked, agreed)
			})
		}
	}
}
