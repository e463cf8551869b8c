//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

const sigmaSystem = "sigma-system"

// ownCluster is a cluster with upstream's scheduler, for a test that installs
// something.
func ownCluster(t *testing.T) *e2e.Cluster {
	t.Helper()
	c := e2e.StartCluster(t)
	c.CreateNodes(t, e2e.Nodes(4, 12)...)
	c.StartScheduler(t, "kube-scheduler", "")
	return c
}

// TestInstall runs every command of docs/install.md.
func TestInstall(t *testing.T) {
	c := ownCluster(t)
	c.CreateDeployment(t, e2e.Deployment("default", "old", 12, "1", "2Gi"))
	c.WaitRunning(t, "default", 12)
	page := openPage(t, c, "install.md")
	require.NoError(t, os.CopyFS(page.dir, os.DirFS(e2e.Program(t, "install")))) // the folder of a release
	before := clusterObjects(t, page)
	require.LessOrEqual(t, commandsOf(page.blocks[1].text), 5, "commands to a policy in shadow")
	require.LessOrEqual(t, commandsOf(page.blocks[6].text)+commandsOf(page.blocks[7].text), 3, "commands from there to live")

	out := page.run(t, "What would it save?", 1)
	require.Regexp(t, `(?m)^current +`, out)
	require.Regexp(t, `(?m)^learned +`, out)

	// The fake kubelet reports all pods as running; those of Sigma have programs from
	// here on.
	runtime := (*containers)(nil)
	page.startBeforeWait(t, func() { runtime = startContainers(t, c) })
	page.run(t, "Install", 1)
	require.Regexp(t, `general +shipped +K1 +shadow +True +True`, page.run(t, "Install", 1))
	require.Contains(t, page.run(t, "Install", 1), "deployment.apps/sigma-scheduler unchanged")

	leader := runtime.leader(t)
	page.edit = func(text string) string { // what port-forward does
		return strings.ReplaceAll(text, "https://localhost:10259", leader.url)
	}
	status, _ := scrape(t, leader.url, "")
	require.Equal(t, http.StatusForbidden, status, "metrics without a token")
	out = page.run(t, "A first workload", 1)
	require.Equal(t, 6, strings.Count(out, " Running "), out)
	out = page.run(t, "A first workload", 1)
	require.Regexp(t, `(?m)^sigma_decisions_total\{cause="policy",mode="shadow",profile="sigma"\} [1-9]`, out)

	page.run(t, "Canary, then live", 3)
	out = runtime.metrics(t, leader.url)
	require.Regexp(t, `(?m)^sigma_decisions_total\{cause="policy",mode="live",profile="sigma"\} [1-9]`, out)
	require.NotRegexp(t, `(?m)^sigma_fallbacks_total`, out)
	require.Regexp(t, `node-\d+`, page.run(t, "Canary, then live", 1))

	c.Kubectl(t, `
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementPlan
metadata: {name: site}
spec:
  deadline: "2200-01-01T00:00:00Z"
  workloads: [{namespace: default, kind: Deployment, name: coming, requests: {cpu: 100m}, nodes: [{node: node-0000, pods: 2}]}]
`, "apply", "-f", "-")
	c.Kubectl(t, "", "wait", "--for=jsonpath={.status.conditions[?(@.type==\"Active\")].reason}=DryRun", "--timeout=60s", "placementplan/site")

	// An upgrade, with more memory requested; the policy stays in force.
	upgrade := openPage(t, c, "operations.md")
	upgrade.dir = page.dir
	upgrade.shell(t, "cat >> sigma/kustomization.yaml <<EOF\nimages:\n- {name: $REGISTRY/sigma-scheduler, newTag: next}\nEOF\ncat >> sigma/kustomization.yaml <<'EOF'\n"+
		yamlOf(t, "operations.md", "# in the kustomization")+"EOF")
	upgrade.run(t, "Upgrade", 1)
	require.Empty(t, upgrade.blocks)
	require.NotEmpty(t, c.Pods(sigmaSystem))
	awaitAll(t, c, sigmaSystem, func(pod *v1.Pod) bool {
		return strings.HasSuffix(pod.Spec.Containers[0].Image, ":next") && pod.Spec.Containers[0].Resources.Requests.Memory().String() == "2Gi"
	})
	runtime.sync(t)
	require.NotSame(t, leader, runtime.leader(t))
	require.Contains(t, page.shell(t, "kubectl get placementpolicy general"), " live ")

	page.run(t, "The way back", 1)
	page.run(t, "The way back", 1)
	awaitAll(t, c, "default", func(pod *v1.Pod) bool { return pod.Spec.SchedulerName == v1.DefaultSchedulerName })
	// A user does not follow the page.
	for _, name := range []string{"left", "finished"} {
		d := e2e.Deployment("default", name, 2, "100m", "128Mi")
		d.Spec.Template.Spec.SchedulerName = "sigma"
		c.CreateDeployment(t, d)
	}
	c.WaitRunning(t, "default", 12+6+4)
	out = page.run(t, "The way back", 1)
	require.Contains(t, out, "Deployment default/left\n")
	require.NotContains(t, out, "default/web\n")
	page.shell(t, "kubectl delete deployment finished")
	runtime.requireAllowed(t)
	runtime.stopAll(t)
	page.run(t, "The way back", 1)
	runtime.sync(t)
	require.Empty(t, runtime.pods)
	c.WaitRunning(t, "default", 12+6+2)
	page.shell(t, "kubectl scale deployment left --replicas=3")
	e2e.Wait(t, "the third pod", func() (string, bool) { return "", len(c.Pods("default")) == 12+6+3 })
	out = page.run(t, "The way back", 1)
	require.Equal(t, 1, strings.Count(out, "left-"), out)
	require.Contains(t, page.shell(t, "kubectl get placementpolicies,placementplans -o name"), "/general\nplacementplan.sigma-scheduler.io/site", "kept")
	page.run(t, "The way back", 1)
	require.Empty(t, page.blocks, "blocks that this test does not know of")
	page.shell(t, "kubectl delete deployment left web\nkubectl delete rolebinding,clusterrolebinding scraper --ignore-not-found") // the test's own
	requireAsBefore(t, page, before)
}

