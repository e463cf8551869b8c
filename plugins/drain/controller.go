package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

const (
	// listEvery is the time between two listings of the objects while no plan is being carried out, listRarely
	// if none can be read: the kind or the right is missing.
	listEvery  = 5 * time.Second
	listRarely = time.Minute
	// stepEvery is the time between two steps of a plan that is carried out. The objects are listed before each.
	stepEvery = time.Second
	// timeout of one answer of the API server.
	timeout = 30 * time.Second
	// maxMessage is the API server's limit for a condition's message, in bytes.
	maxMessage = 32 << 10
)

var rebalances = v1alpha1.SchemeGroupVersion.WithResource("rebalances")

var (
	freed = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "sigma", Name: "rebalance_nodes_freed", StabilityLevel: metrics.ALPHA,
		Help: "Nodes that the last plan of a Rebalance would free.",
	}, []string{"rebalance"})
	moves = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "sigma", Name: "rebalance_moves", StabilityLevel: metrics.ALPHA,
		Help: "Moves of the last plan of a Rebalance.",
	}, []string{"rebalance"})
	plans = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "sigma", Name: "rebalance_plans_total", StabilityLevel: metrics.ALPHA,
		Help: "Plans of Rebalances that were begun, by outcome: planned, unreadable, failed.",
	}, []string{"outcome"})
	made = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "sigma", Name: "rebalance_moves_made_total", StabilityLevel: metrics.ALPHA,
		Help: "Moves of Rebalances in mode Auto, by goal and outcome: done, refused.",
	}, []string{"goal", "outcome"})
	nodesOver = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "sigma", Name: "rebalance_nodes_over", StabilityLevel: metrics.ALPHA,
		Help: "Nodes whose pods use or request more than the node has, by the last plan of a Rebalance of goal Relief or Fit.",
	}, []string{"rebalance", "goal"})
	emptyNodes = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "sigma", Name: "rebalance_nodes_total", StabilityLevel: metrics.ALPHA,
		Help: "Nodes that Rebalances in mode Auto were to empty, by outcome: freed, given-up.",
	}, []string{"outcome"})
	register = sync.OnceFunc(func() { legacyregistry.MustRegister(freed, moves, plans, made, nodesOver, emptyNodes) })
)

// Options of the controller.
type Options struct {
	AppLabel, Fleet string // as the scheduler's
	Prices          *kube.Prices
	Profile         string        // only its pods are moved
	MaxGrace        time.Duration // longest grace period of a pod that moves; 0 = podspec.MaxGrace
	Recorder        events.EventRecorder
	Site            Site
	Holder          Holder
	Prometheus      string // address of the server for the queries of stopWhen; "" = no server
}

type controller struct {
	Options
	objects     dynamic.Interface
	read        func(context.Context) (*snapshot.Picture, error)
	clock       clock.PassiveClock
	log         klog.Logger
	withMetrics map[string]bool // with metrics
	leads       func() bool

	executions    map[string]*execution  // by object: the one under way, or the last
	evictedAt     map[string][]time.Time // pods evicted within the last hour, by object
	failures      map[string]int         // plans in a row that could not be begun, by object
	uncordonSince map[string]time.Time   // since when an object has a cordon that is to be taken back
	lastQuery     queryResult            // to the last query
	gaveUpAt      map[string]time.Time   // moves from a node that is not emptied, by node
	uses          func(ctx context.Context, now time.Time) ([2]prometheus.Latest, error)
	reconcileAt   time.Time // not before
	listedAt      time.Time // the objects, for the last time
}

// Run makes the plans that are due, and carries them out, until ctx ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.Timeout = timeout
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	cluster, err := snapshot.NewClient(config, timeout)
	if err != nil {
		return err
	}
	register()
	c := newController(o, clock.RealClock{})
	c.objects, c.read, c.log = objects, cluster.Read, klog.FromContext(ctx)
	for {
		c.tick(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(stepEvery):
		}
	}
}

func newController(o Options, now clock.PassiveClock) *controller {
	return &controller{
		Options: o, clock: now, withMetrics: map[string]bool{}, leads: func() bool { return Leads(legacyregistry.DefaultGatherer, o.Holder.Decides) },
		gaveUpAt: map[string]time.Time{}, uses: func(ctx context.Context, now time.Time) ([2]prometheus.Latest, error) {
			return readUse(ctx, o.Prometheus, now)
		},
		executions: map[string]*execution{}, evictedAt: map[string][]time.Time{}, failures: map[string]int{}, uncordonSince: map[string]time.Time{},
	}
}

