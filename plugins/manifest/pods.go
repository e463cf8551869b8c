package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// mostPods bounds the pods of one workload.
const mostPods = 1 << 20

// addPods adds a workload. template is the field of its pod template, "" for that of a Pod itself, and number
// the field with the number of its pods.
func (s *set) addPods(at string, e *envelope, template, number string, pods int32, of *v1.PodTemplateSpec) error {
	if pods < 0 || pods > mostPods {
		return fmt.Errorf("%s %d: want 0 to %d", number, pods, mostPods)
	}
	pod := &v1.Pod{ObjectMeta: of.ObjectMeta, Spec: of.Spec}
	pod.Namespace = cmp.Or(e.Metadata.Namespace, s.opt.Namespace)
	spec := strings.TrimPrefix(template+".spec", ".")
	if template != "" {
		pod.Name, pod.GenerateName = "", e.Metadata.Name+"-"
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: e.APIVersion, Kind: e.Kind, Name: e.Metadata.Name, Controller: new(true)}}
	}
	if err := checkAmounts(&pod.Spec, spec); err != nil {
		return err
	}
	podspec.SetRequests(pod)
	if class := pod.Spec.RuntimeClassName; class != nil && pod.Spec.Overhead == nil {
		s.note("%s: %s %s: the overhead of the RuntimeClass %s is not known, and counts as 0", at, e.Kind, e.Metadata.Name, *class)
	}
	w := &workload{at: at, name: podspec.Group(pod, s.opt.AppLabel), spec: spec, pods: pods, pod: pod}
	same := func(o *workload) bool { return o.name == w.name }
	i := slices.IndexFunc(s.workloads, same)
	switch {
	case i < 0:
		s.workloads = append(s.workloads, w)
	case template == "" || s.opt.AppLabel != "": // pods of one family, or workloads with one label
		if !maps.Equal(podspec.Demand(s.workloads[i].pod), podspec.Demand(pod)) {
			return fmt.Errorf("%s.containers: the pods of %s are of one size, and those of %s of another", spec, w.name, s.workloads[i].at)
		}
		s.workloads[i].pods += pods
	default:
		return fmt.Errorf("%s has it too", s.workloads[i].at)
	}
	return nil
}

// checkAmounts returns an error that names the field if there is no container or an amount is negative.
func checkAmounts(pod *v1.PodSpec, at string) error {
	if len(pod.Containers) == 0 {
		return errors.New(at + ".containers is empty")
	}
	lists := map[string]v1.ResourceList{at + ".overhead": pod.Overhead}
	add := func(field string, r *v1.ResourceRequirements) {
		lists[field+".resources.limits"], lists[field+".resources.requests"] = r.Limits, r.Requests
	}
	for i := range pod.InitContainers {
		add(fmt.Sprintf("%s.initContainers[%d]", at, i), &pod.InitContainers[i].Resources)
	}
	for i := range pod.Containers {
		add(fmt.Sprintf("%s.containers[%d]", at, i), &pod.Containers[i].Resources)
	}
	if pod.Resources != nil {
		add(at, pod.Resources)
	}
	for _, field := range slices.Sorted(maps.Keys(lists)) {
		for _, name := range slices.Sorted(maps.Keys(lists[field])) {
			if q := lists[field][name]; q.Sign() < 0 {
				return fmt.Errorf("%s.%s %s: want 0 or more", field, name, q.String())
			}
		}
	}
	return nil
}

// choosesNodes returns the field by which a pod selects its nodes by their labels; "" if it has none.
func (w *workload) choosesNodes() string {
	switch a := w.pod.Spec.Affinity; {
	case len(w.pod.Spec.NodeSelector) > 0:
		return w.spec + ".nodeSelector"
	case a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil:
		return w.spec + ".affinity.nodeAffinity"
	}
	return ""
}
