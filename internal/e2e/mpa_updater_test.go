//go:build e2e

package e2e_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sigma-scheduler/sigma/internal/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

var mpaResource = schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: "v1alpha1", Resource: "multidimpodautoscalers"}

// An updating is an updater at work on one object, web in a namespace of its own,
// whose recommender is the test.
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

// object makes the autoscaler, for container main from 50m, 32Mi to 4 cores, 4Gi.
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

// recommend writes the next recommendation, as a recommender of another make would.
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

// wait until the status is as wanted.
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

// outcome waits until a recommendation has come to that end.
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

// live are the names and uids of the pods that are not going.
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

// requireSize waits until n pods ask for and have an amount, with limits of twice that.
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

// deploy makes Deployment web, of 500m and 256Mi with limits of twice that.
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

// aSecond passes: the API server knows no fractions, and a pod of the same second counts as
// one that came after the recommendation.
func aSecond() { <-time.NewTimer(1100 * time.Millisecond).C }

func TestUpdaterScalesAndResizes(t *testing.T) {
	u := startUpdating(t)
	u.deploy(2)
	u.object("Deployment", v1alpha1.ModeInPlace, 2, 6)

	id := u.recommend(v1alpha1.ChangeReplicas, 4, "", "")
	a := u.outcome(id, v1alpha1.OutcomeApplied)
	require.Contains(t, a.Message, "2 → 4")
	u.c.WaitRunning(t, u.ns, 4)
	u.condition(v1alpha1.ConditionAble, metav1.ConditionTrue, "Applied")

	before := u.live()
	u.c.Kubelet.ResizeAfter(time.Hour)
	id = u.recommend(v1alpha1.ChangeRequests, 4, "300m", "300Mi")
	u.outcome(id, v1alpha1.OutcomePartly)
	u.condition(v1alpha1.ConditionResize, metav1.ConditionTrue, "InProgress")
	u.c.Kubelet.ResizeAfter(100 * time.Millisecond)
	a = u.outcome(id, v1alpha1.OutcomeApplied)
	require.EqualValues(t, 4, a.Resized)
	u.requireSize(4, "300m", "300Mi")
	require.Equal(t, before, u.live(), "in place")
	u.condition(v1alpha1.ConditionResize, metav1.ConditionFalse, "None")

	// New pods come from the template and are resized as they run; growth keeps to the
	// bounds, whatever is recommended.
	id = u.recommend(v1alpha1.ChangeReplicas, 50, "300m", "300Mi")
	a = u.outcome(id, v1alpha1.OutcomeApplied)
	require.Contains(t, a.Message, "4 → 6 replicas, within the bounds, not 50")
	u.requireSize(6, "300m", "300Mi")
	require.EqualValues(t, 6, u.replicas())

	id = u.recommend(v1alpha1.ChangeReplicas, 1, "300m", "300Mi")
	u.outcome(id, v1alpha1.OutcomeApplied)
	require.EqualValues(t, 2, u.replicas())
	u.c.WaitRunning(t, u.ns, 2)

	for _, bad := range []struct {
		name    string
		want    v1alpha1.Outcome
		message string
		edit    func(*v1alpha1.Recommendation)
	}{
		{"old", v1alpha1.OutcomeExpired, "decided 10m", func(r *v1alpha1.Recommendation) { r.Time = metav1.NewMicroTime(time.Now().Add(-10 * time.Minute)) }},
		{"from the future", v1alpha1.OutcomeRefused, "the clocks differ", func(r *v1alpha1.Recommendation) { r.Time = metav1.NewMicroTime(time.Now().Add(time.Hour)) }},
		{"of another state", v1alpha1.OutcomeSuperseded, "from 5 to 2", func(r *v1alpha1.Recommendation) { r.From = 5 }},
		{"to nothing", v1alpha1.OutcomeRefused, "0 replicas", func(r *v1alpha1.Recommendation) { r.Replicas = 0 }},
		{"negative", v1alpha1.OutcomeRefused, "-3 replicas", func(r *v1alpha1.Recommendation) { r.Replicas = -3 }},
		{"of no size", v1alpha1.OutcomeRefused, "container main: cpu -1", func(r *v1alpha1.Recommendation) {
			cpu := resource.MustParse("-1")
			r.Change, r.Containers = v1alpha1.ChangeRequests, []v1alpha1.ContainerRequests{{Name: "main", CPU: &cpu}}
		}},
	} {
		id = u.recommend(v1alpha1.ChangeReplicas, 3, "300m", "300Mi", bad.edit)
		require.Contains(t, u.outcome(id, bad.want).Message, bad.message, bad.name)
		require.EqualValues(t, 2, u.replicas(), bad.name)
	}
	u.recommend(v1alpha1.ChangeReplicas, 3, "300m", "300Mi", func(r *v1alpha1.Recommendation) { r.ID = 1 })
	u.condition(v1alpha1.ConditionAble, metav1.ConditionFalse, "OldRecommendation")
	require.EqualValues(t, 2, u.replicas())

	// A recommender gone mad.
	u.object("Deployment", v1alpha1.ModeInPlace, 1, 6)
	changed := 0
	for i := range int32(15) {
		id = u.recommend(v1alpha1.ChangeReplicas, 3+i%2, "300m", "300Mi")
		u.wait("an end", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
			return s.Actuation.ID == id && s.Actuation.Outcome != v1alpha1.OutcomePartly
		})
		if strings.Contains(u.status().Actuation.Message, "→") {
			changed++
		}
		if i == 7 { // what was counted is not forgotten
			u.program.Restart(t)
		}
	}
	require.Equal(t, 12-3, changed, "12 an hour, of which 3 were made above")
	id = u.recommend(v1alpha1.ChangeReplicas, 5, "300m", "300Mi")
	require.Contains(t, u.outcome(id, v1alpha1.OutcomeRefused).Message, "12 changes of replicas within an hour")
	for i := range 8 {
		id = u.recommend(v1alpha1.ChangeRequests, 3, fmt.Sprintf("%dm", 310+10*i), "300Mi")
		u.wait("an end", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
			return s.Actuation.ID == id && s.Actuation.Outcome != v1alpha1.OutcomePartly
		})
	}
	require.Contains(t, u.outcome(id, v1alpha1.OutcomeRefused).Message, "6 changes of requests within an hour")
	u.requireSize(len(u.live()), "350m", "300Mi") // the sixth: one was made above
	require.Positive(t, u.program.Metric(t, "sigma_mpa_actions_total", `outcome="Refused"`))
}

