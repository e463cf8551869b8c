//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

var mpaResource = schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: "v1alpha1", Resource: "multidimpodautoscalers"}

// An updating is an updater with one object, web in its own namespace, whose recommender
// is the test.
type updating struct {
	*testing.T
	c       *e2e.Cluster
	ns      string
	program *e2e.MPA
	id      int64
}

// startUpdating starts two nodes, a scheduler, and an updater that evicts after 2 s.
func startUpdating(t *testing.T, nodes ...*v1.Node) *updating {
	t.Helper()
	c := e2e.Shared(t)
	c.Kubectl(t, "", "apply", "-k", filepath.Join(repository, "manifests", "mpa", "crds"))
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/"+mpaResource.Resource+"."+mpaResource.Group)
	u := &updating{T: t, c: c, ns: c.Namespace(t)}
	if len(nodes) == 0 {
		nodes = []*v1.Node{e2e.Node("a", "8", "32Gi"), e2e.Node("b", "8", "32Gi")}
	}
	c.CreateNodes(t, nodes...)
	c.StartScheduler(t, scheduler, "")
	u.start(filepath.Join(c.Dir, "kubeconfig"))
	return u
}

func (u *updating) start(kubeconfig string) {
	u.program = u.c.StartMPA(u, "updater", "--kubeconfig="+kubeconfig, "--leader-elect=false", "--evict-after=2s", "--v=2")
}

// object creates the autoscaler, for container main from 50m, 32Mi to 4 cores, 4Gi.
func (u *updating) object(kind string, mode v1alpha1.Mode, min, max int32) {
	u.Helper()
	u.c.Kubectl(u, fmt.Sprintf(`
apiVersion: autoscaling.sigma-scheduler.io/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: web, namespace: %s}
spec:
  scaleTargetRef: {kind: %s, name: web}
  mode: %q
  recommender: {name: e2e}
  constraints:
    replicas: {min: %d, max: %d}
    containers:
    - name: main
      minAllowed: {cpu: 50m, memory: 32Mi}
      maxAllowed: {cpu: "4", memory: 4Gi}
`, u.ns, kind, mode, min, max), "apply", "-f", "-")
}

// recommend writes the next recommendation, as any recommender might.
func (u *updating) recommend(change v1alpha1.Change, replicas int32, cpu, memory string, edit ...func(*v1alpha1.Recommendation)) int64 {
	u.Helper()
	u.id++
	r := &v1alpha1.Recommendation{ID: u.id, Time: metav1.NowMicro(), Change: change, Replicas: replicas, Reason: "the test wants it"}
	if cpu != "" {
		c, m := resource.MustParse(cpu), resource.MustParse(memory)
		r.Containers = []v1alpha1.ContainerRequests{{Name: "main", CPU: &c, Memory: &m}}
	}
	for _, e := range edit {
		e(r)
	}
	u.apply(map[string]any{"recommendation": r})
	return r.ID
}

func (u *updating) apply(status map[string]any) {
	u.Helper()
	patch, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "MultidimPodAutoscaler",
		"metadata": map[string]any{"name": "web"}, "status": status,
	})
	require.NoError(u, err)
	force := true
	_, err = u.c.Dynamic.Resource(mpaResource).Namespace(u.ns).
		Patch(u.Context(), "web", types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: "e2e-recommender", Force: &force}, "status")
	require.NoError(u, err)
}

func (u *updating) status() v1alpha1.MultidimPodAutoscalerStatus {
	u.Helper()
	o, err := u.c.Dynamic.Resource(mpaResource).Namespace(u.ns).Get(u.Context(), "web", metav1.GetOptions{})
	require.NoError(u, err)
	text, err := o.MarshalJSON()
	require.NoError(u, err)
	var m v1alpha1.MultidimPodAutoscaler
	require.NoError(u, json.Unmarshal(text, &m))
	return m.Status
}

// wait waits until is holds for the status.
func (u *updating) wait(what string, is func(s *v1alpha1.MultidimPodAutoscalerStatus) bool) v1alpha1.MultidimPodAutoscalerStatus {
	u.Helper()
	var s v1alpha1.MultidimPodAutoscalerStatus
	e2e.Wait(u, what, func() (string, bool) {
		s = u.status()
		text, err := json.Marshal([]any{s.Actuation, s.Conditions})
		require.NoError(u, err)
		return string(text), is(&s)
	})
	return s
}

