package admission

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

// replicaSet returns one of Deployment web.
func replicaSet(t *testing.T, name, number, created, cpu string) *appsv1.ReplicaSet {
	t.Helper()
	o := parse[appsv1.ReplicaSet](t, `
metadata:
  name: `+name+`
  namespace: shop
  uid: r
  creationTimestamp: "`+created+`"
  annotations: {deployment.kubernetes.io/revision: "`+number+`", other: x}
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]
spec:
  template: {spec: {nodeName: x, containers: [{name: main, image: i-`+name+`, resources: {requests: {cpu: `+cpu+`, memory: 1Gi}}}, {name: other}]}}
`)
	_, err := reduce(&o)
	require.NoError(t, err)
	return &o
}

func reader(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&v1alpha1.MultidimPodAutoscaler{}, targetIndex, targetOf).
		WithIndex(&appsv1.ReplicaSet{}, ownerIndex, target.ControllerUID).
		WithIndex(&appsv1.ControllerRevision{}, ownerIndex, target.ControllerUID).Build()
}

const podText = `{"kind":"Pod","apiVersion":"v1","metadata":{"generateName":"web-5d4f-","labels":{"pod-template-hash":"5d4f"},
	"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d4f","uid":"r","controller":true}]},
	"spec":{"later":{"field":1},"containers":[{"name":"main","image":"i","resources":{"requests":{"cpu":"500m","memory":"1Gi"},"limits":{"memory":"1Gi"}},"tomorrow":true},{"name":"other"}]}}`

func ask(t *testing.T, r client.Reader, text string) (ctrladmission.Response, v1.Pod) {
	t.Helper()
	return askFor(t, "", r, text)
}

// askFor asks a webhook that has an image of the gate.
func askFor(t *testing.T, image string, r client.Reader, text string) (ctrladmission.Response, v1.Pod) {
	t.Helper()
	h := &handler{objects: r, revisions: r, limit: 200 * time.Millisecond, image: image, token: rand.Text}
	request := ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "shop"}}
	request.Object.Raw = []byte(text)
	answer := h.Handle(t.Context(), request)
	require.True(t, answer.Allowed)
	require.NoError(t, answer.Complete(request))
	var pod v1.Pod
	if answer.Patch != nil {
		patch, err := jsonpatch.DecodePatch(answer.Patch)
		require.NoError(t, err)
		patched, err := patch.Apply([]byte(text))
		require.NoError(t, err)
		require.Contains(t, string(patched), `"later":{"field":1}`, "a field that this version does not know")
		require.Contains(t, string(patched), `"tomorrow":true`)
		require.NoError(t, json.Unmarshal(patched, &pod))
	}
	return answer, pod
}

