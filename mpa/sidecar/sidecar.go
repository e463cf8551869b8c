// Package sidecar puts a gate before a port of a pod that is being created.
//
// The gate is a native sidecar: it starts before the containers and ends after them. It takes the
// name of the port, and the container keeps the number. So a Service whose targetPort is the name
// leads to the gate in pods with one and to the container in pods without, and needs no change
// in either direction. Probes and hooks reach the container by number.
//
// A sidecar is notified of the pod's end only after the containers have ended. So the container gets a
// hook before its end that waits at the gate until no request is inside, as Knative's does. It replaces a
// sleep, and waits at least as long. The gate recognises the pod's end by a token, which is in the pod's
// spec and nowhere else.
//
// The gate reaches the container at the pod's own address, as a Service does.
package sidecar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

const (
	// Name of the container.
	Name = "sigma-gate"
	// MetricsName is that of its port with /metrics.
	MetricsName = "gate-metrics"

	volume = "sigma-gate-limit"
	// The gate's ports: requests, its admin port on loopback, and metrics.
	requests, admin, metrics = 9900, 9901, 9902
	// user is an account that no image needs to have.
	user = 65532
	// mostLinger is the longest wait of the gate for Services to notice the pod's end. That does
	// not grow with the pod's grace, and a container that its liveness probe restarts waits too.
	mostLinger = 10 * time.Second
	// mostDrain is its longest wait for requests to end, for the same reason.
	mostDrain = time.Minute
	// podIP is the variable with the pod's own address.
	podIP = "POD_IP"
	// drainToken is the variable with the token of the hook, as the gate reads it.
	drainToken = "SIGMA_DRAIN_TOKEN"
)

// Refused is the reason that a pod gets no gate.
type Refused struct {
	Reason  string // one word in CamelCase
	Message string // with the field of the pod or of the object
}

// Error implements error.
func (r *Refused) Error() string { return r.Reason + ": " + r.Message }

// Refuse returns one.
func Refuse(reason, format string, args ...any) *Refused {
	return &Refused{reason, fmt.Sprintf(format, args...)}
}

// A Place is a port of a pod before which a gate can be put.
type Place struct {
	name            string
	container, port int // indices in spec.containers and its ports
	number          int32
	linger          time.Duration // time for Services to notice the pod's end
}

// Find returns the port of that name, or the reason that no gate can be put before it: a
// [*Refused].
func Find(spec *corev1.PodSpec, name string) (*Place, error) {
	var place *Place
	for i := range spec.Containers {
		for j, p := range spec.Containers[i].Ports {
			switch {
			case p.Name != name:
			case p.Protocol != "" && p.Protocol != corev1.ProtocolTCP:
				return nil, Refuse("PortProtocol", "spec.concurrency.port: port %q of container %s is %s, want TCP", name, spec.Containers[i].Name, p.Protocol)
			case place != nil:
				return nil, Refuse("PortTwice", "spec.concurrency.port: the containers %s and %s both have a port %q", spec.Containers[place.container].Name, spec.Containers[i].Name, name)
			default:
				place = &Place{name: name, container: i, port: j, number: p.ContainerPort}
			}
		}
	}
	switch {
	case spec.HostNetwork:
		return nil, Refuse("HostNetwork", "the pod's spec.hostNetwork is true: its ports are the node's")
	case spec.OS != nil && spec.OS.Name == corev1.Windows:
		return nil, Refuse("Windows", "the pod's spec.os.name is windows: the gate is a program for Linux")
	case spec.Resources != nil:
		return nil, Refuse("PodResources", "the pod's spec.resources has requests of the whole pod, in which none are left for the gate")
	case place == nil:
		return nil, Refuse("PortMissing", "spec.concurrency.port: no container of the pod has a port named %q", name)
	}
	for _, c := range target.Containers(spec) {
		own := c == &spec.Containers[place.container]
		if !own && slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name }) {
			return nil, Refuse("PortTwice", "spec.concurrency.port: the containers %s and %s both have a port %q", c.Name, spec.Containers[place.container].Name, name)
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		switch c.Name {
		case Name:
			return nil, Refuse("ContainerExists", "the pod has a container named %s already", Name)
		case "istio-proxy", "linkerd-proxy":
			return nil, Refuse("ServiceMesh", "the pod has a container %s, which takes its requests: two proxies that know nothing of each other", c.Name)
		}
		for _, p := range c.Ports {
			if p.ContainerPort == requests || p.ContainerPort == admin || p.ContainerPort == metrics {
				return nil, Refuse("PortTaken", "container %s has port %d, which the gate needs", c.Name, p.ContainerPort)
			}
		}
	}
	if slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume }) {
		return nil, Refuse("VolumeExists", "the pod has a volume named %s already", volume)
	}
	if err := place.plain(&spec.Containers[place.container]); err != nil {
		return nil, err
	}
	return place, place.end(spec)
}

