package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

func (w *watcher) setPlan(o *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, news := w.record(key{plans, o.GetName()}, o)
	if !news {
		return
	}
	defer w.wakeUp()
	var object v1alpha1.PlacementPlan
	k.refused = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &object)
	if k.refused == nil {
		var plan *kube.Plan
		if plan, k.refused = kube.NewPlan(&object, w.engine.opt.AppLabel); k.refused == nil {
			k.plan = plan
		}
	}
	if k.refused != nil {
		w.engine.metrics.loadErrors.WithLabelValues(plans.Resource).Inc()
		w.log.Error(k.refused, "Plan is not accepted; its version before, if any, stays in force", "plan", o.GetName(), "generation", o.GetGeneration())
	}
	w.putPlans()
}

func (w *watcher) planGone(o *unstructured.Unstructured) {
	defer w.wakeUp()
	w.mu.Lock()
	defer w.mu.Unlock()
	of := key{plans, o.GetName()}
	if k := w.known[of]; k == nil || k.object.GetUID() != o.GetUID() { // the plan of this name has been replaced or removed
		return
	}
	delete(w.known, of)
	w.putPlans()
}

// putPlans activates the plans: of those that have a workload in common, the oldest.
func (w *watcher) putPlans() {
	var all []*known
	for of, k := range w.known {
		if of.resource == plans && k.plan != nil {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b *known) int {
		if x, y := a.object.GetCreationTimestamp(), b.object.GetCreationTimestamp(); !x.Equal(&y) {
			return x.Compare(y.Time)
		}
		return strings.Compare(a.plan.Name, b.plan.Name)
	})
	var list []*kube.Plan
	for _, k := range all {
		k.err = nil
		for _, other := range list {
			if workload := k.plan.SharedWorkload(other); workload != "" && k.err == nil {
				k.err = fmt.Errorf("spec.workloads: the older plan %s has %s too", other.Name, workload)
			}
		}
		if k.err == nil {
			list = append(list, k.plan)
		}
	}
	w.engine.SetPlans(list)
}

// describePlan adds the state of a plan in this profile.
func (w *watcher) describePlan(s *statement, k *known, reports map[string]kube.PlanReport) {
	if err := cmp.Or(k.refused, k.err); err != nil {
		s.add(v1alpha1.ConditionAccepted, metav1.ConditionFalse, "Invalid", err.Error())
		if k.plan != nil && k.err == nil {
			s.add(v1alpha1.ConditionActive, metav1.ConditionTrue, "FormerVersion", "The version before stays in force.")
			return
		}
		s.add(v1alpha1.ConditionActive, metav1.ConditionFalse, "NotAccepted", "Nothing is reserved.")
		return
	}
	s.add(v1alpha1.ConditionAccepted, metav1.ConditionTrue, "Valid", "The plan can be followed.")
	r, ok := reports[s.of.name]
	if !ok {
		return
	}
	s.fields["pods"], s.fields["landed"] = int64(r.Pods), int64(r.Placed)
	s.fields["reserved"], s.fields["elsewhere"] = int64(r.Reserved), int64(r.Elsewhere)
	s.fields["replanned"] = int64(r.Replanned())
	text := missing(r)
	switch {
	case k.plan.Until <= seconds(w.engine.opt.Now()):
		s.add(v1alpha1.ConditionActive, metav1.ConditionFalse, "Deadline", "The deadline has passed; nothing is reserved. "+text)
	case !k.plan.Enabled:
		s.add(v1alpha1.ConditionActive, metav1.ConditionFalse, "DryRun", fmt.Sprintf(
			"Nothing is reserved until spec.mode is Enabled; there is room for %d of the pods to come. %s", r.HasRoom, text))
	case r.Placed == r.Pods:
		s.add(v1alpha1.ConditionActive, metav1.ConditionTrue, "Complete", "All pods stand where the plan has them."+again(r))
	default:
		s.add(v1alpha1.ConditionActive, metav1.ConditionTrue, "Reserving", text)
	}
}

// missing describes the progress of a plan, the reasons for missing pods, and the replanned pods.
func missing(r kube.PlanReport) string {
	parts := []string{fmt.Sprintf("%d of %d pods landed as planned", r.Placed, r.Pods)}
	add := func(n int32, text string) {
		if n > 0 {
			parts = append(parts, fmt.Sprint(n, text))
		}
	}
	add(r.Elsewhere, " stand elsewhere")
	add(r.NoNode, " are planned on nodes that are not there")
	add(r.Cordoned, " on cordoned nodes")
	add(r.NoRoom, " on nodes without room")
	add(r.Refused, " on nodes that refuse them")
	return strings.Join(parts, ", ") + "." + again(r)
}

// again describes where pods were replanned: the nodes by name, a few of many.
func again(r kube.PlanReport) string {
	const most = 20
	if len(r.ReplannedOn) == 0 {
		return ""
	}
	var nodes []string
	for _, name := range slices.Sorted(maps.Keys(r.ReplannedOn)) {
		nodes = append(nodes, fmt.Sprintf("%s (%d)", name, r.ReplannedOn[name]))
	}
	more := ""
	if n := len(nodes) - most; n > 0 {
		nodes, more = nodes[:most], fmt.Sprintf(" and %d more nodes", n)
	}
	return fmt.Sprintf(" %d were planned again, on %s%s.", r.Replanned(), strings.Join(nodes, ", "), more)
}