func TestPodGetsItsSize(t *testing.T) {
	o := object(t, "", "")
	before := testutil.ToFloat64(pods.WithLabelValues(resultSized))
	answer, pod := ask(t, reader(t, o, replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m")), podText)
	require.Empty(t, answer.Warnings)
	c := pod.Spec.Containers[0].Resources
	require.Equal(t, "1 2Gi 2Gi", c.Requests.Cpu().String()+" "+c.Requests.Memory().String()+" "+c.Limits.Memory().String())
	require.Equal(t, map[string]string{
		"autoscaling.sigma-scheduler.io/recommendation": "web/7",
		"autoscaling.sigma-scheduler.io/sized":          "main: cpu 500m to 1, memory 1Gi to 2Gi",
	}, pod.Annotations)
	require.Equal(t, before+1, testutil.ToFloat64(pods.WithLabelValues(resultSized)))
}

// TestIgnoredNamespaces: where the webhook is called all the same, pods of the cluster's
// components and of the autoscaler keep their size.
func TestIgnoredNamespaces(t *testing.T) {
	for namespace, want := range map[string]string{"shop": resultSized, "kube-system": resultNone, "ours": resultNone} {
		o, rs := object(t, "", ""), replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m")
		o.Namespace, rs.Namespace = namespace, namespace
		r := reader(t, o, rs)
		h := &handler{objects: r, revisions: r, limit: time.Second, namespace: "ours"}
		var pod v1.Pod
		require.NoError(t, json.Unmarshal([]byte(podText), &pod))
		found, result, err := h.object(t.Context(), &pod, namespace)
		require.NoError(t, err)
		if found != nil {
			result, err = h.size(t.Context(), &pod, namespace, found)
			require.NoError(t, err)
		}
		require.Equal(t, want, result, namespace)
	}
}

// TestPodKeepsItsSize: the cases in which a pod stays as it is, and their results.
func TestPodKeepsItsSize(t *testing.T) {
	second := object(t, "", "")
	second.Name = "another"
	rs := replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m")
	tests := []struct {
		name    string
		change  func(*v1alpha1.MultidimPodAutoscaler)
		pod     func(string) string
		objects []client.Object
		result  string
		warning string
	}{
		{name: "no object", change: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.ScaleTargetRef.Name = "shop" }, result: resultNone},
		{name: "another kind", change: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.ScaleTargetRef.Kind = "StatefulSet" }, result: resultNone},
		{name: "off", change: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Mode = v1alpha1.ModeOff }, result: resultOff},
		{name: "refused", change: func(o *v1alpha1.MultidimPodAutoscaler) { o.Status.Phase = v1alpha1.PhaseRefused }, result: resultRefused},
		{name: "nothing yet", change: func(o *v1alpha1.MultidimPodAutoscaler) { o.Status.Recommendation = nil }, result: resultWaiting},
		{name: "no containers", change: func(o *v1alpha1.MultidimPodAutoscaler) { o.Status.Recommendation.Containers = nil }, result: resultWaiting},
		{name: "expired", change: func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Status.Actuation = &v1alpha1.Actuation{ID: 7, Outcome: v1alpha1.OutcomeExpired}
		}, result: resultWaiting},
		{name: "the nodes have no room", change: func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Status.Actuation = &v1alpha1.Actuation{ID: 7, Outcome: v1alpha1.OutcomeRefused}
		}, result: resultWaiting},
		{name: "the nodes have no room, and nothing was carried out before", change: func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Status.Actuation = &v1alpha1.Actuation{ID: 7, Outcome: v1alpha1.OutcomeRefused, Sizes: &v1alpha1.Sizes{ID: 7, Containers: o.Status.Recommendation.Containers}}
		}, result: resultWaiting},
		{name: "two objects", objects: []client.Object{second}, result: resultRefused, warning: "another and web are about the same Deployment"},
		{name: "the template is newer", change: func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Status.Recommendation.Time.Time = rs.CreationTimestamp.Add(-time.Second)
		}, result: resultNewer},
		{
			name: "a quota", objects: []client.Object{&v1.ResourceQuota{Status: parse[v1.ResourceQuotaStatus](t, "{hard: {cpu: 1}, used: {cpu: 500m}}")}},
			result: resultKept, warning: "recommendation web/7: a ResourceQuota leaves no room: q",
		},
		{name: "a pod of nobody", pod: func(s string) string { return strings.Replace(s, `"controller":true`, `"controller":false`, 1) }, result: resultNone},
		{name: "a pod of another controller's StatefulSet", change: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.ScaleTargetRef.Kind = "StatefulSet" }, pod: func(s string) string {
			return strings.NewReplacer(`"apps/v1"`, `"apps.kruise.io/v1beta1"`, `"ReplicaSet"`, `"StatefulSet"`, `"web-5d4f"`, `"web"`).Replace(s)
		}, result: resultNone},
		{
			name: "a deleted ReplicaSet with the name of another", pod: func(s string) string { return strings.Replace(s, `"uid":"r"`, `"uid":"old"`, 1) },
			result: resultFailed, warning: "ReplicaSet web-5d4f is not known yet",
		},
		{name: "a job's pod", pod: func(s string) string { return strings.Replace(s, `"ReplicaSet"`, `"Job"`, 1) }, result: resultNone},
		{name: "a ReplicaSet of no Deployment", pod: func(s string) string { return strings.Replace(s, "pod-template-hash", "x", 1) }, result: resultNone},
		{
			name: "a ReplicaSet that is only called so", pod: func(s string) string { return strings.ReplaceAll(s, "5d4f", "fake") },
			objects: []client.Object{&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{UID: "r"}}}, result: resultFailed, warning: `deployments.apps "web" not found`,
		},
		{
			name: "a ReplicaSet that is not known", pod: func(s string) string { return strings.ReplaceAll(s, "5d4f", "new") },
			result: resultFailed, warning: "ReplicaSet web-new is not known yet",
		},
		{name: "no pod", pod: func(string) string { return "[]" }, result: resultFailed, warning: "cannot unmarshal array"},
		{name: "the size that it has", pod: func(s string) string {
			return strings.Replace(s, `"cpu":"500m","memory":"1Gi"`, `"cpu":"1","memory":"2Gi"`, 1)
		}, result: resultSame},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, text := object(t, "", ""), podText
			if tt.change != nil {
				tt.change(o)
			}
			if tt.pod != nil {
				text = tt.pod(text)
			}
			objects := []client.Object{o, rs.DeepCopy()}
			for _, other := range tt.objects {
				other.SetNamespace("shop")
				switch other.(type) {
				case *v1.ResourceQuota:
					other.SetName("q")
				case *appsv1.ReplicaSet:
					if other.GetName() == "" {
						other.SetName("web-fake")
					}
				}
				objects = append(objects, other)
			}
			before := testutil.ToFloat64(pods.WithLabelValues(tt.result))
			answer, _ := ask(t, reader(t, objects...), text)
			require.Nil(t, answer.Patch)
			require.Equal(t, before+1, testutil.ToFloat64(pods.WithLabelValues(tt.result)))
			require.Equal(t, tt.warning != "", len(answer.Warnings) == 1, "%v", answer.Warnings)
			if tt.warning != "" {
				require.Contains(t, answer.Warnings[0], "the pod starts with the size of its template: ")
				require.Contains(t, answer.Warnings[0], tt.warning)
			}
		})
	}
}

