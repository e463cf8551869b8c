package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// Path of the webhook.
	Path = "/batch-pod"
	// PriorityClass of batch pods.
	PriorityClass = "sigma-batch"
)

// foreign are Koordinator's names of the same resources.
var foreign = map[string]string{CPU: "kubernetes.io/batch-cpu", Memory: "kubernetes.io/batch-memory"}

// Convert answers the API server with a labelled Job's pod whose requests are those of a batch pod. It never refuses: a
// pod that cannot be converted starts as it is.
func Convert(ctx context.Context, request admission.Request) (answer admission.Response) {
	unchanged := func(err error) admission.Response {
		log.FromContext(ctx).Error(err, "a pod is not converted to a batch pod")
		return admission.Allowed("").WithWarnings("sigma-mpa: the pod starts with its own requests: " + err.Error())
	}
	defer func() {
		if p := recover(); p != nil {
			answer = unchanged(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	raw, err := convert(request.Object.Raw)
	if err != nil {
		return unchanged(err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, raw)
}

// convert converts the JSON of a pod. Unknown fields stay.
func convert(raw []byte) ([]byte, error) {
	var pod map[string]any
	if err := utiljson.Unmarshal(raw, &pod); err != nil {
		return nil, err
	}
	for _, part := range []string{"requests", "limits"} {
		list, _, err := unstructured.NestedMap(pod, "spec", "resources", part)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			return nil, fmt.Errorf("spec.resources.%s: a batch pod has none", part)
		}
	}
	converted := false
	for _, field := range []string{"initContainers", "containers"} {
		list, _, err := unstructured.NestedSlice(pod, "spec", field)
		if err != nil {
			return nil, err
		}
		for _, item := range list {
			c, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("spec.%s: want objects", field)
			}
			cpu, err := convertContainer(c)
			if err != nil {
				return nil, fmt.Errorf("spec.%s: %v: %w", field, c["name"], err)
			}
			converted = converted || cpu
		}
		if len(list) > 0 {
			if err := unstructured.SetNestedSlice(pod, list, "spec", field); err != nil {
				return nil, err
			}
		}
	}
	if !converted {
		return nil, errors.New("no container requests cpu")
	}
	if class, _, _ := unstructured.NestedString(pod, "spec", "priorityClassName"); class != PriorityClass {
		if err := unstructured.SetNestedField(pod, PriorityClass, "spec", "priorityClassName"); err != nil {
			return nil, err
		}
		unstructured.RemoveNestedField(pod, "spec", "priority") // the API server sets both by the class, before it calls again
		unstructured.RemoveNestedField(pod, "spec", "preemptionPolicy")
	}
	return json.Marshal(pod)
}

// convertContainer converts the requests of a container, and reports whether it requests cpu. It has no other requests and
// limits of cpu and memory then, so that the pod is of class BestEffort: in the cgroup of Burstable pods it
// would have the shares of those that are idle.
func convertContainer(c map[string]any) (cpu bool, err error) {
	lists := map[string]map[string]any{}
	for _, part := range []string{"requests", "limits"} {
		list, _, err := unstructured.NestedMap(c, "resources", part)
		if err != nil {
			return false, err
		}
		if lists[part] = maps.Clone(list); list == nil {
			lists[part] = map[string]any{}
		}
	}
	requests, limits := lists["requests"], lists["limits"]
	for _, r := range []struct {
		own, native string
		value       func(q resource.Quantity) int64
	}{
		{CPU, "cpu", func(q resource.Quantity) int64 { return q.MilliValue() }},
		{Memory, "memory", func(q resource.Quantity) int64 { return q.Value() }},
	} {
		var amount int64
		most := requests
		if r.own == Memory { // a pod above it has to leave
			most = limits
		}
		for _, one := range []struct {
			from  any
			value func(q resource.Quantity) int64
		}{
			{requests[r.own], whole}, {requests[foreign[r.own]], whole}, {most[r.native], r.value}, {requests[r.native], r.value}, {limits[r.native], r.value},
		} {
			if one.from == nil || amount > 0 {
				continue
			}
			q, err := resource.ParseQuantity(fmt.Sprint(one.from))
			if err != nil {
				return false, fmt.Errorf("%s: %w", r.native, err)
			}
			amount = one.value(q)
		}
		for _, list := range []map[string]any{requests, limits} {
			delete(list, foreign[r.own])
			delete(list, r.native)
			if amount > 0 {
				list[r.own] = fmt.Sprint(amount)
			}
		}
		cpu = cpu || r.own == CPU && amount > 0
		if r.own == Memory && cpu && amount <= 0 {
			return false, errors.New("it requests cpu without memory, so that it would not leave, however much it uses")
		}
	}
	for part, list := range lists {
		if err := unstructured.SetNestedMap(c, list, "resources", part); err != nil {
			return false, err
		}
	}
	return cpu, nil
}

func whole(q resource.Quantity) int64 { return q.Value() }