func TestUpdaterStatefulSet(t *testing.T) {
	u := startUpdating(t)
	d := e2e.Deployment(u.ns, "web", 2, "500m", "256Mi")
	_, err := u.c.Client.AppsV1().StatefulSets(u.ns).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: d.ObjectMeta,
		Spec:       appsv1.StatefulSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template, ServiceName: "web"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	u.c.WaitRunning(t, u.ns, 2)
	u.object("StatefulSet", v1alpha1.ModeInPlaceOrRecreate, 1, 6)
	u.outcome(u.recommend(v1alpha1.ChangeReplicas, 3, "", ""), v1alpha1.OutcomeApplied)
	u.c.WaitRunning(t, u.ns, 3)
	before := u.live()
	u.outcome(u.recommend(v1alpha1.ChangeRequests, 3, "700m", "200Mi"), v1alpha1.OutcomeApplied)
	u.requireSize(3, "700m", "200Mi")
	require.Equal(t, before, u.live())

	u.quota(v1.ResourcePods, "3", "3")
	u.outcome(u.recommend(v1alpha1.ChangeReplicas, 5, "", ""), v1alpha1.OutcomeApplied)
	require.Contains(t, u.condition(v1alpha1.ConditionAble, metav1.ConditionFalse, "FailedCreate"), "exceeded quota: tight")
}

// quota makes the quota tight and waits until what is used is counted.
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

