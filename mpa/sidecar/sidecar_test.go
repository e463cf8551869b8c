package sidecar_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/mpa/sidecar"
)

const app = `
metadata: {name: web, tomorrow: 1}
spec:
  later: {field: 1}
  initContainers: [{name: first, image: f}]
  containers:
  - name: log
    ports: [{name: metrics, containerPort: 9000}]
  - name: app
    later: 2
    ports: [{name: admin, containerPort: 8079}, {name: http, containerPort: 8080, protocol: TCP, later: 3}]
    livenessProbe: {httpGet: {path: /healthz, port: http}}
    readinessProbe: {tcpSocket: {port: http}, later: 4}
    startupProbe: {httpGet: {path: /healthz, port: admin}}
    lifecycle: {postStart: {httpGet: {path: /warm, port: http}}}
`

// added returns the pod with a gate, as YAML.
func added(t *testing.T, text string) (string, corev1.Pod) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	var pod corev1.Pod
	require.NoError(t, json.Unmarshal(raw, &pod))
	place, err := sidecar.Find(&pod.Spec, "http")
	require.NoError(t, err)
	var object map[string]any
	require.NoError(t, utiljson.Unmarshal(raw, &object))
	require.NoError(t, place.Add(object, &pod.Spec, "registry.example.com/sigma-gate:v1", "token-of-this-pod"))
	out, err := yaml.Marshal(object)
	require.NoError(t, err)
	var after corev1.Pod
	require.NoError(t, yaml.Unmarshal(out, &after))
	return string(out), after
}

// The gate takes the port's name, the container keeps the number, and nothing else changes.
func TestAdd(t *testing.T) {
	got, pod := added(t, app)
	assert.Equal(t, strings.TrimPrefix(`
metadata:
  annotations:
    autoscaling.sigma-scheduler.io/gate: port http of container app is 9900 of sigma-gate,
      before 8080
  name: web
  tomorrow: 1
spec:
  containers:
  - name: log
    ports:
    - containerPort: 9000
      name: metrics
  - later: 2
    lifecycle:
      postStart:
        httpGet:
          path: /warm
          port: 8080
      preStop:
        httpGet:
          httpHeaders:
          - name: Authorization
            value: Bearer token-of-this-pod
          path: /drain
          port: 9902
          scheme: HTTP
    livenessProbe:
      httpGet:
        path: /healthz
        port: 8080
    name: app
    ports:
    - containerPort: 8079
      name: admin
    - containerPort: 8080
      later: 3
      protocol: TCP
    readinessProbe:
      later: 4
      tcpSocket:
        port: 8080
    startupProbe:
      httpGet:
        path: /healthz
        port: admin
  initContainers:
  - image: f
    name: first
  - args:
    - --target=http://$(POD_IP):8080
    - --ready-by-target
    - --listen=:9900
    - --admin=127.0.0.1:9901
    - --metrics=:9902
    - --limit-file=/limit/limit
    - --linger=3s
    - --drain=13.5s
    env:
    - name: POD_IP
      valueFrom:
        fieldRef:
          fieldPath: status.podIP
    - name: GOMEMLIMIT
      value: 100MiB
    - name: SIGMA_DRAIN_TOKEN
      value: token-of-this-pod
    image: registry.example.com/sigma-gate:v1
    name: sigma-gate
    ports:
    - containerPort: 9900
      name: http
      protocol: TCP
    - containerPort: 9902
      name: gate-metrics
      protocol: TCP
    readinessProbe:
      failureThreshold: 5
      httpGet:
        path: /readyz
        port: 9902
      periodSeconds: 2
    resources:
      limits:
        memory: 128Mi
      requests:
        cpu: 25m
        memory: 32Mi
    restartPolicy: Always
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        drop:
        - ALL
      readOnlyRootFilesystem: true
      runAsGroup: 65532
      runAsNonRoot: true
      runAsUser: 65532
      seccompProfile:
        type: RuntimeDefault
    volumeMounts:
    - mountPath: /limit
      name: sigma-gate-limit
      readOnly: true
  later:
    field: 1
  volumes:
  - downwardAPI:
      items:
      - fieldRef:
          fieldPath: metadata.annotations['sigma-scheduler.io/concurrency']
        path: limit
    name: sigma-gate-limit
`, "\n"), got)
	assert.True(t, sidecar.Has(&pod))
	assert.Equal(t, "http", sidecar.Before(&pod))
	gate := pod.Spec.InitContainers[1]
	gate.Ports[0], gate.Ports[1] = gate.Ports[1], gate.Ports[0]
	assert.Equal(t, "http", sidecar.Before(&pod), "in any order")
	pod.Annotations = map[string]string{"other": "x"}
	assert.False(t, sidecar.Has(&pod), "a container of that name that is not ours")
	assert.Empty(t, sidecar.Before(&pod))
}

