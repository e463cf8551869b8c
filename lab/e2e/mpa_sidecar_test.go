//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

const sidecarWorkload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      hostNetwork: HOST
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: main
        image: i
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: http}}
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        resources: {requests: {cpu: 100m, memory: 128Mi}}
---
apiVersion: v1
kind: Service
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  selector: {app: NAME}
  ports: [{port: 80, targetPort: http}]
`

const sidecarObject = `
apiVersion: autoscaling.sigma-scheduler.io/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  scaleTargetRef: {kind: Deployment, name: NAME}
  constraints: {replicas: {min: 2, max: 2}, containers: [{name: main}]}
  recommender: {algorithm: static}
  metrics: {prometheus: {server: main}}
  concurrency: {pod: Sidecar, port: http}
`

// The webhook puts a gate before the pods of an object that asks for one, in a namespace with the
// strictest Pod Security, and the Service follows in both directions without a change. Where it
// cannot, pods start without one and the object says why.
func TestMPASidecar(t *testing.T) {
	c := ownCluster(t)
	c.InstallMetricsAPI(t)
	s := installMPA(t, c, "mpa")
	all := s.startPart(t, c, "all", "--interval=1s", "--leader-elect=false", "--gate-image=registry.example.com/sigma-gate:v1",
		e2e.PrometheusServers(t, map[string]string{"main": "http://127.0.0.1:1"}))
	c.Kubectl(t, "", "create", "namespace", "shop")
	c.Kubectl(t, "", "label", "namespace", "shop", "pod-security.kubernetes.io/enforce=restricted")
	made := func(text, namespace, name, host string) {
		c.Kubectl(t, strings.NewReplacer("NAMESPACE", namespace, "NAME", name, "HOST", host).Replace(text), "apply", "-f", "-")
	}
	gate := func(namespace, name string) string {
		return c.Kubectl(t, "", "get", "mpa", name, "-n", namespace, "-o", `jsonpath={.status.conditions[?(@.type=="GateInjected")].reason}`)
	}
	becomes := func(namespace, name, reason string) {
		t.Helper()
		e2e.Wait(t, reason, func() (string, bool) {
			is := gate(namespace, name)
			return is + statusOf(t, c, namespace, name), is == reason
		})
	}
	// ports are those to which the Service leads, by their pods' names.
	ports := func() string {
		return c.Kubectl(t, "", "get", "endpointslices", "-n", "shop", "-l", "kubernetes.io/service-name=web", "-o", `jsonpath={range .items[*]}{.ports[*].port}:{range .endpoints[?(@.conditions.ready==true)]}*{end} {end}`)
	}
	leads := func(want string) {
		t.Helper()
		e2e.Wait(t, "the Service: "+want, func() (string, bool) {
			is := ports()
			return is, strings.Contains(is, want+":**") && strings.Count(is, "*") == 2
		})
	}
	rollout := func() {
		c.Kubectl(t, "", "rollout", "restart", "deployment/web", "-n", "shop")
		c.Kubectl(t, "", "rollout", "status", "deployment/web", "-n", "shop", "--timeout=90s")
	}

	made(sidecarWorkload, "shop", "web", "false")
	leads("8080")
	made(sidecarObject, "shop", "web", "")
	becomes("shop", "web", "RolloutNeeded")
	rollout()
	becomes("shop", "web", "Injected")
	leads("9900")
	for _, pod := range c.Pods("shop") {
		if pod.DeletionTimestamp != nil {
			continue
		}
		require.Len(t, pod.Spec.InitContainers, 1)
		require.Equal(t, "registry.example.com/sigma-gate:v1", pod.Spec.InitContainers[0].Image)
		require.Equal(t, "port http of container main is 9900 of sigma-gate, before 8080", pod.Annotations[v1alpha1.AnnotationGate])
		require.Equal(t, "8080", fmt.Sprint(pod.Spec.Containers[0].ReadinessProbe.HTTPGet.Port.String()))
	}

	// The way back.
	c.Kubectl(t, "", "patch", "mpa", "web", "-n", "shop", "--type=merge", "-p", `{"spec":{"concurrency":{"pod":"Annotation"}}}`)
	becomes("shop", "web", "")
	rollout()
	leads("8080")

	// Pods that cannot have one start all the same.
	made(sidecarObject, "default", "net", "")
	made(sidecarWorkload, "default", "net", "true")
	becomes("default", "net", "HostNetwork")
	c.WaitRunning(t, "default", 2)
	for _, pod := range c.Pods("default") {
		require.Empty(t, pod.Spec.InitContainers)
		require.Contains(t, pod.Annotations[v1alpha1.AnnotationGate], "refused: HostNetwork: ")
	}
	events := c.Kubectl(t, "", "get", "events", "-A", "-o", `jsonpath={range .items[*]}{.reason} {.message}{"\n"}{end}`)
	require.Contains(t, events, "GateMissing RolloutNeeded: 0 of 2 pods have the gate")
	require.Contains(t, events, "GateInjected all 2 pods have the gate before port http")
	require.Contains(t, events, "GateMissing HostNetwork: the pod's spec.hostNetwork is true")
	requireAllowed(t, all)
}
