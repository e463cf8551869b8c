//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// The kinds of Knative that tests use.
var (
	KnativeServices  = schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}
	KnativeRevisions = schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "revisions"}
	KnativeScalers   = schema.GroupVersionResource{Group: "autoscaling.internal.knative.dev", Version: "v1alpha1", Resource: "podautoscalers"}

	knativeEndpoints = schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}
	knativeIngresses = schema.GroupVersionResource{Group: "networking.internal.knative.dev", Version: "v1alpha1", Resource: "ingresses"}
)

const knativeSystem = "knative-serving"

// Knative is Knative Serving on a cluster: its controller, autoscaler and webhook as processes, and activators
// where a test starts them. They reach the pods through a proxy in this process: without [LivePods] the
// autoscaler has no figures, and keeps each Revision at its least number of pods. This process acts as the
// ingress, and marks each Ingress as ready.
type Knative struct {
	Controller, Autoscaler, Webhook *Process

	c          *Cluster
	proxy      *httptest.Server
	stats      int                      // the port of the autoscaler for the activators' statistics
	pods       atomic.Pointer[LivePods] // nil = no pod is reachable
	mu         sync.Mutex
	splits     map[types.NamespacedName][]Split  // by Service, in order of arrival
	activators map[string]*Activator             // by address, those in the Endpoints
	known      map[string]*Activator             // by address, all
	addresses  map[types.NamespacedName][]string // of the targets of the requests to a Revision
	turn       int                               // of the activators
}

// A Split is how requests are spread over Revisions, in percent.
type Split map[string]int

var knativeFolder = sync.OnceValues(func() (string, error) {
	build := exec.Command(filepath.Join(root, "hack", "knative", "build.sh"))
	build.Stderr = os.Stderr
	out, err := build.Output()
	return strings.TrimSpace(string(out)), err
})

