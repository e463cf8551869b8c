// Package podtest makes pods for tests.
package podtest

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pod returns the pod default/name after the changes.
func Pod(name string, changes ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	for _, change := range changes {
		change(p)
	}
	return p
}

// OwnedBy adds a controller to a pod.
func OwnedBy(kind, name string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Kind: kind, Name: name, Controller: new(true)})
	}
}

// Labelled adds labels to a pod, in pairs of name and value.
func Labelled(pairs ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		for i := 0; i < len(pairs); i += 2 {
			p.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

// Requests adds a container to a pod, which requests the [List] of pairs.
func Requests(pairs ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		c := v1.Container{Name: fmt.Sprint("c", len(p.Spec.Containers)), Resources: v1.ResourceRequirements{Requests: List(pairs...)}}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
}

// List returns a list of amounts, in pairs of resource and quantity.
func List(pairs ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}
