package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/internal/defrag"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Holder keeps places for replacements: an engine.
type Holder interface {
	Hold(by string, until float64, places []kube.Place) *kube.Chain
	Release(*kube.Chain)
	Claimed(group string) bool
	Prefer(pod *v1.Pod, nodes []string) []string
	Decides() bool
}

// A Site is the target cluster: its state by the scheduler's informers, and the operations on it.
type Site interface {
	Pods() []*v1.Pod
	Nodes() []*v1.Node
	// NotEvictable returns a predicate for the pods that a disruption budget keeps where they are now.
	NotEvictable() func(*v1.Pod) bool
	// Refusal returns why the scheduler's filters refuse the first of some places, once the pods in gone have left
	// their nodes; "" = they allow all. For a pod that has a node, its replacement is filtered.
	Refusal(ctx context.Context, gone []*v1.Pod, places ...kube.Place) string
	// Evict evicts a pod for a Rebalance, if the limits of all evictions and the limit of this
	// Rebalance within the hour allow it.
	Evict(ctx context.Context, object string, perHour int, pod *v1.Pod) error
	// Evicted is the number of pods evicted for a Rebalance within the hour, by any scheduler.
	Evicted(ctx context.Context, object string) (int, error)
	// Full returns the limit of all evictions that has no room for those of some pods within this hour; nil = none.
	Full(ctx context.Context, pods []*v1.Pod) error
	// Recent returns how many pods of a pod's workload were evicted within the hour.
	Recent(ctx context.Context) (func(*v1.Pod) int, error)
	// PatchNode makes a merge patch.
	PatchNode(ctx context.Context, name string, patch []byte) error
	// MissingRight returns the right that is missing to carry out a plan; "" = no right is missing.
	MissingRight(context.Context) (string, error)
}

// A execution is a plan that is carried out, node by node.
type execution struct {
	object     *v1alpha1.Rebalance // as it was read last
	deleted    bool
	name       string
	generation int64
	start      time.Time
	drains     []*drain
	next       int
	finished   bool
	waiting    string    // why the next node is not begun; "" = it is
	countedAt  time.Time // when evictions were counted for the next node; zero = not yet
	stop       stopReason
	refusals   int // in a row
	freed      int32
	moved      int32
	givenUp    int32

	// State of the drain in progress.
	reservation *kube.Chain
	before      map[types.UID]bool // pods when places were reserved
	err         error              // of the last action
}

// drainsOf divides the moves of a plan: each drain ends with the move that empties a node. The moves
// after the last of them are left out.
func drainsOf(list []defrag.Moved, empties []defrag.Emptied, pods []*v1.Pod, appLabel string, maxGrace time.Duration, inFlight int) (units []*drain, err error) {
	items := map[string]*movedPod{}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			items[nameOf(p)] = &movedPod{p}
		}
	}
	from := 0
	for _, e := range empties {
		d := &drain{node: e.Machine, inFlight: inFlight}
		for _, m := range list[from:e.Moves] {
			it := items[m.Request]
			if it == nil {
				return nil, fmt.Errorf("the plan moves %s, which is no pod on a node", m.Request)
			}
			d.moves = append(d.moves, &move{moved: it, to: m.To, group: podspec.Group(it.pod, appLabel), maxGrace: maxGrace})
		}
		from = e.Moves
		units = append(units, d)
	}
	return units, nil
}

// newExecution prepares a plan to be carried out; found may be nil.
func (c *controller) newExecution(ctx context.Context, o *v1alpha1.Rebalance, found *defrag.Result, pods []*v1.Pod, now time.Time) *execution {
	return c.prepare(ctx, o, now, func() ([]*drain, error) {
		if found == nil {
			return nil, nil
		}
		return drainsOf(found.Sequence(), found.Emptied(), pods, c.AppLabel, c.MaxGrace, int(o.Spec.InFlight))
	})
}

// prepare prepares drains to be carried out, if the rights are there.
func (c *controller) prepare(ctx context.Context, o *v1alpha1.Rebalance, now time.Time, drains func() ([]*drain, error)) *execution {
	x := &execution{object: o, name: o.Name, generation: o.Generation, start: now}
	lacks, err := c.Site.MissingRight(ctx)
	if err == nil && lacks == "" {
		x.drains, err = drains()
	}
	switch {
	case err != nil:
		x.stop = stopReason{failed, "The plan cannot be carried out: " + err.Error() + "."}
	case lacks != "":
		x.stop = stopReason{noRights, "The scheduler has no right to " + lacks + ": apply the component rebalance of its manifests."}
	case len(x.drains) == 0:
		x.finished = true
	}
	if c.failures[x.name]++; x.stop.reason != failed {
		delete(c.failures, x.name)
	}
	if x.stop.reason != "" {
		c.end(x)
	}
	return x
}