// TestWanted: the status, and the CPU that a new pod gets.
func TestWanted(t *testing.T) {
	rs := replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m")
	last := &v1alpha1.Sizes{ID: 5, Containers: parse[[]v1alpha1.ContainerRequests](t, "[{name: main, cpu: 700m}]")}
	last.Time.Time = rs.CreationTimestamp.Add(time.Hour)
	for name, tt := range map[string]struct {
		change func(*v1alpha1.MultidimPodAutoscaler)
		want   string
	}{
		"not carried out yet": {func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Status.Actuation = &v1alpha1.Actuation{ID: 6, Outcome: v1alpha1.OutcomeRefused, Sizes: last}
		}, "web/7 1"},
		"partly": {func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Status.Actuation = &v1alpha1.Actuation{ID: 7, Outcome: v1alpha1.OutcomePartly, Sizes: last}
		}, "web/7 1"},
		"refused": {func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Status.Actuation = &v1alpha1.Actuation{ID: 7, Outcome: v1alpha1.OutcomeRefused, Sizes: last}
		}, "web/5 700m"},
		"expired": {func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Status.Actuation = &v1alpha1.Actuation{ID: 7, Outcome: v1alpha1.OutcomeExpired, Sizes: last}
		}, "web/5 700m"},
		"expired, for new pods only": {func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Spec.Mode = v1alpha1.ModeInitial
			o.Status.Actuation = &v1alpha1.Actuation{ID: 7, Outcome: v1alpha1.OutcomeExpired}
		}, "web/7 1"},
		"replicas refused": {func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Status.Recommendation.Change = v1alpha1.ChangeReplicas
			o.Status.Actuation = &v1alpha1.Actuation{ID: 7, Outcome: v1alpha1.OutcomeRefused, Sizes: last}
		}, "web/7 1"},
		"switched off until now": {func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Status.Phase = v1alpha1.PhaseRefused
			meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionActive, Status: metav1.ConditionFalse, Reason: "SwitchedOff"})
		}, "web/7 1"},
	} {
		o := object(t, "", "")
		tt.change(o)
		another := o.DeepCopy() // ignored
		another.Name, another.Status.Phase, another.Status.Conditions = "another", v1alpha1.PhaseRefused, nil
		off := o.DeepCopy()
		off.Name, off.Spec.Mode = "off", v1alpha1.ModeOff
		_, pod := ask(t, reader(t, o, another, off, rs), podText)
		require.NotEmpty(t, pod.Spec.Containers, name)
		require.Equal(t, tt.want, pod.Annotations[AnnotationRecommendation]+" "+pod.Spec.Containers[0].Resources.Requests.Cpu().String(), name)
	}
}

