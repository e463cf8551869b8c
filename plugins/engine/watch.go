package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/revision"
)

var (
	policies = v1alpha1.SchemeGroupVersion.WithResource("placementpolicies")
	rules    = v1alpha1.SchemeGroupVersion.WithResource("placementrules")
	plans    = v1alpha1.SchemeGroupVersion.WithResource("placementplans")
)

// syncPatience is the timeout of a start for reading the objects.
const syncPatience = 10 * time.Second

// watcher follows PlacementPolicies, PlacementRules and PlacementPlans and writes their statuses.
type watcher struct {
	engine    *Engine
	rulesRead cache.InformerSynced // nil = there are no rules to read
	client    dynamic.Interface
	log       klog.Logger
	wake      chan struct{} // a status may have changed
	asked     time.Time     // the last time when it was found that this process does not lead

	mu          sync.Mutex
	rules       map[string]*kube.Rule // by name: the last good version
	generations map[ledger.Role]int64 // of the active policy; 0 = none
	known       map[key]*known
}

type key struct {
	resource schema.GroupVersionResource
	name     string
}

// known holds the data of an object.
type known struct {
	object  *unstructured.Unstructured
	policy  *policy.Object
	plan    *kube.Plan
	err     error     // why it is not accepted
	refused error     // why the newest version of a plan is not accepted
	written string    // the status that was written
	untold  []takenUp // versions of a policy that its history may lack, oldest first
}

// Kinds are the kinds of objects that a cluster has and lets us read. Objects of other kinds are
// not active.
type Kinds struct{ Rules, Plans bool }

// watching has the objects of the cluster as they were last read.
type watching struct {
	watcher atomic.Pointer[watcher] // of rules; nil = the cluster has none
}

// Watch follows the cluster's PlacementPolicies, PlacementRules and PlacementPlans until ctx
// ends. It returns when they have been read or that takes too long, see [Engine.Ready].
func (e *Engine) Watch(ctx context.Context, config *rest.Config) (has Kinds, err error) {
	config = rest.CopyConfig(config)
	config.ContentType = "application/json" // custom resources have no other content type
	config.AcceptContentTypes = "application/json"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return Kinds{}, err
	}
	return e.watch(ctx, client, dynamicinformer.NewDynamicSharedInformerFactory(client, 0))
}

func (e *Engine) watch(ctx context.Context, client dynamic.Interface, factory dynamicinformer.DynamicSharedInformerFactory) (has Kinds, err error) {
	w := &watcher{
		engine: e, client: client, log: klog.FromContext(ctx).WithValues("profile", e.opt.Profile), wake: make(chan struct{}, 1),
		rules: map[string]*kube.Rule{}, generations: map[ledger.Role]int64{}, known: map[key]*known{},
	}
	var synced []cache.InformerSynced
	for _, of := range []struct {
		resource schema.GroupVersionResource
		set      func(*unstructured.Unstructured)
		gone     func(*unstructured.Unstructured)
	}{{policies, w.setPolicy, w.policyGone}, {rules, w.setRule, w.ruleGone}, {plans, w.setPlan, w.planGone}} {
		if !w.served(ctx, of.resource) {
			continue
		}
		informer := factory.ForResource(of.resource).Informer()
		registration, err := informer.AddEventHandler(handler(of.set, of.gone))
		if err != nil {
			return Kinds{}, err
		}
		synced = append(synced, registration.HasSynced)
		switch of.resource {
		case rules:
			has.Rules = true
			w.rulesRead = registration.HasSynced
		case plans:
			has.Plans = true
		}
	}
	e.watcher.Store(w)
	factory.Start(ctx.Done())
	wait, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	if !cache.WaitForCacheSync(wait.Done(), synced...) {
		w.log.Info("Policies, rules and plans are not read yet")
	}
	if !e.opt.ReadOnly {
		go w.writeStatuses(ctx)
	}
	return has, nil
}

var errNotRead = errors.New("placement rules are not read yet")

// Ready returns the reason why no decision is possible yet; nil when it is. Rules must be read
// first.
func (o *watching) Ready() error {
	if w := o.watcher.Load(); w != nil && w.rulesRead != nil && !w.rulesRead() {
		return errNotRead
	}
	return nil
}

// served reports whether the cluster has a resource and allows reading it, or may do so:
// its API server does not answer.
func (w *watcher) served(ctx context.Context, resource schema.GroupVersionResource) bool {
	ctx, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	_, err := w.client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		w.log.Error(err, "Not in force until the scheduler is restarted", "resource", resource.GroupResource())
		w.engine.metrics.loadErrors.WithLabelValues(resource.Resource).Inc()
		return false
	}
	return true
}

func handler(set, gone func(*unstructured.Unstructured)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { set(o.(*unstructured.Unstructured)) },
		UpdateFunc: func(_, o any) { set(o.(*unstructured.Unstructured)) },
		DeleteFunc: func(o any) {
			if object := unwrap(o); object != nil {
				gone(object)
			}
		},
	}
}

// unwrap returns the object of an event; nil when it has none.
func unwrap(o any) *unstructured.Unstructured {
	if final, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = final.Obj
	}
	object, _ := o.(*unstructured.Unstructured)
	return object
}