// Resizes that a node does not carry out, by mode.
func TestUpdaterPendingResizes(t *testing.T) {
	u := startUpdating(t, e2e.Node("a", "1500m", "8Gi"), e2e.Node("b", "1500m", "8Gi"), e2e.Node("c", "16", "32Gi"))
	u.c.Cordon(t, "c", true)
	u.deploy(2)
	u.object("Deployment", v1alpha1.ModeInPlace, 1, 6)
	refusal := atomic.Value{}
	refusal.Store("")
	u.c.Kubelet.RefuseResize(func(p *v1.Pod) string {
		if p.Spec.NodeName == "c" {
			return ""
		}
		return refusal.Load().(string)
	})
	before := u.live()
	for i, reason := range []string{v1.PodReasonDeferred, v1.PodReasonInfeasible} {
		refusal.Store(reason)
		id := u.recommend(v1alpha1.ChangeRequests, 2, fmt.Sprintf("%dm", 1600+i), "256Mi")
		u.condition(v1alpha1.ConditionResize, metav1.ConditionTrue, reason)
		as := func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
			if reason == v1.PodReasonDeferred {
				return s.Actuation.ID == id && s.Actuation.Outcome == v1alpha1.OutcomePartly && s.Actuation.Deferred == 2
			}
			return s.Actuation.ID == id && s.Actuation.Outcome == v1alpha1.OutcomeRefused && s.Actuation.Infeasible == 2
		}
		u.wait("both "+reason, as)
		<-time.NewTimer(5 * time.Second).C
		s := u.status()
		require.True(t, as(&s), "%+v", s.Actuation)
		require.Equal(t, before, u.live(), "InPlace evicts nothing")
	}

	// No other node has room: a and b have 1.5 cores each.
	u.object("Deployment", v1alpha1.ModeInPlaceOrRecreate, 1, 6)
	u.wait("no room", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return strings.Contains(meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionResize).Message, "no other node has room")
	})
	require.Equal(t, before, u.live())

	// Now c has. There is no webhook: each replacement is resized once it runs there.
	budget := u.c.Kubectl(t, "", "create", "poddisruptionbudget", "web", "-n", u.ns, "--selector=app=web", "--max-unavailable=0")
	require.Contains(t, budget, "created")
	u.c.Cordon(t, "c", false)
	u.c.Cordon(t, "a", true)
	u.c.Cordon(t, "b", true)
	u.wait("the budget", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return strings.Contains(meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionResize).Message, "not evicted: ")
	})
	require.Equal(t, before, u.live())
	u.c.Kubectl(t, "", "delete", "poddisruptionbudget", "web", "-n", u.ns)
	least := 2
	e2e.Wait(t, "all pods on c", func() (string, bool) {
		ready, moved := 0, 0
		for _, p := range u.c.Pods(u.ns) {
			if e2e.Condition(p, v1.PodReady).Status == v1.ConditionTrue && p.DeletionTimestamp == nil {
				ready++
				if p.Spec.NodeName == "c" {
					moved++
				}
			}
		}
		least = min(least, ready)
		return fmt.Sprintf("%d of %d", moved, ready), moved == 2
	})
	require.GreaterOrEqual(t, least, 1)
	u.requireSize(2, "1601m", "256Mi")
	a := u.outcome(u.id, v1alpha1.OutcomeApplied)
	require.EqualValues(t, 2, a.Evicted)
	require.EqualValues(t, 2, u.program.Metric(t, "sigma_mpa_evictions_total", `outcome="Evicted"`))

	// What was evicted for a recommendation is not evicted for it again, even if it does
	// not help; and one replica never is.
	u.c.Kubelet.RefuseResize(func(*v1.Pod) string { return v1.PodReasonInfeasible })
	u.c.Cordon(t, "a", false)
	u.c.Cordon(t, "b", false)
	u.outcome(u.recommend(v1alpha1.ChangeReplicas, 1, "1601m", "256Mi"), v1alpha1.OutcomeApplied)
	u.c.WaitRunning(t, u.ns, 1)
	before = u.live()
	aSecond()
	u.outcome(u.recommend(v1alpha1.ChangeRequests, 1, "1200m", "256Mi"), v1alpha1.OutcomeRefused)
	u.wait("one replica", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return strings.Contains(meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionResize).Message, "there is no other")
	})
	u.outcome(u.recommend(v1alpha1.ChangeReplicas, 2, "1200m", "256Mi"), v1alpha1.OutcomeApplied)
	e2e.Wait(t, "the old pod to be evicted", func() (string, bool) {
		live := u.live()
		for name := range before {
			if _, ok := live[name]; ok {
				return fmt.Sprint(live), false
			}
		}
		return "", len(live) == 2
	})
	u.c.WaitRunning(t, u.ns, 2)
	before = u.live()
	<-time.NewTimer(15 * time.Second).C
	require.Equal(t, before, u.live(), "replacements stay")
	require.EqualValues(t, 1, u.status().Actuation.Evicted)
}