// TestBoundBelowUse: a new pod gets what the running ones need, although a bound was lowered
// below that.
func TestBoundBelowUse(t *testing.T) {
	for peak, want := range map[string]string{"2Gi": "2Gi", "1Gi": "1288490188", "100Mi": "512Mi"} {
		o := object(t, "", "")
		bound := resource.MustParse("512Mi")
		o.Spec.Constraints.Containers[0].MaxAllowed.Memory = &bound
		o.Status.Memory = &v1alpha1.Memory{Containers: []v1alpha1.ContainerMemory{{Name: "main", Peaks: []v1alpha1.Peak{{Memory: resource.MustParse(peak)}}}}}
		_, pod := ask(t, reader(t, o, replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m")), podText)
		require.NotEmpty(t, pod.Spec.Containers, peak)
		require.Equal(t, want, pod.Spec.Containers[0].Resources.Requests.Memory().String(), peak)
	}
}

// TestCachesFail: errors, panics and caches that do not answer leave the pod as it is.
func TestCachesFail(t *testing.T) {
	for want, fail := range map[string]func(context.Context) error{
		"no cache":                  func(context.Context) error { return errors.New("no cache") },
		"panic: a bug":              func(context.Context) error { panic("a bug") },
		"context deadline exceeded": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		for _, kind := range []string{"MultidimPodAutoscalerList", "ReplicaSetList", "LimitRangeList", "ResourceQuotaList"} {
			r := reader(t, object(t, "", ""), replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m"))
			failing := interceptor.NewClient(r, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				gvk, err := c.GroupVersionKindFor(list)
				require.NoError(t, err)
				if gvk.Kind == kind {
					return fail(ctx)
				}
				return c.List(ctx, list, o...)
			}})
			answer, _ := ask(t, failing, podText)
			require.Nil(t, answer.Patch)
			require.Len(t, answer.Warnings, 1, kind)
			require.Contains(t, answer.Warnings[0], want, kind)
		}
	}
}

// TestTemplateChanges: a recommendation stands until the template's requests change.
func TestTemplateChanges(t *testing.T) {
	const day = "2026-01-0%T00:00:00Z"
	at := func(d string) string { return strings.Replace(day, "%", d, 1) }
	tests := []struct {
		name string
		sets []client.Object
		want string // day of the change
	}{
		{"the first", []client.Object{replicaSet(t, "web-5d4f", "1", at("1"), "500m")}, "1"},
		{"the oldest that is left", []client.Object{replicaSet(t, "web-5d4f", "9", at("1"), "500m")}, ""},
		{"another image", []client.Object{replicaSet(t, "web-5d4f", "3", at("3"), "500m"), replicaSet(t, "web-a", "2", at("2"), "500m"), replicaSet(t, "web-b", "1", at("1"), "500m")}, "1"},
		{"other requests", []client.Object{replicaSet(t, "web-5d4f", "3", at("3"), "500m"), replicaSet(t, "web-a", "2", at("2"), "400m")}, "3"},
		{"other requests, then another image", []client.Object{replicaSet(t, "web-5d4f", "13", at("3"), "500m"), replicaSet(t, "web-a", "12", at("2"), "500m"), replicaSet(t, "web-b", "11", at("1"), "400m")}, "2"},
		{"a pod of an old template", []client.Object{replicaSet(t, "web-a", "3", at("3"), "400m"), replicaSet(t, "web-5d4f", "2", at("2"), "500m"), replicaSet(t, "web-b", "1", at("1"), "500m")}, "1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := parse[v1.Pod](t, "metadata: {ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4f, uid: r, controller: true}]}")
			got, err := sizedSince(t.Context(), reader(t, tt.sets...), &pod, "shop", object(t, "", ""))
			require.NoError(t, err)
			if tt.want == "" {
				require.True(t, got.IsZero(), got)
				return
			}
			require.Equal(t, at(tt.want), got.UTC().Format(time.RFC3339))
		})
	}
}