// awaitAll waits until all pods of a namespace that are not being deleted are as
// wanted: the caches follow kubectl a moment later.
func awaitAll(t *testing.T, c *e2e.Cluster, namespace string, is func(*v1.Pod) bool) {
	t.Helper()
	e2e.Wait(t, "all pods", func() (string, bool) {
		for _, pod := range c.Pods(namespace) {
			if pod.DeletionTimestamp == nil && !is(pod) {
				return pod.Name, false
			}
		}
		return "", true
	})
}

// prepare installs the kinds of objects and the policy, live.
func prepare(t testing.TB, c *e2e.Cluster) {
	t.Helper()
	manifests := filepath.Join(repository, "manifests")
	c.Kubectl(t, "", "apply", "-k", filepath.Join(manifests, "base", "crds"))
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s",
		"crd/placementpolicies.sigma-scheduler.io", "crd/placementrules.sigma-scheduler.io", "crd/placementplans.sigma-scheduler.io")
	c.Kubectl(t, "", "apply", "-f", filepath.Join(manifests, "policy.yaml"))
	setMode(t, c, "live")
}

func setMode(t testing.TB, c *e2e.Cluster, mode string) {
	t.Helper()
	c.Kubectl(t, "", "patch", "placementpolicy", "general", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"mode":%q}}`, mode))
}

// onSigma returns pods for Sigma to place.
func onSigma(pods ...*v1.Pod) []*v1.Pod {
	for _, pod := range pods {
		pod.Spec.SchedulerName = "sigma"
	}
	return pods
}

// TestSecondScheduler: with the rights of its ServiceAccount alone the scheduler
// does whatever kube-scheduler does, and it exposes every metric of the dashboard.
func TestSecondScheduler(t *testing.T) {
	c := ownCluster(t)
	prepare(t, c)
	overlays := filepath.Join(repository, "manifests", "overlays")
	c.Kubectl(t, "", "apply", "-k", filepath.Join(overlays, "second-scheduler"))
	runtime := startContainers(t, c)
	c.Kubectl(t, "", "apply", "--dry-run=server", "-k", filepath.Join(overlays, "extender"))
	c.Kubectl(t, kinds, "apply", "-f", "-")

	// A volume that the scheduler chooses, and a device that it allocates, on the one
	// node that has them.
	claims := e2e.Pod("default", "claims", "100m", "128Mi")
	claims.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"},
	}}}
	claim := "claim"
	claims.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "r", ResourceClaimName: &claim}}
	claims.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "r"}}
	c.CreatePods(t, onSigma(claims)...)
	c.WaitRunning(t, "default", 1)
	require.Equal(t, "node-0003", c.Placements("default")["claims"])

	c.CreatePods(t, onSigma(e2e.Pods("default", 5, 60)...)...)
	c.WaitRunning(t, "default", 61)
	c.RequireFits(t)

	// A pod makes room for another, as far as the budget allows.
	c.CreateNodes(t, e2e.Node("small", "2", "4Gi"))
	small := func(name, priority string) *v1.Pod {
		pod := e2e.Pod("default", name, "1500m", "1Gi")
		pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: "small"}
		pod.Spec.PriorityClassName = priority
		return pod
	}
	c.CreatePods(t, onSigma(small("yields", "low"))...)
	c.WaitBound(t, "default", 62)
	c.CreatePods(t, onSigma(small("preempts", "high"))...)
	e2e.Wait(t, "the preemption", func() (string, bool) {
		_, there := c.Placements("default")["yields"]
		return "", !there && c.Placements("default")["preempts"] == "small"
	})

	// Another scheduler breaks a rule, and Sigma does not; then there is no policy,
	// and one that cannot be used.
	apart := func(name, side string) *v1.Pod {
		pod := e2e.Pod("default", name, "10m", "16Mi")
		pod.Labels["apart"] = side
		return pod
	}
	c.CreatePods(t, onSigma(apart("ours-one", "one"))...)
	c.WaitRunning(t, "default", 63)
	foreign := apart("foreign", "two")
	foreign.Spec.NodeName = c.Placements("default")["ours-one"]
	c.CreatePods(t, foreign)
	c.Kubectl(t, "", "wait", "--for=condition=Conflicting", "--timeout=60s", "placementrule/apart")
	c.CreatePods(t, onSigma(apart("ours-two", "two"))...)
	c.WaitRunning(t, "default", 65)
	require.NotEqual(t, foreign.Spec.NodeName, c.Placements("default")["ours-two"])
	c.Kubectl(t, "", "wait", "--for=condition=Accepted=False", "--timeout=60s", "placementpolicy/unusable")
	c.Kubectl(t, "", "delete", "placementpolicy", "general")
	c.CreatePods(t, onSigma(e2e.Pod("default", "alone", "10m", "16Mi"))...)
	c.WaitRunning(t, "default", 66)

	leader := runtime.leader(t)
	requireMetrics(t, runtime.metrics(t, leader.url), func(name string) bool { return !strings.HasPrefix(name, "sigma_extender_") })

	// The other replica takes over.
	leader.scheduler.Kill(t)
	c.CreatePods(t, onSigma(e2e.Pod("default", "later", "10m", "16Mi"))...)
	c.WaitRunning(t, "default", 67)
	require.NotSame(t, leader, runtime.leader(t))
	leader.scheduler.Restart(t)

	for _, reason := range []string{"Scheduled", "Preempted", "PolicyFallback", "RuleConflict"} {
		e2e.Wait(t, "events", func() (string, bool) {
			events := c.Kubectl(t, "", "get", "events.events.k8s.io", "-A", "-o", `jsonpath={range .items[*]}{.reportingController} {.reason}{"\n"}{end}`)
			return reason, strings.Contains(events, "sigma "+reason+"\n")
		})
	}
	runtime.requireAllowed(t)
	requireNoMoreThanUpstream(t, c)
}

// TestExtenderOverlay follows docs/extender.md: upstream's scheduler with the extender
// places by the policy; while the extender is down pods wait, with the reason in their
// status.
func TestExtenderOverlay(t *testing.T) {
	c := ownCluster(t)
	prepare(t, c)
	page := openPage(t, c, "extender.md")
	page.run(t, "", 1)
	runtime := startContainers(t, c)
	leader := runtime.leader(t)
	c.CreatePods(t, onSigma(e2e.Pods("default", 6, 60)...)...)
	c.WaitRunning(t, "default", 60)
	c.RequireFits(t)
	// A call that comes too late for the scheduler is made again.
	status, _ := scrape(t, leader.extenderURL, "")
	require.Equal(t, http.StatusUnauthorized, status)
	placed := e2e.SumMetric(t, strings.NewReader(runtime.metrics(t, leader.extenderURL)), "sigma_decisions_total", `cause="policy"`)
	require.GreaterOrEqual(t, placed, 60.)

	// The extender that is asked writes the history.
	story := &prompt{t, c, filepath.Join(c.Dir, "kubeconfig")}
	require.Regexp(t, `^1 +live +sha256:`, story.revisions(1)[0])
	story.policy("demote", "--percent", "30")
	story.mode("Canary")
	require.Regexp(t, `^2 +canary 30 % +sha256:`, story.revisions(2)[1])
	require.Contains(t, story.policy("rollback", "--to", "1"), "general: canary 30 % → live, the numbers of revision 1")
	story.mode("Live")
	require.Regexp(t, `^3 +live +sha256:`, story.revisions(3)[2])
	require.Regexp(t, `NewMode .* Revision 2\. Profile extender took generation \d+ up as primary: mode canary 30 %`, c.Kubectl(t, "", "describe", "placementpolicy", "general"))

	leader.extender.Kill(t)
	c.CreatePods(t, onSigma(e2e.Pod("default", "waits", "10m", "16Mi"))...)
	e2e.Wait(t, "a reason", func() (string, bool) {
		for _, pod := range c.Pods("default") {
			if pod.Name == "waits" {
				message := e2e.Condition(pod, v1.PodScheduled).Message
				return message, strings.Contains(message, "/filter")
			}
		}
		return "no pod", false
	})
	require.Len(t, c.Placements("default"), 60)
	leader.extender.Restart(t)
	c.WaitRunning(t, "default", 61)
	requireMetrics(t, runtime.metrics(t, leader.extenderURL), func(name string) bool { return strings.HasPrefix(name, "sigma_extender_") })
	runtime.requireAllowed(t)

	// Apart, with TLS: other schedulers, other pods.
	page.run(t, "Elsewhere, with TLS", 1)
	require.Empty(t, page.blocks)
	secret, err := c.Client.CoreV1().Secrets(sigmaSystem).Get(t.Context(), "sigma-extender-tls", metav1.GetOptions{})
	require.NoError(t, err)
	for name, content := range secret.Data {
		require.NoError(t, os.WriteFile(filepath.Join(page.dir, name), content, 0o600))
	}
	kubeconfig := filepath.Join(page.dir, "kubeconfig")
	runtime.account(t, "sigma-scheduler", kubeconfig)
	address, metricsAddress := fmt.Sprintf("127.0.0.1:%d", e2e.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", e2e.FreePort(t))
	e2e.StartProcess(t, "extender-tls", e2e.Program(t, "sigma-extender"), "--kubeconfig="+kubeconfig,
		"--bind-address="+address, "--metrics-bind-address="+metricsAddress,
		"--tls-cert-file="+filepath.Join(page.dir, "tls.crt"), "--tls-private-key-file="+filepath.Join(page.dir, "tls.key"),
		"--client-ca-file="+filepath.Join(page.dir, "ca.crt"))
	waitOK(t, "https://"+metricsAddress+"/readyz")
	config := strings.NewReplacer("sigma-extender.sigma-system.svc:8443", address, "/etc/sigma-extender", page.dir).
		Replace(yamlOf(t, "extender.md", "extenders:"))
	c.StartScheduler(t, "kube-scheduler", "profiles: [{schedulerName: apart}]\n"+config)
	pod := e2e.Pod("default", "tls", "10m", "16Mi")
	pod.Spec.SchedulerName = "apart"
	c.CreatePods(t, pod)
	c.WaitRunning(t, "default", 62)
	require.EqualValues(t, 1, e2e.SumMetric(t, strings.NewReader(runtime.metrics(t, "https://"+metricsAddress)), "sigma_decisions_total", `cause="policy"`))
}

// TestReplaceScheduler follows docs/replace-scheduler.md.
func TestReplaceScheduler(t *testing.T) {
	c := e2e.StartCluster(t)
	c.CreateNodes(t, e2e.Nodes(7, 6)...)
	page := openPage(t, c, "replace-scheduler.md")
	page.run(t, "", 1)
	require.Empty(t, page.blocks)
	config := strings.Replace(yamlOf(t, "replace-scheduler.md", "apiVersion: kubescheduler"), "/etc/kubernetes/scheduler.conf",
		filepath.Join(c.Dir, "scheduler.kubeconfig"), 1)
	s := c.StartScheduler(t, "sigma-scheduler", config)
	c.CreatePods(t, e2e.Pods("default", 7, 20)...)
	c.WaitRunning(t, "default", 20)
	require.EqualValues(t, 20, s.Metric(t, "sigma_decisions_total", `cause="policy"`, `mode="shadow"`))
	log, err := os.ReadFile(s.Log)
	require.NoError(t, err)
	require.NotRegexp(t, "is forbidden|Unauthorized", string(log))
}