func TestUpdaterRecreates(t *testing.T) {
	u := startUpdating(t)
	u.deploy(3)
	u.object("Deployment", v1alpha1.ModeRecreate, 1, 6)
	before := u.live()
	aSecond()
	id := u.recommend(v1alpha1.ChangeRequests, 3, "1", "512Mi")
	// There is no webhook: the replacements come from the template, and stay.
	a := u.outcome(id, v1alpha1.OutcomeApplied)
	require.EqualValues(t, 3, a.Evicted)
	require.Contains(t, a.Message, "came without its size")
	after := u.live()
	require.Len(t, after, 3)
	for name := range before {
		require.NotContains(t, after, name)
	}
	<-time.NewTimer(15 * time.Second).C
	require.Equal(t, after, u.live())
}

func TestUpdaterRefusals(t *testing.T) {
	u := startUpdating(t)
	u.deploy(2)
	u.object("Deployment", v1alpha1.ModeInPlace, 1, 6)

	// A quota refuses resizes by name, and pods of a scaling when they are made.
	u.quota(v1.ResourceRequestsCPU, "1500m", "1")
	id := u.recommend(v1alpha1.ChangeRequests, 2, "900m", "256Mi")
	a := u.outcome(id, v1alpha1.OutcomePartly) // 900m + 500m
	require.Contains(t, a.Message, "exceeded quota: tight")
	require.EqualValues(t, 1, u.wait("one resized", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool { return s.Actuation.Resized == 1 }).Actuation.Resized)
	u.c.Kubectl(t, "", "delete", "quota", "tight", "-n", u.ns)
	u.outcome(u.recommend(v1alpha1.ChangeRequests, 2, "400m", "256Mi"), v1alpha1.OutcomeApplied)
	u.quota(v1.ResourcePods, "3", "2")
	u.outcome(u.recommend(v1alpha1.ChangeReplicas, 5, "400m", "256Mi"), v1alpha1.OutcomeApplied)
	require.Contains(t, u.condition(v1alpha1.ConditionAble, metav1.ConditionFalse, "FailedCreate"), "exceeded quota: tight")
	u.outcome(u.recommend(v1alpha1.ChangeReplicas, 2, "400m", "256Mi"), v1alpha1.OutcomeApplied)
	u.condition(v1alpha1.ConditionAble, metav1.ConditionTrue, "Applied")
	u.c.Kubectl(t, "", "delete", "quota", "tight", "-n", u.ns)

	// A cluster's own policy.
	u.c.Kubectl(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods/resize]}
    - {apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments/scale]}
  validations: [{expression: "false", message: nobody touches these}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, u.ns), "apply", "-f", "-")
	t.Cleanup(func() {
		u.c.Kubectl(t, "", "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", u.ns)
	})
	e2e.Wait(t, "the policy", func() (string, bool) {
		patch := []byte(`{"spec":{"replicas":2}}`)
		_, err := u.c.Client.AppsV1().Deployments(u.ns).Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "scale")
		return fmt.Sprint(err), apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
	})
	a = u.outcome(u.recommend(v1alpha1.ChangeReplicas, 4, "400m", "256Mi"), v1alpha1.OutcomeRefused)
	require.Contains(t, a.Message, "nobody touches these")
	require.Contains(t, u.condition(v1alpha1.ConditionAble, metav1.ConditionFalse, "Refused"), "nobody touches these")
	a = u.outcome(u.recommend(v1alpha1.ChangeRequests, 2, "300m", "256Mi"), v1alpha1.OutcomeRefused)
	require.Contains(t, a.Message, "nobody touches these")
	u.requireSize(2, "400m", "256Mi")
}