// What depends on the pod: its end, its hooks, and its class.
func TestAddDepends(t *testing.T) {
	args := func(pod *corev1.Pod) string {
		return strings.Join(pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1].Args[6:], " ")
	}
	const sleep = "lifecycle: {preStop: {sleep: {seconds: 5}}, "
	for name, test := range map[string]struct{ old, new, want string }{
		"a long grace":         {"  later: {field: 1}", "  terminationGracePeriodSeconds: 120", "--linger=10s --drain=55s"},
		"an hour":              {"  later: {field: 1}", "  terminationGracePeriodSeconds: 3600", "--linger=10s --drain=1m0s"},
		"a grace of years":     {"  later: {field: 1}", "  terminationGracePeriodSeconds: 100000000000", "--linger=10s --drain=1m0s"},
		"the longest grace":    {"  later: {field: 1}", "  terminationGracePeriodSeconds: 9223372036854775807", "--linger=10s --drain=1m0s"},
		"a negative product":   {"  later: {field: 1}", "  terminationGracePeriodSeconds: 9223372037", "--linger=10s --drain=1m0s"},
		"a small product":      {"  later: {field: 1}", "  terminationGracePeriodSeconds: 18446744074", "--linger=10s --drain=1m0s"},
		"a negative grace":     {"  later: {field: 1}", "  terminationGracePeriodSeconds: -9223372036854775808", "--linger=100ms --drain=450ms"},
		"the longest sleep":    {"lifecycle: {", strings.Replace(sleep, "5", "9223372036854775807", 1), "--linger=876000h0m0s --drain=0s"},
		"a negative sleep":     {"lifecycle: {", strings.Replace(sleep, "5", "-9223372037", 1), "--linger=0s --drain=15s"},
		"no grace":             {"  later: {field: 1}", "  terminationGracePeriodSeconds: 0", "--linger=0s --drain=0s"},
		"a sleep":              {"lifecycle: {", sleep, "--linger=5s --drain=12.5s"},
		"a sleep of its grace": {"lifecycle: {", strings.Replace(sleep, "5", "30", 1), "--linger=30s --drain=0s"},
		"a sleep of a minute":  {"lifecycle: {", strings.Replace(sleep, "5", "60", 1), "--linger=1m0s --drain=0s"},
	} {
		_, pod := added(t, strings.Replace(app, test.old, test.new, 1))
		assert.Equal(t, test.want, args(&pod), name)
		hook := pod.Spec.Containers[1].Lifecycle.PreStop
		assert.Equal(t, "/drain", hook.HTTPGet.Path, name)
		assert.Nil(t, hook.Sleep, name)
		assert.NotNil(t, pod.Spec.Containers[1].Lifecycle.PostStart, name)
	}
	for name, test := range map[string]struct{ resources, want string }{
		"burstable":          {"{requests: {cpu: 1, memory: 1Gi}}", "25m 32Mi 0 128Mi"},
		"guaranteed":         {"{requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}", "250m 128Mi 250m 128Mi"},
		"by its limits":      {"{limits: {cpu: 1, memory: 1Gi}}", "250m 128Mi 250m 128Mi"},
		"almost":             {"{requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 1Gi}}", "25m 32Mi 0 128Mi"},
		"without its memory": {"{requests: {cpu: 1}, limits: {cpu: 1}}", "25m 32Mi 0 128Mi"},
	} {
		_, pod := added(t, `{spec: {containers: [{name: app, ports: [{name: http, containerPort: 80}], resources: `+test.resources+`}]}}`)
		r := pod.Spec.InitContainers[0].Resources
		assert.Equal(t, test.want, strings.Join([]string{r.Requests.Cpu().String(), r.Requests.Memory().String(), r.Limits.Cpu().String(), r.Limits.Memory().String()}, " "), name)
	}
}

