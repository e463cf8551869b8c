package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// statusEvery is the interval at which statuses are checked without an event: conflicts begin and
// end without one, and in an idle cluster plans are reviewed with their statuses.
const statusEvery = time.Second

// writeStatuses keeps the statuses of policies, rules and plans and the history of policies up to date until ctx ends. It
// does not run in an informer: a slow API server must not delay a rule.
func (w *watcher) writeStatuses(ctx context.Context) {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for {
		w.writeDue(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.wake:
		}
	}
}

func (w *watcher) writeDue(ctx context.Context) {
	now := present{w.engine.knownConflicts(), w.engine.planReports()}
	w.mu.Lock()
	var due []statement
	keys := slices.SortedFunc(maps.Keys(w.known), func(a, b key) int {
		return strings.Compare(a.resource.Resource+"/"+a.name, b.resource.Resource+"/"+b.name)
	})
	for _, of := range keys {
		s := w.statement(of, now)
		if k := w.known[of]; s.text != k.written && !s.written() {
			due = append(due, s)
		}
	}
	w.mu.Unlock()
	for _, s := range due {
		if err := w.write(ctx, s); err != nil {
			w.log.Error(err, "Cannot write a status; it is tried again", "resource", s.of.resource.Resource, "name", s.of.name)
			return
		}
	}
	if err := w.tellPolicies(ctx); err != nil {
		w.log.Error(err, "Cannot write a policy's history; it is tried again")
	}
}

// A statement is the status of an object that this profile writes.
type statement struct {
	of         key
	object     *unstructured.Unstructured
	conditions []metav1.Condition
	fields     map[string]any // of the status, in addition to conditions
	text       string         // all of it, to compare with the written status
}

func (s *statement) add(kind string, status metav1.ConditionStatus, reason, message string) {
	s.conditions = append(s.conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: s.object.GetGeneration(),
	})
}

// present is the state of rules and plans, by name; nil while it is unknown.
type present struct {
	conflicts map[string]int
	reports   map[string]kube.PlanReport
}

// statement returns the status of an object.
func (w *watcher) statement(of key, now present) statement {
	k := w.known[of]
	s := statement{of: of, object: k.object, fields: map[string]any{"observedGeneration": k.object.GetGeneration()}}
	switch of.resource {
	case policies:
		w.describePolicy(&s, k)
	case rules:
		w.describeRule(&s, k, now.conflicts)
	default:
		w.describePlan(&s, k, now.reports)
	}
	s.text = fmt.Sprint(k.object.GetGeneration(), s.fields, s.conditions)
	return s
}

// describePolicy adds the state of a policy in this profile.
func (w *watcher) describePolicy(s *statement, k *known) {
	if k.policy != nil {
		s.fields["digest"] = k.policy.Digest()
	}
	role := w.roleOf(s.of.name)
	if role != "" {
		w.describeRepair(s, k.policy, role)
	}
	if k.err != nil {
		s.add(v1alpha1.ConditionAccepted, metav1.ConditionFalse, "Invalid", k.err.Error())
	} else {
		s.add(v1alpha1.ConditionAccepted, metav1.ConditionTrue, "Valid", "The policy can be loaded.")
	}
	switch {
	case role == "" && meta.FindStatusCondition(conditionsOf(s.object), v1alpha1.ConditionActive) != nil:
		// Another profile names the policy, and writes this condition.
	case role == "":
		s.add(v1alpha1.ConditionActive, metav1.ConditionFalse, "NotReferenced", "No profile names it as policyName or canaryPolicyName.")
	case k.err == nil:
		message := fmt.Sprintf("In force in profile %s as %s.", w.engine.opt.Profile, role)
		if modeOf(k.policy) == policy.Shadow {
			message += " It decides nothing until spec.mode, shadow unless set, is canary or live."
		}
		reason := map[policy.Mode]string{policy.Shadow: "Shadow", policy.Canary: "Canary", policy.Live: "Live"}[modeOf(k.policy)]
		if file, _ := w.engine.chosen.Load(role); file != nil && file != "" {
			message += fmt.Sprintf(" The file that decides now: %s.", file)
		}
		s.add(v1alpha1.ConditionActive, metav1.ConditionTrue, reason, message+outsideText(k.policy))
	case w.generations[role] > 0:
		s.add(v1alpha1.ConditionActive, metav1.ConditionFalse, "NotAccepted", fmt.Sprintf("Generation %d, the last that was accepted, stays in force.", w.generations[role]))
	default:
		s.add(v1alpha1.ConditionActive, metav1.ConditionFalse, "NotAccepted", "No version was accepted; Best-Fit decides.")
	}
}

