package rebalance

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/internal/rebalance"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// A Holder keeps places for replacements: an engine.
type Holder interface {
	Hold(by string, until float64, places []kube.Place) *kube.Chain
	Release(*kube.Chain)
	Engaged(group string) bool
	Decides() bool
}

// A Site is the target cluster: its state by the scheduler's informers, and the operations on it.
type Site interface {
	Pods() []*v1.Pod
	Nodes() []*v1.Node
	// Stays returns a predicate for the pods that a disruption budget keeps where they are now.
	Stays() func(*v1.Pod) bool
	// Refusal returns why the scheduler's filters refuse the first of some places, once the pods in gone have left
	// their nodes; "" = they allow all. For a pod that has a node, its replacement is filtered.
	Refusal(ctx context.Context, gone []*v1.Pod, places ...kube.Place) string
	// Evict evicts a pod for a Rebalance, if the limits of all evictions and the limit of this
	// Rebalance within the hour allow it.
	Evict(ctx context.Context, object string, perHour int, pod *v1.Pod) error
	// Evicted is the number of pods evicted for a Rebalance within the hour, by any scheduler.
	Evicted(ctx context.Context, object string) (int, error)
	// Recent returns a predicate for the pods of workloads that had an eviction within the hour.
	Recent(ctx context.Context) (func(*v1.Pod) bool, error)
	// PatchNode makes a merge patch.
	PatchNode(ctx context.Context, name string, patch []byte) error
	// Lacks returns the right that is missing to carry out a plan; "" = no right is missing.
	Lacks(context.Context) (string, error)
}

// A work is a plan that is carried out, node by node.
type work struct {
	object     *v1alpha1.Rebalance // as it was read last
	gone       bool
	name       string
	generation int64
	began      time.Time
	units      []*unit
	at         int
	over       bool
	waits      string    // why the next node is not begun; "" = it is
	counted    time.Time // when evictions were counted for the next node; zero = not yet
	stop       stop
	refusals   int // in a row
	freed      int32
	moved      int32
	givenUp    int32

	// State of the unit in progress.
	chain *kube.Chain
	stood map[types.UID]bool // pods when places were reserved
	err   error              // of the last action
}

// unitsOf divides the moves of a plan: each unit ends with the move that empties a node. The moves
// after the last of them are left out.
func unitsOf(list []rebalance.Moved, empties []rebalance.Emptied, pods []*v1.Pod, appLabel string, maxGrace time.Duration, inFlight int) (units []*unit, err error) {
	items := map[string]*item{}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			items[nameOf(p)] = &item{p}
		}
	}
	from := 0
	for _, e := range empties {
		u := &unit{node: e.Machine, inFlight: inFlight}
		for _, m := range list[from:e.Moves] {
			it := items[m.Request]
			if it == nil {
				return nil, fmt.Errorf("the plan moves %s, which is no pod on a node", m.Request)
			}
			u.moves = append(u.moves, &move{item: it, to: m.To, group: podspec.Group(it.pod, appLabel), maxGrace: maxGrace})
		}
		from = e.Moves
		units = append(units, u)
	}
	return units, nil
}

// newWork prepares a plan to be carried out; found may be nil.
func (c *controller) newWork(ctx context.Context, o *v1alpha1.Rebalance, found *rebalance.Result, pods []*v1.Pod, now time.Time) *work {
	w := &work{object: o, name: o.Name, generation: o.Generation, began: now}
	lacks, err := c.Site.Lacks(ctx)
	if err == nil && lacks == "" && found != nil {
		w.units, err = unitsOf(found.Sequence(), found.Emptied(), pods, c.AppLabel, c.MaxGrace, int(o.Spec.InFlight))
	}
	switch {
	case err != nil:
		w.stop = stop{failed, "The plan cannot be carried out: " + err.Error() + "."}
	case lacks != "":
		w.stop = stop{noRights, "The scheduler has no right to " + lacks + ": apply the component rebalance of its manifests."}
	case len(w.units) == 0:
		w.over = true
	}
	if c.failures[w.name]++; w.stop.reason != failed {
		delete(c.failures, w.name)
	}
	if w.stop.reason != "" {
		c.finish(w)
	}
	return w
}

