package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// mostPods bounds the pods of one workload.
const mostPods = 1 << 20

// addPods adds a workload. field is the one that has the number of its pods.
func (s *set) addPods(at string, e *envelope, field string, pods int32, template *v1.PodTemplateSpec) error {
	if pods < 0 || pods > mostPods {
		return fmt.Errorf("%s %d: want 0 to %d", field, pods, mostPods)
	}
	pod := &v1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace = cmp.Or(e.Metadata.Namespace, s.opt.Namespace)
	spec := "spec.template.spec"
	if e.Kind == "Pod" {
		spec = "spec"
	} else {
		pod.Name, pod.GenerateName = "", e.Metadata.Name+"-"
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: e.APIVersion, Kind: e.Kind, Name: e.Metadata.Name, Controller: new(true)}}
	}
	if err := checkRequests(&pod.Spec, spec); err != nil {
		return err
	}
	w := &workload{at: at, name: podspec.Group(pod, s.opt.AppLabel), spec: spec, pods: pods, pod: pod}
	same := func(o *workload) bool { return o.name == w.name }
	i := slices.IndexFunc(s.workloads, same)
	switch {
	case i < 0:
		s.workloads = append(s.workloads, w)
	case e.Kind == "Pod" || s.opt.AppLabel != "": // pods of one family, or workloads with one label
		if !maps.Equal(podspec.Demand(s.workloads[i].pod), podspec.Demand(pod)) {
			return fmt.Errorf("%s.containers: the pods of %s are of one size, and those of %s of another", spec, w.name, s.workloads[i].at)
		}
		s.workloads[i].pods += pods
	default:
		return fmt.Errorf("%s has it too", s.workloads[i].at)
	}
	return nil
}

// checkRequests gives containers the requests that the API server would: a limit counts where
// no request is made. An error names the field.
func checkRequests(pod *v1.PodSpec, at string) error {
	if len(pod.Containers) == 0 {
		return errors.New(at + ".containers is empty")
	}
	for _, of := range []struct {
		kind string
		list []v1.Container
	}{{"initContainers", pod.InitContainers}, {"containers", pod.Containers}} {
		for i := range of.list {
			r := &of.list[i].Resources
			for _, from := range []struct {
				name string
				list v1.ResourceList
			}{{"limits", r.Limits}, {"requests", r.Requests}} {
				for _, name := range slices.Sorted(maps.Keys(from.list)) {
					if q := from.list[name]; q.Sign() < 0 {
						return fmt.Errorf("%s.%s[%d].resources.%s.%s %s: want 0 or more", at, of.kind, i, from.name, name, q.String())
					}
				}
			}
			for name, q := range r.Limits {
				if _, ok := r.Requests[name]; !ok {
					if r.Requests == nil {
						r.Requests = v1.ResourceList{}
					}
					r.Requests[name] = q
				}
			}
		}
	}
	return nil
}

// choosesNodes returns the field by which a pod chooses its nodes by their labels; "" = none.
func (w *workload) choosesNodes() string {
	switch a := w.pod.Spec.Affinity; {
	case len(w.pod.Spec.NodeSelector) > 0:
		return w.spec + ".nodeSelector"
	case a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil:
		return w.spec + ".affinity.nodeAffinity"
	}
	return ""
}
