//go:build e2e

package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// The clock of a process cannot be moved here: package mpa tests the guards against jumps.

// unscaled needs two pods at 60 requests a second and four at 130; its memory is constant.
func unscaled(usage v1alpha1.UsageSource) memberSpec {
	return memberSpec{
		replicas: 2, max: 4, rate: 60, mode: v1alpha1.ModeInPlace, algorithm: "hpa+vpa", usage: usage, memory: "256Mi",
	}
}

// The load doubles while measurements are missing or wrong: nothing is changed until they
// are right again.
func TestMPAMetricsFaults(t *testing.T) {
	f := startFleet(t)
	f.c.InstallMetricsAPI(t)
	const (
		away     = "away"
		nan      = "nan"
		negative = "negative"
		stale    = "stale"
		apiGone  = "api-gone"
		apiStale = "api-stale"
		apiLess  = "api-negative"
	)
	answer := func(value string) func(*member) { return func(m *member) { m.proxy.Set(e2e.Answer(value)) } }
	proxied := func(fault e2e.Fault) func(*member) { return func(m *member) { m.proxy.Set(fault) } }
	freeze := func(m *member) {
		m.load.Page.Freeze()
		response, err := http.Get("http://" + m.load.Target + "/metrics") // what is read first stays: now, not later
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
	stop := func(m *member) { m.load.Page.Stop() }
	distorted := func(by func(float64) float64) func(*member) {
		return func(m *member) { m.load.Page.Distort(func(_ string, v float64) float64 { return by(v) }) }
	}
	kinds := []struct {
		name    string
		api     bool
		faults  []func(*member) // the i-th member's, and the last one's for the others
		reasons []string
	}{
		{away, false, []func(*member){proxied(e2e.Down), proxied(e2e.Unavailable), proxied(e2e.Garbled), proxied(e2e.Slow(time.Minute)), proxied(e2e.Empty)},
			[]string{"PrometheusUnreachable", "QueryFailed", "PrometheusGarbled", "PrometheusTimeout", "NoSeries", "UsageMissing"}},
		{nan, false, []func(*member){answer("NaN"), answer("+Inf"), answer("-Inf"), distorted(func(float64) float64 { return math.NaN() })},
			[]string{"NotANumber", "Infinite", "UsageMissing"}},
		{negative, false, []func(*member){distorted(func(v float64) float64 { return -v }), answer("-1")}, []string{"Negative", "UsageMissing"}},
		{stale, false, []func(*member){freeze, stop}, []string{"UsageStale", "UsageMissing", "NoSeries"}},
		{apiGone, true, []func(*member){func(m *member) { m.feed.Stop() }}, []string{"UsageMissing"}},
		{apiStale, true, []func(*member){func(m *member) { m.feed.Freeze() }}, []string{"UsageStale"}},
		{apiLess, true, []func(*member){func(m *member) { m.feed.Distort(func(string, float64) float64 { return -1 }) }}, []string{"Negative"}},
	}
	var all []*member
	reasons, specs, strikes := map[*member][]string{}, map[*member]memberSpec{}, map[*member]func(*member){}
	var targets []string
	for _, k := range kinds {
		spec := unscaled(v1alpha1.UsagePrometheus)
		if k.api {
			spec = unscaled(v1alpha1.UsageMetricsAPI)
		}
		for i, m := range f.group(k.name, max(roundsOf(t), len(k.faults)), spec) {
			all, reasons[m], specs[m] = append(all, m), k.reasons, spec
			strikes[m] = k.faults[min(i, len(k.faults)-1)]
			targets = append(targets, m.load.Target)
		}
	}
	prometheus := e2e.StartPrometheus(t, targets...)
	f.c.WaitRunning(t, f.ns, 2*len(all))
	servers := map[string]string{}
	for _, m := range all {
		spec := specs[m]
		if spec.usage == v1alpha1.UsageMetricsAPI {
			m.feed = m.load.FeedMetricsAPI(t)
			continue
		}
		m.proxy = e2e.StartFaultProxy(t, prometheus.URL)
		spec.prometheus, servers[m.name] = m.name, m.proxy.URL
		specs[m] = spec
	}
	f.startAll(e2e.PrometheusServers(t, servers))
	for _, m := range all {
		f.autoscale(m.name, specs[m])
	}
	measured := func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return hasCondition(s, v1alpha1.ConditionMetrics, metav1.ConditionTrue, "Fresh")
	}
	f.await("measures", all, measured)

	f.requireUnchanged(all, func() {
		begin := time.Now()
		for _, m := range all {
			strikes[m](m)
		}
		for _, m := range all {
			m.set(130)
		}
		f.await("the truth", all, func(m *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
			return hasCondition(s, v1alpha1.ConditionMetrics, metav1.ConditionFalse, reasons[m]...) &&
				hasCondition(s, v1alpha1.ConditionRecommendation, metav1.ConditionFalse) &&
				slices.Contains(reasons[m], s.Summary) && s.Phase == v1alpha1.PhaseHolding
		})
		// Longer than any measurement counts.
		<-time.NewTimer(time.Until(begin.Add(14 * time.Second))).C
	})
	for _, m := range all {
		m.load.Page.Resume()
		if m.proxy != nil {
			m.proxy.Set(nil)
		} else {
			m.feed.Resume()
		}
	}
	f.awaitReplicas(all, 3, 4)
	f.await("measures", all, func(m *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return measured(m, s) && hasCondition(s, v1alpha1.ConditionRecommendation, metav1.ConditionTrue) && s.Summary == "OK"
	})
	f.requireSteady(all...)
}

