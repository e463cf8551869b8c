package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/revision"
)

var policies = v1alpha1.SchemeGroupVersion.WithResource("placementpolicies")

// policiesName is the resource as kubectl and error messages name it.
const policiesName = "placementpolicies.sigma-scheduler.io"

// rolledBack is the annotation of a policy with the digests that it was rolled back from; no
// rollback leads to them.
const rolledBack = "sigma-scheduler.io/rolled-back-from"

// A Change is a policy's step from one mode, or one digest, to another.
type Change struct {
	Policy   string
	From, To string // mode, with the share of a canary
	Revision int64  // target of a rollback; 0 = no rollback
	Digest   string // of the numbers after the change, "" if unknown
	DryRun   bool
}

func (c *Change) String() string {
	text := fmt.Sprintf("%s: %s → %s", c.Policy, c.From, c.To)
	if c.Revision > 0 {
		text += fmt.Sprintf(", the numbers of revision %d", c.Revision)
	}
	if c.Digest != "" {
		text += ", digest " + c.Digest
	}
	if c.DryRun {
		return text + "\nnot written: the API server accepts it (--dry-run)"
	}
	return text + "\nwritten; the scheduler takes it up within seconds: sigma policy history " + c.Policy
}

// Promote promotes a policy one step: from shadow to a canary, from there to live. A share in
// percent, 0 = not given, is that of the canary; a canary with a larger one grows. It refuses a
// policy that no scheduler accepted or uses.
func (c *Cluster) Promote(ctx context.Context, name string, percent int64, dryRun bool) (*Change, error) {
	o, p, err := c.policy(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := ready(o, p); err != nil {
		return nil, err
	}
	spec := o.Object["spec"].(map[string]any)
	next := runtime.DeepCopyJSON(spec)
	switch mode, now := modeOf(spec), revision.Percent(spec); {
	case mode == "live":
		return nil, refuse("sigma policy history "+name, "%s is live: there is nothing to promote it to", name)
	case mode == "shadow":
		next["mode"], next["canaryPercent"] = "canary", cmp.Or(percent, max(now, 1))
	case percent == 0:
		next["mode"] = "live"
	case percent <= now:
		return nil, refuse(fmt.Sprintf("sigma policy demote %s --percent %d", name, percent), "%s is a canary for %d %% already: %d %% is no promotion", name, now, percent)
	default:
		next["canaryPercent"] = percent
	}
	return c.change(ctx, o, next, Change{Digest: p.Status.Digest, DryRun: dryRun})
}

// Demote demotes a policy one step: from live to a canary, from there to shadow. A share in
// percent, 0 = not given, is that of the canary; a canary with a smaller one shrinks.
func (c *Cluster) Demote(ctx context.Context, name string, percent int64, dryRun bool) (*Change, error) {
	o, p, err := c.policy(ctx, name)
	if err != nil {
		return nil, err
	}
	spec := o.Object["spec"].(map[string]any)
	next := runtime.DeepCopyJSON(spec)
	switch mode, now := modeOf(spec), revision.Percent(spec); {
	case mode == "shadow":
		return nil, refuse("kubectl delete placementpolicy "+name, "%s is in shadow: it decides nothing", name)
	case mode == "live":
		next["mode"], next["canaryPercent"] = "canary", cmp.Or(percent, max(now, 1))
	case percent == 0:
		next["mode"] = "shadow"
	case percent >= now:
		return nil, refuse(fmt.Sprintf("sigma policy promote %s --percent %d", name, percent), "%s is a canary for %d %%: %d %% is no demotion", name, now, percent)
	default:
		next["canaryPercent"] = percent
	}
	return c.change(ctx, o, next, Change{Digest: p.Status.Digest, DryRun: dryRun})
}

// Rollback gives a policy the specification of an earlier revision: the one of that number, or
// with 0 the newest one with other numbers than now that it was not rolled back from before.
func (c *Cluster) Rollback(ctx context.Context, name string, number int64, dryRun bool) (*Change, error) {
	o, p, err := c.policy(ctx, name)
	if err != nil {
		return nil, err
	}
	list, err := c.revisions(ctx, o)
	if err != nil {
		return nil, err
	}
	spec := o.Object["spec"].(map[string]any)
	bad := strings.Split(o.GetAnnotations()[rolledBack], ",")
	history := "sigma policy history " + name
	var to *revision.Revision
	for i := range list {
		r := &list[i]
		if number > 0 && r.Number == number || number == 0 && !revision.SameNumbers(r.Spec, spec) && !slices.Contains(bad, r.Digest) {
			to = r
		}
	}
	switch {
	case len(list) == 0:
		return nil, refuse("sigma doctor", "%s has no history in namespace %s: no scheduler has taken it up there", name, c.Namespace)
	case to == nil && number > 0:
		return nil, refuse(history, "%s has no revision %d; it has %d to %d", name, number, list[0].Number, list[len(list)-1].Number)
	case to == nil:
		return nil, refuse("sigma policy demote "+name, "%s has no other numbers in its history to go back to", name)
	}
	// A version that was refused, or not seen yet, has no revision and no digest.
	if p.Status.ObservedGeneration == o.GetGeneration() && p.Status.Digest != "" && p.Status.Digest != to.Digest && !slices.Contains(bad, p.Status.Digest) {
		bad = append(bad, p.Status.Digest)
	}
	bad = slices.DeleteFunc(bad, func(d string) bool { return d == "" || d == to.Digest })
	o = o.DeepCopy()
	return c.change(ctx, o, runtime.DeepCopyJSON(to.Spec), Change{Digest: to.Digest, Revision: to.Number, DryRun: dryRun}, bad[max(0, len(bad)-revision.Keep):]...)
}

// statusTries is how often a change is written while the status changes under it.
const statusTries = 10

// change writes a specification, if nobody has changed the policy since it was read.
func (c *Cluster) change(ctx context.Context, o *unstructured.Unstructured, spec map[string]any, change Change, bad ...string) (*Change, error) {
	now, _ := o.Object["spec"].(map[string]any)
	change.Policy, change.From, change.To = o.GetName(), revision.Mode(now), revision.Mode(spec)
	options := metav1.PatchOptions{FieldManager: "sigma-policy"}
	if change.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	for range statusTries {
		patch, err := patchOf(o, changed(o, spec, bad))
		if err != nil {
			return nil, err
		}
		_, err = c.Client.Resource(policies).Patch(ctx, o.GetName(), types.MergePatchType, patch, options)
		if err == nil {
			return &change, nil
		}
		if !apierrors.IsConflict(err) {
			return nil, c.explain("patch", policiesName, "", err)
		}
		// A scheduler writes the status at any time: only another specification is somebody else's.
		fresh, err := c.Client.Resource(policies).Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			return nil, c.explain("get", policiesName, "", err)
		}
		if fresh.GetUID() != o.GetUID() || fresh.GetGeneration() != o.GetGeneration() || !maps.Equal(fresh.GetAnnotations(), o.GetAnnotations()) {
			break
		}
		o = fresh
	}
	return nil, &Refusal{
		Reason: fmt.Sprintf("%s was changed by somebody else since this command read it; nothing is written", o.GetName()),
		Next:   "sigma policy history " + o.GetName(),
	}
}