// notEvictable returns why pods stay in mode Auto that might move in a dry run; nil in a dry run. moved has how many pods of
// the workloads on the nodes were evicted within the hour: they count toward the limit of the workload.
func (c *controller) notEvictable(ctx context.Context, s *parsedSpec, nodes []*v1.Node, pods []*v1.Pod) (stays func(*v1.Pod) string, moved map[string]int, _ error) {
	if !s.auto() {
		return nil, nil, nil
	}
	recent, err := c.Site.Recent(ctx)
	switch {
	case apierrors.IsForbidden(err): // then nothing is evicted, and newWork reports it
		recent = func(*v1.Pod) int { return 0 }
	case err != nil:
		return nil, nil, err
	}
	moved = map[string]int{}
	replicas := map[string]int{}
	for _, p := range pods {
		if group := podspec.Group(p, c.AppLabel); p.Spec.NodeName != "" && !podspec.Ended(p) {
			moved[group] = max(moved[group], recent(p)) // of several workloads with one label
			replicas[group]++
		}
	}
	budgets, forbidden, engaged := c.Site.NotEvictable(), map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		forbidden[n.Name] = isProtected(n)
	}
	return func(pod *v1.Pod) string {
		group := podspec.Group(pod, c.AppLabel)
		if _, known := engaged[group]; !known {
			engaged[group] = c.Holder.Claimed(group)
		}
		switch {
		case forbidden[pod.Spec.NodeName]:
			return "its node must not be removed"
		case budgets(pod):
			return "a disruption budget keeps it"
		case engaged[group]:
			return "a plan or make-room moves pods of its workload"
		case moved[group] >= evict.OfRebalance.OfWorkload(replicas[group]):
			return "no more pods of its workload may be evicted within the hour"
		}
		return ""
	}, moved, nil
}

// current is the next one or the one in progress; nil = all are finished.
func (x *execution) current() *drain {
	if x.finished || x.next >= len(x.drains) {
		return nil
	}
	return x.drains[x.next]
}

// owner is the owner named by the reservations of an execution.
func (x *execution) owner() string { return "Rebalance/" + x.name }

// deadline is the time at which a drain is finished in any case. It is less than maxDeadline away: a later one
// would be read as a sign of a clock that was set back.
func (d *drain) deadline(now time.Time) time.Time {
	most := 2 * progressTimeout
	for _, m := range d.moves {
		most = min(most+m.timeout()+progressTimeout, maxDeadline-time.Hour)
	}
	return now.Add(most)
}

// advance makes the next step of the execution that is under way.
func (c *controller) advance(ctx context.Context) {
	x := c.inProgress()
	if x == nil {
		return
	}
	now, pods, nodes := c.clock.Now(), c.Site.Pods(), map[string]*v1.Node{}
	for _, n := range c.Site.Nodes() {
		nodes[n.Name] = n
	}
	d := x.current()
	if x.stop.reason == "" {
		x.stop = c.checkStop(ctx, x, now, pods)
	}
	if d != nil && d.stage == starting && d.since.IsZero() {
		if x.stop.reason != "" {
			c.end(x)
			return
		}
		if x.waiting = c.withinHourlyBudget(ctx, x, d, now); x.waiting != "" {
			return
		}
	}
	if d == nil {
		c.end(x)
		return
	}
	e := c.observe(ctx, x, d, pods, nodes)
	moved := d.count(func(m *move) bool { return m.done })
	a := d.step(now, e)
	if n := d.count(func(m *move) bool { return m.done }) - moved; n > 0 {
		x.moved += int32(n)
		made.WithLabelValues(x.goal(), "done").Add(float64(n))
	}
	x.err = c.perform(ctx, x, d, a, nodes[d.node], pods, now)
	if d.finished() {
		c.endDrain(x, d)
	}
}

// perform carries out the action of a step.
func (c *controller) perform(ctx context.Context, x *execution, d *drain, a action, n *v1.Node, pods []*v1.Pod, now time.Time) error {
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
		return patch(cordonPatch(n, x.name, d.deadline(now)))
	case reserve:
		x.before = map[types.UID]bool{}
		for _, p := range pods {
			x.before[p.UID] = true
		}
		var places []kube.Place
		for _, m := range d.moves {
			places = append(places, kube.Place{Pod: m.moved.pod, Node: m.to})
		}
		x.reservation = c.Holder.Hold(x.owner(), float64(d.deadline(now).UnixMicro())/1e6, places)
	case evictPod:
		err := c.Site.Evict(ctx, x.name, c.perHour(x.object), d.last.moved.pod)
		if unsure := (*evict.UncertainError)(nil); err == nil || errors.As(err, &unsure) {
			c.evictedAt[x.name] = append(c.evictedAt[x.name], now)
		} else {
			made.WithLabelValues(x.goal(), "refused").Inc()
		}
		return err
	case markEmpty:
		return patch(emptyPatch(n, now))
	case wait, releasePlaces, admitPod: // the places with the end of the drain
	}
	return nil
}