// A target that another autoscaler has, that is deleted, or that is switched off is not
// changed, and is sized again afterwards.
func TestMPATargetFaults(t *testing.T) {
	f, times := startFleet(t), roundsOf(t)
	spec := unscaled(v1alpha1.UsagePrometheus)
	rivals, gone, off := f.group("rival", times, spec), f.group("gone", times, spec), f.group("off", times, spec)
	all := slices.Concat(rivals, gone, off)
	var targets []string
	for _, m := range all {
		targets = append(targets, m.load.Target)
	}
	spec.prometheus = "main"
	servers := e2e.PrometheusServers(t, map[string]string{"main": e2e.StartPrometheus(t, targets...).URL})
	f.c.WaitRunning(t, f.ns, 2*len(all))
	f.startAll(servers)
	for _, m := range all {
		f.autoscale(m.name, spec)
	}
	f.await("measures", all, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return s.Summary == "OK" && s.Phase == v1alpha1.PhaseHolding
	})

	var hpas []string
	for _, m := range rivals {
		// It wants the present state, so that a change would be ours.
		hpas = append(hpas, fmt.Sprintf(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: %[1]s, namespace: %[2]s}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}, minReplicas: 2, maxReplicas: 2}
`, m.name, f.ns))
	}
	manifest := strings.Join(hpas, "---")
	f.c.Kubectl(t, manifest, "apply", "-f", "-")
	for _, m := range gone {
		f.c.Kubectl(t, "", "delete", "deployment", m.name, "-n", f.ns)
	}
	for _, m := range off {
		f.c.Kubectl(t, "", "scale", "deployment", m.name, "-n", f.ns, "--replicas=0")
	}
	refused := func(members []*member, reason string) {
		f.await(reason, members, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
			return s.Phase == v1alpha1.PhaseRefused && s.Summary == reason && hasCondition(s, v1alpha1.ConditionActive, metav1.ConditionFalse, reason)
		})
	}
	refused(rivals, "HorizontalPodAutoscaler")
	refused(gone, "TargetMissing")
	refused(off, "SwitchedOff")
	f.await("all pods gone", off, func(m *member, _ *v1alpha1.MultidimPodAutoscalerStatus) bool { return len(f.pods(m)) == 0 })
	f.requireUnchanged(all, func() {
		for _, m := range all {
			m.set(130)
		}
		<-time.NewTimer(8 * time.Second).C
	})
	refused(all[:times], "HorizontalPodAutoscaler")

	f.c.Kubectl(t, manifest, "delete", "-f", "-")
	for _, m := range gone {
		f.deploy(m.name, spec)
	}
	for _, m := range off {
		f.c.Kubectl(t, "", "scale", "deployment", m.name, "-n", f.ns, "--replicas=2")
	}
	f.awaitReplicas(all, 3, 4)
	f.await("all well", all, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return hasCondition(s, v1alpha1.ConditionActive, metav1.ConditionTrue) && hasCondition(s, v1alpha1.ConditionAble, metav1.ConditionTrue) && s.Summary == "OK"
	})
	f.requireSteady(all...)
}

// Resizes that the node, the quota or the pod's QoS class do not allow are reported, do not
// block replicas for ever, and happen once they are possible.
func TestMPAResizeFaults(t *testing.T) {
	f, times := startFleet(t), roundsOf(t)
	g := f.inOtherNamespace()
	grows := unscaled(v1alpha1.UsagePrometheus)
	grows.memory, grows.maxMemory = "128Mi", "192Mi"
	unasked := grows
	unasked.algorithm, unasked.edit = "vpa", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Resources = v1.ResourceRequirements{} }
	deferred, infeasible := f.group("deferred", times, grows), f.group("infeasible", times, grows)
	besteffort, poor := f.group("besteffort", times, unasked), g.group("poor", times, grows)
	all := slices.Concat(deferred, infeasible, besteffort, poor)
	var targets []string
	for _, m := range all {
		targets = append(targets, m.load.Target)
	}
	f.c.WaitRunning(t, f.ns, 2*3*times)
	f.c.WaitRunning(t, g.ns, 2*times)
	g.c.Kubectl(t, fmt.Sprintf(`
