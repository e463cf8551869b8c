package control

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
	"github.com/sigma-scheduler/sigma/plugins/revision"
)

// owner is the field manager of the pilot's writes and the name of its account.
const owner = "sigma-pilot"

// numbers are the fields of a PlacementPolicy that make its digest; the others describe its use.
var numbers = []string{"featureVersion", "model", "knowledge", "features", "weights", "parameters", "rule"}

// A held policy is one in the cluster.
type held struct {
	object *unstructured.Unstructured // nil = there is none
	policy *policy.Object             // nil = it cannot be read, or there is none
	fault  string                     // why it cannot be read
}

// read gets a PlacementPolicy from the API server, not from a cache.
func read(ctx context.Context, c client.Reader, name string) (*held, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(policy.ObjectKind))
	if err := c.Get(ctx, types.NamespacedName{Name: name}, o); apierrors.IsNotFound(err) {
		return &held{}, nil
	} else if err != nil {
		return nil, err
	}
	h := &held{object: o}
	spec, _ := o.Object["spec"].(map[string]any)
	text, err := json.Marshal(map[string]any{
		"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": map[string]any{"name": name}, "spec": spec,
	})
	if err != nil {
		return nil, err
	}
	if h.policy, err = policy.Parse(name, text); err != nil {
		h.policy, h.fault = nil, err.Error()
	}
	return h, nil
}

// applied is the policy in the loop's terms. A policy that cannot be read has no digest and decides
// nothing.
func (h *held) applied() pilot.Applied {
	if h.policy == nil {
		return pilot.Applied{}
	}
	a := pilot.Applied{Digest: h.policy.Digest(), Rung: pilot.Rung{Mode: pilot.Shadow}}
	switch spec := h.object.Object["spec"].(map[string]any); h.policy.Spec.Mode {
	case policy.Live:
		a.Mode = pilot.Live
	case policy.Canary:
		a.Rung = pilot.Rung{Mode: pilot.Canary, Percent: int(revision.Percent(spec))}
	default: // shadow is the default
	}
	return a
}

// taken reports why a scheduler does not have the policy as it is now; "" = it has.
func (h *held) taken() string {
	switch {
	case h.object == nil && h.fault != "":
		return h.fault
	case h.object == nil:
		return "there is no such PlacementPolicy"
	}
	status, _ := h.object.Object["status"].(map[string]any)
	text, err := json.Marshal(status)
	if err != nil {
		return err.Error()
	}
	var s v1alpha1.PlacementPolicyStatus
	if err := json.Unmarshal(text, &s); err != nil {
		return err.Error()
	}
	switch c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionAccepted); {
	case h.policy == nil:
		return h.fault
	case s.ObservedGeneration != h.object.GetGeneration() || c == nil:
		return "no scheduler has taken it up yet"
	case c.Status != metav1.ConditionTrue:
		return "the scheduler does not accept it: " + c.Message
	case s.Digest != h.policy.Digest():
		return "the scheduler has another version of it: " + s.Digest
	}
	return ""
}

// specOf is a spec with the numbers of a policy, in a mode. Other fields of the spec stay.
func specOf(was map[string]any, o *policy.Object, rung pilot.Rung, by string) (map[string]any, error) {
	spec := maps.Clone(was)
	if spec == nil {
		spec = map[string]any{}
	}
	if o != nil {
		text, err := json.Marshal(o.Spec)
		if err != nil {
			return nil, err
		}
		var fresh map[string]any
		if err := json.Unmarshal(text, &fresh); err != nil {
			return nil, err
		}
		for _, field := range numbers {
			delete(spec, field)
			if v := fresh[field]; v != nil {
				spec[field] = v
			}
		}
		provenance, _ := fresh["provenance"].(map[string]any)
		if provenance = maps.Clone(provenance); provenance == nil {
			provenance = map[string]any{}
		}
		provenance["pilot"] = by
		spec["provenance"] = provenance
	}
	spec["mode"] = string(rung.Mode)
	if rung.Mode == pilot.Canary {
		spec["canaryPercent"] = int64(rung.Percent)
	}
	return spec, nil
}

// write makes a policy the named PlacementPolicy, in a mode; nil = its numbers stay. It does nothing
// where that is so already. The error is Conflict where somebody else changed the object.
func write(ctx context.Context, c client.Client, name string, h *held, o *policy.Object, rung pilot.Rung, by string) error {
	if h.object == nil {
		if o == nil {
			return nil // a missing policy decides nothing
		}
		spec, err := specOf(nil, o, rung, by)
		if err != nil {
			return err
		}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(policy.ObjectKind))
		u.SetName(name)
		return c.Create(ctx, u, client.FieldOwner(owner))
	}
	was, _ := h.object.Object["spec"].(map[string]any)
	if now := h.applied(); now.Rung == rung && (o == nil || now.Digest == o.Digest()) {
		return nil
	}
	if h.policy != nil && o != nil && h.policy.Digest() == o.Digest() {
		o = nil // a change of mode
	}
	spec, err := specOf(was, o, rung, by)
	if err != nil {
		return err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/resourceVersion", "value": h.object.GetResourceVersion()},
		{"op": "replace", "path": "/spec", "value": spec},
	})
	if err != nil {
		return err
	}
	return c.Patch(ctx, h.object.DeepCopy(), client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(owner))
}

// conflicts counts the nodes, or zones, that hold pods against a PlacementRule.
func conflicts(ctx context.Context, c client.Reader) (float64, error) {
	var list v1alpha1.PlacementRuleList
	if err := c.List(ctx, &list); err != nil {
		return 0, fmt.Errorf("PlacementRules: %w", err)
	}
	sum := 0.
	for i := range list.Items {
		sum += float64(list.Items[i].Status.Conflicts)
	}
	return sum, nil
}

// rival is the oldest other pilot that steers a PlacementPolicy of this one; nil = no pilot
// older than this one does.
func rival(all []v1alpha1.PolicyPilot, o *v1alpha1.PolicyPilot) *v1alpha1.PolicyPilot {
	mine := []string{o.Spec.Policy, candidateOf(&o.Spec)}
	for i := range all {
		p := &all[i]
		older := p.CreationTimestamp.Before(&o.CreationTimestamp) || p.CreationTimestamp.Equal(&o.CreationTimestamp) && p.Name < o.Name
		if p.UID != o.UID && older && (slices.Contains(mine, p.Spec.Policy) || slices.Contains(mine, candidateOf(&p.Spec))) {
			return p
		}
	}
	return nil
}
