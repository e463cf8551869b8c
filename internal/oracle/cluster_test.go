package oracle

import (
	"bytes"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// A cluster is all objects that filters read.
type cluster struct {
	Namespaces []*v1.Namespace
	Nodes      []*v1.Node
	Pods       []*v1.Pod
	Claims     []*v1.PersistentVolumeClaim
	Volumes    []*v1.PersistentVolume
	Classes    []*storagev1.StorageClass
	CSINodes   []*storagev1.CSINode
	Devices    []*resourcev1.ResourceClaim
	Drivers    []*resourcev1.DeviceClass
}

// others are the objects that are neither nodes nor pods.
func (c *cluster) others() (list []runtime.Object) {
	list = appendAll(list, c.Namespaces)
	list = appendAll(list, c.Classes)
	list = appendAll(list, c.Volumes)
	list = appendAll(list, c.Claims)
	list = appendAll(list, c.CSINodes)
	list = appendAll(list, c.Devices)
	return appendAll(list, c.Drivers)
}

func appendAll[T runtime.Object](list []runtime.Object, of []T) []runtime.Object {
	for _, o := range of {
		list = append(list, o)
	}
	return list
}

// yaml writes the objects as documents that kubectl would take.
func (c *cluster) yaml() (string, error) {
	var out bytes.Buffer
	for _, o := range appendAll(appendAll(c.others(), c.Nodes), c.Pods) {
		o = o.DeepCopyObject()
		kinds, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			return "", err
		}
		o.GetObjectKind().SetGroupVersionKind(kinds[0])
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return "", err
		}
		for _, unset := range [][]string{{"status", "nodeInfo"}, {"status", "daemonEndpoints"}, {"metadata", "creationTimestamp"}, {"metadata", "uid"}} {
			unstructured.RemoveNestedField(fields, unset...)
		}
		for _, part := range []string{"spec", "status"} {
			if empty, is := fields[part].(map[string]any); is && len(empty) == 0 {
				delete(fields, part)
			}
		}
		text, err := yaml.Marshal(fields)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "---\n%s", text)
	}
	return out.String(), nil
}

func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// on are the pods of each node.
func (c *cluster) on() map[string][]*v1.Pod {
	on := map[string][]*v1.Pod{}
	for _, p := range c.Pods {
		if p.Spec.NodeName != "" {
			on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
		}
	}
	return on
}

var yes = new(true)
