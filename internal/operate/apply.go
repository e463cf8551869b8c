package operate

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/revision"
)

// numbers are the fields of a PlacementPolicy that a file gives it; the others, such as repair and soft, stay.
var numbers = []string{"featureVersion", "model", "knowledge", "features", "weights", "parameters", "rule", "provenance"}

// Apply gives a PlacementPolicy the numbers of a file, in shadow. One that decides on pods it takes from them only with
// demote, and one of a pilot not at all.
func (c *Cluster) Apply(ctx context.Context, name, file string, demote, dryRun bool) (*Change, error) {
	p, err := policy.Load(file)
	if err != nil {
		return nil, err
	}
	text, err := yaml.YAMLToJSON(p.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	o.SetName(name)
	spec, _ := o.Object["spec"].(map[string]any) // a policy that was read has one
	spec["mode"] = "shadow"
	delete(spec, "canaryPercent")
	change := Change{Policy: name, From: "none", To: "shadow", Digest: p.Digest(), DryRun: dryRun}
	now, err := c.Client.Resource(policies).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		options := metav1.CreateOptions{FieldManager: "sigma-policy"}
		if dryRun {
			options.DryRun = []string{metav1.DryRunAll}
		}
		_, err := c.Client.Resource(policies).Create(ctx, o, options)
		switch {
		case err == nil:
			return &change, nil
		case apierrors.IsNotFound(err):
			return nil, &Refusal{Reason: "the cluster has no PlacementPolicies: Sigma is not installed", Next: "sigma doctor", err: err}
		}
		return nil, c.explain("create", policiesName, "", err)
	case err != nil:
		return nil, c.explain("get", policiesName, "", err)
	}
	present, _ := now.Object["spec"].(map[string]any)
	change.From = revision.Mode(present)
	if !demote && modeOf(present) != "shadow" {
		return nil, refuse("the same with --demote, or with another name", "%s decides (%s): it is not replaced", name, change.From)
	}
	if pilot, _, _ := unstructured.NestedString(present, "provenance", "pilot"); pilot != "" {
		return nil, refuse("another --name, or kubectl delete policypilot "+pilot, "%s is of the PolicyPilot %s", name, pilot)
	}
	next := runtime.DeepCopyJSON(present)
	for _, field := range numbers {
		delete(next, field)
		if v, ok := spec[field]; ok {
			next[field] = v
		}
	}
	next["mode"] = "shadow"
	return c.change(ctx, now, next, change)
}