// The API server takes no resize that changes a pod's QoS class: it is never asked to.
func TestUpdaterKeepsQOS(t *testing.T) {
	for _, q := range []struct {
		name    string
		edit    func(*v1.ResourceRequirements)
		class   v1.PodQOSClass
		outcome v1alpha1.Outcome
		message string
		limit   string // of cpu, at 1 core
	}{
		{"guaranteed", func(r *v1.ResourceRequirements) { r.Limits = r.Requests.DeepCopy() }, v1.PodQOSGuaranteed, v1alpha1.OutcomeApplied, "2 of 2", "1"},
		{"best effort", func(r *v1.ResourceRequirements) { *r = v1.ResourceRequirements{} }, v1.PodQOSBestEffort, v1alpha1.OutcomeRefused, "container main has no cpu request", ""},
		{"memory alone", func(r *v1.ResourceRequirements) {
			delete(r.Requests, v1.ResourceCPU)
			r.Limits = nil
		}, v1.PodQOSBurstable, v1alpha1.OutcomeApplied, "container main has no cpu request", ""},
		{"burstable by a hair", func(r *v1.ResourceRequirements) {
			r.Limits = r.Requests.DeepCopy()
			r.Limits[v1.ResourceCPU] = resource.MustParse("501m")
		}, v1.PodQOSBurstable, v1alpha1.OutcomeApplied, "2 of 2", "1002m"},
	} {
		t.Run(q.name, func(t *testing.T) {
			u := startUpdating(t)
			u.deploy(2, func(s *v1.PodSpec) { q.edit(&s.Containers[0].Resources) })
			u.object("Deployment", v1alpha1.ModeInPlace, 1, 6)
			a := u.outcome(u.recommend(v1alpha1.ChangeRequests, 2, "1", "512Mi"), q.outcome)
			require.Contains(t, a.Message, q.message)
			for _, p := range u.c.Pods(u.ns) {
				assert.Equal(t, q.class, p.Status.QOSClass)
				if limit, ok := p.Spec.Containers[0].Resources.Limits[v1.ResourceCPU]; ok {
					assert.Equal(t, q.limit, limit.String())
				} else {
					assert.Empty(t, q.limit)
				}
			}
		})
	}
}

// What the updater leaves alone.
func TestUpdaterLeavesAlone(t *testing.T) {
	u := startUpdating(t)
	u.deploy(2)
	u.object("Deployment", v1alpha1.ModeInPlace, 1, 6)
	u.outcome(u.recommend(v1alpha1.ChangeRequests, 2, "300m", "300Mi"), v1alpha1.OutcomeApplied)
	u.requireSize(2, "300m", "300Mi")

	// Another image is the same size; another size in the template stands.
	edit := func(container string) {
		u.c.Kubectl(t, "", "patch", "deployment", "web", "-n", u.ns, "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"main",`+container+`}]}}}}`)
		e2e.Wait(t, "the rollout", func() (string, bool) {
			d, err := u.c.Client.AppsV1().Deployments(u.ns).Get(t.Context(), "web", metav1.GetOptions{})
			require.NoError(t, err)
			return d.Status.String(), rolledOut(d)
		})
		u.c.WaitRunning(t, u.ns, 2)
	}
	edit(`"image":"registry.example.org/main:2"`)
	u.requireSize(2, "300m", "300Mi")
	edit(`"resources":{"requests":{"cpu":"600m"},"limits":{"cpu":"1200m"}}`)
	u.wait("sizes dropped", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool { return s.Actuation.Sizes == nil })
	<-time.NewTimer(3 * time.Second).C
	u.requireSize(2, "600m", "256Mi")
	u.outcome(u.recommend(v1alpha1.ChangeRequests, 2, "300m", "300Mi"), v1alpha1.OutcomeApplied)
	u.requireSize(2, "300m", "300Mi")

	// A pod that somebody resizes stays so.
	one := u.c.Pods(u.ns)[0].Name
	u.c.Kubectl(t, "", "patch", "pod", one, "-n", u.ns, "--subresource=resize", "-p",
		`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"350m"},"limits":{"cpu":"700m"}}}]}}`)
	u.wait("somebody else's size", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		p, err := u.c.Client.CoreV1().Pods(u.ns).Get(t.Context(), one, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "350m", p.Spec.Containers[0].Resources.Requests.Cpu().String())
		return strings.Contains(meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionResize).Message, "somebody else changed its requests")
	})

	// Off, refused by its recommender, beside another autoscaler.
	still := func(why string) {
		t.Helper()
		require.EqualValues(t, 2, u.replicas(), why)
	}
	u.object("Deployment", v1alpha1.ModeOff, 1, 6)
	id := u.recommend(v1alpha1.ChangeReplicas, 3, "300m", "300Mi")
	<-time.NewTimer(3 * time.Second).C
	still("mode Off")
	require.Less(t, u.status().Actuation.ID, id)

	u.object("Deployment", v1alpha1.ModeInPlace, 1, 6)
	u.outcome(id, v1alpha1.OutcomeApplied) // still young
	u.outcome(u.recommend(v1alpha1.ChangeReplicas, 2, "300m", "300Mi"), v1alpha1.OutcomeApplied)
	u.id++
	u.apply(map[string]any{"phase": "Refused", "recommendation": v1alpha1.Recommendation{ID: u.id, Time: metav1.NowMicro(), Change: v1alpha1.ChangeReplicas, Replicas: 4}})
	u.outcome(u.id, v1alpha1.OutcomeRefused)
	u.condition(v1alpha1.ConditionAble, metav1.ConditionFalse, "RecommenderRefused")
	still("phase Refused")
	u.recommend(v1alpha1.ChangeReplicas, 2, "300m", "300Mi")
	u.condition(v1alpha1.ConditionAble, metav1.ConditionTrue, "Applied")

	u.c.Kubectl(t, "", "autoscale", "deployment", "web", "-n", u.ns, "--min=1", "--max=3", "--cpu-percent=50")
	require.Contains(t, u.condition(v1alpha1.ConditionAble, metav1.ConditionFalse, "OtherAutoscaler"), "HorizontalPodAutoscaler web")
	u.outcome(u.recommend(v1alpha1.ChangeReplicas, 5, "300m", "300Mi"), v1alpha1.OutcomeRefused)
	still("an HPA")
	u.c.Kubectl(t, "", "delete", "hpa", "web", "-n", u.ns)
	u.condition(v1alpha1.ConditionAble, metav1.ConditionFalse, "Refused")

	u.c.Kubectl(t, "", "scale", "deployment", "web", "-n", u.ns, "--replicas=0")
	u.condition(v1alpha1.ConditionAble, metav1.ConditionFalse, "SwitchedOff")
	u.outcome(u.recommend(v1alpha1.ChangeReplicas, 5, "300m", "300Mi"), v1alpha1.OutcomeRefused)
	require.Zero(t, u.replicas())
	u.c.Kubectl(t, "", "delete", "deployment", "web", "-n", u.ns)
	u.condition(v1alpha1.ConditionAble, metav1.ConditionFalse, "TargetNotFound")
	u.outcome(u.recommend(v1alpha1.ChangeReplicas, 5, "300m", "300Mi"), v1alpha1.OutcomeRefused)

	// Back again, it goes on.
	u.deploy(2)
	u.outcome(u.recommend(v1alpha1.ChangeReplicas, 3, "", ""), v1alpha1.OutcomeApplied)
	require.EqualValues(t, 3, u.replicas())
}

