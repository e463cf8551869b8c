//go:build e2e

package e2e_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/ptr"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// An autoscaler adds nodes for pods that wait, as cluster-autoscaler does: a pod that fits on
// a node by upstream's filters is left to the scheduler; for another it adds a node if the pod fits
// on that. It knows no other filters.
type autoscaler struct {
	*testing.T
	cluster *e2e.Cluster
	filters framework.Framework
	now     *internalcache.Snapshot
	node    func(number int) *v1.Node // of the node group
	added   int
	fits    []string // pods that it left to the scheduler in the last pass
}

// The cluster as the filters see it: [fwk.SharedLister].
func (a *autoscaler) NodeInfos() fwk.NodeInfoLister           { return a.now.NodeInfos() }
func (a *autoscaler) StorageInfos() fwk.StorageInfoLister     { return a.now.StorageInfos() }
func (a *autoscaler) PodGroupStates() fwk.PodGroupStateLister { return a.now.PodGroupStates() }

func newAutoscaler(t *testing.T, c *e2e.Cluster, node func(int) *v1.Node) *autoscaler {
	t.Helper()
	metrics.Register() // the filters count
	a := &autoscaler{T: t, cluster: c, node: node}
	defaults, err := latest.Default()
	require.NoError(t, err)
	profile := defaults.Profiles[0]
	known := []string{
		"PrioritySort", "DefaultBinder", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
		"PodTopologySpread", "InterPodAffinity",
	}
	enabled := profile.Plugins.MultiPoint.Enabled[:0]
	for _, p := range profile.Plugins.MultiPoint.Enabled {
		if slices.Contains(known, p.Name) {
			enabled = append(enabled, p)
		}
	}
	require.Len(t, enabled, len(known))
	profile.Plugins.MultiPoint.Enabled = enabled
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	a.filters, err = frameworkruntime.NewFramework(t.Context(), upstream.NewInTreeRegistry(), &profile,
		frameworkruntime.WithClientSet(c.Client), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithSnapshotSharedLister(a),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()), frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()))
	require.NoError(t, err)
	factory.Start(t.Context().Done()) // of namespaces, by whose labels terms may select
	factory.WaitForCacheSync(t.Context().Done())
	return a
}

// fit is the first of the nodes that a pod passes all filters of; "" = none.
func (a *autoscaler) fit(pod *v1.Pod, pods []*v1.Pod, nodes []*v1.Node, of ...string) string {
	a.now = internalcache.NewSnapshot(pods, nodes)
	state := framework.NewCycleState()
	if _, status, _ := a.filters.RunPreFilterPlugins(a.Context(), state, pod); !status.IsSuccess() {
		return ""
	}
	for _, name := range of {
		info, err := a.now.NodeInfos().Get(name)
		require.NoError(a, err)
		if a.filters.RunFilterPlugins(a.Context(), state, pod, info).IsSuccess() {
			return name
		}
	}
	return ""
}

// pass adds the nodes that the waiting pods need.
func (a *autoscaler) pass() {
	nodes := a.cluster.Nodes()
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	var stand, wait []*v1.Pod
	for _, pod := range a.cluster.Pods("") {
		if pod.Spec.NodeName != "" {
			stand = append(stand, pod)
		} else if e2e.Condition(pod, v1.PodScheduled).Reason == v1.PodReasonUnschedulable {
			wait = append(wait, pod)
		}
	}
	a.fits = nil
	var created []*v1.Node
	for _, pod := range wait {
		name := a.fit(pod, stand, nodes, names...)
		if name != "" {
			a.fits = append(a.fits, pod.Name)
		} else {
			template := a.node(a.added)
			if name = a.fit(pod, stand, append(slices.Clone(nodes), template), template.Name); name == "" {
				continue
			}
			a.added++
			created, nodes, names = append(created, template), append(nodes, template), append(names, template.Name)
		}
		placed := pod.DeepCopy()
		placed.Spec.NodeName = name
		stand = append(stand, placed)
	}
	a.cluster.CreateNodes(a.T, created...)
}

// writeNatively installs the policy that writes rules into pods, while the test runs.
func writeNatively(t *testing.T, c *e2e.Cluster, component string) {
	t.Helper()
	file := filepath.Join(repository, "manifests", "components", component, "policy.yaml")
	c.Kubectl(t, "", "apply", "-f", file)
	t.Cleanup(func() { c.Kubectl(t, "", "delete", "-f", file) })
}

