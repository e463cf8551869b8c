package oracle

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// A traced model is a snapshot's trace, as compare, plan, whatif and rebalance read it.
type traced struct {
	trace    *trace.Trace
	state    *binpack.State
	machines map[string]int32
	request  map[string]int32 // by pod
	at       map[int32]int32  // the machine of a request that is placed
	fixed    map[string]any
	adjusted map[string]any // overcommitted nodes, which have the room of what stands there, as a note says
}

func newTraced(c *cluster) (*traced, error) {
	r := snapshot.NewRecorder(appLabel, began)
	r.MinReplicas = 1
	r.Scheduler = v1.DefaultSchedulerName
	if err := r.Record(pictureOf(c), began); err != nil {
		return nil, err
	}
	tr, _, err := r.Trace("oracle", "fixed")
	if err != nil {
		return nil, err
	}
	t := &traced{trace: tr, state: binpack.NewState(tr.Instance), machines: map[string]int32{}, request: map[string]int32{}, at: map[int32]int32{}}
	if t.fixed, err = tr.Fixed(); err != nil {
		return nil, err
	}
	t.adjusted, _ = tr.Source["adjusted"].(map[string]any)
	for line := range tr.Instance.Machines {
		t.machines[tr.MachineName(int32(line), 0)] = t.state.MachineAt(int32(line), 0)
	}
	for i, q := range tr.Requests {
		t.request[q.Name] = int32(i)
	}
	for _, p := range tr.Placed {
		m := t.state.MachineAt(p.Line, p.Index)
		t.state.Book(tr.Requests[p.Request].App, m)
		t.at[p.Request] = m
	}
	return t, nil
}

// asked are the nodes that a trace is asked about.
func (t *traced) asked(nodes []*v1.Node) []*v1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *v1.Node) bool { return t.adjusted[n.Name] != nil })
}

// ask returns why the trace refuses a pod, by node, with the pod itself taken away; nil where the trace has no such pod.
func (t *traced) ask(p *v1.Pod, nodes []*v1.Node) map[string]string {
	q, ok := t.request[nameOf(p)]
	if ignored, _ := t.trace.Ignored(); !ok || ignored[nameOf(p)] != nil {
		return nil
	}
	app := t.trace.Requests[q].App
	if m, stands := t.at[q]; stands {
		t.state.Remove(app, m, nil)
		defer t.state.Book(app, m)
	}
	refused := map[string]string{}
	for _, n := range t.asked(nodes) {
		if m, ok := t.machines[n.Name]; !ok {
			refused[n.Name] = "no machine"
		} else if why := t.state.Why(app, m); why.Kind != binpack.Accepted {
			refused[n.Name] = reasonText(t.trace.Instance, why)
		}
	}
	return refused
}
