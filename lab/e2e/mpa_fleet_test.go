//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

var autoscalers = schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: "v1alpha1", Resource: "multidimpodautoscalers"}

// quick makes sigma-mpa decide every second, with shorter guards in proportion. The hourly
// limits are those of production.
var quick = []string{"--interval=1s", "--cool-down=4s", "--patience=10s", "--downscale-stabilisation=6s"}

// A fleet is members in one namespace, and a watch on all of them.
type fleet struct {
	*testing.T
	c          *e2e.Cluster
	ns         string
	mu         sync.Mutex
	members    map[string]*member
	supervised *e2e.MPA // restarted when it ends because it lost its lease, as a kubelet would; nil = none
}

func startFleet(t *testing.T, nodes ...*v1.Node) *fleet {
	t.Helper()
	c := e2e.Shared(t)
	c.Kubectl(t, "", "apply", "-k", filepath.Join(repository, "manifests", "mpa", "crds"))
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/"+autoscalers.Resource+"."+autoscalers.Group, "crd/scalingpolicies."+autoscalers.Group)
	f := &fleet{T: t, c: c, ns: c.Namespace(t), members: map[string]*member{}}
	if len(nodes) == 0 {
		nodes = []*v1.Node{e2e.Node("a", "200", "800Gi"), e2e.Node("b", "200", "800Gi")} // room for 220 pods
	}
	c.CreateNodes(t, nodes...)
	c.StartScheduler(t, "kube-scheduler", "")
	f.watch()
	return f
}