// record stores an object and reports whether its specification is new.
func (w *watcher) record(of key, o *unstructured.Unstructured) (k *known, news bool) {
	k = w.known[of]
	if k == nil || k.object.GetUID() != o.GetUID() {
		k = &known{object: o}
		w.known[of] = k
		return k, true
	}
	switch {
	case o.GetGeneration() < k.object.GetGeneration(): // the scheduler's informer was ahead of this one
		return k, false
	case o.GetGeneration() > k.object.GetGeneration():
		news = true
	}
	k.object = o
	return k, news
}

// wakeUp makes writeStatuses check at once.
func (w *watcher) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// roleOf returns the role of a policy in this profile, by name; "" = no role.
func (w *watcher) roleOf(name string) ledger.Role {
	switch {
	case name == w.engine.opt.PolicyName:
		return ledger.Primary
	case name == w.engine.opt.CanaryName && name != "":
		return ledger.Canary
	}
	return ""
}

func (w *watcher) setPolicy(o *unstructured.Unstructured) {
	defer w.wakeUp()
	w.mu.Lock()
	defer w.mu.Unlock()
	k, news := w.record(key{policies, o.GetName()}, o)
	if !news {
		return
	}
	object, err := parsePolicy(o)
	if err == nil {
		err = ledger.CheckPolicy(object)
	}
	k.policy, k.err = object, err
	if err != nil {
		w.engine.metrics.loadErrors.WithLabelValues(policies.Resource).Inc()
		w.log.Error(err, "Policy is not accepted", "policy", o.GetName(), "generation", o.GetGeneration())
		return
	}
	if role := w.roleOf(o.GetName()); role != "" {
		w.generations[role] = o.GetGeneration()
		w.engine.SetPolicy(role, object)
		k.untold = append(k.untold, takenUp{key{policies, o.GetName()}, o, role, object.Digest()})
		k.untold = k.untold[max(0, len(k.untold)-revision.Keep):]
		w.engine.metrics.generation.WithLabelValues(string(role)).Set(float64(o.GetGeneration()))
		w.log.Info("Policy is in force", "policy", o.GetName(), "role", role, "generation", o.GetGeneration(), "digest", object.Digest(), "mode", modeOf(object))
	}
}

func (w *watcher) policyGone(o *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, key{policies, o.GetName()})
	if role := w.roleOf(o.GetName()); role != "" {
		delete(w.generations, role)
		w.engine.SetPolicy(role, nil)
		w.engine.metrics.generation.WithLabelValues(string(role)).Set(0)
		w.log.Info("Policy was deleted", "policy", o.GetName(), "role", role)
	}
}

// parsePolicy reads a policy as from a file of the same content.
func parsePolicy(o *unstructured.Unstructured) (*policy.Object, error) {
	text, err := json.Marshal(map[string]any{
		"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(),
		"metadata": map[string]any{"name": o.GetName()}, "spec": o.Object["spec"],
	})
	if err != nil {
		return nil, err
	}
	object, err := policy.Parse(o.GetName(), text)
	if err != nil { // the text is one line: its number is no help
		return nil, fmt.Errorf("%s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), o.GetName()+":1: "), o.GetName()+": "))
	}
	return object, nil
}

// RuleChanged activates a rule that an informer of the scheduler saw change; before
// is nil for a new rule, after for a deleted one. The scheduler wakes pods by that
// informer, which may be ahead of ours, and a woken pod must meet the new rule.
func (o *watching) RuleChanged(before, after any) {
	if w := o.watcher.Load(); w != nil {
		w.changed(before, after, w.setRule, w.ruleGone)
	}
}

// changed passes on an object that changed or was deleted.
func (w *watcher) changed(before, after any, set, gone func(*unstructured.Unstructured)) {
	if o := unwrap(after); o != nil {
		set(o)
	} else if o := unwrap(before); o != nil {
		gone(o)
	}
}

func (w *watcher) setRule(o *unstructured.Unstructured) {
	defer w.wakeUp()
	w.mu.Lock()
	defer w.mu.Unlock()
	k, news := w.record(key{rules, o.GetName()}, o)
	if !news {
		return
	}
	var object v1alpha1.PlacementRule
	var rule *kube.Rule
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &object)
	if err == nil {
		rule, err = kube.NewRule(&object)
	}
	k.err = err
	if err != nil {
		w.engine.metrics.loadErrors.WithLabelValues(rules.Resource).Inc()
		w.log.Error(err, "Rule is not accepted", "rule", o.GetName(), "generation", o.GetGeneration())
		return
	}
	w.rules[o.GetName()] = rule
	w.putRules()
}

func (w *watcher) ruleGone(o *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := key{rules, o.GetName()}
	if k := w.known[of]; k == nil || k.object.GetUID() != o.GetUID() { // the rule of this name has been replaced or removed
		return
	}
	delete(w.known, of)
	delete(w.rules, o.GetName())
	w.putRules()
}

// putRules activates the accepted rules.
func (w *watcher) putRules() {
	list := make([]*kube.Rule, 0, len(w.rules))
	for _, name := range slices.Sorted(maps.Keys(w.rules)) {
		list = append(list, w.rules[name])
	}
	w.engine.SetRules(list)
}