func TestStatefulSet(t *testing.T) {
	controllerRevision := func(name, number, created, cpu string) *appsv1.ControllerRevision {
		raw, err := yaml.YAMLToJSON([]byte(`{spec: {template: {$patch: replace, metadata: {labels: {a: b}}, spec: {nodeName: x, containers: [{name: main, image: i, resources: {requests: {cpu: ` + cpu + `}}}]}}}}`))
		require.NoError(t, err)
		o := parse[appsv1.ControllerRevision](t, `
metadata: {name: `+name+`, namespace: shop, creationTimestamp: "`+created+`", ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, uid: s, controller: true}]}
revision: `+number)
		o.Data.Raw = raw
		_, err = reduce(&o)
		require.NoError(t, err)
		require.NotContains(t, string(o.Data.Raw), "nodeName")
		return &o
	}
	o := object(t, "", "")
	o.Spec.ScaleTargetRef.Kind = "StatefulSet"
	r := reader(t, o, controllerRevision("web-1", "1", "2026-01-01T00:00:00Z", "500m"), controllerRevision("web-2", "2", "2026-01-03T00:00:00Z", "250m"))
	text := strings.NewReplacer(`"ReplicaSet"`, `"StatefulSet"`, `"web-5d4f"`, `"web"`, `"uid":"r"`, `"uid":"s"`, `"pod-template-hash":"5d4f"`, `"controller-revision-hash":"web-1"`).Replace(podText)
	_, pod := ask(t, r, text)
	require.Equal(t, "web/7", pod.Annotations[AnnotationRecommendation])
	// The template changed on the day after the recommendation.
	before := testutil.ToFloat64(pods.WithLabelValues(resultNewer))
	answer, _ := ask(t, r, strings.Replace(text, "web-1", "web-2", 1))
	require.Nil(t, answer.Patch)
	require.Equal(t, before+1, testutil.ToFloat64(pods.WithLabelValues(resultNewer)))
	// A pod whose label names the revision of another workload.
	other := controllerRevision("db-1", "7", "2026-01-01T00:00:00Z", "1")
	other.OwnerReferences[0].Name, other.OwnerReferences[0].UID = "db", "d"
	require.NoError(t, r.Create(t.Context(), other))
	answer, _ = ask(t, r, strings.Replace(text, "web-1", "db-1", 1))
	require.Nil(t, answer.Patch)
	require.Len(t, answer.Warnings, 1)
	require.Contains(t, answer.Warnings[0], "ControllerRevision db-1 is not known yet")
}

func TestReduce(t *testing.T) {
	rs := replicaSet(t, "web-5d4f", "3", "2026-01-01T00:00:00Z", "500m")
	require.Equal(t, map[string]string{revisionAnnotation: "3"}, rs.Annotations)
	require.Empty(t, rs.Spec.Template.Spec.NodeName)
	require.Empty(t, rs.Spec.Template.Spec.Containers[0].Image)
	require.Len(t, rs.Spec.Template.Spec.Containers, 2)
	daemon := parse[appsv1.ControllerRevision](t, "metadata: {name: d, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: d, controller: true}]}")
	daemon.Data.Raw = []byte("not read")
	_, err := reduce(&daemon)
	require.NoError(t, err)
	bad := parse[appsv1.ControllerRevision](t, "metadata: {name: d, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: d, uid: d, controller: true}]}")
	bad.Data.Raw = []byte("[]")
	_, err = reduce(&bad)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(bad.Data.Raw, &template{}))
	other, err := reduce("a tombstone")
	require.NoError(t, err)
	require.Equal(t, "a tombstone", other)
}

func TestOptions(t *testing.T) {
	tests := []struct{ args, want string }{
		{"", ""},
		{"--webhook-bind-address=127.0.0.1:1 --certificate-lifetime=15s", ""},
		{"--webhook-bind-address=9443", `--webhook-bind-address "9443": want host:port or :port`},
		{"--webhook-bind-address=:0", `--webhook-bind-address ":0": want host:port or :port`},
		{"--webhook-bind-address=:70000", `--webhook-bind-address ":70000": want host:port or :port`},
		{"--webhook-secret=", "--webhook-secret is empty"},
		{"--webhook-configuration=", "--webhook-configuration is empty"},
		{"--certificate-lifetime=14s", "--certificate-lifetime 14s: want 15s or more"},
	}
	for _, tt := range tests {
		var o Options
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(flags)
		require.NoError(t, flags.Parse(strings.Fields(tt.args)))
		if err := o.Validate(); tt.want != "" {
			require.EqualError(t, err, tt.want)
		} else {
			require.NoError(t, err)
		}
	}
}