// changed is a policy with another specification, and with digests that were rolled back from, if any.
func changed(o *unstructured.Unstructured, spec map[string]any, bad []string) *unstructured.Unstructured {
	next := o.DeepCopy()
	next.Object["spec"] = spec
	if len(bad) > 0 {
		all := next.GetAnnotations()
		if all == nil {
			all = map[string]string{}
		}
		all[rolledBack] = strings.Join(bad, ",")
		next.SetAnnotations(all)
	}
	return next
}

// patchOf is the merge patch from one version to another. The API server refuses it with a conflict
// when the object is no longer the former.
func patchOf(from, to *unstructured.Unstructured) ([]byte, error) {
	a, errA := json.Marshal(from)
	b, errB := json.Marshal(to)
	if err := cmp.Or(errA, errB); err != nil {
		return nil, err
	}
	diff, err := jsonpatch.CreateMergePatch(a, b)
	if err != nil {
		return nil, err
	}
	version, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": from.GetResourceVersion()}})
	if err != nil {
		return nil, err
	}
	return jsonpatch.MergeMergePatches(diff, version)
}

// policy reads a policy, as it is and with its status.
func (c *Cluster) policy(ctx context.Context, name string) (*unstructured.Unstructured, *v1alpha1.PlacementPolicy, error) {
	o, err := c.Client.Resource(policies).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, c.missing(ctx, name, err)
	}
	if err != nil {
		return nil, nil, c.explain("get", policiesName, "", err)
	}
	if _, ok := o.Object["spec"].(map[string]any); !ok {
		return nil, nil, refuse("kubectl get placementpolicy "+name+" -o yaml", "%s has no spec", name)
	}
	return withStatus(o)
}

// withStatus reads a policy's status.
func withStatus(o *unstructured.Unstructured) (*unstructured.Unstructured, *v1alpha1.PlacementPolicy, error) {
	var p v1alpha1.PlacementPolicy
	status, _ := o.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"status": status}, &p); err != nil {
		return nil, nil, fmt.Errorf("status of %s: %w", o.GetName(), err)
	}
	return o, &p, nil
}

// missing returns an error that names the existing policies.
func (c *Cluster) missing(ctx context.Context, name string, err error) error {
	list, errList := c.Client.Resource(policies).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(errList):
		return &Refusal{Reason: "the cluster has no PlacementPolicies: Sigma is not installed", Next: "sigma doctor", err: err}
	case errList != nil || len(list.Items) == 0:
		return &Refusal{Reason: "there is no PlacementPolicy " + name, Next: "kubectl get placementpolicies", err: err}
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return &Refusal{Reason: fmt.Sprintf("there is no PlacementPolicy %s; there are %s", name, strings.Join(names, ", ")), Next: "sigma policy history " + names[0], err: err}
}

// modeOf is a policy's mode without the share.
func modeOf(spec map[string]any) string {
	mode, _, _ := strings.Cut(revision.Mode(spec), " ")
	return mode
}

// ready returns why a policy may not decide more than it does.
func ready(o *unstructured.Unstructured, p *v1alpha1.PlacementPolicy) error {
	name := o.GetName()
	of := func(kind string) *metav1.Condition { return meta.FindStatusCondition(p.Status.Conditions, kind) }
	accepted, active := of(v1alpha1.ConditionAccepted), of(v1alpha1.ConditionActive)
	switch {
	case accepted == nil || active == nil:
		return refuse("sigma doctor", "%s is not promoted: no scheduler has looked at it yet", name)
	case p.Status.ObservedGeneration != o.GetGeneration():
		return refuse("kubectl get placementpolicy "+name, "%s is not promoted: the scheduler has looked at generation %d, and %d is there; try again in a few seconds",
			name, p.Status.ObservedGeneration, o.GetGeneration())
	case accepted.Status != metav1.ConditionTrue:
		return refuse("sigma policy rollback "+name+", or kubectl apply it mended", "%s is not promoted: it was not accepted: %s", name, accepted.Message)
	case active.Status != metav1.ConditionTrue:
		return refuse("name it as policyName or canaryPolicyName in the scheduler's configuration (docs/policy-history.md)", "%s is not promoted: it is not in use: %s", name, active.Message)
	}
	return nil
}