// A cut stands between the updater and the API server. It stops at one request, before
// the API server has it or when it has answered, so that the updater can be killed
// there.
type cut struct {
	kubeconfig string
	at         atomic.Pointer[cutPoint]
	seen       atomic.Int32 // requests that the API server took and that changed more than the status
}

type cutPoint struct {
	is      func(*http.Request) bool
	after   bool // it was answered
	reached chan struct{}
	resume  chan struct{}
}

func startCut(t *testing.T, c *e2e.Cluster) *cut {
	t.Helper()
	target, err := url.Parse(c.Config.Host)
	require.NoError(t, err)
	tls, err := rest.TLSConfigFor(c.Config)
	require.NoError(t, err)
	p := &cut{}
	pass := func(r *http.Request, after bool) bool {
		point := p.at.Load()
		if point == nil || point.after != after || !point.is(r) || !p.at.CompareAndSwap(point, nil) {
			return true
		}
		close(point.reached)
		<-point.resume
		return false
	}
	quiet := log.New(io.Discard, "", 0)
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true},
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			path := r.Request.URL.Path
			if r.Request.Method != http.MethodGet && r.StatusCode < 300 && !strings.HasSuffix(path, "/status") && !strings.HasSuffix(path, "/events") {
				p.seen.Add(1)
			}
			if !pass(r.Request, true) {
				return http.ErrAbortHandler
			}
			return nil
		},
		ErrorLog:     quiet,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !pass(r, false) {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = quiet
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	config, err := clientcmd.LoadFromFile(filepath.Join(c.Dir, "kubeconfig"))
	require.NoError(t, err)
	for _, cluster := range config.Clusters {
		cluster.Server = server.URL
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, p.kubeconfig))
	return p
}

// kill kills the updater at the next such request, and starts it again.
func (p *cut) kill(u *updating, after bool, method, suffix string, act func()) {
	u.Helper()
	point := &cutPoint{
		is:    func(r *http.Request) bool { return r.Method == method && strings.HasSuffix(r.URL.Path, suffix) },
		after: after, reached: make(chan struct{}), resume: make(chan struct{}),
	}
	p.at.Store(point)
	act()
	limit := time.NewTimer(3 * time.Minute)
	defer limit.Stop()
	select {
	case <-point.reached:
	case <-limit.C:
		u.Fatalf("no %s …%s", method, suffix)
	}
	u.program.Kill(u)
	close(point.resume)
	u.program.Restart(u)
}