// tick lists the objects, if that is due, and makes a step.
func (c *controller) tick(ctx context.Context) {
	if now := c.clock.Now(); c.inProgress() != nil || !now.Before(c.reconcileAt) || c.reconcileAt.Sub(now) > listRarely {
		c.reconcileAt = now.Add(listEvery)
		if err := c.reconcileAll(ctx); apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			c.reconcileAt = now.Add(listRarely)
			c.log.V(2).Info("There are no Rebalances to read", "why", err.Error())
		} else if err != nil && ctx.Err() == nil {
			c.log.Error(err, "Cannot carry out Rebalances; it is tried again")
		}
	}
	c.advance(ctx)
}

// reconcileAll lists the objects and makes the plans that are due.
func (c *controller) reconcileAll(ctx context.Context) error {
	list, err := c.objects.Resource(rebalances).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	c.listedAt = c.clock.Now()
	there := map[string]*v1alpha1.Rebalance{}
	var failed []error
	for i := range list.Items {
		o, err := c.reconcile(ctx, &list.Items[i])
		there[list.Items[i].GetName()] = o
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			failed = append(failed, fmt.Errorf("rebalance %s: %w", list.Items[i].GetName(), err))
		}
	}
	for name, x := range c.executions {
		if there[name] != nil && there[name].UID == x.object.UID {
			continue
		}
		if x.deleted = true; x.finished {
			delete(c.executions, name)
			delete(c.evictedAt, name)
			delete(c.failures, name)
			delete(c.uncordonSince, name)
		}
	}
	for name := range c.withMetrics {
		if there[name] == nil {
			freed.DeleteLabelValues(name)
			moves.DeleteLabelValues(name)
			nodesOver.DeletePartialMatch(map[string]string{"rebalance": name})
			delete(c.withMetrics, name)
		}
	}
	return errors.Join(append(failed, c.uncordon(ctx, there))...)
}

// reconcile makes the plan of one object, if it is due. The error is Conflict where the object changed
// meanwhile: it is reconciled again.
func (c *controller) reconcile(ctx context.Context, u *unstructured.Unstructured) (*v1alpha1.Rebalance, error) {
	o := &v1alpha1.Rebalance{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
	o.TypeMeta = metav1.TypeMeta{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()}
	was := o.Status.DeepCopy()
	var s parsedSpec
	if err == nil {
		s, err = parseSpec(&o.Spec)
	}
	if x := c.executions[o.Name]; x != nil && x.object.UID == o.UID {
		x.object = o
	}
	if !c.leads() {
		return o, nil // the leader plans and writes its progress
	}
	if err != nil {
		o.Status.ObservedGeneration = o.Generation
		set(o, v1alpha1.ConditionAccepted, false, "Invalid", err.Error())
		set(o, v1alpha1.ConditionPlanned, false, "NotAccepted", "The spec could not be read.")
		return o, c.write(ctx, o, was)
	}
	set(o, v1alpha1.ConditionAccepted, true, "Valid", "The spec could be read.")
	if s.auto() {
		c.setProgress(o)
	} else {
		meta.RemoveStatusCondition(&o.Status.Conditions, v1alpha1.ConditionProgressing)
		meta.RemoveStatusCondition(&o.Status.Conditions, v1alpha1.ConditionStopped)
	}
	switch x := c.inProgress(); {
	case o.Spec.Suspend:
		o.Status.ObservedGeneration = o.Generation
		set(o, v1alpha1.ConditionPlanned, false, "Suspended", "No new plan is made: spec.suspend is set.")
		if s.auto() {
			set(o, v1alpha1.ConditionProgressing, false, "Stopped", "No more pods are evicted.")
			set(o, v1alpha1.ConditionStopped, true, "Suspended", "spec.suspend is set.")
		}
		return o, c.write(ctx, o, was)
	case !s.due(&o.Status, o.Generation, c.failures[o.Name], c.clock.Now()), s.auto() && (x != nil && !s.overtakes(x) || c.uncordonPending(o.Name)): // one at a time
		c.setMetrics(o)
		return o, c.write(ctx, o, was)
	}
	return o, c.plan(ctx, o, &s, was)
}

// plan makes the plan of an object, and in mode Auto begins to carry it out.
func (c *controller) plan(ctx context.Context, o *v1alpha1.Rebalance, s *parsedSpec, was *v1alpha1.RebalanceStatus) error {
	now := c.clock.Now()
	o.Status.ObservedGeneration, o.Status.LastTime = o.Generation, new(metav1.NewMicroTime(now))
	if err := c.write(ctx, o, was); err != nil {
		return err
	}
	was = o.Status.DeepCopy()
	if s.goal != v1alpha1.RebalanceEmptyNodes {
		return c.planLeaves(ctx, o, s, was, now)
	}
	picture, err := c.read(ctx)
	var stays func(*v1.Pod) string
	var moved map[string]int
	if err == nil {
		stays, moved, err = c.notEvictable(ctx, s, picture.Nodes, picture.Pods)
	}
	if err != nil {
		plans.WithLabelValues("unreadable").Inc()
		set(o, v1alpha1.ConditionPlanned, false, "Unreadable", err.Error())
		return c.write(ctx, o, was)
	}
	plan, found, err := s.plan(ctx, picture, &c.Options, now, stays, moved)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		plans.WithLabelValues("failed").Inc()
		set(o, v1alpha1.ConditionPlanned, false, "Failed", err.Error())
		c.Recorder.Eventf(o, nil, v1.EventTypeWarning, "PlanFailed", "Plan", "%s", bounded.Text(err.Error()))
		return c.write(ctx, o, was)
	}
	plans.WithLabelValues("planned").Inc()
	o.Status.Plan = plan
	text := fmt.Sprintf("%d moves would free %d of %d nodes; so many take at least %d.", plan.Moves, plan.Freed, plan.Nodes, plan.LeastMoves)
	if found == nil {
		text = "No node would be free: no pod stands on a node."
	} else if plan.Freed == 0 {
		text = "No node would be free: " + found.Why() + "."
	}
	set(o, v1alpha1.ConditionPlanned, true, "Planned", text)
	if was.Plan == nil || was.Plan.Freed != plan.Freed || was.Plan.Moves != plan.Moves {
		c.Recorder.Eventf(o, nil, v1.EventTypeNormal, "Planned", "Plan", "%s", bounded.Text(text))
	}
	c.log.Info("A Rebalance has a plan", "rebalance", o.Name, "generation", o.Generation, "moves", plan.Moves, "freed", plan.Freed, "nodes", plan.Nodes, "pods", plan.Pods, "fixed", plan.Fixed)
	c.setMetrics(o)
	var x *execution
	if s.auto() {
		x = c.newExecution(ctx, o, found, picture.Pods, now)
	}
	return c.begin(ctx, o, x, was)
}

