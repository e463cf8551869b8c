package admission

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/sidecar"
)

const gateImage = "registry.example.com/sigma-gate:v1"

// gatedObject asks for a gate before the port http, and has a recommended size.
func gatedObject(t *testing.T) *v1alpha1.MultidimPodAutoscaler {
	t.Helper()
	o := object(t, "", "")
	o.Spec.Concurrency = &v1alpha1.Concurrency{Pod: v1alpha1.PodSidecar, Port: "http"}
	return o
}

var portText = strings.Replace(podText, `"image":"i",`, `"image":"i","ports":[{"name":"http","containerPort":8080}],`, 1)

// A pod gets its size and its gate, or one of the two.
func TestPodGetsItsGate(t *testing.T) {
	rs := replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m")
	for name, test := range map[string]struct {
		edit        func(*v1alpha1.MultidimPodAutoscaler)
		cpu, gated  string
		annotations int
	}{
		"both":                   {func(*v1alpha1.MultidimPodAutoscaler) {}, "1", "1 sigma-gate", 3},
		"nothing recommended":    {func(o *v1alpha1.MultidimPodAutoscaler) { o.Status.Recommendation = nil }, "500m", "1 sigma-gate", 1},
		"by an older generation": {func(o *v1alpha1.MultidimPodAutoscaler) { o.Status = v1alpha1.MultidimPodAutoscalerStatus{} }, "500m", "1 sigma-gate", 1},
	} {
		o := gatedObject(t)
		test.edit(o)
		before := testutil.ToFloat64(gates.WithLabelValues("injected"))
		answer, pod := askFor(t, gateImage, reader(t, o, rs.DeepCopy()), portText)
		require.Empty(t, answer.Warnings, name)
		require.Equal(t, test.cpu, pod.Spec.Containers[0].Resources.Requests.Cpu().String(), name)
		require.Len(t, pod.Spec.InitContainers, 1, name)
		gate := pod.Spec.InitContainers[0]
		require.Equal(t, sidecar.Name, gate.Name)
		require.Equal(t, gateImage, gate.Image)
		require.Equal(t, v1.ContainerPort{ContainerPort: 8080}, pod.Spec.Containers[0].Ports[0])
		require.Len(t, pod.Annotations, test.annotations, name)
		require.Equal(t, "port http of container main is 9900 of sigma-gate, before 8080", pod.Annotations[v1alpha1.AnnotationGate])
		require.Equal(t, before+1, testutil.ToFloat64(gates.WithLabelValues("injected")))
	}
}