// Killed at any point between a decision and its last status, the updater carries the
// decision out once.
func TestUpdaterKilled(t *testing.T) {
	u := startUpdating(t)
	p := startCut(t, u.c)
	u.program.Stop(t)
	u.start(p.kubeconfig)
	u.deploy(2)
	u.object("Deployment", v1alpha1.ModeInPlaceOrRecreate, 1, 20)
	for round, at := range []struct {
		after          bool
		method, suffix string
	}{
		{false, http.MethodPatch, "/web/status"},
		{true, http.MethodPatch, "/web/status"},
		{false, http.MethodPut, "/scale"},
		{true, http.MethodPut, "/scale"},
		{true, http.MethodPut, "/scale"},
	} {
		p.seen.Store(0)
		want := int32(3 + round)
		p.kill(u, at.after, at.method, at.suffix, func() { u.recommend(v1alpha1.ChangeReplicas, want, "", "") })
		a := u.outcome(u.id, v1alpha1.OutcomeApplied)
		require.Equal(t, want, u.replicas(), at)
		require.Len(t, a.Scalings, round+1, "counted once")
		require.EqualValues(t, 1, p.seen.Load(), "one change of the scale for %+v", at)
	}
	u.c.WaitRunning(t, u.ns, 7)
	before := u.live()
	for round, at := range []struct {
		after          bool
		method, suffix string
	}{
		{false, http.MethodPatch, "/web/status"},
		{true, http.MethodPatch, "/web/status"},
		{false, http.MethodPatch, "/resize"},
		{true, http.MethodPatch, "/resize"},
		{true, http.MethodPatch, "/resize"},
	} {
		cpu := fmt.Sprintf("%dm", 300+10*round)
		p.kill(u, at.after, at.method, at.suffix, func() { u.recommend(v1alpha1.ChangeRequests, 7, cpu, "256Mi") })
		a := u.outcome(u.id, v1alpha1.OutcomeApplied)
		u.requireSize(7, cpu, "256Mi")
		require.Len(t, a.Resizes, round+1, "counted once")
		require.Equal(t, before, u.live())
	}

	// Somebody scales while the updater is down: that stands.
	p.kill(u, false, http.MethodPut, "/scale", func() {
		u.recommend(v1alpha1.ChangeReplicas, 9, "", "")
	})
	u.outcome(u.id, v1alpha1.OutcomeApplied)
	u.program.Kill(t)
	u.c.Kubectl(t, "", "scale", "deployment", "web", "-n", u.ns, "--replicas=4")
	u.program.Restart(t)
	u.c.WaitRunning(t, u.ns, 4)
	<-time.NewTimer(3 * time.Second).C
	require.EqualValues(t, 4, u.replicas(), "what was carried out is not carried out again")
	point := &cutPoint{
		is: func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/scale")
		},
		reached: make(chan struct{}), resume: make(chan struct{}),
	}
	p.at.Store(point)
	u.recommend(v1alpha1.ChangeReplicas, 5, "", "")
	<-point.reached
	u.program.Kill(t)
	close(point.resume)
	u.c.Kubectl(t, "", "scale", "deployment", "web", "-n", u.ns, "--replicas=6")
	u.program.Restart(t)
	require.Contains(t, u.outcome(u.id, v1alpha1.OutcomeSuperseded).Message, "from 4 to 6")
	require.EqualValues(t, 6, u.replicas())

	// A pod is evicted once.
	u.c.Kubelet.RefuseResize(func(*v1.Pod) string { return v1.PodReasonInfeasible })
	u.c.WaitRunning(t, u.ns, 6)
	p.seen.Store(0)
	aSecond()
	p.kill(u, true, http.MethodPost, "/eviction", func() { u.recommend(v1alpha1.ChangeRequests, 6, "700m", "256Mi") })
	a := u.wait("all evicted", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return s.Actuation.ID == u.id && s.Actuation.Evicted == 6
	}).Actuation
	<-time.NewTimer(15 * time.Second).C
	require.EqualValues(t, 6, u.status().Actuation.Evicted)
	require.Equal(t, a.ID, u.status().Actuation.ID)
	u.c.WaitRunning(t, u.ns, 6)
}
