package evidence

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// longest is how long a pod lives at most.
const longest = day

// generated is a small cluster whose pods come and go, and ask for memory times what the generator
// drew.
func generated(t testing.TB, seed uint64, days int, memory float64) *trace.Trace {
	tr, err := generate.Generate("churn", seed, map[string]string{"scale": ".05", "burst": "4", "days": fmt.Sprint(days)})
	require.NoError(t, err)
	for i := range tr.Instance.Apps {
		a := &tr.Instance.Apps[i]
		a.Expected, a.Lifetime = -1, -1 // no forecast
		a.Demand[1] = int64(float64(a.Demand[1]) * memory)
	}
	machines(tr.Instance)
	tr.MeasureFrom = math.NaN()
	created := make([]float64, len(tr.Requests))
	for i := range tr.Events {
		e := &tr.Events[i]
		if e.Kind == trace.Create {
			created[e.Request] = e.Time
		} else {
			e.Time = min(e.Time, created[e.Request]+longest)
		}
	}
	inOrder(tr)
	return tr
}

// inOrder sorts events by time, at one time deletes first.
func inOrder(t *trace.Trace) {
	slices.SortStableFunc(t.Events, func(x, y trace.Event) int {
		return cmp.Or(cmp.Compare(x.Time, y.Time), cmp.Compare(y.Kind, x.Kind))
	})
}

// machines are nodes with much memory and with little, priced by a cloud's list prices of a core (.033)
// and of a GiB (.0045).
func machines(inst *binpack.Instance) {
	inst.Types = []string{"lean", "rich"}
	inst.Machines = []binpack.MachineLine{
		{Name: "lean", Type: 0, Count: binpack.Unlimited, Cost: 32*.033 + 128*.0045, Capacity: []int64{32, 128 << 30}},
		{Name: "rich", Type: 1, Count: binpack.Unlimited, Cost: 32*.033 + 256*.0045, Capacity: []int64{32, 256 << 30}},
	}
}

// changing is a cluster whose workload changes at a time: the pods that come from then on are of
// other services with other demands.
func changing(t testing.TB, seed uint64, change, days int, before, after float64) *trace.Trace {
	a, b := generated(t, 2*seed, change+8, before), generated(t, 2*seed+1, days-change, after)
	at := float64(change) * day
	inst := *a.Instance
	groups, apps := int32(len(inst.Groups)), int32(len(inst.Apps))
	inst.Groups, inst.Apps, inst.Rules = slices.Clone(inst.Groups), slices.Clone(inst.Apps), slices.Clone(inst.Rules)
	for i := range inst.Groups {
		inst.Groups[i].Name = "old-" + inst.Groups[i].Name
	}
	for i := range inst.Apps {
		inst.Apps[i].Name = "old-" + inst.Apps[i].Name
	}
	inst.Groups = append(inst.Groups, b.Instance.Groups...)
	for _, app := range b.Instance.Apps {
		app.Group += groups
		inst.Apps = append(inst.Apps, app)
	}
	for _, r := range b.Instance.Rules {
		inst.Rules = append(inst.Rules, binpack.Rule{A: r.A + groups, B: r.B + groups, Max: r.Max})
	}
	out := &trace.Trace{Name: "changing", Instance: &inst, MeasureFrom: math.NaN()}
	number := make([]int32, len(a.Requests)) // in the joined trace, from 1
	for _, e := range a.Events {
		switch {
		case e.Kind == trace.Create && e.Time < at:
			out.Requests = append(out.Requests, a.Requests[e.Request])
			number[e.Request] = int32(len(out.Requests))
		case e.Kind == trace.Create || number[e.Request] == 0:
			continue
		}
		e.Request = number[e.Request] - 1
		out.Events = append(out.Events, e)
	}
	base := int32(len(out.Requests))
	for _, q := range b.Requests {
		q.App, q.Name = q.App+apps, "new-"+q.Name
		out.Requests = append(out.Requests, q)
	}
	for _, e := range b.Events {
		e.Time, e.Request = e.Time+at, e.Request+base
		out.Events = append(out.Events, e)
	}
	inOrder(out)
	out.Events = slices.DeleteFunc(out.Events, func(e trace.Event) bool { return e.Time >= float64(days)*day })
	return out
}

func byName(t testing.TB, name string) binpack.Policy {
	p, err := rule.ByName(name, rule.Options{Seed: 1, TiesByPosition: true})
	require.NoError(t, err)
	return p
}