// stays returns why pods stay in mode Auto that might move in a dry run; nil in a dry run. A workload
// that was moved from within the hour may be at its limit.
func (c *controller) stays(ctx context.Context, s *setting, p *snapshot.Picture) (func(*v1.Pod) string, error) {
	if !s.auto() {
		return nil, nil
	}
	recent, err := c.Site.Recent(ctx)
	switch {
	case apierrors.IsForbidden(err): // then nothing is evicted, and newWork reports it
		recent = func(*v1.Pod) bool { return false }
	case err != nil:
		return nil, err
	}
	budgets, forbidden, engaged := c.Site.Stays(), map[string]bool{}, map[string]bool{}
	for _, n := range p.Nodes {
		forbidden[n.Name] = mustStay(n)
	}
	return func(pod *v1.Pod) string {
		group := podspec.Group(pod, c.AppLabel)
		if _, known := engaged[group]; !known {
			engaged[group] = c.Holder.Engaged(group)
		}
		switch {
		case forbidden[pod.Spec.NodeName]:
			return "its node must not be removed"
		case budgets(pod):
			return "a disruption budget keeps it"
		case engaged[group]:
			return "a plan or make-room moves pods of its workload"
		case recent(pod):
			return "a pod of its workload was evicted within the hour"
		}
		return ""
	}, nil
}

// unit is the next one or the one in progress; nil = all are over.
func (w *work) unit() *unit {
	if w.over || w.at >= len(w.units) {
		return nil
	}
	return w.units[w.at]
}

// by is the owner named by the reservations of a work.
func (w *work) by() string { return "Rebalance/" + w.name }

// deadline is the time at which a unit is over in any case. It is less than maxAhead away: a later one
// would be read as a sign of a clock that was set back.
func (u *unit) deadline(now time.Time) time.Time {
	most := 2 * stuck
	for _, m := range u.moves {
		most = min(most+m.patience()+stuck, maxAhead-time.Hour)
	}
	return now.Add(most)
}

// carryOn makes the next step of the work that is under way.
func (c *controller) carryOn(ctx context.Context) {
	w := c.underWay()
	if w == nil {
		return
	}
	now, pods, nodes := c.clock.Now(), c.Site.Pods(), map[string]*v1.Node{}
	for _, n := range c.Site.Nodes() {
		nodes[n.Name] = n
	}
	u := w.unit()
	if w.stop.reason == "" {
		w.stop = c.stops(ctx, w, now, pods)
	}
	if u != nil && u.stage == starting && u.since.IsZero() {
		if w.stop.reason != "" {
			c.finish(w)
			return
		}
		if w.waits = c.affords(ctx, w, u, now); w.waits != "" {
			return
		}
	}
	if u == nil {
		c.finish(w)
		return
	}
	e := c.see(ctx, w, u, pods, nodes)
	moved := u.count(func(m *move) bool { return m.done })
	a := u.step(now, e)
	if n := u.count(func(m *move) bool { return m.done }) - moved; n > 0 {
		w.moved += int32(n)
		made.WithLabelValues("done").Add(float64(n))
	}
	w.err = c.do(ctx, w, u, a, nodes[u.node], pods, now)
	if u.over() {
		c.close(w, u)
	}
}

// do carries out the action of a step.
func (c *controller) do(ctx context.Context, w *work, u *unit, a act, n *v1.Node, pods []*v1.Pod, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	patch := func(patch []byte, err error) error {
		if err != nil || n == nil {
			return err
		}
		return c.Site.PatchNode(ctx, n.Name, patch)
	}
	switch a {
	case cordon:
		return patch(cordonPatch(n, w.name, u.deadline(now)))
	case hold:
		w.stood = map[types.UID]bool{}
		for _, p := range pods {
			w.stood[p.UID] = true
		}
		var places []kube.Place
		for _, m := range u.moves {
			places = append(places, kube.Place{Pod: m.item.pod, Node: m.to})
		}
		w.chain = c.Holder.Hold(w.by(), float64(u.deadline(now).UnixMicro())/1e6, places)
	case evictIt:
		err := c.Site.Evict(ctx, w.name, int(w.object.Spec.MovesPerHour), u.last.item.pod)
		if unsure := (*evict.UncertainError)(nil); err == nil || errors.As(err, &unsure) {
			c.moved[w.name] = append(c.moved[w.name], now)
		} else {
			made.WithLabelValues("refused").Inc()
		}
		return err
	case mark:
		return patch(emptyPatch(n, now))
	case wait, release: // the places with the end of the unit
	}
	return nil
}

