package podspec_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// TestAlike changes every single field of random pods, one at a time: pods that are alike have the same group, demand
// and selector.
func TestAlike(t *testing.T) {
	d := drawer{podtest.Drawer{Rand: rand.New(rand.NewPCG(3, 4))}}
	alike, changed := 0, 0
	for range 100 {
		a := d.pod(map[string]int{})
		d.Selects(a)
		a.Labels = map[string]string{"app": "web", "pod-template-hash": "7d4"}
		a.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d4", UID: "set", Controller: new(true)}}
		if a.Spec.Affinity == nil {
			a.Spec.Affinity = &v1.Affinity{}
		}
		a.Spec.Tolerations = append(a.Spec.Tolerations, v1.Toleration{
			Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
		})
		if !podspec.Alike(a, a.DeepCopy()) { // the copy of a quantity such as 1.5Gi is another one
			continue
		}
		for i := 0; ; i++ {
			b, left := a.DeepCopy(), i
			if !change(reflect.ValueOf(b).Elem(), &left) {
				break
			}
			same := podspec.Group(a, "") == podspec.Group(b, "") && podspec.Group(a, "app") == podspec.Group(b, "app") &&
				podspec.NewSelector(a).ID == podspec.NewSelector(b).ID && reflect.DeepEqual(podspec.Demand(a), podspec.Demand(b))
			switch {
			case podspec.Alike(a, b) != podspec.Alike(b, a):
				require.Fail(t, "it depends on the order", "change %d of %s", i, a)
			case podspec.Alike(a, b):
				require.True(t, same, "change %d of %s", i, a)
				alike++
			case !same:
				changed++
			}
		}
	}
	require.Greater(t, alike, 1000)
	require.Greater(t, changed, 1000)
}

// TestAlikeInStatus: the changes of the status of a pod that starts have no effect.
func TestAlikeInStatus(t *testing.T) {
	a := podOf("web", ownedBy("ReplicaSet", "web"), requests("cpu", "1"))
	b := a.DeepCopy()
	b.ResourceVersion, b.Spec.NodeName, b.Status.Phase, b.Spec.Containers[0].Image = "2", "node-1", v1.PodRunning, "web:2"
	b.Status.Conditions = append(b.Status.Conditions, v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue})
	require.True(t, podspec.Alike(a, b))
}

// change makes the change of a value that a number names, and reports whether there are so many.
func change(v reflect.Value, number *int) bool {
	mine := func() bool {
		*number--
		return *number < 0
	}
	switch v.Kind() {
	case reflect.Pointer:
		if mine() {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			} else {
				v.SetZero()
			}
			return true
		}
		return !v.IsNil() && change(v.Elem(), number)
	case reflect.Slice:
		if mine() {
			v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
			return true
		}
		if v.Len() > 0 && mine() {
			v.SetLen(v.Len() - 1)
			return true
		}
		for i := range v.Len() {
			if change(v.Index(i), number) {
				return true
			}
		}
		return false
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if mine() {
				v.SetMapIndex(key, reflect.Value{})
				return true
			}
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			if change(value, number) {
				v.SetMapIndex(key, value)
				return true
			}
		}
		return false
	case reflect.Struct:
		if q, ok := reflect.TypeAssert[*resource.Quantity](v.Addr()); ok {
			if !mine() {
				return false
			}
			q.Add(resource.MustParse("3"))
			return true
		}
		for _, field := range v.Fields() {
			if field.CanSet() && change(field, number) {
				return true
			}
		}
		return false
	case reflect.String:
		if !mine() {
			return false
		}
		v.SetString(v.String() + "1")
	case reflect.Bool:
		if !mine() {
			return false
		}
		v.SetBool(!v.Bool())
	case reflect.Int32, reflect.Int64:
		if !mine() {
			return false
		}
		v.SetInt(v.Int() + 1)
	default:
		return false
	}
	return true
}