// plain refuses a port with TLS by its name or probes, which the gate does not support.
func (p *Place) plain(app *corev1.Container) error {
	for part := range strings.SplitSeq(p.name, "-") {
		if part == "tls" || part == "ssl" || strings.HasPrefix(part, "https") {
			return Refuse("PortTLS", "spec.concurrency.port: port %q is one of TLS by its name: the gate speaks HTTP without TLS", p.name)
		}
	}
	for _, probe := range []*corev1.Probe{app.LivenessProbe, app.ReadinessProbe, app.StartupProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Scheme != corev1.URISchemeHTTPS {
			continue
		}
		if to := probe.HTTPGet.Port; to == intstr.FromString(p.name) || to == intstr.FromInt32(p.number) {
			return Refuse("PortTLS", "spec.concurrency.port: a probe of container %s says that port %q is HTTPS: the gate speaks HTTP without TLS", app.Name, p.name)
		}
	}
	return nil
}

// end sets the time for Services to notice the pod's end: as long as the container sleeps by a
// hook of its own, or a tenth of the pod's grace.
func (p *Place) end(spec *corev1.PodSpec) error {
	p.linger = min(podspec.Grace(spec)/10, mostLinger)
	app := &spec.Containers[p.container]
	if app.Lifecycle == nil || app.Lifecycle.PreStop == nil {
		return nil
	}
	sleep := app.Lifecycle.PreStop.Sleep
	if sleep == nil {
		return Refuse("HookOfItsOwn", "container %s has a lifecycle.preStop other than sleep, and a container has one only: without the gate's it ends before its requests", app.Name)
	}
	p.linger = bounded.Times(max(sleep.Seconds, 0), time.Second)
	return nil
}

// Before returns the name of the port before which a pod has a gate of the webhook, "" if it has
// no gate.
func Before(pod *corev1.Pod) string {
	if pod.Annotations[v1alpha1.AnnotationGate] == "" {
		return ""
	}
	for _, c := range target.Containers(&pod.Spec) {
		if c.Name != Name {
			continue
		}
		for _, p := range c.Ports {
			if p.ContainerPort == requests {
				return p.Name
			}
		}
	}
	return ""
}

// Has reports whether a pod has a gate of the webhook.
func Has(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.AnnotationGate] != "" && slices.ContainsFunc(target.Containers(&pod.Spec), func(c *corev1.Container) bool { return c.Name == Name })
}

// Add puts a gate of that image into the pod whose spec the place is of. The token is the identity of its
// hook: a random one for each pod. The pod is its JSON, decoded, so that fields which this program
// lacks stay.
func (p *Place) Add(pod map[string]any, spec *corev1.PodSpec, image, token string) error {
	app := &spec.Containers[p.container]
	containers, _, err := unstructured.NestedSlice(pod, "spec", "containers")
	if err != nil {
		return err
	}
	c, ok := containers[p.container].(map[string]any)
	if !ok {
		return fmt.Errorf("spec.containers[%d] is no object", p.container)
	}
	ports, _, err := unstructured.NestedSlice(c, "ports")
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(ports[p.port].(map[string]any), "name") // a port, as the spec was decoded from it
	c["ports"] = ports
	if err := p.byNumber(c); err != nil {
		return err
	}
	hook := map[string]any{"httpGet": map[string]any{
		"path": "/drain", "port": int64(metrics), "scheme": "HTTP",
		"httpHeaders": []any{map[string]any{"name": "Authorization", "value": "Bearer " + token}},
	}}
	if err := unstructured.SetNestedMap(c, hook, "lifecycle", "preStop"); err != nil {
		return err
	}
	if err := unstructured.SetNestedSlice(pod, containers, "spec", "containers"); err != nil {
		return err
	}
	if err := appended(pod, p.gate(spec, image, token), "spec", "initContainers"); err != nil {
		return err
	}
	limit := corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
		Path: "limit", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + v1alpha1.AnnotationLimit + "']"},
	}}}}}
	if err := appended(pod, limit, "spec", "volumes"); err != nil {
		return err
	}
	return unstructured.SetNestedField(pod, p.String(app.Name), "metadata", "annotations", v1alpha1.AnnotationGate)
}

