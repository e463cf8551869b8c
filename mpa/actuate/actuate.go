package actuate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

// ChangedError means that another writer changed the replicas first.
type ChangedError struct{ From, To int32 }

// Error implements error.
func (e ChangedError) Error() string {
	return fmt.Sprintf("somebody else changed the replicas from %d to %d", e.From, e.To)
}

// Replicas returns the number of replicas in a workload's spec.
func Replicas(ctx context.Context, c client.Client, workload client.Object) (int32, error) {
	scale := &autoscalingv1.Scale{}
	if err := c.SubResource("scale").Get(ctx, workload, scale); err != nil {
		return 0, err
	}
	return scale.Spec.Replicas, nil
}

// Scale changes a workload's replicas from one number to another, and from no other number;
// if they are changed already, it does nothing. It tries again if only another field
// of the workload changed meanwhile.
func Scale(ctx context.Context, c client.Client, workload client.Object, from, to int32) error {
	if from < 1 || to < 1 {
		panic(fmt.Sprintf("actuate: %d to %d replicas", from, to))
	}
	for tries := 1; ; tries++ {
		scale := &autoscalingv1.Scale{}
		if err := c.SubResource("scale").Get(ctx, workload, scale); err != nil {
			return err
		}
		switch scale.Spec.Replicas {
		case to:
			return nil
		case from:
		default:
			return ChangedError{From: from, To: scale.Spec.Replicas}
		}
		scale.Spec.Replicas = to
		err := c.SubResource("scale").Update(ctx, workload, client.WithSubResourceBody(scale))
		if !apierrors.IsConflict(err) || tries == 5 {
			return err
		}
	}
}

// Resize patches a pod by the plan, if its UID is still the same.
func Resize(ctx context.Context, c client.Client, pod *corev1.Pod, plan Plan, owner string) error {
	type container struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	type spec struct {
		InitContainers []container `json:"initContainers,omitempty"`
		Containers     []container `json:"containers,omitempty"`
	}
	var s spec
	for _, k := range target.Containers(&pod.Spec) {
		to, ok := plan.Containers[k.Name]
		if !ok {
			continue
		}
		if slices.ContainsFunc(pod.Spec.Containers, func(o corev1.Container) bool { return o.Name == k.Name }) {
			s.Containers = append(s.Containers, container{k.Name, to})
		} else {
			s.InitContainers = append(s.InitContainers, container{k.Name, to})
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "spec": s})
	if err != nil {
		return err
	}
	return c.SubResource("resize").Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(owner))
}

// Limit annotates a pod with how many requests its gate lets in at once, if the pod is still
// as it was read; else the error is a conflict.
func Limit(ctx context.Context, c client.Client, pod *corev1.Pod, limit int32, owner string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion,
		"annotations": map[string]string{v1alpha1.AnnotationLimit: fmt.Sprint(limit)},
	}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(owner))
}

// LimitSetBy returns the last writer of the limit of a pod, by the name of the field's
// manager, and the time; empty = unknown.
func LimitSetBy(pod *corev1.Pod) (manager string, at time.Time) {
	for _, f := range pod.ManagedFields {
		var fields struct {
			Metadata struct {
				Annotations map[string]any `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if f.FieldsV1 == nil || json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, ok := fields.Metadata.Annotations["f:"+v1alpha1.AnnotationLimit]; ok && f.Time != nil && !f.Time.Time.Before(at) {
			manager, at = f.Manager, f.Time.Time
		}
	}
	return manager, at
}