// dryRun is a pod of a controller as the API server would store it.
func dryRun(t *testing.T, c *e2e.Cluster, ns string, labels map[string]string, change func(*v1.Pod)) *v1.Pod {
	t.Helper()
	pod := e2e.Pod(ns, "dry", "100m", "64Mi")
	pod.Labels = labels
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "dry", UID: "1", Controller: ptr.To(true)}}
	if change != nil {
		change(pod)
	}
	pod, err := c.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	return pod
}

// An autoscaler that knows upstream's filters adds the nodes that a rule makes necessary if the
// rule is written into the pods, and none without: for it they fit.
func TestAutoscalerSeesRules(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	c.StartScheduler(t, scheduler, sigmaConfig(false, ""))
	type app struct {
		name     string
		replicas int32
	}
	cases := []struct {
		name, spec string
		first      app // stands before the others come
		apps       []app
		wait, add  int
		event      string // of a pod that waits for the rule, without the policy
		native     string // with it
	}{
		{
			name: "one-a-node", spec: "{selector: {matchLabels: {app: web}}, maxPerNode: 1}",
			apps: []app{{"web", 4}}, wait: 2, add: 2,
			event: "2 placement rule one-a-node: at most 1 of NS/Deployment/web on a node", native: "2 node(s) didn't match pod anti-affinity rules",
		},
		{
			name: "two-a-node", spec: "{selector: {matchExpressions: [{key: app, operator: In, values: [web, api]}]}, maxPerNode: 2}",
			apps: []app{{"web", 5}, {"api", 4}}, wait: 1, add: 1,
			event: "2 placement rule two-a-node: at most 2 of NS/Deployment/web on a node", native: "2 node(s) didn't match pod topology spread constraints",
		},
		{
			name: "apart", spec: "{selector: {matchLabels: {app: web}}, excludes: [{selector: {matchLabels: {app: db}}}]}",
			first: app{"db", 2}, apps: []app{{"web", 3}}, wait: 3, add: 1,
			event: "2 placement rule apart: NS/Deployment/web excludes NS/Deployment/db", native: "2 node(s) didn't match pod anti-affinity rules",
		},
		{
			name: "two-a-zone", spec: "{selector: {matchLabels: {app: web}}, topologyKey: topology.kubernetes.io/zone, maxPerNode: 2}",
			apps: []app{{"web", 5}}, wait: 1, add: 1,
			event: "2 placement rule two-a-zone: at most 2 of NS/Deployment/web in a zone", native: "2 node(s) didn't match pod topology spread constraints",
		},
		{
			name: "zones-apart", spec: "{selector: {matchLabels: {app: web}}, topologyKey: topology.kubernetes.io/zone, excludes: [{selector: {matchLabels: {app: db}}}]}",
			first: app{"db", 2}, apps: []app{{"web", 3}}, wait: 3, add: 1,
			event: "2 placement rule zones-apart: NS/Deployment/web excludes NS/Deployment/db in a zone", native: "2 node(s) didn't match pod anti-affinity rules",
		},
	}
	in := func(zone string, node *v1.Node) *v1.Node {
		node.Labels[v1.LabelTopologyZone] = zone
		return node
	}
	run := func(t *testing.T, native bool) {
		for _, s := range cases {
			t.Run(s.name, func(t *testing.T) {
				c.Kubectl(t, fmt.Sprintf("{apiVersion: sigma-scheduler.io/v1alpha1, kind: PlacementRule, metadata: {name: %s}, spec: %s}", s.name, s.spec), "apply", "-f", "-")
				t.Cleanup(func() { c.Wipe(t); applyPolicy(t, c, "general-k1", "general") })
				ns := c.Namespace(t)
				if native {
					e2e.Wait(t, "the rule in a new pod", func() (string, bool) {
						spec := dryRun(t, c, ns, map[string]string{"app": "web"}, nil).Spec
						return "", spec.Affinity != nil || spec.TopologySpreadConstraints != nil
					})
				}
				a := newAutoscaler(t, c, func(i int) *v1.Node { return in("new", e2e.Node(fmt.Sprintf("new-%d", i), "8", "32Gi")) })
				c.CreateNodes(t, in("a", e2e.Node("a", "8", "32Gi")), in("b", e2e.Node("b", "8", "32Gi")))
				stands := 0
				if s.first.replicas > 0 {
					d := e2e.Deployment(ns, s.first.name, s.first.replicas, "100m", "64Mi")
					d.Spec.Template.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
						TopologyKey: v1.LabelHostname, LabelSelector: d.Spec.Selector,
					}}}}
					c.CreateDeployment(t, d)
					c.WaitBound(t, ns, int(s.first.replicas))
					stands = int(s.first.replicas)
				}
				all := stands
				for _, app := range s.apps {
					c.CreateDeployment(t, e2e.Deployment(ns, app.name, app.replicas, "100m", "64Mi"))
					all += int(app.replicas)
				}
				c.WaitBound(t, ns, all-s.wait)
				c.WaitRefused(t, ns, s.wait)
				want := s.event
				if native {
					want = s.native
				}
				for _, pod := range c.Pods(ns) {
					if pod.Spec.NodeName == "" {
						require.Contains(t, e2e.Condition(pod, v1.PodScheduled).Message, strings.ReplaceAll(want, "NS", ns))
					}
				}
				if !native {
					for range 3 {
						a.pass()
						require.Zero(t, a.added)
						require.Len(t, a.fits, s.wait) // it waits for the scheduler, in vain
						time.Sleep(time.Second)
					}
					c.WaitRefused(t, ns, s.wait)
					return
				}
				e2e.Wait(t, "all pods bound", func() (string, bool) {
					a.pass()
					bound := len(c.Placements(ns))
					return fmt.Sprintf("%d of %d", bound, all), bound == all
				})
				require.Equal(t, s.add, a.added)
				t.Logf("%d pods on %d nodes, of which the autoscaler added %d", all, len(c.Nodes()), a.added)
			})
		}
	}
	t.Run("control", func(t *testing.T) { run(t, false) })
	writeNatively(t, c, "native-rules")
	t.Run("native", func(t *testing.T) { run(t, true) })
}

