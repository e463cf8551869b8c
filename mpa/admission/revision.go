package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/owner"
)

// ownerIndex finds the revisions of a workload by its UID.
const ownerIndex = "admission.owner"

// A revision is a template that a workload has or had.
type revision struct {
	number  int64 // rises with each change of the template
	created time.Time
	spec    v1.PodSpec // containers with their names and resources
}

// revisions is a cache of ReplicaSets and ControllerRevisions that stores only the fields of
// a [revision].
type revisions struct{ cache.Cache }

// NeedLeaderElection is false: every replica answers.
func (revisions) NeedLeaderElection() bool { return false }

func newRevisions(m manager.Manager) (client.Reader, error) {
	c, err := cache.New(m.GetConfig(), cache.Options{
		HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.ReplicaSet{}:         {Transform: reduce},
			&appsv1.ControllerRevision{}: {Transform: reduce},
		},
	})
	if err != nil {
		return nil, err
	}
	for _, object := range []client.Object{&appsv1.ReplicaSet{}, &appsv1.ControllerRevision{}} {
		if err := c.IndexField(context.Background(), object, ownerIndex, target.ControllerUID); err != nil {
			return nil, err
		}
	}
	return c, m.Add(revisions{c})
}

// template is the content of a ControllerRevision.
type template struct {
	Spec struct {
		Template struct {
			Spec v1.PodSpec `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// reduce drops the parts of an object that a [revision] does not need.
func reduce(object any) (any, error) {
	switch o := object.(type) {
	case *appsv1.ReplicaSet:
		number := o.Annotations[revisionAnnotation]
		o.ManagedFields, o.Labels = nil, nil
		o.Annotations = map[string]string{revisionAnnotation: number}
		o.Spec = appsv1.ReplicaSetSpec{Template: v1.PodTemplateSpec{Spec: resourcesOnly(o.Spec.Template.Spec)}}
		o.Status = appsv1.ReplicaSetStatus{}
	case *appsv1.ControllerRevision:
		var t template
		if c := metav1.GetControllerOf(o); c != nil && c.Kind == "StatefulSet" {
			if json.Unmarshal(o.Data.Raw, &t) != nil {
				t = template{} // an error would stop the cache from filling
			}
			t.Spec.Template.Spec = resourcesOnly(t.Spec.Template.Spec)
		}
		raw, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		o.ManagedFields, o.Labels, o.Annotations, o.Data = nil, nil, nil, runtime.RawExtension{Raw: raw}
	}
	return object, nil
}

func resourcesOnly(spec v1.PodSpec) v1.PodSpec {
	var s v1.PodSpec
	for _, c := range spec.InitContainers {
		s.InitContainers = append(s.InitContainers, v1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
	}
	for _, c := range spec.Containers {
		s.Containers = append(s.Containers, v1.Container{Name: c.Name, Resources: c.Resources})
	}
	return s
}

// revisionAnnotation is the annotation in which the Deployment controller numbers its
// ReplicaSets.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// sizedSince returns since when the pod's template has its present requests: the time of the
// first of the latest revisions that agree on them. It is zero if that is before the oldest
// revision left.
func sizedSince(ctx context.Context, r client.Reader, pod *v1.Pod, namespace string, o *v1alpha1.MultidimPodAutoscaler) (time.Time, error) {
	var all []revision
	var number int64
	var err error
	if o.Spec.ScaleTargetRef.Kind == "Deployment" {
		all, number, err = ofDeployment(ctx, r, pod, namespace, &o.Spec.ScaleTargetRef)
	} else {
		all, number, err = ofStatefulSet(ctx, r, pod, namespace)
	}
	if err != nil {
		return time.Time{}, err
	}
	slices.SortFunc(all, func(a, b revision) int { return cmp.Compare(a.number, b.number) })
	i := slices.IndexFunc(all, func(r revision) bool { return r.number == number })
	if i < 0 {
		return time.Time{}, fmt.Errorf("the pod's revision is none of %s %s", o.Spec.ScaleTargetRef.Kind, o.Spec.ScaleTargetRef.Name)
	}
	for i > 0 && sameSize(all[i-1].spec, all[i].spec, o.Spec.Constraints.Containers) {
		i--
	}
	if i == 0 && all[0].number > 1 {
		return time.Time{}, nil
	}
	return all[i].created, nil
}

func sameSize(a, b v1.PodSpec, containers []v1alpha1.ContainerConstraints) bool {
	resources := func(spec v1.PodSpec, name string) v1.ResourceRequirements {
		for _, c := range target.Containers(&spec) {
			if c.Name == name {
				return v1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits}
			}
		}
		return v1.ResourceRequirements{}
	}
	return !slices.ContainsFunc(containers, func(c v1alpha1.ContainerConstraints) bool {
		return !apiequality.Semantic.DeepEqual(resources(a, c.Name), resources(b, c.Name))
	})
}

// await reads an object that was just created: it waits until the cache has it, and not an
// older one of the same name that is rejects.
func await(ctx context.Context, r client.Reader, namespace, name string, object client.Object, is func() bool) error {
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		return err == nil && is(), client.IgnoreNotFound(err)
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%T %s is not known yet", object, name)
	}
	return err
}

func ofDeployment(ctx context.Context, r client.Reader, pod *v1.Pod, namespace string, ref *v1alpha1.TargetReference) ([]revision, int64, error) {
	var own appsv1.ReplicaSet
	controller := metav1.GetControllerOf(pod)
	if err := await(ctx, r, namespace, controller.Name, &own, func() bool { return own.UID == controller.UID }); err != nil {
		return nil, 0, err
	}
	above, ok := owner.Of(pod, func(*metav1.OwnerReference) metav1.Object { return &own })
	if !ok || !above.Is(target.RefOf(ref)) {
		return nil, 0, apierrors.NewNotFound(appsv1.Resource("deployments"), ref.Name)
	}
	var list appsv1.ReplicaSetList
	if err := r.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{ownerIndex: string(above.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, 0, err
	}
	numberOf := func(rs *appsv1.ReplicaSet) int64 {
		n, _ := strconv.ParseInt(rs.Annotations[revisionAnnotation], 10, 64)
		return n
	}
	var all []revision
	for i := range list.Items {
		rs := &list.Items[i]
		all = append(all, revision{numberOf(rs), rs.CreationTimestamp.Time, rs.Spec.Template.Spec})
	}
	return all, numberOf(&own), nil
}

func ofStatefulSet(ctx context.Context, r client.Reader, pod *v1.Pod, namespace string) ([]revision, int64, error) {
	var own appsv1.ControllerRevision
	uid := metav1.GetControllerOf(pod).UID
	if err := await(ctx, r, namespace, pod.Labels[appsv1.ControllerRevisionHashLabelKey], &own, func() bool {
		c := metav1.GetControllerOf(&own)
		return c != nil && c.UID == uid
	}); err != nil {
		return nil, 0, err
	}
	var list appsv1.ControllerRevisionList
	if err := r.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{ownerIndex: string(uid)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, 0, err
	}
	var all []revision
	for _, c := range list.Items {
		var t template
		if err := json.Unmarshal(c.Data.Raw, &t); err != nil {
			return nil, 0, err
		}
		all = append(all, revision{c.Revision, c.CreationTimestamp.Time, t.Spec.Template.Spec})
	}
	return all, own.Revision, nil
}