// watch records the wanted state of all members.
func (f *fleet) watch() {
	factory := informers.NewSharedInformerFactoryWithOptions(f.c.Client, 0, informers.WithNamespace(f.ns))
	on := func(o any) {
		switch o := o.(type) {
		case *appsv1.Deployment:
			if m := f.member(o.Name); m != nil && o.Spec.Replicas != nil {
				m.mu.Lock()
				m.replicas = note(m.replicas, *o.Spec.Replicas)
				m.mu.Unlock()
			}
		case *v1.Pod:
			if m := f.member(o.Labels["app"]); m != nil {
				m.mu.Lock()
				r := o.Spec.Containers[0].Resources.Requests
				m.sizes[o.UID] = note(m.sizes[o.UID], r.Cpu().String()+" "+r.Memory().String())
				m.mu.Unlock()
			}
		case *unstructured.Unstructured:
			if m := f.member(o.GetName()); m != nil {
				m.mu.Lock()
				conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
				for _, c := range conditions {
					c := c.(map[string]any)
					m.conditions[fmt.Sprint(c["type"], c["status"], c["reason"])] = true
				}
				m.mu.Unlock()
			}
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: on, UpdateFunc: func(_, o any) { on(o) }}
	objects := dynamicinformer.NewFilteredDynamicSharedInformerFactory(f.c.Dynamic, 0, f.ns, nil)
	for _, i := range []cache.SharedIndexInformer{
		factory.Apps().V1().Deployments().Informer(), factory.Core().V1().Pods().Informer(), objects.ForResource(autoscalers).Informer(),
	} {
		_, err := i.AddEventHandler(handler)
		require.NoError(f, err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	objects.Start(stop)
	factory.WaitForCacheSync(stop)
	objects.WaitForCacheSync(stop)
	f.Cleanup(func() {
		close(stop)
		factory.Shutdown()
		objects.Shutdown()
	})
}

func (f *fleet) member(name string) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[name]
}

// add creates a workload and its Deployment, without an autoscaler.
func (f *fleet) add(name string, s memberSpec) *member {
	f.Helper()
	m := &member{name: name, max: s.max, sizes: map[types.UID][]seen[string]{}, conditions: map[string]bool{}}
	f.mu.Lock()
	f.members[name] = m
	f.mu.Unlock()
	m.set(s.rate)
	m.load = f.c.StartWorkload(f, e2e.WorkloadSpec{
		Namespace: f.ns, App: name, CPUSeconds: .00625, QueueSeconds: 1,
		Load: func(at time.Duration) float64 {
			if s.load != nil {
				return s.load(at)
			}
			return math.Float64frombits(m.requests.Load())
		},
	})
	f.deploy(name, s)
	return m
}

func (f *fleet) deploy(name string, s memberSpec) {
	f.Helper()
	if s.cpu == "" {
		s.cpu = "500m"
	}
	d := e2e.Deployment(f.ns, name, s.replicas, s.cpu, s.memory)
	if s.edit != nil {
		s.edit(d)
	}
	f.c.CreateDeployment(f, d)
}

// autoscale creates the autoscaler of a member.
func (f *fleet) autoscale(name string, s memberSpec) {
	f.Helper()
	metrics := map[string]any{"usage": s.usage, "maxAge": "10s"}
	var slo map[string]any
	if s.prometheus != "" {
		metrics["prometheus"] = map[string]any{"server": s.prometheus, "queries": map[string]any{
			"rate":    `sum(rate(http_requests_total{namespace="$namespace", app="$name"}[5s]))`,
			"latency": `histogram_quantile(.95, sum by (le) (rate(http_request_duration_seconds_bucket{namespace="$namespace", app="$name"}[5s])))`,
			"cpu":     `sum by (pod, container) (rate(container_cpu_usage_seconds_total{namespace="$namespace", pod=~"$pods"}[5s]))`,
		}}
		slo = map[string]any{"latency": map[string]any{"percentile": 95, "target": "500ms"}}
	}
	most := s.maxMemory
	if most == "" {
		most = s.memory
	}
	spec := map[string]any{
		"scaleTargetRef": map[string]any{"kind": "Deployment", "name": name},
		"mode":           s.mode, "metrics": metrics, "recommender": map[string]any{"algorithm": s.algorithm},
		"constraints": map[string]any{
			"replicas": map[string]any{"min": 1, "max": s.max},
			"containers": []any{map[string]any{
				"name": "main", "minAllowed": map[string]any{"cpu": "50m", "memory": "32Mi"}, "maxAllowed": map[string]any{"cpu": "2", "memory": most},
			}},
		},
	}
	if slo != nil {
		spec["slo"] = slo
	}
	recommender := spec["recommender"].(map[string]any)
	if s.policy != "" {
		recommender["policy"] = s.policy
	}
	if s.learning != nil {
		recommender["learning"] = s.learning
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "MultidimPodAutoscaler",
		"metadata": map[string]any{"name": name, "namespace": f.ns}, "spec": spec,
	})
	require.NoError(f, err)
	f.c.Kubectl(f, string(text), "apply", "-f", "-")
}

// statuses returns those of all members, by name; none while the API server is down.
func (f *fleet) statuses() map[string]*v1alpha1.MultidimPodAutoscalerStatus {
	f.Helper()
	all := map[string]*v1alpha1.MultidimPodAutoscalerStatus{}
	list, err := f.c.Dynamic.Resource(autoscalers).Namespace(f.ns).List(f.Context(), metav1.ListOptions{})
	if err != nil {
		f.Log(err)
		return all
	}
	for i := range list.Items {
		text, err := list.Items[i].MarshalJSON()
		require.NoError(f, err)
		var o v1alpha1.MultidimPodAutoscaler
		require.NoError(f, json.Unmarshal(text, &o))
		all[o.Name] = &o.Status
	}
	return all
}

// await waits until is holds for each member's status.
func (f *fleet) await(what string, members []*member, is func(m *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool) {
	f.Helper()
	var next time.Time
	missing := ""
	e2e.Wait(f, what, func() (string, bool) {
		if time.Now().Before(next) {
			return missing, false
		}
		next = time.Now().Add(300 * time.Millisecond)
		all, left := f.statuses(), []string(nil)
		for _, m := range members {
			if s := all[m.name]; s == nil || !is(m, s) {
				left = append(left, m.name+": "+brief(s)+fmt.Sprint(m.counts()))
			}
		}
		missing = strings.Join(left, "\n")
		return missing, len(left) == 0
	})
}

// brief returns a status as one line.
func brief(s *v1alpha1.MultidimPodAutoscalerStatus) string {
	if s == nil {
		return "no status"
	}
	text := fmt.Sprint(s.Phase, " ", s.Summary)
	for _, c := range s.Conditions {
		text += fmt.Sprintf(" %s=%s %s (%.200s)", c.Type, c.Status, c.Reason, c.Message)
	}
	if s.Decision != nil {
		text += " " + s.Decision.Reason
	}
	if s.Actuation != nil {
		text += fmt.Sprintf(" actuation %d %s %s", s.Actuation.ID, s.Actuation.Outcome, s.Actuation.Message)
	}
	return text
}

// hasCondition reports whether a condition has a status and, if any are given, one of the
// reasons.
func hasCondition(s *v1alpha1.MultidimPodAutoscalerStatus, kind string, status metav1.ConditionStatus, reasons ...string) bool {
	c := meta.FindStatusCondition(s.Conditions, kind)
	return c != nil && c.Status == status && (len(reasons) == 0 || slices.Contains(reasons, c.Reason))
}

// awaitReplicas waits until the members' Deployments ask for a number in a range.
func (f *fleet) awaitReplicas(members []*member, low, high int32) {
	f.Helper()
	e2e.Wait(f, fmt.Sprintf("%d to %d replicas", low, high), func() (string, bool) {
		f.restartSupervised()
		var left []string
		for _, m := range members {
			if n := m.counts(); len(n) == 0 || n[len(n)-1] < low || n[len(n)-1] > high {
				left = append(left, fmt.Sprint(m.name, n, m.load.Now(), brief(f.statuses()[m.name]), f.waiting(m)))
			}
		}
		return strings.Join(left, "\n"), len(left) == 0
	})
}

// restartSupervised restarts the supervised process if it lost its lease.
func (f *fleet) restartSupervised() {
	f.Helper()
	if f.supervised == nil || f.supervised.Alive() {
		return
	}
	log, err := os.ReadFile(f.supervised.Log)
	require.NoError(f, err)
	require.Contains(f, string(log), "leader election lost")
	f.supervised.Restart(f)
}

// requireUnchanged fails the test if a member changes while do runs.
func (f *fleet) requireUnchanged(members []*member, do func()) {
	f.Helper()
	before := map[string]int{}
	for _, m := range members {
		before[m.name] = m.changes()
	}
	do()
	for _, m := range members {
		require.Equal(f, before[m.name], m.changes(), "%s was changed meanwhile: replicas %v", m.name, m.counts())
	}
}

// requireCalm checks the history of the members: replicas stayed within bounds and at most
// doubled at once, and no hour had more changes than are allowed.
func (f *fleet) requireCalm(members ...*member) {
	f.Helper()
	for _, m := range members {
		n := m.counts()
		assert.LessOrEqual(f, slices.Max(n), m.max, m.name)
		assert.LessOrEqual(f, len(n)-1, 12, "%s changed its replicas: %v", m.name, n)
		for i := 1; i < len(n); i++ {
			assert.LessOrEqual(f, n[i], max(2*n[i-1], n[i-1]+4), "%s: %v", m.name, n)
		}
		m.mu.Lock()
		for uid, list := range m.sizes {
			assert.LessOrEqual(f, len(list)-1, 6, "pod %s of %s changed its requests: %v", uid, m.name, list)
		}
		m.mu.Unlock()
	}
}

// requireSteady checks that members with a constant load did not oscillate.
func (f *fleet) requireSteady(members ...*member) {
	f.Helper()
	f.requireCalm(members...)
	for _, m := range members {
		n := m.counts()
		for i := 3; i < len(n); i++ {
			assert.False(f, n[i] == n[i-2] && n[i-1] == n[i-3], "%s goes to and fro: %v", m.name, n)
		}
		m.mu.Lock()
		for uid, list := range m.sizes {
			for i := 2; i < len(list); i++ {
				assert.NotEqual(f, list[i-2].value, list[i].value, "pod %s of %s goes to and fro: %v", uid, m.name, list)
			}
		}
		m.mu.Unlock()
	}
}

// group creates n members of a kind, named after it.
func (f *fleet) group(kind string, n int, s memberSpec) []*member {
	f.Helper()
	var list []*member
	for i := range n {
		list = append(list, f.add(kind+"-"+strconv.Itoa(i), s))
	}
	return list
}

// pods returns the pods of a member that are not being deleted.
func (f *fleet) pods(m *member) []*v1.Pod {
	return slices.DeleteFunc(f.c.Pods(f.ns), func(p *v1.Pod) bool { return p.Labels["app"] != m.name || p.DeletionTimestamp != nil })
}

// waiting returns which of a member's pods do not run, and why.
func (f *fleet) waiting(m *member) (list []string) {
	for _, p := range f.c.Pods(f.ns) {
		if p.Labels["app"] == m.name && p.Status.Phase != v1.PodRunning {
			list = append(list, p.Name+": "+e2e.Condition(p, v1.PodScheduled).Message)
		}
	}
	return list
}

// startAll starts sigma-mpa with all its parts, in a namespace of its own, and a webhook for
// the fleet's.
func (f *fleet) startAll(flags ...string) *e2e.MPA {
	f.Helper()
	hook := f.webhook()
	args := slices.Concat([]string{"all", "--kubeconfig=" + filepath.Join(f.c.Dir, "kubeconfig")}, quick, hook, flags)
	return f.c.StartMPA(f, args...)
}

// webhook creates what the admission part needs, and returns its flags.
func (f *fleet) webhook() []string {
	f.Helper()
	port, own := e2e.FreePort(f), f.c.Namespace(f)
	f.c.Kubectl(f, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: sigma-mpa-webhook, namespace: %[4]s}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: pods.%[2]s
  clientConfig: {url: "https://127.0.0.1:%[3]d/size-pod"}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  timeoutSeconds: 10
`, f.ns, v1alpha1.GroupName, port, own), "apply", "-f", "-")
	f.Cleanup(func() { f.c.Kubectl(f, "", "delete", "mutatingwebhookconfiguration", f.ns, "--ignore-not-found") })
	return []string{fmt.Sprintf("--webhook-bind-address=127.0.0.1:%d", port), "--webhook-configuration=" + f.ns, "--namespace=" + own}
}
