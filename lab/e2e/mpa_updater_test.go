//go:build e2e

package e2e_test

import (
	"fmt"
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
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

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

	// New pods are created from the template and resized while they run; replicas stay within
	// the bounds, whatever is recommended.
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

	// A recommender that misbehaves.
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
		if i == 7 { // a restart keeps the counts
			u.program.Restart(t)
		}
	}
	require.Equal(t, 12-3+1, changed, "12 an hour, of which 3 were made above, and one that grows")
	id = u.recommend(v1alpha1.ChangeReplicas, 2, "300m", "300Mi")
	require.Contains(t, u.outcome(id, v1alpha1.OutcomeRefused).Message, "13 changes of replicas within an hour")
	for i := range 8 {
		id = u.recommend(v1alpha1.ChangeRequests, 3, fmt.Sprintf("%dm", 390-10*i), "300Mi")
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

// Resizes that a node does not grant, by mode.
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
		id := u.recommend(v1alpha1.ChangeRequests, 2, fmt.Sprintf("%dm", 1400+201*i), "256Mi")
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

	// A pod is evicted once for a recommendation, even if that does not help; a single
	// replica is never evicted.
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
	// There is no webhook: the replacements are created from the template, and stay.
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

	// A quota refuses resizes, and new pods at their creation.
	u.quota(v1.ResourceRequestsCPU, "1500m", "1")
	id := u.recommend(v1alpha1.ChangeRequests, 2, "900m", "256Mi")
	// 900m + 500m. The action begins as Partly, without a message.
	u.wait("partly, for the quota", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		a := s.Actuation
		return a != nil && a.ID == id && a.Outcome == v1alpha1.OutcomePartly && strings.Contains(a.Message, "exceeded quota: tight")
	})
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
	a := u.outcome(u.recommend(v1alpha1.ChangeReplicas, 4, "400m", "256Mi"), v1alpha1.OutcomeRefused)
	require.Contains(t, a.Message, "nobody touches these")
	require.Contains(t, u.condition(v1alpha1.ConditionAble, metav1.ConditionFalse, "Refused"), "nobody touches these")
	a = u.outcome(u.recommend(v1alpha1.ChangeRequests, 2, "300m", "256Mi"), v1alpha1.OutcomeRefused)
	require.Contains(t, a.Message, "nobody touches these")
	u.requireSize(2, "400m", "256Mi")
}

// The API server accepts no resize that changes a pod's QoS class: none is requested.
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

// What the updater does not change.
func TestUpdaterLeavesAlone(t *testing.T) {
	u := startUpdating(t)
	u.deploy(2)
	u.object("Deployment", v1alpha1.ModeInPlace, 1, 6)
	u.outcome(u.recommend(v1alpha1.ChangeRequests, 2, "300m", "300Mi"), v1alpha1.OutcomeApplied)
	u.requireSize(2, "300m", "300Mi")

	// Another image keeps the size; another size in the template wins.
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

	// A pod that somebody else resized stays as it is.
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
	u.outcome(id, v1alpha1.OutcomeApplied) // still fresh
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

	// Once it is back, the updater continues.
	u.deploy(2)
	u.outcome(u.recommend(v1alpha1.ChangeReplicas, 3, "", ""), v1alpha1.OutcomeApplied)
	require.EqualValues(t, 3, u.replicas())
}
