package evict

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

var resource = schema.GroupResource{Group: "apps", Resource: "deployments"}

// A site is an API server with Deployments, where a patch of an older version conflicts.
type site struct {
	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured // namespace/name
	list    *v1.ConfigMap                         // of evictions; nil: there is none
	lists   int                                   // made so far
	evicted []string
	// before is called before each call, without the lock.
	before func(call string) error
}

// deployment adds a Deployment in namespace/name with so many replicas, all ready.
func (s *site) deployment(name string, replicas int64) {
	namespace, name, _ := strings.Cut(name, "/")
	o := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"replicas": replicas}, "status": map[string]any{"readyReplicas": replicas},
	}}
	o.SetGroupVersionKind(Kinds[0])
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetUID(types.UID(namespace + name))
	o.SetResourceVersion("1")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[namespace+"/"+name] = o
}

func (s *site) enter(call string) (func(), error) {
	var err error
	if s.before != nil {
		err = s.before(call)
	}
	s.mu.Lock()
	return s.mu.Unlock, err
}

func (s *site) Workload(_ context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	unlock, err := s.enter("get")
	defer unlock()
	o := s.objects[namespace+"/"+name]
	switch {
	case err != nil:
		return nil, err
	case o == nil || o.GroupVersionKind() != kind:
		return nil, apierrors.NewNotFound(resource, name)
	}
	return o.DeepCopy(), nil
}

func (s *site) Workloads(_ context.Context, kind schema.GroupVersionKind, label string) ([]metav1.PartialObjectMetadata, error) {
	unlock, err := s.enter("list")
	defer unlock()
	var list []metav1.PartialObjectMetadata
	for _, o := range s.objects {
		if _, has := o.GetLabels()[label]; (has || label == "") && o.GroupVersionKind() == kind {
			list = append(list, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Annotations: o.GetAnnotations(), ManagedFields: o.GetManagedFields(),
			}})
		}
	}
	return list, err
}

func (s *site) Patch(_ context.Context, _ schema.GroupVersionKind, namespace, name string, patch []byte) error {
	unlock, err := s.enter("patch")
	defer unlock()
	if err != nil {
		return err
	}
	var p struct {
		Metadata struct {
			UID             types.UID
			ResourceVersion string
			Annotations     map[string]*string
		}
	}
	if err := json.Unmarshal(patch, &p); err != nil {
		return err
	}
	o := s.objects[namespace+"/"+name]
	if o.GetResourceVersion() != p.Metadata.ResourceVersion || o.GetUID() != p.Metadata.UID {
		return apierrors.NewConflict(resource, name, errors.New("changed"))
	}
	notes := map[string]string{}
	if text := p.Metadata.Annotations[Annotation]; text != nil {
		notes[Annotation] = *text
	}
	o.SetAnnotations(notes)
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: FieldManager, Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:` + Annotation + `":{}}}}`),
	}})
	s.touch(o)
	return nil
}

// annotate sets a workload's annotation as somebody else than Sigma does.
func (s *site) annotate(name, text string) {
	o := s.objects[name]
	o.SetAnnotations(map[string]string{Annotation: text})
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "kubectl-edit", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:` + Annotation + `":{}}}}`),
	}})
	s.touch(o)
}

func (s *site) List(context.Context) (*v1.ConfigMap, error) {
	unlock, err := s.enter("read list")
	defer unlock()
	switch {
	case err != nil:
		return nil, err
	case s.list == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, ListName)
	}
	return s.list.DeepCopy(), nil
}

func (s *site) PatchList(_ context.Context, kind types.PatchType, patch []byte) (*v1.ConfigMap, error) {
	unlock, err := s.enter("write list")
	defer unlock()
	var p v1.ConfigMap
	switch {
	case err != nil:
		return nil, err
	case json.Unmarshal(patch, &p) != nil:
		return nil, apierrors.NewBadRequest(string(patch))
	case kind == types.ApplyPatchType:
		if s.list == nil {
			s.list = &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: types.UID("list" + strconv.Itoa(s.lists)), ResourceVersion: "1"}}
			s.lists++
		}
	case s.list == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, ListName)
	case p.ResourceVersion != s.list.ResourceVersion || p.UID != s.list.UID:
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, ListName, errors.New("changed"))
	default:
		n, _ := strconv.Atoi(s.list.ResourceVersion)
		s.list.ResourceVersion = strconv.Itoa(n + 1)
		s.list.Data = p.Data
	}
	return s.list.DeepCopy(), nil
}

// listed is the list of evictions.
func (s *site) listed() string { return s.list.Data[listKey] }

func (s *site) touch(o *unstructured.Unstructured) {
	n, _ := strconv.Atoi(o.GetResourceVersion())
	o.SetResourceVersion(strconv.Itoa(n + 1))
}

func (s *site) Evict(_ context.Context, e *policyv1.Eviction) error {
	unlock, err := s.enter("evict")
	defer unlock()
	if err == nil {
		s.evicted = append(s.evicted, e.Namespace+"/"+e.Name+" "+string(*e.DeleteOptions.Preconditions.UID))
	}
	return err
}

// annotation of a workload; "" where there is none.
func (s *site) annotation(name string) string { return s.objects[name].GetAnnotations()[Annotation] }

func pod(workload, node string) *v1.Pod {
	namespace, name, _ := strings.Cut(workload, "/")
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name + "-7d4-x", UID: "pod", Labels: map[string]string{"pod-template-hash": "7d4"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-7d4", UID: "set", Controller: new(true)}},
	}}
	p.Spec.NodeName = node
	return p
}

func newSite(names ...string) (*site, *testclock.FakePassiveClock) {
	s := &site{objects: map[string]*unstructured.Unstructured{}}
	for _, name := range names {
		s.deployment(name, 4)
	}
	return s, testclock.NewFakePassiveClock(start)
}
