package knative

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// The kinds that are read; only the first is written. Neither is imported: Knative is not
// needed to build.
var (
	ServiceKind  = schema.GroupVersionKind{Group: v1alpha1.Knative, Version: "v1", Kind: "Service"}
	RevisionKind = schema.GroupVersionKind{Group: v1alpha1.Knative, Version: "v1", Kind: "Revision"}
)

// RevisionLabel of a pod names its Revision.
const RevisionLabel = v1alpha1.Knative + "/revision"

// serviceLabel of a Revision names its Service.
const serviceLabel = v1alpha1.Knative + "/service"

// New returns an empty object of a kind, to read into.
func New(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

// Read reads a Service; its latest Revisions have only names.
func Read(u *unstructured.Unstructured) (v Service, err error) {
	template, ok, err := unstructured.NestedMap(u.Object, "spec", "template") // a copy
	if err != nil || !ok {
		return v, cmp.Or(err, errors.New("spec.template: it is missing"))
	}
	if v.Fields, err = fieldsOf(template); err != nil {
		return v, fmt.Errorf("spec.template.%w", err)
	}
	if o := metav1.GetControllerOf(u); o != nil {
		v.Owner = o.Kind + " " + o.Name
	}
	v.Named, _, _ = unstructured.NestedString(template, "metadata", "name")
	v.Base = baseOf(template)
	list, _, err := unstructured.NestedSlice(u.Object, "spec", "traffic")
	if err != nil {
		return v, err
	}
	for i, entry := range list {
		t, err := trafficOf(entry)
		if err != nil {
			return v, fmt.Errorf("spec.traffic[%d]: %w", i, err)
		}
		v.Traffic = append(v.Traffic, t)
	}
	if v.Traffic == nil {
		v.Traffic = all()
	}
	v.Created.Name, _, _ = unstructured.NestedString(u.Object, "status", "latestCreatedRevisionName")
	v.Ready.Name, _, _ = unstructured.NestedString(u.Object, "status", "latestReadyRevisionName")
	generation, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	status, _ := condition(u, "ConfigurationsReady")
	v.Settled = generation == u.GetGeneration() && (status == "True" || status == "False")
	return v, nil
}

// ReadRevision reads a Revision.
func ReadRevision(u *unstructured.Unstructured) (r Revision, err error) {
	r.Name, r.Version, r.Service = u.GetName(), u.GetResourceVersion(), u.GetLabels()[serviceLabel]
	if r.Fields, err = fieldsOf(u.Object); err != nil {
		return r, fmt.Errorf("Revision %s: %w", r.Name, err)
	}
	if status, why := condition(u, "Ready"); status == "False" {
		r.Failed = cmp.Or(why, "it says no reason")
	}
	return r, nil
}

// fieldsOf reads those of a template or of a Revision.
func fieldsOf(template map[string]any) (f Fields, err error) {
	values, _, err := unstructured.NestedStringMap(template, "metadata", "annotations")
	if err != nil {
		return f, err
	}
	f.Annotations = map[string]string{}
	for _, name := range annotations {
		if value, ok := values[name]; ok {
			f.Annotations[name] = value
		}
	}
	limit, ok, err := unstructured.NestedInt64(template, "spec", "containerConcurrency")
	if err != nil {
		return f, err
	}
	if ok {
		f.Limit = &limit
	}
	return f, nil
}

// baseOf is a digest of a template without the fields; it may change the template.
func baseOf(template map[string]any) string {
	set(template, Fields{})
	text, err := json.Marshal(template) // maps are sorted
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// set writes the fields to a template.
func set(template map[string]any, f Fields) {
	values, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
	for _, name := range annotations {
		delete(values, name)
	}
	if len(f.Annotations) > 0 && values == nil {
		values = map[string]string{}
	}
	maps.Copy(values, f.Annotations)
	if len(values) == 0 {
		unstructured.RemoveNestedField(template, "metadata", "annotations")
		if m, _, _ := unstructured.NestedMap(template, "metadata"); len(m) == 0 {
			delete(template, "metadata")
		}
	} else {
		_ = unstructured.SetNestedStringMap(template, values, "metadata", "annotations") // metadata was read
	}
	if f.Limit == nil {
		unstructured.RemoveNestedField(template, "spec", "containerConcurrency")
	} else {
		_ = unstructured.SetNestedField(template, *f.Limit, "spec", "containerConcurrency")
	}
}

func trafficOf(entry any) (t Traffic, err error) {
	m, ok := entry.(map[string]any)
	if !ok {
		return t, errors.New("want an object")
	}
	t.Revision, _, _ = unstructured.NestedString(m, "revisionName")
	t.Tag, _, _ = unstructured.NestedString(m, "tag")
	t.Percent, _, err = unstructured.NestedInt64(m, "percent")
	return t, err
}

func condition(u *unstructured.Unstructured, kind string) (status, message string) {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range list {
		m, _ := c.(map[string]any)
		if m["type"] == kind {
			status, _ = m["status"].(string)
			message, _ = m["message"].(string)
			if reason, _ := m["reason"].(string); reason != "" {
				message = reason + ": " + message
			}
		}
	}
	return status, message
}

// Write carries an action out on a copy of the Service, which keeps its version: an update is refused
// if the Service has another one by then.
func Write(u *unstructured.Unstructured, a *Action) (*unstructured.Unstructured, error) {
	out := u.DeepCopy()
	values, names := out.GetAnnotations(), out.GetLabels()
	delete(values, Annotation)
	delete(names, Annotation)
	if !a.Drop {
		if values == nil {
			values = map[string]string{}
		}
		if names == nil {
			names = map[string]string{}
		}
		values[Annotation], names[Annotation] = a.State.String(), a.State.Object
	}
	out.SetAnnotations(values)
	out.SetLabels(names)
	if a.Fields != nil {
		template, _, err := unstructured.NestedMap(out.Object, "spec", "template")
		if err != nil {
			return nil, err
		}
		set(template, *a.Fields)
		if err := unstructured.SetNestedMap(out.Object, template, "spec", "template"); err != nil {
			return nil, err
		}
	}
	if a.Traffic != nil {
		var list []any
		for _, t := range a.Traffic {
			entry := map[string]any{"latestRevision": t.Revision == "", "percent": t.Percent}
			if t.Revision != "" {
				entry["revisionName"] = t.Revision
			}
			list = append(list, entry)
		}
		if err := unstructured.SetNestedSlice(out.Object, list, "spec", "traffic"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Patch returns a merge patch of a Revision, which is refused if it has another version by then.
func Patch(r *Revision, values map[string]any) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": r.Version, "annotations": values}})
}

// StateOf reads the state of a Service.
func StateOf(u *unstructured.Unstructured) (State, error) {
	return ReadState(u.GetAnnotations()[Annotation])
}
