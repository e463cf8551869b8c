package recommender

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/sidecar"
)

// The object says whether its pods have the gate, and why not: before a pod is made by the
// template, and then by the newest pod. Each new reason is an event.
func TestGateCondition(t *testing.T) {
	w, _ := gatedWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) {
		o.Spec.Concurrency.Pod, o.Spec.Concurrency.Port = v1alpha1.PodSidecar, "http"
		o.Spec.Recommender.Algorithm = "static"
	})
	template := func(change func(*corev1.PodSpec)) func() {
		return func() {
			d := &appsv1.Deployment{}
			require.NoError(t, w.Get(t.Context(), key, d))
			change(&d.Spec.Template.Spec)
			require.NoError(t, w.Update(t.Context(), d))
		}
	}
	spec := func(change func(*v1alpha1.MultidimPodAutoscaler)) func() {
		return func() {
			o := w.read()
			change(o)
			o.Generation++
			require.NoError(t, w.Update(t.Context(), o))
		}
	}
	made := func(i int, annotation, gate string) func() {
		return func() {
			p := pod(i)
			require.NoError(t, client.IgnoreNotFound(w.Delete(t.Context(), p.DeepCopy())))
			p.CreationTimestamp = metav1.NewTime(w.clock.Now())
			p.Annotations = map[string]string{v1alpha1.AnnotationGate: annotation}
			if gate == "" {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}
			} else {
				always := corev1.ContainerRestartPolicyAlways
				p.Spec.InitContainers = []corev1.Container{{Name: sidecar.Name, RestartPolicy: &always, Ports: []corev1.ContainerPort{{Name: gate, ContainerPort: 9900}}}}
			}
			require.NoError(t, w.Create(t.Context(), p))
		}
	}
	for _, step := range []struct {
		change          func()
		reason, message string
	}{
		{func() {}, "PortMissing", `spec.concurrency.port: no container of the pod has a port named "http"`},
		{template(func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}
			s.HostNetwork = true
		}), "HostNetwork", "the pod's spec.hostNetwork is true: its ports are the node's"},
		{template(func(s *corev1.PodSpec) { s.HostNetwork = false }), "RolloutNeeded", "0 of 2 pods have the gate; new pods get it"},
		{made(0, "refused: NoGateImage: spec.concurrency.pod: the webhook was started without --gate-image", ""), "NoGateImage", "pod web-0: spec.concurrency.pod: the webhook was started without --gate-image"},
		{made(0, `refused: PortMissing: spec.concurrency.port: no container of the pod has a port named "web"`, ""), "RolloutNeeded", "0 of 2 pods have the gate; new pods get it"},
		{made(0, "refused: LimitRange: no room", ""), "LimitRange", "pod web-0: no room"},
		{made(1, "port http …", "http"), "RolloutNeeded", "1 of 2 pods have the gate; new pods get it"},
		{made(0, "port http …", "http"), "Injected", "all 2 pods have the gate before port http"},
		{made(0, "port web …", "web"), "RolloutNeeded", "1 of 2 pods have the gate before port http, and 1 before another port; new pods get it"},
		{spec(func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Mode = v1alpha1.ModeOff }), "ModeOff", "spec.mode is Off: no pod is changed"},
		{spec(func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Concurrency.Pod = v1alpha1.PodAnnotation }), "", ""},
	} {
		step.change()
		for range 2 {
			w.step(15 * time.Second)
		}
		is := w.read()
		// Of gates that some pods lack nothing counts.
		if has := step.reason == "Injected" || step.reason == "ModeOff" || step.reason == "" || strings.Contains(step.message, "before another port"); has {
			assert.EqualValues(t, 8, is.Status.Concurrency.InForce, step.reason)
		} else {
			assert.Zero(t, is.Status.Concurrency.InForce, step.reason)
		}
		c := condition(&is.Status, v1alpha1.ConditionGate)
		assert.Equal(t, step.reason, c.Reason)
		assert.Equal(t, step.message, c.Message)
		if step.reason == "" {
			continue
		}
		assert.Equal(t, step.reason == "Injected", c.Status == metav1.ConditionTrue)
		var told []string
		for len(w.events.Events) > 0 {
			told = append(told, <-w.events.Events)
		}
		want := "Warning GateMissing " + step.reason + ": " + step.message
		if step.reason == "Injected" {
			want = "Normal GateInjected " + step.message
		}
		assert.Equal(t, []string{want}, told)
	}
}