// outsideText describes the replacement of a policy that reads a clock.
func outsideText(object *policy.Object) string {
	if !strings.HasSuffix(object.Spec.Knowledge, "+clock") {
		return ""
	}
	return " It reads a clock: outside of the windows of workloads, a shipped policy without one decides."
}

// describeRule adds the state of a rule in this profile. The conflicts are nil in a
// standby.
func (w *watcher) describeRule(s *statement, k *known, conflicts map[string]int) {
	inForce := w.rules[s.of.name] != nil
	switch {
	case k.err == nil:
		s.add(v1alpha1.ConditionAccepted, metav1.ConditionTrue, "Valid", "The rule is in force.")
	case inForce:
		s.add(v1alpha1.ConditionAccepted, metav1.ConditionFalse, "Invalid", k.err.Error()+"; the last version that was accepted stays in force")
	default:
		s.add(v1alpha1.ConditionAccepted, metav1.ConditionFalse, "Invalid", k.err.Error())
	}
	if conflicts == nil || !inForce {
		return
	}
	count := conflicts[s.of.name]
	s.fields["conflicts"] = int64(count)
	if count > 0 {
		where := fmt.Sprintf("on %d nodes", count)
		if w.rules[s.of.name].Zoned() {
			where = fmt.Sprintf("in %d zones", count)
		}
		s.add(v1alpha1.ConditionConflicting, metav1.ConditionTrue, "PodsAgainstRule", "It does not hold "+where+"; no pod of it is added there.")
	} else {
		s.add(v1alpha1.ConditionConflicting, metav1.ConditionFalse, "None", "The rule holds on all nodes.")
	}
}

// written reports whether the object has this status already.
func (s *statement) written() bool {
	status, _ := s.object.Object["status"].(map[string]any)
	for name, want := range s.fields {
		if status[name] != want {
			return false
		}
	}
	there := conditionsOf(s.object)
	for i := range s.conditions {
		c := meta.FindStatusCondition(there, s.conditions[i].Type)
		if c == nil {
			return false
		}
		same := *c
		same.LastTransitionTime = metav1.Time{}
		if same != s.conditions[i] {
			return false
		}
	}
	return true
}

// conditionsOf returns the conditions of an object; nil when they cannot be read.
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

// write writes a status, once: replicas of the scheduler that disagree must not
// overwrite each other for ever. It returns only transient errors.
func (w *watcher) write(ctx context.Context, s statement) error {
	conditions := conditionsOf(s.object)
	for _, c := range s.conditions {
		meta.SetStatusCondition(&conditions, c)
	}
	s.fields["conditions"] = conditions
	patch, err := json.Marshal(map[string]any{
		// A status that was written meanwhile is not overwritten.
		"metadata": map[string]any{"resourceVersion": s.object.GetResourceVersion()}, "status": s.fields,
	})
	if err != nil {
		panic("engine: marshal a status: " + err.Error()) // plain values
	}
	ctx, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	_, err = w.client.Resource(s.of.resource).Patch(ctx, s.of.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "sigma"}, "status")
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err): // the informer brings the new object
		return nil
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err): // writing it again would fail again
		w.log.Error(err, "Cannot write a status", "resource", s.of.resource.Resource, "name", s.of.name)
	case err != nil:
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.known[s.of]; k != nil && k.object.GetUID() == s.object.GetUID() {
		k.written = s.text
	}
	return nil
}