// outcome waits until a recommendation has that outcome.
func (u *updating) outcome(id int64, want v1alpha1.Outcome) *v1alpha1.Actuation {
	u.Helper()
	return u.wait(fmt.Sprintf("recommendation %d %s", id, want), func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return s.Actuation != nil && s.Actuation.ID == id && s.Actuation.Outcome == want
	}).Actuation
}

// condition waits until a condition has that reason, and returns its message.
func (u *updating) condition(kind string, status metav1.ConditionStatus, reason string) string {
	u.Helper()
	s := u.wait(fmt.Sprintf("%s %s %s", kind, status, reason), func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, kind)
		return c != nil && c.Status == status && c.Reason == reason
	})
	return meta.FindStatusCondition(s.Conditions, kind).Message
}

func (u *updating) replicas() int32 {
	u.Helper()
	d, err := u.c.Client.AppsV1().Deployments(u.ns).Get(u.Context(), "web", metav1.GetOptions{})
	require.NoError(u, err)
	return *d.Spec.Replicas
}

// live returns the names and UIDs of the pods that are not being deleted.
func (u *updating) live() map[string]types.UID {
	list, err := u.c.Client.CoreV1().Pods(u.ns).List(u.Context(), metav1.ListOptions{})
	require.NoError(u, err)
	pods := map[string]types.UID{}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			pods[p.Name] = p.UID
		}
	}
	return pods
}

// requireSize waits until n pods request and have an amount, with limits of twice that.
func (u *updating) requireSize(n int, cpu, memory string) {
	u.Helper()
	e2e.Wait(u, "pods of "+cpu+", "+memory, func() (string, bool) {
		list, err := u.c.Client.CoreV1().Pods(u.ns).List(u.Context(), metav1.ListOptions{})
		require.NoError(u, err)
		sized, sizes := 0, ""
		for _, p := range list.Items {
			r := p.Spec.Containers[0].Resources
			sizes += fmt.Sprintf(" %s %s/%s of %s/%s", p.Name, r.Requests.Cpu(), r.Requests.Memory(), r.Limits.Cpu(), r.Limits.Memory())
			if p.DeletionTimestamp == nil && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].Resources != nil &&
				atSize(r, cpu, memory) && atSize(*p.Status.ContainerStatuses[0].Resources, cpu, memory) {
				sized++
			}
		}
		return sizes, sized == n && len(list.Items) == n
	})
}

func atSize(r v1.ResourceRequirements, cpu, memory string) bool {
	c, m := resource.MustParse(cpu), resource.MustParse(memory)
	equal := r.Requests.Cpu().Cmp(c) == 0 && r.Requests.Memory().Cmp(m) == 0
	c.Add(c)
	m.Add(m)
	return equal && (r.Limits == nil || r.Limits.Cpu().Cmp(c) == 0 && r.Limits.Memory().Cmp(m) == 0)
}

// deploy creates Deployment web, of 500m and 256Mi with limits of twice that.
func (u *updating) deploy(replicas int32, edit ...func(*v1.PodSpec)) {
	u.Helper()
	d := e2e.Deployment(u.ns, "web", replicas, "500m", "256Mi")
	d.Spec.Template.Spec.Containers[0].Resources.Limits = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("512Mi"),
	}
	for _, e := range edit {
		e(&d.Spec.Template.Spec)
	}
	u.c.CreateDeployment(u, d)
	u.c.WaitRunning(u, u.ns, int(replicas))
}

// aSecond waits: creation times have whole seconds, and a pod of the same second counts as
// created after the recommendation.
func aSecond() { <-time.NewTimer(1100 * time.Millisecond).C }

// quota creates a tight quota and waits until its usage is counted.
func (u *updating) quota(name v1.ResourceName, hard, used string) {
	u.Helper()
	u.c.Kubectl(u, "", "create", "quota", "tight", "-n", u.ns, fmt.Sprintf("--hard=%s=%s", name, hard))
	e2e.Wait(u, "the quota's count", func() (string, bool) {
		q, err := u.c.Client.CoreV1().ResourceQuotas(u.ns).Get(u.Context(), "tight", metav1.GetOptions{})
		require.NoError(u, err)
		is := q.Status.Used[name]
		return is.String(), is.String() == used
	})
}
