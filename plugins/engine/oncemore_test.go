package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A generated day is recorded under one policy and happens once more under another: the
// second time every pod goes where the replay of the recorded day under that policy puts
// it, and the nodes cost what the replay says.
func TestDayOnceMore(t *testing.T) {
	tr, err := generate.Generate("kubernetes", 3012, map[string]string{"nodes": "10", "days": "1", "fleet": "open"})
	require.NoError(t, err)
	recorded, first := playDay(t, tr, spreading())
	tuned := shipped(t, "kubernetes-k0")
	later, second := playDay(t, tr, tuned)
	require.NotEqual(t, first, second)

	found, err := (&compare.Catalog{}).Find(compare.Current, later)
	require.NoError(t, err)
	current, err := cerebro.NewReplayer(later).Run(found.Policy, cerebro.Options{Check: true})
	require.NoError(t, err)
	model, err := tuned.Policy()
	require.NoError(t, err)
	replayed := map[string]string{}
	r := cerebro.NewReplayer(recorded)
	run, err := r.Run(model, cerebro.Options{Check: true, Record: func(d cerebro.Decision) {
		if d.Kind == cerebro.Place {
			replayed[strings.TrimPrefix(recorded.Requests[d.Request].Name, "default/")] = recorded.MachineName(r.State().Position(d.Machine))
		}
	}})
	require.NoError(t, err)
	require.Len(t, replayed, len(second))
	for name, node := range second {
		require.Equal(t, replayed[name], node, name)
	}
	require.InEpsilon(t, run.CostSeconds, current.CostSeconds, 1e-9)
}

// playDay has the events of a trace happen under a policy, on sixteen nodes of each size, and
// returns what the decision log says of it, and the node of every pod.
func playDay(t *testing.T, tr *trace.Trace, object *policy.Object) (*trace.Trace, map[string]string) {
	t.Helper()
	l := newLab(t, func(o *Options) { o.Fleet, o.CanaryName = "open", "" })
	amounts := func(values []int64) v1.ResourceList {
		list := v1.ResourceList{}
		for d, n := range values {
			list[v1.ResourceName(tr.Instance.Dimensions[d].Name)] = resource.MustParse(trace.FormatQuantity(n, tr.Instance.Dimensions[d]))
		}
		return list
	}
	for _, m := range tr.Instance.Machines {
		for i := range 16 {
			name := m.Name + "-" + string(rune('a'+i))
			room := amounts(m.Capacity)
			room[v1.ResourcePods] = resource.MustParse("110")
			price := map[string]string{kube.CostAnnotation: fmt.Sprint(m.Cost)}
			l.nodes[name] = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: price}, Status: v1.NodeStatus{Allocatable: room}}
			l.dirty[name] = true
		}
	}
	var rules []*kube.Rule
	for g, group := range tr.Instance.Groups {
		spec := v1alpha1.PlacementRuleSpec{PodSet: picks(group.Name)}
		if group.Limit > 0 {
			spec.MaxPerNode = &group.Limit
		}
		if group.SpreadMin > 1 {
			spec.SpreadMin = &group.SpreadMin
		}
		for _, r := range tr.Instance.Rules {
			if int(r.A) == g {
				spec.Excludes = append(spec.Excludes, v1alpha1.Exclusion{PodSet: picks(tr.Instance.Groups[r.B].Name), Max: r.Max})
			}
		}
		if spec.MaxPerNode != nil || spec.SpreadMin != nil || spec.Excludes != nil {
			rules = append(rules, rule(t, group.Name, spec))
		}
	}
	l.SetRules(rules)
	l.SetPolicy(ledger.Primary, object)
	began, at, pods := l.now, map[string]string{}, map[int32]*v1.Pod{}
	l.sync()
	for i, e := range tr.Events {
		if i%100 == 0 { // as every five seconds: nothing declares the pods, but they are counted
			l.SetDeclared(&kube.Declarations{})
		}
		l.now = began.Add(time.Duration(e.Time * float64(time.Second)))
		if e.Kind == trace.Delete {
			l.leave(pods[e.Request])
			l.sync() // a scheduler notes it with the next pod
			continue
		}
		request := tr.Requests[e.Request]
		app := tr.Instance.Apps[request.App]
		p := pod(request.Name, app.Name)
		p.Spec.Containers[0].Resources.Requests = amounts(app.Demand)
		l.sync()
		var names []string // that pass the filters
		own := l.state.cluster.EnsureApp(p)
		for _, m := range l.state.ledger.Fits(l.state.ledger.AppIndex(own.Name()), nil) {
			names = append(names, l.state.ledger.NodeName(m))
		}
		v := l.Rank(t.Context(), p, names)
		require.NotEmpty(t, v.Ranked, request.Name)
		node := v.Ranked[0].Node
		pods[e.Request] = l.stand(p, node)
		l.Reserve(pods[e.Request], node, v)
		at[request.Name] = node
	}
	l.verify()
	h, err := history.Read([]string{l.path}, history.Time{}, history.Time{})
	require.NoError(t, err)
	made, _, err := h.Trace(history.Options{Name: "day", Method: "test"})
	require.NoError(t, err)
	require.Len(t, made.Requests, len(tr.Requests))
	return made, at
}