// endDrain ends a drain. A node that was given up is uncordoned when all cordons are checked next.
func (c *controller) endDrain(x *execution, d *drain) {
	if x.reservation != nil {
		c.Holder.Release(x.reservation)
	}
	x.reservation, x.before, x.err, x.countedAt = nil, nil, nil, time.Time{}
	x.next++
	c.reconcileAt = time.Time{}
	if d.keeps {
		c.endMoves(x, d)
		return
	}
	if d.outcome == done {
		x.freed++
		x.refusals = 0
		emptyNodes.WithLabelValues("freed").Inc()
		c.report(x, v1.EventTypeNormal, "Emptied", "Node %s is empty after %d moves, and cordoned until %s.", d.node, len(d.moves), c.clock.Now().Add(emptyTTL).UTC().Format(time.RFC3339))
		return
	}
	x.givenUp++
	emptyNodes.WithLabelValues("given-up").Inc()
	c.report(x, v1.EventTypeWarning, "GivenUp", "Node %s is not emptied: %s.", d.node, d.why)
	c.countRefusal(x, d, "nodes")
}

// countRefusal stops an execution at the second drain in a row that was given up since evictions were refused.
func (c *controller) countRefusal(x *execution, d *drain, kind string) {
	if x.refusals++; d.outcome != refused {
		x.refusals = 0
	}
	if x.refusals == 2 {
		x.stop = stopReason{"Refused", "Two " + kind + " in a row were given up since evictions were refused; at last: " + d.why + "."}
		c.end(x)
	}
}

// end ends an execution.
func (c *controller) end(x *execution) {
	x.finished, c.reconcileAt = true, time.Time{}
	if x.stop.reason != "" {
		c.report(x, v1.EventTypeWarning, "Stopped", "%s", x.stop.message)
	}
}

func (c *controller) report(x *execution, kind, reason, text string, args ...any) {
	message := bounded.Text(fmt.Sprintf(text, args...))
	klog.InfoS("A Rebalance is carried out", "rebalance", x.name, "event", reason, "what", message)
	if c.Recorder != nil {
		c.Recorder.Eventf(x.object, nil, kind, reason, "Rebalance", "%s", message)
	}
}

// inProgress is the execution in progress; nil = no execution. There is one at a time, unless another waits for the end
// of the hour.
func (c *controller) inProgress() (found *execution) {
	for _, name := range slices.Sorted(maps.Keys(c.executions)) {
		if x := c.executions[name]; !x.finished && (found == nil || found.waiting != "" && x.waiting == "") {
			found = x
		}
	}
	return found
}

// setProgress adds how far an execution is to the status of its object.
func (c *controller) setProgress(o *v1alpha1.Rebalance) {
	x := c.executions[o.Name]
	if x == nil {
		if meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionProgressing) {
			if o.Status.Progress != nil {
				o.Status.Progress.Node = nil
			}
			set(o, v1alpha1.ConditionProgressing, false, "Interrupted", "The scheduler has started again. Nodes that were not empty are uncordoned, and another plan comes at its time.")
		}
		return
	}
	x.refund(o)
	p := &v1alpha1.RebalanceProgress{Time: metav1.NewMicroTime(x.start), Freed: x.freed, Moved: x.moved, GivenUp: x.givenUp}
	o.Status.Progress = p
	d := x.current()
	switch {
	case x.stop.reason != "":
		set(o, v1alpha1.ConditionProgressing, false, "Stopped", "No more pods are evicted.")
	case d == nil && len(x.drains) > 0 && x.drains[0].keeps:
		set(o, v1alpha1.ConditionProgressing, false, "Done", fmt.Sprintf("Of %d pods %d moved and %d did not.", len(x.drains), x.moved, x.givenUp))
	case d == nil:
		set(o, v1alpha1.ConditionProgressing, false, "Done", fmt.Sprintf("Of %d nodes %d were emptied and %d given up.", len(x.drains), x.freed, x.givenUp))
	case x.waiting != "":
		set(o, v1alpha1.ConditionProgressing, true, "Waiting", x.waiting+".")
	case d.keeps:
		p.Node = &d.node
		set(o, v1alpha1.ConditionProgressing, true, "Moving", fmt.Sprintf("%s moves from node %s to %s, number %d of %d.", nameOf(d.moves[0].moved.pod), d.node, d.moves[0].to, x.next+1, len(x.drains)))
	default:
		p.Node = &d.node
		set(o, v1alpha1.ConditionProgressing, true, "Emptying", fmt.Sprintf("Node %s is being emptied, number %d of %d.", d.node, x.next+1, len(x.drains)))
	}
	if x.stop.reason == "" {
		set(o, v1alpha1.ConditionStopped, false, "NotStopped", "Nothing stops it.")
	} else {
		set(o, v1alpha1.ConditionStopped, true, x.stop.reason, x.stop.message)
	}
}
