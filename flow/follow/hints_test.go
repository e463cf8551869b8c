package follow

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
)

// What a pod declares, of what is kept of it.
func TestDeclaration(t *testing.T) {
	controller := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-7f-x", Labels: map[string]string{"pod-template-hash": "7f"}, Annotations: map[string]string{v1alpha1.SizeAnnotation: "80=20k", "other": "x"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-7f", Controller: &controller}},
		},
		Spec:   corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}},
	}
	of := func(change func(*corev1.Pod)) (flow.Declaration, error) {
		c := p.DeepCopy()
		change(c)
		kept, err := strip(c)
		require.NoError(t, err)
		require.NotContains(t, kept.(*corev1.Pod).Annotations, "other")
		require.Empty(t, kept.(*corev1.Pod).Spec.Containers)
		return declaration(kept.(*corev1.Pod))
	}
	d, err := of(func(*corev1.Pod) {})
	require.NoError(t, err)
	require.Equal(t, flow.Declaration{
		Workload: "shop/web", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}, Sizes: map[uint16]int64{80: 20_000},
	}, d)
	for want, change := range map[string]func(*corev1.Pod){
		"shop/web-7f-x": func(p *corev1.Pod) { p.OwnerReferences = nil },
		"shop/db": func(p *corev1.Pod) {
			p.Labels, p.OwnerReferences[0].Name = nil, "db"
		},
	} {
		d, err := of(change)
		require.NoError(t, err)
		require.Equal(t, want, d.Workload)
	}
	for _, change := range []func(*corev1.Pod){
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },          // its address may be another pod's
		func(p *corev1.Pod) { p.Annotations, p.Spec.HostNetwork = nil, true }, // nor is it its own
	} {
		d, err := of(change)
		require.NoError(t, err)
		require.Empty(t, d)
	}
	shared, err := of(func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	require.NoError(t, err)
	require.Equal(t, d, shared)
	silent, err := of(func(p *corev1.Pod) { p.Annotations = nil })
	require.NoError(t, err)
	require.Equal(t, flow.Declaration{Workload: d.Workload, Addresses: d.Addresses}, silent, "its flows may say what it does not")
	_, err = of(func(p *corev1.Pod) { p.Annotations[v1alpha1.SizeAnnotation] = "80=many" })
	require.ErrorContains(t, err, "pod shop/web-7f-x: annotation sigma-scheduler.io/flow-size: port 80: ")
}

// One tenant's pods with ever new mistakes neither use up the lines of other complaints nor hide those of another tenant.
func TestTwoTenantsShareALine(t *testing.T) {
	now, wrong := time.Unix(1000, 0), &wrongSizes{}
	heard := map[string]int{}
	for i := range 600 { // ten minutes
		err := wrong.next(now, map[string]error{
			"a": fmt.Errorf("a: mistake %d %s", i, strings.Repeat("€", 1024)), "b": errors.New("b: the only mistake"),
		})
		if err != nil {
			require.LessOrEqual(t, len(err.Error()), 1024)
			require.True(t, utf8.ValidString(err.Error()))
			heard[err.Error()[:1]]++
		}
		now = now.Add(time.Second)
	}
	require.Equal(t, map[string]int{"a": 5, "b": 5}, heard)
	require.NoError(t, wrong.next(now.Add(time.Hour), nil))
}