// What is written into a pod follows from the rules that are there when it is made.
func TestNativeRules(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	writeNatively(t, c, "native-rules")
	ns := c.Namespace(t)
	c.Kubectl(t, limitRule(1), "apply", "-f", "-")
	web := map[string]string{"app": "web", "tier": "front", "statefulset.kubernetes.io/pod-name": "web-0"}
	own := v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "tier": "front"}}}
	terms := func(pod *v1.Pod) []v1.PodAffinityTerm {
		if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
			return nil
		}
		return pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	wait := func(what string, done func(pod *v1.Pod) bool) {
		t.Helper()
		e2e.Wait(t, what, func() (string, bool) {
			pod := dryRun(t, c, ns, web, nil)
			return fmt.Sprint(pod.Spec.Affinity, pod.Spec.TopologySpreadConstraints), done(pod)
		})
	}
	wait("one a node", func(pod *v1.Pod) bool { return len(terms(pod)) == 1 })
	require.Equal(t, []v1.PodAffinityTerm{own}, terms(dryRun(t, c, ns, web, nil)))

	// Left alone: pods that no rule selects, of DaemonSets, and without a controller, which may be all of an app.
	require.Nil(t, dryRun(t, c, ns, map[string]string{"app": "api"}, nil).Spec.Affinity)
	require.Nil(t, dryRun(t, c, ns, web, func(p *v1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" }).Spec.Affinity)
	require.Nil(t, dryRun(t, c, ns, web, func(p *v1.Pod) { p.OwnerReferences = nil }).Spec.Affinity)

	// What the pod asks for itself stays.
	other := v1.PodAffinityTerm{TopologyKey: v1.LabelTopologyZone, LabelSelector: own.LabelSelector}
	require.Equal(t, []v1.PodAffinityTerm{other, own}, terms(dryRun(t, c, ns, web, func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{other}}}
	})))

	// A changed rule.
	c.Kubectl(t, limitRule(3), "apply", "-f", "-")
	wait("three a node", func(pod *v1.Pod) bool { return len(terms(pod)) == 0 && len(pod.Spec.TopologySpreadConstraints) == 1 })
	three := dryRun(t, c, ns, web, nil).Spec.TopologySpreadConstraints
	require.Equal(t, []v1.TopologySpreadConstraint{{
		MaxSkew: 3, MinDomains: ptr.To[int32](1000000), TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: own.LabelSelector,
		NodeAffinityPolicy: ptr.To(v1.NodeInclusionPolicyIgnore), NodeTaintsPolicy: ptr.To(v1.NodeInclusionPolicyIgnore),
	}}, three)
	mine := v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: own.LabelSelector}
	require.Equal(t, []v1.TopologySpreadConstraint{mine}, dryRun(t, c, ns, web, func(p *v1.Pod) {
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{mine} // there may be one of a kind
	}).Spec.TopologySpreadConstraints)

	// A deleted rule, and one of every kind of selector.
	c.Kubectl(t, "", "delete", "placementrule", "limit")
	wait("no rule", func(pod *v1.Pod) bool { return pod.Spec.TopologySpreadConstraints == nil })
	c.Kubectl(t, limitRule(1)+"\n", "apply", "-f", "-")
	wait("one a node again", func(pod *v1.Pod) bool { return len(terms(pod)) == 1 })
	c.Kubectl(t, "", "patch", "placementrule", "limit", "--type=merge", "-p", `{"spec": {"afterMinutes": 5}}`)
	wait("a rule that gives way", func(pod *v1.Pod) bool { return len(terms(pod)) == 0 })
	c.Kubectl(t, "", "patch", "placementrule", "limit", "--type=merge", "-p", `{"spec": {"afterMinutes": null, "topologyKey": "topology.kubernetes.io/zone"}}`)
	wait("one a zone", func(pod *v1.Pod) bool {
		s := pod.Spec.TopologySpreadConstraints
		return len(terms(pod)) == 0 && len(s) == 1 && s[0].TopologyKey == v1.LabelTopologyZone && s[0].MaxSkew == 1
	})
	c.Kubectl(t, "", "delete", "placementrule", "limit")
	c.Kubectl(t, fmt.Sprintf(`
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: apart}
spec:
  selector:
    matchExpressions:
    - {key: app, operator: In, values: [api, web]}
    - {key: tier, operator: NotIn, values: [back]}
    - {key: tier, operator: Exists}
    - {key: old, operator: DoesNotExist}
  namespaces: [%s]
  excludes:
  - {selector: {matchLabels: {app: db}}}
  - {selector: {matchExpressions: [{key: noisy, operator: Exists}]}, namespaces: [a, b]}
  - {selector: {matchLabels: {app: cache}}, max: 1}
  - {selector: {matchLabels: {tier: front}}}
`, ns), "apply", "-f", "-")
	wait("exclusions", func(pod *v1.Pod) bool { return len(terms(pod)) > 0 })
	require.Equal(t, []v1.PodAffinityTerm{
		{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, NamespaceSelector: &metav1.LabelSelector{}},
		{TopologyKey: v1.LabelHostname, Namespaces: []string{"a", "b"}, LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "noisy", Operator: metav1.LabelSelectorOpExists}},
		}},
	}, terms(dryRun(t, c, ns, web, nil)))
	for _, labels := range []map[string]string{
		{"app": "shop", "tier": "front"}, {"app": "web", "tier": "back"}, {"app": "web"}, {"app": "web", "tier": "front", "old": ""}, nil,
	} {
		require.Empty(t, terms(dryRun(t, c, ns, labels, nil)), labels)
	}
	require.Empty(t, terms(dryRun(t, c, c.Namespace(t), web, nil)))
}

// A label of the namespace brings its pods to Sigma.
func TestNamespaceBringsPods(t *testing.T) {
	c := e2e.Shared(t)
	writeNatively(t, c, "namespaces")
	ns, other := c.Namespace(t), c.Namespace(t)
	c.Kubectl(t, "", "label", "namespace", ns, "sigma-scheduler.io/places=pods")
	by := func(ns string, change func(*v1.Pod)) string {
		return cmp.Or(dryRun(t, c, ns, map[string]string{"app": "web"}, change).Spec.SchedulerName, "none")
	}
	e2e.Wait(t, "Sigma's pods", func() (string, bool) { name := by(ns, nil); return name, name == "sigma" })
	require.Equal(t, "default-scheduler", by(other, nil))
	require.Equal(t, "mine", by(ns, func(p *v1.Pod) { p.Spec.SchedulerName = "mine" }))
	require.Equal(t, "default-scheduler", by(ns, func(p *v1.Pod) { p.Labels["sigma-scheduler.io/places"] = "none" }))
	require.Equal(t, "default-scheduler", by(ns, func(p *v1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" }))
	require.Equal(t, "default-scheduler", by(ns, func(p *v1.Pod) { p.Spec.NodeName = "a" }))
}