// StartKnative installs Knative Serving and returns when its programs are ready. The cluster has
// to be the test's own: nothing is taken away at its end.
func (c *Cluster) StartKnative(t testing.TB) *Knative {
	t.Helper()
	folder, err := knativeFolder()
	require.NoError(t, err)
	k := &Knative{
		c: c, stats: FreePort(t), splits: map[types.NamespacedName][]Split{},
		activators: map[string]*Activator{}, known: map[string]*Activator{}, addresses: map[types.NamespacedName][]string{},
	}

	c.Kubectl(t, "", "apply", "-f", filepath.Join(folder, "config"))
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	port := FreePort(t)
	// The API server finds the webhook by the name that its certificate has, on this machine.
	c.Kubectl(t, fmt.Sprintf(`
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: webhook, namespace: %[1]s}, spec: {type: ExternalName, externalName: localhost}}
- {apiVersion: v1, kind: Service, metadata: {name: activator-service, namespace: %[1]s}, spec: {ports: [{port: 80}]}}
- {apiVersion: v1, kind: Endpoints, metadata: {name: activator-service, namespace: %[1]s}}
`, knativeSystem), "apply", "-f", "-")
	k.proxy = httptest.NewServer(http.HandlerFunc(k.forward))
	t.Cleanup(k.proxy.Close)
	// A controller that was killed still has its leases, by default for a minute.
	c.Kubectl(t, "", "patch", "configmap", "config-leader-election", "-n", knativeSystem, "--type=merge", "-p",
		`{"data": {"lease-duration": "5s", "renew-deadline": "4s", "retry-period": "1s"}}`)
	c.Kubectl(t, "", "patch", "configmap", "config-observability", "-n", knativeSystem, "--type=merge", "-p",
		`{"data": {"request-metrics-protocol": "prometheus"}}`)
	hooks, err := filepath.Glob(filepath.Join(folder, "webhooks", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, hooks)
	const service = "      name: webhook\n      namespace: knative-serving\n"
	for _, file := range hooks {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		c.Kubectl(t, strings.ReplaceAll(string(text), service, fmt.Sprintf("%s      port: %d\n", service, port)), "apply", "-f", "-")
	}

	k.Webhook = k.start(t, folder, "webhook", "webhook", fmt.Sprintf("WEBHOOK_PORT=%d", port), "WEBHOOK_NAME=webhook")
	t.Cleanup(func() { k.Webhook.Kill(t) }) // after SIGTERM it would serve for 45 s more
	Wait(t, "Knative's webhook", func() (string, bool) {
		if !k.Webhook.Alive() {
			t.Fatal("Knative's webhook ended")
		}
		response, err := insecure.Get(fmt.Sprintf("https://localhost:%d", port))
		if err != nil {
			return err.Error(), false
		}
		_ = response.Body.Close()
		// It has given the API server its certificate and the kinds that it answers for.
		all := c.Kubectl(t, "", "get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o",
			`jsonpath={range .items[*].webhooks[*]}{.name} {.clientConfig.caBundle} {.clientConfig.service.path}{"\n"}{end}`)
		ready := 0
		for line := range strings.Lines(all) {
			if fields := strings.Fields(line); len(fields) == 3 && strings.HasSuffix(fields[0], "webhook.serving.knative.dev") {
				ready++
			}
		}
		return all, ready == 3
	})
	k.Controller = k.start(t, folder, "controller", "controller")
	k.Autoscaler = k.start(t, folder, "autoscaler", "autoscaler", "HTTP_PROXY="+k.proxy.URL, fmt.Sprintf("STATS_PORT=%d", k.stats))
	k.serveIngresses(t)
	return k
}

// start starts one of Knative's programs as the administrator: their rights are not tested here.
// Its address becomes that of an Endpoints object, which must not be a loopback; nobody calls it.
func (k *Knative) start(t testing.TB, folder, program, name string, env ...string) *Process {
	return startProcessWith(t, append([]string{
		"KUBECONFIG=" + filepath.Join(k.c.Dir, "kubeconfig"), "SYSTEM_NAMESPACE=" + knativeSystem,
		"POD_NAME=" + name, "POD_IP=198.51.100.1", "PROFILING_PORT=0", "KUBE_API_QPS=1000", "KUBE_API_BURST=1000",
		"CONFIG_LOGGING_NAME=config-logging", "CONFIG_OBSERVABILITY_NAME=config-observability",
	}, env...), "knative-"+name, filepath.Join(folder, program))
}

// forward is the autoscaler's and Prometheus' way to a pod.
func (k *Knative) forward(w http.ResponseWriter, r *http.Request) {
	if pods := k.pods.Load(); pods != nil {
		pods.proxy.ServeHTTP(w, r)
		return
	}
	http.Error(w, "nobody is at "+r.URL.Host, http.StatusBadGateway)
}

// serveIngresses acts as an ingress, apart from forwarding, until the test ends.
func (k *Knative) serveIngresses(t testing.TB) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	factory := dynamicinformer.NewDynamicSharedInformerFactory(k.c.Dynamic, 10*time.Second)
	serve := func(object any) {
		ingress := object.(*unstructured.Unstructured)
		k.note(ingress)
		generation, _, _ := unstructured.NestedInt64(ingress.Object, "status", "observedGeneration")
		if generation == ingress.GetGeneration() {
			return
		}
		if err := k.accept(ctx, ingress); err != nil { // the informer retries
			klog.V(2).InfoS("Status of an Ingress", "ingress", klog.KObj(ingress), "err", err)
		}
	}
	_, err := factory.ForResource(knativeEndpoints).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    k.noteEndpoints,
		UpdateFunc: func(_, object any) { k.noteEndpoints(object) },
	})
	require.NoError(t, err)
	_, err = factory.ForResource(knativeIngresses).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    serve,
		UpdateFunc: func(_, object any) { serve(object) },
	})
	require.NoError(t, err)
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	for _, synced := range factory.WaitForCacheSync(ctx.Done()) {
		require.True(t, synced)
	}
}