// Of two objects that apply limits to the pods of one Service the older has it.
func TestOneService(t *testing.T) {
	labelled := func(name string, labels map[string]string) *appsv1.Deployment {
		d := deployment(2)
		d.Name, d.UID, d.Spec.Template.Labels = name, types.UID(name), labels
		return d
	}
	service := func(selector map[string]string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}, Spec: corev1.ServiceSpec{Selector: selector}}
	}
	shared := map[string]string{"tier": "web"}
	for name, test := range map[string]struct {
		selector map[string]string
		other    func(*v1alpha1.MultidimPodAutoscaler)
		withheld bool
	}{
		"one Service":             {selector: shared, withheld: true},
		"one that is refused":     {selector: shared, other: func(o *v1alpha1.MultidimPodAutoscaler) { o.Status.Phase = v1alpha1.PhaseRefused }},
		"one that nobody decides": {selector: shared, other: func(o *v1alpha1.MultidimPodAutoscaler) { o.Status.Concurrency = nil }},
		"a Service of the one":    {selector: map[string]string{"tier": "web", "app": "web"}},
		"a Service without pods":  {selector: nil},
		"a younger object":        {selector: shared, other: func(o *v1alpha1.MultidimPodAutoscaler) { o.CreationTimestamp = metav1.NewTime(start.Add(time.Minute)) }},
		"one that only observes":  {selector: shared, other: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Concurrency.Mode = v1alpha1.ConcurrencyObserve }},
		"one that is off":         {selector: shared, other: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Mode = v1alpha1.ModeOff }},
		"one without a target":    {selector: shared, other: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.ScaleTargetRef.Name = "gone" }},
		"one without concurrency": {selector: shared, other: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Concurrency = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := gatedWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Concurrency.Mode = v1alpha1.ConcurrencyApply })
			d := &appsv1.Deployment{}
			require.NoError(t, w.Get(t.Context(), key, d))
			d.Spec.Template.Labels = map[string]string{"app": "web", "tier": "web"}
			require.NoError(t, w.Update(t.Context(), d))
			other := web()
			other.Name, other.UID, other.CreationTimestamp = "canary", "canary", metav1.NewTime(start.Add(-time.Minute))
			other.Spec.Recommender.Name = "another"
			other.Spec.ScaleTargetRef.Name = "canary"
			other.Spec.Concurrency = &v1alpha1.Concurrency{Mode: v1alpha1.ConcurrencyApply}
			other.Status.Concurrency = &v1alpha1.ConcurrencyStatus{Limit: 3}
			if test.other != nil {
				test.other(other)
			}
			status := other.Status
			for _, o := range []client.Object{labelled("canary", map[string]string{"app": "canary", "tier": "web"}), service(test.selector), other} {
				require.NoError(t, w.Create(t.Context(), o))
			}
			other.Status = status
			require.NoError(t, w.Status().Update(t.Context(), other))
			is := w.step(15 * time.Second)
			active := condition(&is.Status, v1alpha1.ConditionActive)
			require.Equal(t, metav1.ConditionTrue, active.Status, "replicas and sizes are decided: %s", active.Message)
			const why = "Service s also leads to the pods of Deployment canary, to which MultidimPodAutoscaler canary, which is older, applies one"
			if !test.withheld {
				require.NotContains(t, is.Status.Concurrency.Reason, "not applied")
				return
			}
			require.Contains(t, is.Status.Concurrency.Reason, "not applied: "+why)
			require.Contains(t, <-w.events.Events, "Warning LimitWithheld no limit is applied: "+why)
			s := service(shared)
			require.NoError(t, w.Delete(t.Context(), s))
			is = w.step(15 * time.Second)
			require.NotContains(t, is.Status.Concurrency.Reason, "not applied")
		})
	}
}
