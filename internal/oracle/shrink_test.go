package oracle

import (
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shrink makes a cluster as small as it can be while a difference is still there: fewer pods, nodes and other objects,
// then fewer fields. The cluster is changed.
func shrink(c *cluster, d *difference) {
	c.shrink(nameOf(d.pod), d.node, func() bool { return c.has(d) })
}

// shrink keeps a pod, a node and what still needs.
func (c *cluster) shrink(pod, node string, still func() bool) {
	for before := -1; before != c.size(); {
		before = c.size()
		fewer(&c.Pods, func(p *v1.Pod) bool { return nameOf(p) == pod }, still)
		fewer(&c.Nodes, func(n *v1.Node) bool { return n.Name == node }, still)
		for _, list := range []any{&c.Namespaces, &c.Claims, &c.Volumes, &c.Classes, &c.CSINodes, &c.Devices, &c.Drivers} {
			simplify(reflect.ValueOf(list).Elem(), still)
		}
		for _, p := range c.Pods {
			simplify(reflect.ValueOf(p).Elem(), still)
		}
		for _, n := range c.Nodes {
			simplify(reflect.ValueOf(n).Elem(), still)
		}
	}
}

func (c *cluster) size() int {
	text, err := c.yaml()
	if err != nil {
		panic(err)
	}
	return len(text)
}

// has reports whether a difference of its kind is there. A cluster that a filter or the model cannot read has none.
func (c *cluster) has(d *difference) (is bool) {
	defer func() {
		if recover() != nil {
			is = false
		}
	}()
	only := func(p *v1.Pod) bool { return nameOf(p) == nameOf(d.pod) }
	if d.by == "rebalance" || d.by == "make-room" { // moves of any pods lead to this one
		only = nil
	}
	found, err := examine(c, only)
	return err == nil && slices.ContainsFunc(found.found, func(o difference) bool {
		return o.key() == d.key() && o.node == d.node && nameOf(o.pod) == nameOf(d.pod)
	})
}

// fewer takes away half of a list, then less, while it is still as wanted.
func fewer[T any](list *[]T, stays func(T) bool, still func() bool) {
	for step := max(1, len(*list)/2); ; step /= 2 {
		for at := 0; at < len(*list); {
			before := *list
			end := min(at+step, len(before))
			part := slices.DeleteFunc(slices.Clone(before[at:end]), func(o T) bool { return !stays(o) })
			*list = slices.Concat(before[:at], part, before[end:])
			if len(part) == end-at || !still() {
				*list, at = before, end
			} else {
				at += len(part)
			}
		}
		if step <= 1 {
			return
		}
	}
}

// leaves are types of which no part is taken away.
var leaves = []reflect.Type{reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.Time]()}

// simplify empties the parts of a value that are not needed, the largest first.
func simplify(v reflect.Value, still func() bool) {
	if !v.CanSet() && v.Kind() != reflect.Struct || v.IsZero() {
		return
	}
	if v.CanSet() {
		before := reflect.ValueOf(v.Interface())
		if v.SetZero(); still() {
			return
		}
		v.Set(before)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.Elem().Kind() == reflect.Struct && !slices.Contains(leaves, v.Elem().Type()) {
			parts(v.Elem(), still)
		}
	case reflect.Struct:
		if !slices.Contains(leaves, v.Type()) {
			parts(v, still)
		}
	case reflect.Slice:
		for i := v.Len() - 1; i >= 0; i-- {
			before := reflect.ValueOf(v.Interface())
			v.Set(reflect.AppendSlice(before.Slice3(0, i, i), before.Slice(i+1, before.Len())))
			if still() {
				continue
			}
			v.Set(before)
			simplify(v.Index(i), still)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			before := v.MapIndex(key)
			if v.SetMapIndex(key, reflect.Value{}); !still() {
				v.SetMapIndex(key, before)
			}
		}
	default: // it has no parts
	}
}

// parts simplifies the fields of a struct, but those by which an object is known.
func parts(v reflect.Value, still func() bool) {
	known := []string{"Name", "Namespace", "UID", "CreationTimestamp", "SchedulerName", "TopologyKey", "Key", "Operator", "Image", "WhenUnsatisfiable"}
	for i := range v.NumField() {
		switch field := v.Field(i); {
		case slices.Contains(known, v.Type().Field(i).Name):
		case v.Type().Field(i).Name == "Containers": // a pod has one
			for i := range field.Len() {
				parts(field.Index(i), still)
			}
		default:
			simplify(field, still)
		}
	}
}