apiVersion: v1
kind: ResourceQuota
metadata: {name: full, namespace: %s}
spec: {hard: {requests.memory: %dMi}}
`, g.ns, 2*128*times), "apply", "-f", "-")
	e2e.Wait(t, "the quota", func() (string, bool) {
		used := g.c.Kubectl(t, "", "get", "quota", "full", "-n", g.ns, "-o", "jsonpath={.status.used.requests\\.memory}")
		return used, used == fmt.Sprintf("%dMi", 2*128*times)
	})
	f.c.Kubelet.RefuseResize(func(p *v1.Pod) string {
		switch app := p.Labels["app"]; {
		case strings.HasPrefix(app, "deferred"):
			return v1.PodReasonDeferred
		case strings.HasPrefix(app, "infeasible"):
			return v1.PodReasonInfeasible
		}
		return ""
	})
	grows.prometheus, unasked.prometheus = "main", "main"
	f.startAll(e2e.PrometheusServers(t, map[string]string{"main": e2e.StartPrometheus(t, targets...).URL}))
	before := uids(slices.Concat(f.c.Pods(f.ns), f.c.Pods(g.ns)))
	for _, m := range slices.Concat(deferred, infeasible) {
		f.autoscale(m.name, grows)
	}
	for _, m := range besteffort {
		f.autoscale(m.name, unasked)
	}
	for _, m := range poor {
		g.autoscale(m.name, grows)
	}
	pending := func(reason string) func(*member, *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
			return hasCondition(s, v1alpha1.ConditionResize, metav1.ConditionTrue, reason) && s.Summary == reason
		}
	}
	unable := func(message string) func(*member, *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
			c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionAble)
			return c != nil && c.Status == metav1.ConditionFalse && c.Reason == string(v1alpha1.OutcomeRefused) && strings.Contains(c.Message, message)
		}
	}
	f.await("Deferred", deferred, pending(v1.PodReasonDeferred))
	f.await("Infeasible", infeasible, func(m *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		limited := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionLimited)
		// It is taken back soon.
		return m.hadCondition(v1alpha1.ConditionResize, metav1.ConditionTrue, v1.PodReasonInfeasible) && limited != nil && strings.Contains(limited.Message, "its node cannot give more")
	})
	f.await("QoS", besteffort, unable("has no cpu request"))
	g.await("quota", poor, unable("exceeded quota"))

	for _, m := range all {
		m.set(130)
	}
	for _, m := range poor {
		m.set(110) // three pods, in one step
	}
	f.awaitReplicas(slices.Concat(deferred, infeasible), 3, 4)
	g.awaitReplicas(poor, 3, 3)
	g.await("no new pods", poor, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return hasCondition(s, v1alpha1.ConditionAble, metav1.ConditionFalse, "FailedCreate") && s.Summary == "FailedCreate"
	})
	f.await("Deferred for ever", deferred, pending(v1.PodReasonDeferred))
	for _, m := range besteffort {
		require.Equal(t, []int32{2}, m.counts())
	}
	g.requireUnchanged(poor, func() { <-time.NewTimer(5 * time.Second).C })

	g.c.Kubectl(t, "", "delete", "quota", "full", "-n", g.ns)
	f.c.Kubelet.RefuseResize(nil)
	for _, m := range deferred {
		f.awaitMemory(m, "192Mi")
	}
	f.await("all resized", deferred, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return hasCondition(s, v1alpha1.ConditionResize, metav1.ConditionFalse) && hasCondition(s, v1alpha1.ConditionAble, metav1.ConditionTrue)
	})
	g.await("all pods", poor, func(m *member, _ *v1alpha1.MultidimPodAutoscalerStatus) bool {
		n := m.counts()
		return len(g.pods(m)) == int(n[len(n)-1])
	})
	for uid := range before {
		require.Contains(t, uids(slices.Concat(f.c.Pods(f.ns), f.c.Pods(g.ns))), uid, "nobody was evicted")
	}
	f.requireCalm(infeasible...)
	f.requireSteady(slices.Concat(deferred, besteffort)...)
	g.requireSteady(poor...)
}

// inOtherNamespace is a fleet in another namespace of the same cluster.
func (f *fleet) inOtherNamespace() *fleet {
	g := &fleet{T: f.T, c: f.c, ns: f.c.Namespace(f), members: map[string]*member{}}
	g.watch()
	return g
}

// The API server is killed repeatedly while the load rises; then the recommender while it
// writes a decision, and the updater while it carries it out. Each decision is carried out
// once.
func TestMPAKills(t *testing.T) {
	f, times := startFleet(t), roundsOf(t)
	spec := unscaled(v1alpha1.UsagePrometheus)
	spec.max = 18
	apart, whole := f.add("apart", spec), f.add("whole", spec)
	spec.prometheus = "main"
	servers := e2e.PrometheusServers(t, map[string]string{"main": e2e.StartPrometheus(t, apart.load.Target, whole.load.Target).URL})
	f.c.WaitRunning(t, f.ns, 4)
	// A little less than the load for n pods. Each step is two more, of which one may be
	// omitted: from seven pods on, one more is within the agent's tolerance.
	rate := func(n int32) float64 { return 40*float64(n) - 10 }

	t.Run("API server", func(t *testing.T) {
		m := f.startAll("--leader-elect=true", servers)
		f.autoscale("whole", spec)
		f.await("measures", []*member{whole}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool { return s.Summary == "OK" })
		for range times {
			n := whole.last() + 2
			whole.set(rate(n))
			f.c.RestartAPIServer(t)
			f.supervised = m
			f.awaitReplicas([]*member{whole}, n-1, n+1)
		}
		f.await("all well", []*member{whole}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
			return s.Summary == "OK" && s.Phase == v1alpha1.PhaseHolding && s.Actuation.Outcome == v1alpha1.OutcomeApplied
		})
		require.IsIncreasing(t, whole.counts())
		f.requireSteady(whole)
		f.supervised = nil
		m.Stop(t)
	})

	t.Run("parts", func(t *testing.T) {
		deciding, doing := f.c.StartProxy(t, "kubeconfig"), f.c.StartProxy(t, "kubeconfig")
		deciding.Match(func(r *http.Request) bool {
			return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/apart/status") && bytes.Contains(bodyOf(r), []byte(`"action":"Scale"`))
		})
		doing.Match(func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/apart/scale")
		})
		recommender := f.c.StartMPA(t, slices.Concat([]string{"recommender", "--kubeconfig=" + deciding.Kubeconfig, "--leader-elect=false", servers}, quick)...)
		updater := f.c.StartMPA(t, "updater", "--kubeconfig="+doing.Kubeconfig, "--leader-elect=false")
		f.c.StartMPA(t, append([]string{"admission", "--kubeconfig=" + filepath.Join(f.c.Dir, "kubeconfig")}, f.webhook()...)...)
		f.autoscale("apart", spec)
		f.await("measures", []*member{apart}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool { return s.Summary == "OK" })
		for range times {
			n := apart.last() + 2
			decide, act := deciding.Hold(), doing.Hold()
			apart.set(rate(n))
			deciding.WaitHeld(t, 1)
			recommender.Kill(t) // every other decision is written nevertheless
			decide()
			recommender.Restart(t)
			doing.WaitHeld(t, 1)
			require.Less(t, slices.Max(apart.counts()), n)
			updater.Kill(t)
			act()
			updater.Restart(t)
			f.awaitReplicas([]*member{apart}, n-1, n+1)
			f.await("an end", []*member{apart}, func(_ *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
				return s.Actuation != nil && s.Actuation.ID == s.Recommendation.ID && s.Actuation.Outcome == v1alpha1.OutcomeApplied
			})
			recommender.WaitReady(t)
			updater.WaitReady(t)
		}
		require.IsIncreasing(t, apart.counts())
		f.await("each counted and remembered once", []*member{apart}, func(m *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
			changes := len(m.counts()) - 1
			return len(s.Actuation.Scalings) == changes && len(s.Memory.ReplicaChanges) == changes
		})
		f.requireSteady(apart)
	})
}

// bodyOf reads a request's body and restores it.
func bodyOf(r *http.Request) []byte {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	return body
}