// Each pod's hook has a token of its own, which its gate has too. Asked again, the webhook keeps it.
func TestTokenOfThePod(t *testing.T) {
	r := reader(t, gatedObject(t), replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m"))
	tokens := map[string]bool{}
	for range 3 {
		_, pod := askFor(t, gateImage, r, portText)
		variables := pod.Spec.InitContainers[0].Env
		token := variables[len(variables)-1]
		require.Equal(t, "SIGMA_DRAIN_TOKEN", token.Name)
		require.GreaterOrEqual(t, len(token.Value), 26, "128 bits")
		tokens[token.Value] = true
		hook := pod.Spec.Containers[0].Lifecycle.PreStop.HTTPGet
		require.Equal(t, []v1.HTTPHeader{{Name: "Authorization", Value: "Bearer " + token.Value}}, hook.HTTPHeaders)

		text, err := json.Marshal(pod)
		require.NoError(t, err)
		again, _ := askFor(t, gateImage, r, string(text))
		require.Empty(t, again.Patch)
	}
	require.Len(t, tokens, 3)
}

// The webhook is asked again after others: there is one gate all the same.
func TestOneGate(t *testing.T) {
	r := reader(t, gatedObject(t), replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m"))
	again := strings.NewReplacer(`"labels":`, `"annotations":{"`+v1alpha1.AnnotationGate+`":"x"},"labels":`, `"later":`, `"initContainers":[{"name":"sigma-gate","restartPolicy":"Always"}],"later":`).Replace(portText)
	answer, pod := askFor(t, gateImage, r, again)
	require.Empty(t, answer.Warnings)
	require.Len(t, pod.Spec.InitContainers, 1)
	require.Equal(t, "x", pod.Annotations[v1alpha1.AnnotationGate])
}

// A pod that can have no gate starts without one and says why. Its size it gets.
func TestPodGetsNoGate(t *testing.T) {
	rangeOf := func(text string) client.Object {
		l := parse[v1.LimitRange](t, "{metadata: {name: l, namespace: shop}, spec: {limits: ["+text+"]}}")
		return &l
	}
	quotaOf := func(text string) client.Object {
		q := parse[v1.ResourceQuota](t, "{metadata: {name: q, namespace: shop}, status: "+text+"}")
		return &q
	}
	for name, test := range map[string]struct {
		edit    func(*v1alpha1.MultidimPodAutoscaler)
		image   string
		pod     []string
		objects []client.Object
		want    string // "" = it gets one, - = no word of it
	}{
		"no image":             {image: "-", want: "NoGateImage: spec.concurrency.pod: the webhook was started without --gate-image"},
		"the node's network":   {pod: []string{`"later":`, `"hostNetwork":true,"later":`}, want: "HostNetwork: the pod's spec.hostNetwork is true: its ports are the node's"},
		"another port":         {edit: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Concurrency.Port = "web" }, want: `PortMissing: spec.concurrency.port: no container of the pod has a port named "web"`},
		"not asked for":        {edit: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Concurrency.Pod = v1alpha1.PodAnnotation }, want: "-"},
		"off":                  {edit: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Mode = v1alpha1.ModeOff }, want: "-"},
		"refused":              {edit: func(o *v1alpha1.MultidimPodAutoscaler) { o.Status.Phase = v1alpha1.PhaseRefused }, want: "-"},
		"a range":              {objects: []client.Object{rangeOf("{type: Container, max: {cpu: 10}, defaultRequest: {cpu: 1}}")}, pod: []string{`"limits":{`, `"limits":{"cpu":"2",`, `{"name":"other"}`, `{"name":"other","resources":{"limits":{"cpu":"1"}}}`}, want: "LimitRange: a LimitRange of the namespace leaves no room for the gate"},
		"a range's default":    {objects: []client.Object{rangeOf("{type: Container, max: {cpu: 10}, default: {cpu: 1}}")}, pod: []string{`"limits":{`, `"limits":{"cpu":"2",`, `{"name":"other"}`, `{"name":"other","resources":{"limits":{"cpu":"1"}}}`}},
		"a range's low cpu":    {objects: []client.Object{rangeOf("{type: Container, default: {cpu: 20m}}")}, want: "LimitRange: LimitRange l gives the gate a limit of 20m of cpu, less than the 25m that it requests"},
		"a range's low memory": {objects: []client.Object{rangeOf("{type: Container, default: {memory: 16Mi}}")}}, // it has a limit of its own
		"a mesh":               {pod: []string{`{"name":"other"}`, `{"name":"istio-proxy"}`}, want: "ServiceMesh: the pod has a container istio-proxy, which takes its requests: two proxies that know nothing of each other"},
		"a range it has not":   {objects: []client.Object{rangeOf("{type: Container, min: {memory: 1Gi}}")}, pod: []string{`{"name":"other"}`, `{"name":"other","resources":{"requests":{"memory":"1Gi"}}}`}, want: "LimitRange: a LimitRange of the namespace leaves no room for the gate"},
		"a quota that is full": {objects: []client.Object{quotaOf("{hard: {requests.cpu: 2}, used: {requests.cpu: 990m}}")}, want: "ResourceQuota: ResourceQuota q leaves no room for the gate"},
		"a quota with room":    {objects: []client.Object{quotaOf("{hard: {requests.cpu: 2}, used: {requests.cpu: 900m}}")}},
		"a quota of limits":    {objects: []client.Object{quotaOf("{hard: {limits.cpu: 9}, used: {limits.cpu: 0}}")}, want: "ResourceQuota: ResourceQuota q wants a limit of cpu, which the gate has not; a LimitRange can give one"},
	} {
		o := gatedObject(t)
		if test.edit != nil {
			test.edit(o)
		}
		image := gateImage
		if test.image == "-" {
			image = ""
		}
		text := portText
		if test.pod != nil {
			text = strings.NewReplacer(test.pod...).Replace(text)
		}
		r := reader(t, append([]client.Object{o, replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m")}, test.objects...)...)
		answer, pod := askFor(t, image, r, text)
		if test.want == "" {
			require.Len(t, pod.Spec.InitContainers, 1, name)
			continue
		}
		require.Empty(t, pod.Spec.InitContainers, name)
		require.Empty(t, pod.Spec.Volumes, name)
		if test.want == "-" {
			require.NotContains(t, pod.Annotations, v1alpha1.AnnotationGate, name)
			require.Empty(t, answer.Warnings, name)
			continue
		}
		require.Equal(t, v1alpha1.GateRefused+test.want, pod.Annotations[v1alpha1.AnnotationGate], name)
		require.Contains(t, strings.Join(answer.Warnings, "\n"), "sigma-mpa: the pod starts without a gate: "+test.want, name)
		require.Equal(t, "http", pod.Spec.Containers[0].Ports[0].Name, name)
		if !strings.HasPrefix(name, "a range") {
			require.Equal(t, "1", pod.Spec.Containers[0].Resources.Requests.Cpu().String(), name)
		}
	}
}

// While caches do not answer, a pod starts as it is.
func TestNoGateWithoutCaches(t *testing.T) {
	o, rs := gatedObject(t), replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m")
	o.Status.Recommendation = nil
	failing := interceptor.NewClient(reader(t, o, rs), interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("no LimitRanges")
	}})
	h := &handler{objects: failing, revisions: failing, limit: time.Second, image: gateImage, token: rand.Text}
	raw, err := h.gate(t.Context(), []byte(portText), "shop", o)
	require.EqualError(t, err, "no LimitRanges")
	require.Equal(t, portText, string(raw))
}

func TestGateImage(t *testing.T) {
	o := Options{Bind: ":9443", Secret: "s", Configuration: "c", Life: time.Hour}
	for image, want := range map[string]string{"": "", gateImage: "", "a b": `--gate-image "a b": want the name of an image`, "a\n": `--gate-image "a\n": want the name of an image`} {
		o.Gate = image
		if err := o.Validate(); want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
}