func TestFindRefuses(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"the node's network":   {"  later: {field: 1}", "  hostNetwork: true", "HostNetwork: the pod's spec.hostNetwork is true: its ports are the node's"},
		"Windows":              {"  later: {field: 1}", "  os: {name: windows}", "Windows: the pod's spec.os.name is windows: the gate is a program for Linux"},
		"requests of the pod":  {"  later: {field: 1}", "  resources: {requests: {cpu: 1}}", "PodResources: the pod's spec.resources has requests of the whole pod, in which none are left for the gate"},
		"no such port":         {"name: http,", "name: web,", `PortMissing: spec.concurrency.port: no container of the pod has a port named "http"`},
		"two such ports":       {"name: metrics,", "name: http,", `PortTwice: spec.concurrency.port: the containers log and app both have a port "http"`},
		"of UDP":               {"8080, protocol: TCP", "8080, protocol: UDP", `PortProtocol: spec.concurrency.port: port "http" of container app is UDP, want TCP`},
		"its port":             {"containerPort: 9000", "containerPort: 9900", "PortTaken: container log has port 9900, which the gate needs"},
		"its admin port":       {"{name: first,", "{name: first, ports: [{containerPort: 9901}],", "PortTaken: container first has port 9901, which the gate needs"},
		"its port of metrics":  {"containerPort: 8080", "containerPort: 9902", "PortTaken: container app has port 9902, which the gate needs"},
		"a container":          {"name: log", "name: sigma-gate", "ContainerExists: the pod has a container named sigma-gate already"},
		"an initial container": {"name: first", "name: sigma-gate", "ContainerExists: the pod has a container named sigma-gate already"},
		"a port of a sidecar":  {"{name: first,", "{name: first, restartPolicy: Always, ports: [{name: http, containerPort: 7}],", `PortTwice: spec.concurrency.port: the containers first and app both have a port "http"`},
		"Istio":                {"name: first", "name: istio-proxy", "ServiceMesh: the pod has a container istio-proxy, which takes its requests: two proxies that know nothing of each other"},
		"Linkerd":              {"name: log", "name: linkerd-proxy", "ServiceMesh: the pod has a container linkerd-proxy, which takes its requests: two proxies that know nothing of each other"},
		"a hook":               {"lifecycle: {", "lifecycle: {preStop: {exec: {command: [stop]}}, ", "HookOfItsOwn: container app has a lifecycle.preStop other than sleep, and a container has one only: without the gate's it ends before its requests"},
		"a probe of TLS":       {"path: /healthz, port: http}", "path: /healthz, port: http, scheme: HTTPS}", `PortTLS: spec.concurrency.port: a probe of container app says that port "http" is HTTPS: the gate speaks HTTP without TLS`},
		"and by number":        {"path: /healthz, port: http}", "path: /healthz, port: 8080, scheme: HTTPS}", `PortTLS: spec.concurrency.port: a probe of container app says that port "http" is HTTPS: the gate speaks HTTP without TLS`},
		"a volume":             {"  later: {field: 1}", "  volumes: [{name: sigma-gate-limit, emptyDir: {}}]", "VolumeExists: the pod has a volume named sigma-gate-limit already"},
	} {
		text := strings.Replace(app, test.old, test.new, 1)
		require.NotEqual(t, app, text, name)
		var pod corev1.Pod
		require.NoError(t, yaml.Unmarshal([]byte(text), &pod))
		_, err := sidecar.Find(&pod.Spec, "http")
		require.EqualError(t, err, test.want, name)
		require.ErrorAs(t, err, new(*sidecar.Refused))
	}
}

// Names say that a port has TLS; what only looks like such a name, and TLS of another port, do not.
func TestPortsOfTLS(t *testing.T) {
	for name, refused := range map[string]bool{"https": true, "https-web": true, "web-https": true, "https2": true, "tls": true, "grpc-tls": true, "ssl": true, "tlsless": false, "grpc": false, "http2": false} {
		spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Ports: []corev1.ContainerPort{{Name: name, ContainerPort: 80}, {Name: "admin", ContainerPort: 81}}, LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("admin"), Scheme: corev1.URISchemeHTTPS}}}}}}
		_, err := sidecar.Find(&spec, name)
		if refused {
			require.ErrorContains(t, err, "PortTLS: ", name)
		} else {
			require.NoError(t, err, name)
		}
	}
}

// A port of that name of a container that ends before the others is no other port of the pod.
func TestPortOfInitialContainer(t *testing.T) {
	_, pod := added(t, strings.Replace(app, "{name: first,", "{name: first, ports: [{name: http, containerPort: 7}],", 1))
	assert.Equal(t, "http", sidecar.Before(&pod))
}

// FuzzNumbers gives a pod any numbers: the gate's durations can be parsed, are not negative, and may be added.
func FuzzNumbers(f *testing.F) {
	f.Add(int64(9_223_372_036_854_775_807), int64(0), false)
	f.Add(int64(18_446_744_074), int64(9_223_372_037), true)
	f.Add(int64(-1), int64(-1), true)
	f.Fuzz(func(t *testing.T, grace, sleep int64, sleeps bool) {
		text := strings.Replace(app, "  later: {field: 1}", fmt.Sprintf("  terminationGracePeriodSeconds: %d", grace), 1)
		if sleeps {
			text = strings.Replace(text, "lifecycle: {", fmt.Sprintf("lifecycle: {preStop: {sleep: {seconds: %d}}, ", sleep), 1)
		}
		_, pod := added(t, text)
		args := pod.Spec.InitContainers[1].Args
		linger, err := time.ParseDuration(strings.TrimPrefix(args[6], "--linger="))
		require.NoError(t, err)
		drain, err := time.ParseDuration(strings.TrimPrefix(args[7], "--drain="))
		require.NoError(t, err)
		require.GreaterOrEqual(t, linger, time.Duration(0))
		require.GreaterOrEqual(t, drain, time.Duration(0))
		require.LessOrEqual(t, drain, time.Minute)
		require.GreaterOrEqual(t, linger+drain, linger)
		if !sleeps {
			require.LessOrEqual(t, linger, 10*time.Second)
		}
	})
}