// accept writes that the present generation of an Ingress is ready.
func (k *Knative) accept(ctx context.Context, ingress *unstructured.Unstructured) error {
	balancer := map[string]any{"ingress": []any{map[string]any{"domainInternal": "gateway.knative-serving.svc.cluster.local"}}}
	now := metav1.Now().UTC().Format(time.RFC3339)
	var conditions []any
	for _, kind := range []string{"LoadBalancerReady", "NetworkConfigured", "Ready"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "lastTransitionTime": now})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"observedGeneration": ingress.GetGeneration(), "conditions": conditions,
		"publicLoadBalancer": balancer, "privateLoadBalancer": balancer,
	}})
	if err != nil {
		return err
	}
	_, err = k.c.Dynamic.Resource(knativeIngresses).Namespace(ingress.GetNamespace()).
		Patch(ctx, ingress.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// note keeps how the requests of an Ingress are spread from now on.
func (k *Knative) note(ingress *unstructured.Unstructured) {
	split, err := splitOf(ingress)
	if err != nil {
		klog.ErrorS(err, "Ingress", "ingress", klog.KObj(ingress))
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	name := types.NamespacedName{Namespace: ingress.GetNamespace(), Name: ingress.GetName()}
	if all := k.splits[name]; len(all) == 0 || !maps.Equal(all[len(all)-1], split) {
		k.splits[name] = append(all, split)
	}
}

// splitOf is how an Ingress spreads the requests to its own name, which all of its rules for that
// do alike.
func splitOf(ingress *unstructured.Unstructured) (Split, error) {
	var spec struct {
		Rules []struct {
			Hosts []string `json:"hosts"`
			HTTP  struct {
				Paths []struct {
					Splits []struct {
						ServiceName string `json:"serviceName"`
						Percent     int    `json:"percent"`
					} `json:"splits"`
				} `json:"paths"`
			} `json:"http"`
		} `json:"rules"`
	}
	content, err := json.Marshal(ingress.Object["spec"])
	if err == nil {
		err = json.Unmarshal(content, &spec)
	}
	if err != nil {
		return nil, err
	}
	own := ingress.GetName() + "." + ingress.GetNamespace()
	for _, rule := range spec.Rules {
		for _, host := range rule.Hosts {
			if host != own && !strings.HasPrefix(host, own+".svc") || len(rule.HTTP.Paths) == 0 {
				continue
			}
			split := Split{}
			for _, s := range rule.HTTP.Paths[0].Splits {
				split[s.ServiceName] += s.Percent
			}
			return split, nil
		}
	}
	return nil, fmt.Errorf("no rule for the host %s in %s", own, content)
}

// Split is how the requests to a Service are spread now; nil = to nobody.
func (k *Knative) Split(namespace, name string) Split {
	all := k.Splits(namespace, name)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// Splits are all the ways in which the requests to a Service were spread so far, in order.
func (k *Knative) Splits(namespace, name string) []Split {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.splits[types.NamespacedName{Namespace: namespace, Name: name}]
	return slices.Clip(all)
}

// Get returns an object of one of Knative's kinds.
func (k *Knative) Get(t testing.TB, kind schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	object, err := k.c.Dynamic.Resource(kind).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return object
}

// Revisions are the names of a Service's Revisions.
func (k *Knative) Revisions(t testing.TB, namespace, service string) []string {
	t.Helper()
	return strings.Fields(k.c.Kubectl(t, "", "get", "revisions.serving.knative.dev", "-n", namespace, "--sort-by=.metadata.creationTimestamp",
		"-l", "serving.knative.dev/service="+service, "-o", "jsonpath={.items[*].metadata.name}"))
}

// WaitReady waits until all of a Service's present template serves, and returns its Revision.
func (k *Knative) WaitReady(t testing.TB, namespace, name string) (revision string) {
	t.Helper()
	Wait(t, "the Service "+name, func() (string, bool) {
		for _, p := range []*Process{k.Controller, k.Autoscaler, k.Webhook} {
			if !p.Alive() {
				t.Fatalf("%s ended", p.Name)
			}
		}
		service := k.Get(t, KnativeServices, namespace, name)
		observed, _, _ := unstructured.NestedInt64(service.Object, "status", "observedGeneration")
		conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
		revision, _, _ = unstructured.NestedString(service.Object, "status", "latestReadyRevisionName")
		ready := false
		for _, c := range conditions {
			condition := c.(map[string]any)
			ready = ready || condition["type"] == "Ready" && condition["status"] == "True"
		}
		return fmt.Sprint(conditions), ready && observed == service.GetGeneration()
	})
	return revision
}
