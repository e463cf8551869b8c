package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	"github.com/sigma-scheduler/sigma/cerebro/ledger"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

var (
	policies = v1alpha1.SchemeGroupVersion.WithResource("placementpolicies")
	rules    = v1alpha1.SchemeGroupVersion.WithResource("placementrules")
)

// syncPatience is how long a start waits for the objects that there are.
const syncPatience = 10 * time.Second

// watcher follows PlacementPolicies and PlacementRules and tells their status.
type watcher struct {
	engine *Engine
	client dynamic.Interface
	log    klog.Logger

	mu       sync.Mutex
	accepted map[string]*kube.Rule // by name: the last good version
	said     map[string]string     // status that was written, by resource and name
	known    map[string]*unstructured.Unstructured
}

// Watch follows the cluster's PlacementPolicies and PlacementRules until ctx ends.
// It returns when those there are have been read. hasRules is false when the
// cluster has no such kind, or does not let us read it: then none is in force.
func (e *Engine) Watch(ctx context.Context, config *rest.Config) (hasRules bool, err error) {
	config = rest.CopyConfig(config)
	config.ContentType = "application/json" // custom resources have no other
	config.AcceptContentTypes = "application/json"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return false, err
	}
	w := &watcher{
		engine: e, client: client, log: klog.FromContext(ctx).WithValues("profile", e.opt.Profile),
		accepted: map[string]*kube.Rule{}, said: map[string]string{}, known: map[string]*unstructured.Unstructured{},
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	var synced []cache.InformerSynced
	for _, of := range []struct {
		resource schema.GroupVersionResource
		set      func(*unstructured.Unstructured)
		gone     func(name string)
	}{{policies, w.setPolicy, w.policyGone}, {rules, w.setRule, w.ruleGone}} {
		if !w.served(ctx, of.resource) {
			continue
		}
		hasRules = hasRules || of.resource == rules
		informer := factory.ForResource(of.resource).Informer()
		registration, err := informer.AddEventHandler(handler(of.set, of.gone))
		if err != nil {
			return false, err
		}
		synced = append(synced, registration.HasSynced)
	}
	factory.Start(ctx.Done())
	wait, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	if !cache.WaitForCacheSync(wait.Done(), synced...) {
		w.log.Info("Policies and rules are not read yet; Best-Fit decides until they are")
	}
	if hasRules {
		go w.tellConflicts(ctx)
	}
	return hasRules, nil
}

// served reports whether the cluster has a resource and lets us read it. An API
// server that does not answer may have it.
func (w *watcher) served(ctx context.Context, resource schema.GroupVersionResource) bool {
	ctx, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	_, err := w.client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		w.log.Error(err, "Not in force, until the scheduler is started anew", "resource", resource.GroupResource())
		w.engine.metrics.loadErrors.WithLabelValues(resource.Resource).Inc()
		return false
	}
	return true
}

func handler(set func(*unstructured.Unstructured), gone func(string)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { set(o.(*unstructured.Unstructured)) },
		UpdateFunc: func(_, o any) { set(o.(*unstructured.Unstructured)) },
		DeleteFunc: func(o any) {
			if final, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = final.Obj
			}
			if object, ok := o.(*unstructured.Unstructured); ok {
				gone(object.GetName())
			}
		},
	}
}

// roleOf is what a policy of a name is to this profile; "" = nothing.
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
	object, err := parsePolicy(o)
	if err == nil {
		err = ledger.Usable(object)
	}
	role := w.roleOf(o.GetName())
	if w.news(policies, o) {
		switch {
		case err != nil:
			w.engine.metrics.loadErrors.WithLabelValues(policies.Resource).Inc()
			w.log.Error(err, "Policy is not accepted", "policy", o.GetName(), "generation", o.GetGeneration())
		case role != "":
			w.engine.SetPolicy(role, object)
			w.engine.metrics.generation.WithLabelValues(string(role)).Set(float64(o.GetGeneration()))
			w.log.Info("Policy is in force", "policy", o.GetName(), "role", role, "generation", o.GetGeneration(), "digest", object.Digest())
		}
	}
	w.tell(policies, o, w.policyStatus(o, object, role, err))
}