// begin writes the status of an object with a plan, and begins to carry the plan out; nil = there is nothing to carry out.
func (c *controller) begin(ctx context.Context, o *v1alpha1.Rebalance, x *execution, was *v1alpha1.RebalanceStatus) error {
	if x != nil {
		before := maps.Clone(c.executions)
		c.executions[o.Name] = x
		c.setProgress(o)
		c.executions = before
	}
	if err := c.write(ctx, o, was); err != nil || x == nil {
		return err
	}
	c.executions[o.Name] = x
	return nil
}

// setMetrics sets the metrics of an object.
func (c *controller) setMetrics(o *v1alpha1.Rebalance) {
	if o.Status.Plan != nil {
		c.withMetrics[o.Name] = true
		freed.WithLabelValues(o.Name).Set(float64(o.Status.Plan.Freed))
		moves.WithLabelValues(o.Name).Set(float64(o.Status.Plan.Moves))
		if over := o.Status.Plan.Over; over != nil {
			nodesOver.WithLabelValues(o.Name, string(o.Spec.Goal)).Set(float64(*over))
		}
	}
}

func set(o *v1alpha1.Rebalance, kind string, is bool, reason, message string) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	if len(message) > maxMessage {
		message = message[:maxMessage]
	}
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: o.Generation,
	})
}

// write writes an object's status, if it differs and the object is still the same.
func (c *controller) write(ctx context.Context, o *v1alpha1.Rebalance, was *v1alpha1.RebalanceStatus) error {
	before, err := json.Marshal(was)
	if err != nil {
		return err
	}
	after, err := json.Marshal(o.Status)
	if err != nil || string(before) == string(after) {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": o.UID, "resourceVersion": o.ResourceVersion},
		"status":   json.RawMessage(after),
	})
	if err != nil {
		return err
	}
	written, err := c.objects.Resource(rebalances).Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "sigma-scheduler"}, "status")
	if err == nil {
		o.ResourceVersion = written.GetResourceVersion()
	}
	return err
}