// close ends a unit. A node that was given up is uncordoned with the next look at all cordons.
func (c *controller) close(w *work, u *unit) {
	if w.chain != nil {
		c.Holder.Release(w.chain)
	}
	w.chain, w.stood, w.err, w.counted = nil, nil, nil, time.Time{}
	w.at++
	c.lookAt = time.Time{}
	if u.stage == emptied {
		w.freed++
		w.refusals = 0
		emptyNodes.WithLabelValues("freed").Inc()
		c.tell(w, v1.EventTypeNormal, "Emptied", "Node %s is empty after %d moves, and cordoned until %s.", u.node, len(u.moves), c.clock.Now().Add(keepEmpty).UTC().Format(time.RFC3339))
		return
	}
	w.givenUp++
	emptyNodes.WithLabelValues("given-up").Inc()
	c.tell(w, v1.EventTypeWarning, "GivenUp", "Node %s is not emptied: %s.", u.node, u.why)
	if w.refusals++; !u.refused {
		w.refusals = 0
	}
	if w.refusals == 2 {
		w.stop = stop{"Refused", "Two nodes in a row were given up since evictions were refused; at last: " + u.why + "."}
		c.finish(w)
	}
}

// finish ends a work.
func (c *controller) finish(w *work) {
	w.over, c.lookAt = true, time.Time{}
	if w.stop.reason != "" {
		c.tell(w, v1.EventTypeWarning, "Stopped", "%s", w.stop.message)
	}
}

func (c *controller) tell(w *work, kind, reason, text string, args ...any) {
	what := bounded.Text(fmt.Sprintf(text, args...))
	klog.InfoS("A Rebalance is carried out", "rebalance", w.name, "event", reason, "what", what)
	if c.Recorder != nil {
		c.Recorder.Eventf(w.object, nil, kind, reason, "Rebalance", "%s", what)
	}
}

// underWay is the work in progress; nil = no work. There is one at a time.
func (c *controller) underWay() *work {
	for _, w := range c.works {
		if !w.over {
			return w
		}
	}
	return nil
}

// describe adds how far a work is to the status of its object.
func (c *controller) describe(o *v1alpha1.Rebalance) {
	w := c.works[o.Name]
	if w == nil {
		if meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionProgressing) {
			if o.Status.Progress != nil {
				o.Status.Progress.Node = nil
			}
			set(o, v1alpha1.ConditionProgressing, false, "Interrupted", "The scheduler has started again. Nodes that were not empty are uncordoned, and another plan comes at its time.")
		}
		return
	}
	p := &v1alpha1.RebalanceProgress{Time: metav1.NewMicroTime(w.began), Freed: w.freed, Moved: w.moved, GivenUp: w.givenUp}
	o.Status.Progress = p
	u := w.unit()
	switch {
	case w.stop.reason != "":
		set(o, v1alpha1.ConditionProgressing, false, "Stopped", "No more pods are evicted.")
	case u == nil:
		set(o, v1alpha1.ConditionProgressing, false, "Done", fmt.Sprintf("Of %d nodes %d were emptied and %d given up.", len(w.units), w.freed, w.givenUp))
	case w.waits != "":
		set(o, v1alpha1.ConditionProgressing, true, "Waiting", w.waits+".")
	default:
		p.Node = &u.node
		set(o, v1alpha1.ConditionProgressing, true, "Emptying", fmt.Sprintf("Node %s is being emptied, number %d of %d.", u.node, w.at+1, len(w.units)))
	}
	if w.stop.reason == "" {
		set(o, v1alpha1.ConditionStopped, false, "NotStopped", "Nothing stops it.")
	} else {
		set(o, v1alpha1.ConditionStopped, true, w.stop.reason, w.stop.message)
	}
}
