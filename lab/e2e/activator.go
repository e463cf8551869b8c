//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// An Activator is one of Knative's activators. Knative puts it before the pods of a Revision by the Revision's
// Endpoints; its port on this machine replaces port 8012 of its address.
type Activator struct {
	*Process
	k      *Knative
	ip     string
	port   int
	killed atomic.Bool // requests lost in it count as Cut
}

// StartActivator starts an activator and returns when it takes requests: it is ready, and in the Endpoints of the
// activators.
func (k *Knative) StartActivator(t testing.TB) *Activator {
	t.Helper()
	folder, err := knativeFolder()
	require.NoError(t, err)
	n := processes.Add(1)
	a := &Activator{k: k, ip: fmt.Sprintf("198.51.100.%d", 2+n%250), port: FreePort(t)}
	a.Process = k.start(t, folder, "activator", fmt.Sprintf("activator-%d", n), "POD_IP="+a.ip, "HTTP_PROXY="+k.proxy.URL,
		fmt.Sprintf("ACTIVATOR_PORT=%d", a.port), fmt.Sprintf("STATS_PORT=%d", k.stats))
	t.Cleanup(func() { // asked to end, it would serve for 45 s more
		if a.Alive() {
			a.Kill(t)
		}
	})
	a.join(t)
	return a
}

// join waits until the activator is ready, and puts it into the Endpoints.
func (a *Activator) join(t testing.TB) {
	t.Helper()
	a.WaitReady(t)
	a.killed.Store(false)
	a.k.mu.Lock()
	a.k.activators[a.ip], a.k.known[a.ip] = a, a
	a.k.mu.Unlock()
	a.k.writeActivators(t)
}

// leave takes it out of the Endpoints. Requests arrive until the ingress has seen that.
func (a *Activator) leave(t testing.TB) {
	t.Helper()
	a.k.mu.Lock()
	delete(a.k.activators, a.ip)
	a.k.mu.Unlock()
	a.k.writeActivators(t)
}

// WaitReady waits until the activator answers the kubelet's probe as ready, which it does while it has a connection to
// the autoscaler.
func (a *Activator) WaitReady(t testing.TB) {
	t.Helper()
	a.waitOK(t, func() (*http.Response, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d", a.port), nil)
		require.NoError(t, err)
		request.Header.Set("User-Agent", "kube-probe/1.34")
		return http.DefaultClient.Do(request)
	})
}

// KillAndRestart is kill -9 of the container: the kubelet sees it within a second, takes the pod out of the Endpoints,
// and starts another container in it.
func (a *Activator) KillAndRestart(t testing.TB) {
	t.Helper()
	a.killed.Store(true)
	a.Kill(t)
	time.Sleep(time.Second)
	a.leave(t)
	a.Restart(t)
	a.join(t)
}

// Replace acts like a rolling update: once another activator is ready, this one leaves the Endpoints and gets SIGTERM;
// it takes 45 s to end, and still answers requests.
func (a *Activator) Replace(t testing.TB) *Activator {
	t.Helper()
	next := a.k.StartActivator(t)
	a.leave(t)
	a.ending = true
	a.Signal(t, syscall.SIGTERM)
	return next
}

// WaitEnded waits until an activator that got SIGTERM has ended by itself.
func (a *Activator) WaitEnded(t testing.TB) {
	t.Helper()
	Wait(t, a.Name+" to end", func() (string, bool) { return "", !a.Alive() })
	require.Zero(t, a.command.ProcessState.ExitCode(), a.command.ProcessState)
}

// writeActivators writes the Endpoints of the activators.
func (k *Knative) writeActivators(t testing.TB) {
	t.Helper()
	k.mu.Lock()
	addresses := slices.Sorted(maps.Keys(k.activators))
	k.mu.Unlock()
	subsets := "[]"
	if len(addresses) > 0 {
		subsets = fmt.Sprintf("[{addresses: [{ip: %s}], ports: [{name: http, port: 8012}, {name: http2, port: 8013}]}]", strings.Join(addresses, "}, {ip: "))
	}
	k.c.Kubectl(t, fmt.Sprintf("{apiVersion: v1, kind: Endpoints, metadata: {name: activator-service, namespace: %s}, subsets: %s}", knativeSystem, subsets), "apply", "-f", "-")
}

// noteEndpoints keeps the addresses of Endpoints; Endpoints named like a Revision hold the targets of its requests.
func (k *Knative) noteEndpoints(object any) {
	endpoints := object.(*unstructured.Unstructured)
	subsets, _, _ := unstructured.NestedSlice(endpoints.Object, "subsets")
	var all []string
	for _, subset := range subsets {
		addresses, _, _ := unstructured.NestedSlice(subset.(map[string]any), "addresses")
		for _, address := range addresses {
			ip, _, _ := unstructured.NestedString(address.(map[string]any), "ip")
			all = append(all, ip)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.addresses[types.NamespacedName{Namespace: endpoints.GetNamespace(), Name: endpoints.GetName()}] = all
}

// activatorOf chooses an activator for a request to a Revision, one after the other; nil = its pods take it themselves.
func (k *Knative) activatorOf(namespace, revision string) *Activator {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.addresses[types.NamespacedName{Namespace: namespace, Name: revision}]
	if len(all) == 0 {
		return nil
	}
	k.turn++
	return k.known[all[k.turn%len(all)]]
}

// Activated reports whether requests to a Revision go to activators.
func (k *Knative) Activated(namespace, revision string) bool {
	return k.activatorOf(namespace, revision) != nil
}