// String describes the change of a container.
func (p *Place) String(container string) string {
	return fmt.Sprintf("port %s of container %s is %d of %s, before %d", p.name, container, requests, Name, p.number)
}

// byNumber replaces the port's name in the container's probes and its hook after the start.
func (p *Place) byNumber(container map[string]any) error {
	for _, at := range [][]string{{"livenessProbe"}, {"readinessProbe"}, {"startupProbe"}, {"lifecycle", "postStart"}} {
		for _, kind := range []string{"httpGet", "tcpSocket"} {
			path := append(slices.Clone(at), kind, "port")
			if port, _, _ := unstructured.NestedFieldNoCopy(container, path...); port != p.name {
				continue
			}
			if err := unstructured.SetNestedField(container, int64(p.number), path...); err != nil {
				return err
			}
		}
	}
	return nil
}

// gate returns the container. Of the pod's grace after the linger for Services, requests have at
// most half to end, and the containers the rest.
func (p *Place) gate(spec *corev1.PodSpec, image, token string) corev1.Container {
	drain := min((podspec.Grace(spec)-p.linger)/2, mostDrain)
	resources := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("25m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
	}
	if guaranteed(spec) { // stays so
		resources.Limits[corev1.ResourceCPU] = resource.MustParse("250m")
		resources.Requests = resources.Limits.DeepCopy()
	}
	return corev1.Container{
		Name: Name, Image: image, RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Args: []string{
			fmt.Sprintf("--target=http://$(%s):%d", podIP, p.number), "--ready-by-target", fmt.Sprintf("--listen=:%d", requests),
			fmt.Sprintf("--admin=127.0.0.1:%d", admin), fmt.Sprintf("--metrics=:%d", metrics),
			"--limit-file=/limit/limit", fmt.Sprintf("--linger=%v", p.linger), fmt.Sprintf("--drain=%v", max(drain, 0)),
		},
		Env: []corev1.EnvVar{
			{Name: podIP, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "GOMEMLIMIT", Value: "100MiB"}, // of the 128Mi
			{Name: drainToken, Value: token},
		},
		Ports: []corev1.ContainerPort{
			{Name: p.name, ContainerPort: requests, Protocol: corev1.ProtocolTCP},
			{Name: MetricsName, ContainerPort: metrics, Protocol: corev1.ProtocolTCP},
		},
		ReadinessProbe: &corev1.Probe{ // often, as a pod that begins waits for it
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(metrics)}},
			PeriodSeconds: 2, FailureThreshold: 5,
		},
		Resources: resources,
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)),
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/limit", ReadOnly: true}},
	}
}

// guaranteed reports whether all containers have limits of cpu and memory and request as much.
func guaranteed(spec *corev1.PodSpec) bool {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, has := c.Resources.Requests[name]
			limit := c.Resources.Limits[name]
			if limit.IsZero() || has && request.Cmp(limit) != 0 {
				return false
			}
		}
	}
	return true
}

// appended adds a value to a list of a decoded object, which may not be there.
func appended(object map[string]any, value any, path ...string) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var decoded map[string]any
	if err := utiljson.Unmarshal(raw, &decoded); err != nil {
		return err
	}
	list, _, err := unstructured.NestedSlice(object, path...)
	if err != nil {
		return err
	}
	return unstructured.SetNestedSlice(object, append(list, any(decoded)), path...)
}