// news reports whether this generation of an object was not seen before.
func (w *watcher) news(resource schema.GroupVersionResource, o *unstructured.Unstructured) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := resource.Resource + "/" + o.GetName()
	old := w.known[key]
	w.known[key] = o
	return old == nil || old.GetGeneration() != o.GetGeneration() || old.GetUID() != o.GetUID()
}

func (w *watcher) forget(resource schema.GroupVersionResource, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := resource.Resource + "/" + name
	delete(w.known, key)
	delete(w.said, key)
}

func (w *watcher) policyGone(name string) {
	w.forget(policies, name)
	if role := w.roleOf(name); role != "" {
		w.engine.SetPolicy(role, nil)
		w.engine.metrics.generation.WithLabelValues(string(role)).Set(0)
		w.log.Info("Policy was deleted", "policy", name, "role", role)
	}
}

// parsePolicy reads a policy as a file of the same content would be.
func parsePolicy(o *unstructured.Unstructured) (*policy.Object, error) {
	text, err := json.Marshal(map[string]any{
		"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(),
		"metadata": map[string]any{"name": o.GetName()}, "spec": o.Object["spec"],
	})
	if err != nil {
		return nil, err
	}
	object, err := policy.Parse(o.GetName(), text)
	if err != nil { // all on one line: where it is says nothing
		return nil, fmt.Errorf("%s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), o.GetName()+":1"), o.GetName()))
	}
	return object, nil
}

func (w *watcher) setRule(o *unstructured.Unstructured) {
	var object v1alpha1.PlacementRule
	var rule *kube.Rule
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &object)
	if err == nil {
		rule, err = kube.NewRule(&object)
	}
	if w.news(rules, o) {
		if err != nil {
			w.engine.metrics.loadErrors.WithLabelValues(rules.Resource).Inc()
			w.log.Error(err, "Rule is not accepted", "rule", o.GetName(), "generation", o.GetGeneration())
		} else {
			w.putRule(o.GetName(), rule)
		}
	}
	w.tell(rules, o, w.ruleStatus(o, err))
}

func (w *watcher) ruleGone(name string) {
	w.forget(rules, name)
	w.putRule(name, nil)
}

// putRule puts a rule in force, or with nil out of it.
func (w *watcher) putRule(name string, rule *kube.Rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.accepted, name); rule != nil {
		w.accepted[name] = rule
	}
	names := make([]string, 0, len(w.accepted))
	for n := range w.accepted {
		names = append(names, n)
	}
	sort.Strings(names)
	list := make([]*kube.Rule, len(names))
	for i, n := range names {
		list[i] = w.accepted[n]
	}
	w.engine.SetRules(list)
}

// tellConflicts brings the rules' status up to date with where they do not hold.
func (w *watcher) tellConflicts(ctx context.Context) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.mu.Lock()
		var list []*unstructured.Unstructured
		for key, o := range w.known {
			if strings.HasPrefix(key, rules.Resource+"/") && w.accepted[o.GetName()] != nil {
				list = append(list, o)
			}
		}
		w.mu.Unlock()
		for _, o := range list {
			w.tell(rules, o, w.ruleStatus(o, nil))
		}
	}
}

