// Package revision keeps the history of a PlacementPolicy: one ControllerRevision for each digest,
// mode or other setting that a scheduler activated.
//
// A revision belongs to the policy and is deleted with it. It is in the namespace of the program that
// writes it, since a ControllerRevision cannot be cluster-scoped. Its name follows from the policy and
// the activated version, so that of several replicas one writes it.
package revision

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Keep is the number of revisions of a policy that are kept, in addition to the target of a rollback.
const Keep = 10

// DefaultNamespace is the namespace of the revisions of a program outside of a pod.
const DefaultNamespace = "sigma-system"

const (
	uidLabel     = "sigma-scheduler.io/policy-uid"
	digestKey    = "sigma-scheduler.io/digest"
	namespaceFor = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

var resource = appsv1.SchemeGroupVersion.WithResource("controllerrevisions")

// A Revision is a version of a policy that a scheduler activated.
type Revision struct {
	Number int64
	At     time.Time
	Digest string         // of the numbers, as the scheduler computed it
	Spec   map[string]any // of the policy, whole

	object *unstructured.Unstructured
}

// Mode returns how far the revision decides: shadow, canary with its share, or live.
func (r *Revision) Mode() string { return Mode(r.Spec) }

// Mode returns how far a policy of that spec decides: shadow, canary with its share, or live.
func Mode(spec map[string]any) string {
	mode, _ := spec["mode"].(string)
	switch mode {
	case "":
		return "shadow"
	case "canary":
		return fmt.Sprintf("canary %v %%", Percent(spec))
	}
	return mode
}

// Percent returns the share of the workloads for which a policy of that spec decides as canary.
func Percent(spec map[string]any) int64 {
	switch n := spec["canaryPercent"].(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 10 // the API server sets it
}

// settings are the fields of a spec that determine the use of a policy; provenance has no effect.
var settings = []string{"mode", "canaryPercent", "repair", "soft", "maxShareOfApp", "provenance"}

// SameNumbers reports whether two specs rank alike: they differ in settings of use only.
func SameNumbers(a, b map[string]any) bool { return same(a, b, settings...) }

func same(a, b map[string]any, without ...string) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	for _, field := range without {
		delete(a, field)
		delete(b, field)
	}
	x, errX := json.Marshal(a) // 1 and 1.0 are one number
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Namespace returns the namespace in which this program writes: that of its pod.
func Namespace() string {
	if text, err := os.ReadFile(namespaceFor); err == nil {
		if name := strings.TrimSpace(string(text)); name != "" {
			return name
		}
	}
	return DefaultNamespace
}

// List returns the revisions of a policy, oldest first.
func List(ctx context.Context, client dynamic.Interface, namespace string, policy types.UID) ([]Revision, error) {
	list, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: uidLabel + "=" + string(policy)})
	if err != nil {
		return nil, err
	}
	all := make([]Revision, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, read(&list.Items[i]))
	}
	slices.SortFunc(all, func(a, b Revision) int {
		if n := a.Number - b.Number; n != 0 {
			return int(n)
		}
		return strings.Compare(a.object.GetName(), b.object.GetName())
	})
	return all, nil
}

func read(o *unstructured.Unstructured) Revision {
	number, _, _ := unstructured.NestedInt64(o.Object, "revision")
	spec, _, _ := unstructured.NestedMap(o.Object, "data", "spec")
	return Revision{Number: number, At: o.GetCreationTimestamp().Time, Digest: o.GetAnnotations()[digestKey], Spec: spec, object: o}
}

// Record writes a revision of a policy that was activated, with the digest of its numbers, unless the
// newest one is the same, or of a later generation. It returns the written revision and the one before, nil if there is none; of old
// revisions it keeps [Keep].
func Record(ctx context.Context, client dynamic.Interface, namespace string, policy *unstructured.Unstructured, digest string) (written, before *Revision, err error) {
	all, err := List(ctx, client, namespace, policy.GetUID())
	if err != nil {
		return nil, nil, err
	}
	spec, _ := policy.Object["spec"].(map[string]any)
	r := Revision{Number: 1, Digest: digest, Spec: spec}
	if n := len(all); n > 0 {
		before = &all[n-1]
		if before.Digest == digest && same(before.Spec, spec, "provenance") {
			return nil, before, nil
		}
		if of, _, _ := unstructured.NestedInt64(before.object.Object, "data", "metadata", "generation"); policy.GetGeneration() < of {
			return nil, before, nil
		}
		r.Number = before.Number + 1
	}
	r.object = newObject(&r, policy)
	in := client.Resource(resource).Namespace(namespace)
	if r.object, err = in.Create(ctx, r.object, metav1.CreateOptions{FieldManager: "sigma"}); apierrors.IsAlreadyExists(err) {
		return nil, before, nil // by another replica
	} else if err != nil {
		return nil, before, err
	}
	for _, old := range expendable(append(all, r)) {
		if e := in.Delete(ctx, old, metav1.DeleteOptions{}); !apierrors.IsNotFound(e) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		err = fmt.Errorf("old revisions: %w", err)
	}
	return &r, before, err
}

// newObject returns a revision as an object.
func newObject(r *Revision, policy *unstructured.Unstructured) *unstructured.Unstructured {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", policy.GetUID(), policy.GetGeneration(), r.Digest))
	o := &unstructured.Unstructured{Object: map[string]any{
		"revision": r.Number,
		"data": map[string]any{
			"apiVersion": policy.GetAPIVersion(), "kind": policy.GetKind(),
			"metadata": map[string]any{"name": policy.GetName(), "generation": policy.GetGeneration()}, "spec": r.Spec,
		},
	}}
	o.SetAPIVersion(appsv1.SchemeGroupVersion.String())
	o.SetKind("ControllerRevision")
	o.SetName(policy.GetName()[:min(len(policy.GetName()), 240)] + "-" + hex.EncodeToString(sum[:5]))
	o.SetLabels(map[string]string{uidLabel: string(policy.GetUID()), "app.kubernetes.io/part-of": "sigma"})
	o.SetAnnotations(map[string]string{digestKey: r.Digest})
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: policy.GetAPIVersion(), Kind: policy.GetKind(), Name: policy.GetName(), UID: policy.GetUID(),
	}})
	return o
}

// expendable names the revisions that are not kept: all except the newest ones and the newest one
// with other numbers.
func expendable(all []Revision) (names []string) {
	newest := &all[len(all)-1]
	other := -1
	for i := range all {
		if !SameNumbers(all[i].Spec, newest.Spec) {
			other = i
		}
	}
	for i := range max(0, len(all)-Keep) {
		if i != other {
			names = append(names, all[i].object.GetName())
		}
	}
	return names
}