// policyStatus is what this profile makes of a policy.
func (w *watcher) policyStatus(o *unstructured.Unstructured, object *policy.Object, role ledger.Role, err error) map[string]any {
	conditions := conditionsOf(o)
	accepted := metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Valid", Message: "The policy can be loaded."}
	if err != nil {
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, "Invalid", err.Error()
	}
	accepted.ObservedGeneration = o.GetGeneration()
	meta.SetStatusCondition(&conditions, accepted)
	activeNow := metav1.Condition{Type: v1alpha1.ConditionActive, Status: metav1.ConditionFalse, ObservedGeneration: o.GetGeneration()}
	switch {
	case role == "":
		activeNow.Reason, activeNow.Message = "NotReferenced", "No profile names it as policyName or canaryPolicyName."
		if meta.FindStatusCondition(conditions, v1alpha1.ConditionActive) == nil { // another profile may know better
			meta.SetStatusCondition(&conditions, activeNow)
		}
	case err != nil:
		activeNow.Reason, activeNow.Message = "NotAccepted", "Best-Fit decides, or the last version that was accepted."
		meta.SetStatusCondition(&conditions, activeNow)
	default:
		activeNow.Status, activeNow.Reason = metav1.ConditionTrue, map[Mode]string{Shadow: "Shadow", CanaryMode: "Canary", Live: "Live"}[modeOf(object)]
		activeNow.Message = fmt.Sprintf("In force in profile %s as %s.", w.engine.opt.Profile, role)
		meta.SetStatusCondition(&conditions, activeNow)
	}
	status := map[string]any{"observedGeneration": o.GetGeneration(), "conditions": conditions}
	if object != nil {
		status["digest"] = object.Digest()
	}
	return status
}

// ruleStatus is what this profile makes of a rule.
func (w *watcher) ruleStatus(o *unstructured.Unstructured, err error) map[string]any {
	conditions := conditionsOf(o)
	accepted := metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Valid", Message: "The rule is in force."}
	if err != nil {
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, "Invalid", err.Error()
	}
	accepted.ObservedGeneration = o.GetGeneration()
	meta.SetStatusCondition(&conditions, accepted)
	count := w.engine.Conflicts()[o.GetName()]
	conflicting := metav1.Condition{
		Type: v1alpha1.ConditionConflicting, Status: metav1.ConditionFalse, Reason: "None", Message: "The rule holds on all nodes.",
		ObservedGeneration: o.GetGeneration(),
	}
	if count > 0 {
		conflicting.Status, conflicting.Reason = metav1.ConditionTrue, "PodsAgainstRule"
		conflicting.Message = fmt.Sprintf("It does not hold on %d nodes; no pod of it is added there.", count)
	}
	meta.SetStatusCondition(&conditions, conflicting)
	return map[string]any{"observedGeneration": o.GetGeneration(), "conflicts": int64(count), "conditions": conditions}
}

// conditionsOf are the conditions that an object has; none when they cannot be read.
func conditionsOf(o *unstructured.Unstructured) []metav1.Condition {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	from, ok := o.Object["status"].(map[string]any)
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(from, &status) != nil {
		return nil
	}
	return status.Conditions
}

// tell writes an object's status where it differs from what it is and from what
// was written last: replicas of the scheduler that do not agree must not answer
// each other for ever.
func (w *watcher) tell(resource schema.GroupVersionResource, o *unstructured.Unstructured, status map[string]any) {
	conditions, _ := status["conditions"].([]metav1.Condition)
	said := fmt.Sprint(o.GetUID(), o.GetGeneration(), status["conflicts"])
	for _, c := range conditions {
		said += fmt.Sprint(c.Type, c.Status, c.Reason, c.Message, c.ObservedGeneration)
	}
	key := resource.Resource + "/" + o.GetName()
	w.mu.Lock()
	before := w.said[key]
	w.said[key] = said
	w.mu.Unlock()
	if before == said {
		return
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		panic("engine: marshal a status: " + err.Error()) // plain values
	}
	ctx, cancel := context.WithTimeout(context.Background(), syncPatience)
	defer cancel()
	_, err = w.client.Resource(resource).Patch(ctx, o.GetName(), "application/merge-patch+json", patch, metav1.PatchOptions{FieldManager: "sigma"}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		w.log.Error(err, "Cannot write a status", "resource", resource.Resource, "name", o.GetName())
		w.mu.Lock()
		w.said[key] = before // try again with the next change
		w.mu.Unlock()
	}
}
