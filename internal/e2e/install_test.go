//go:build e2e

package e2e_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sigma-scheduler/sigma/internal/e2e"
)

const sigmaSystem = "sigma-system"

// A reader does what a page of docs says: it runs the blocks marked `sh e2e`, in
// the page's order, in a folder that holds the manifests.
type reader struct {
	c      *e2e.Cluster
	dir    string
	blocks []docBlock
	edit   func(string) string // of a block; nil = none
}

type docBlock struct{ section, text string }

var docBlocks = regexp.MustCompile("(?ms)^(?:## ([^\n]+)|```([^\n]*)\n(.*?)^```)$")

// openPage reads a page and checks that what it leaves to the reader are only
// blocks that need what a test has not.
func openPage(t *testing.T, c *e2e.Cluster, page string) *reader {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs", page))
	require.NoError(t, err)
	r := &reader{c: c, dir: t.TempDir()}
	section := ""
	for _, m := range docBlocks.FindAllStringSubmatch(string(text), -1) {
		switch {
		case m[1] != "":
			section = m[1]
		case m[2] == "sh e2e":
			r.blocks = append(r.blocks, docBlock{section, m[3]})
		case m[2] == "sh":
			require.Regexp(t, "docker|port-forward|servicemonitor|/etc/kubernetes|make build", m[3], "%s: why is this block not run?", page)
		}
	}
	require.NotEmpty(t, r.blocks, page)
	require.NoError(t, os.CopyFS(filepath.Join(r.dir, "manifests"), os.DirFS(filepath.Join(repository, "manifests"))))
	bin := filepath.Join(r.dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	for _, name := range []string{"kubectl", "sigma"} {
		require.NoError(t, os.Symlink(e2e.Program(t, name), filepath.Join(bin, name)))
	}
	return r
}

// run runs the next blocks, which have to be of the section, and returns what
// they print.
func (r *reader) run(t *testing.T, section string, count int) string {
	t.Helper()
	var out strings.Builder
	for range count {
		require.NotEmpty(t, r.blocks, "no block is left")
		b := r.blocks[0]
		r.blocks = r.blocks[1:]
		require.Equal(t, section, b.section)
		if r.edit != nil {
			b.text = r.edit(b.text)
		}
		out.WriteString(r.shell(t, b.text))
	}
	return out.String()
}

func (r *reader) shell(t *testing.T, text string) string {
	t.Helper()
	command := exec.Command("bash", "-euo", "pipefail", "-c", text)
	command.Dir = r.dir
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(r.c.Dir, "kubeconfig"), "HOME="+r.dir,
		"PATH="+filepath.Join(r.dir, "bin")+":"+os.Getenv("PATH"), "REGISTRY=registry.example.org", "TAG=test")
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s\n%s", text, out)
	t.Logf("%s\n%s", text, out)
	return string(out)
}

// containers stand for the container runtime of the fake kubelet's nodes: every
// pod of sigma-system that runs gets its programs, with the arguments, the
// configuration and the rights that its manifest gives it. Other are only the
// ports, and where files lie that would be mounted.
type containers struct {
	c       *e2e.Cluster
	pods    map[types.UID]*runningPod
	scraper string // token
}

type runningPod struct {
	scheduler, extender *e2e.Process
	url                 string // of the scheduler's metrics and health
	extenderURL         string
}

// sync starts and ends programs as there are pods, and returns when all are ready.
func (r *containers) sync(t *testing.T) {
	t.Helper()
	there := map[types.UID]bool{}
	for _, pod := range r.c.Pods(sigmaSystem) {
		if pod.DeletionTimestamp != nil || pod.Status.Phase != v1.PodRunning {
			continue
		}
		there[pod.UID] = true
		if r.pods[pod.UID] == nil {
			r.pods[pod.UID] = r.start(t, pod)
		}
	}
	for uid, running := range r.pods {
		if !there[uid] {
			running.scheduler.Stop(t)
			if running.extender != nil {
				running.extender.Stop(t)
			}
			delete(r.pods, uid)
		}
	}
	for _, running := range r.pods {
		(&e2e.Scheduler{Process: running.scheduler, URL: running.url}).WaitReady(t)
	}
}

func (r *containers) start(t *testing.T, pod *v1.Pod) *runningPod {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	r.account(t, pod.Spec.ServiceAccountName, kubeconfig)
	running := &runningPod{}
	callsPort, metricsPort, securePort := e2e.FreePort(t), e2e.FreePort(t), e2e.FreePort(t)

	for _, container := range pod.Spec.InitContainers {
		require.Equal(t, "extender", container.Name)
		running.extenderURL = fmt.Sprintf("http://127.0.0.1:%d", metricsPort)
		args := []string{"--kubeconfig=" + kubeconfig}
		for _, arg := range container.Args {
			arg = strings.Replace(arg, "127.0.0.1:8443", fmt.Sprintf("127.0.0.1:%d", callsPort), 1)
			args = append(args, strings.Replace(arg, ":8080", fmt.Sprintf("127.0.0.1:%d", metricsPort), 1))
		}
		running.extender = e2e.StartProcess(t, "extender-"+pod.Name, program(t, container.Image), args...)
		waitOK(t, running.extenderURL+container.StartupProbe.HTTPGet.Path)
	}

	require.Len(t, pod.Spec.Containers, 1)
	container := pod.Spec.Containers[0]
	volume := pod.Spec.Volumes[slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.ConfigMap != nil })]
	files, err := r.c.Client.CoreV1().ConfigMaps(sigmaSystem).Get(t.Context(), volume.ConfigMap.Name, metav1.GetOptions{})
	require.NoError(t, err)
	for name, text := range files.Data {
		text = strings.Replace(text, "127.0.0.1:8443", fmt.Sprintf("127.0.0.1:%d", callsPort), 1)
		text += fmt.Sprintf("clientConnection: {kubeconfig: %s}\n", kubeconfig)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	args := []string{
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", securePort),
	}
	for _, arg := range container.Args {
		args = append(args, strings.Replace(arg, container.VolumeMounts[0].MountPath, dir, 1))
	}
	running.url = fmt.Sprintf("https://127.0.0.1:%d", securePort)
	running.scheduler = e2e.StartProcess(t, "scheduler-"+pod.Name, program(t, container.Image), args...)
	return running
}

// account writes a kubeconfig with a ServiceAccount's rights and no others.
func (r *containers) account(t *testing.T, name, file string) {
	t.Helper()
	authority, err := os.ReadFile(filepath.Join(r.c.Dir, "ca.crt"))
	require.NoError(t, err)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: r.c.Config.Host, CertificateAuthorityData: authority}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: r.token(t, name)}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	require.NoError(t, clientcmd.WriteToFile(*config, file))
}

func (r *containers) token(t *testing.T, account string) string {
	t.Helper()
	return strings.TrimSpace(r.c.Kubectl(t, "", "create", "token", account, "-n", sigmaSystem, "--duration=2h"))
}

// leader is the pod whose scheduler leads.
func (r *containers) leader(t *testing.T) *runningPod {
	t.Helper()
	var leader *runningPod
	e2e.Wait(t, "a leader", func() (string, bool) {
		for _, running := range r.pods {
			if running.scheduler.Alive() && strings.Contains(r.metrics(t, running.url), `leader_election_master_status{name="kube-scheduler"} 1`) {
				leader = running
			}
		}
		return "", leader != nil
	})
	return leader
}

// metrics reads a scheduler's page as an account that may.
func (r *containers) metrics(t *testing.T, url string) string {
	t.Helper()
	if r.scraper == "" {
		r.c.Kubectl(t, "", "create", "serviceaccount", "scraper", "-n", sigmaSystem)
		r.c.Kubectl(t, "", "create", "clusterrolebinding", "scraper",
			"--clusterrole=sigma-metrics-reader", "--serviceaccount="+sigmaSystem+":scraper")
		r.scraper = r.token(t, "scraper")
		e2e.Wait(t, "the right to scrape", func() (string, bool) {
			status, _ := scrape(t, url, r.scraper)
			return fmt.Sprint(status), status == http.StatusOK
		})
	}
	status, page := scrape(t, url, r.scraper)
	require.Equal(t, http.StatusOK, status, page)
	return page
}

// requireAllowed fails the test when the API server refused a program anything.
func (r *containers) requireAllowed(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, r.pods)
	for _, running := range r.pods {
		for _, p := range []*e2e.Process{running.scheduler, running.extender} {
			if p == nil {
				continue
			}
			log, err := os.ReadFile(p.Log)
			require.NoError(t, err)
			require.NotEmpty(t, log)
			require.NotRegexp(t, "is forbidden|Unauthorized", string(log))
		}
	}
}

var anyCertificate = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

func scrape(t *testing.T, url, token string) (status int, page string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", http.NoBody)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := anyCertificate.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func waitOK(t *testing.T, url string) {
	t.Helper()
	e2e.Wait(t, url, func() (string, bool) {
		response, err := http.Get(url)
		if err != nil {
			return err.Error(), false
		}
		_ = response.Body.Close()
		return response.Status, response.StatusCode == http.StatusOK
	})
}

// program is what runs in a container of an image.
func program(t *testing.T, image string) string {
	t.Helper()
	name, _, _ := strings.Cut(path.Base(image), ":")
	return e2e.Program(t, name)
}

// ownCluster is a cluster with upstream's scheduler, for a test that installs
// something.
func ownCluster(t *testing.T) *e2e.Cluster {
	t.Helper()
	c := e2e.StartCluster(t)
	c.CreateNodes(t, e2e.Nodes(4, 12)...)
	c.StartScheduler(t, "kube-scheduler", "")
	return c
}

// TestInstall does what docs/install.md says, as the test of its every command.
func TestInstall(t *testing.T) {
	c := ownCluster(t)
	c.CreateDeployment(t, e2e.Deployment("default", "old", 12, "1", "2Gi"))
	c.WaitRunning(t, "default", 12)
	page := openPage(t, c, "install.md")

	out := page.run(t, "What would it save?", 1)
	require.Regexp(t, `(?m)^current +`, out)
	require.Regexp(t, `(?m)^learned +`, out)

	page.run(t, "Install", 2)
	// To the fake kubelet all pods run; those of Sigma have programs from here on.
	runtime := startContainers(t, c)
	require.Regexp(t, `general +linear +K1 +shadow +True +True`, page.run(t, "Install", 1))

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

	page.run(t, "Canary, then live", 1)
	page.run(t, "Canary, then live", 1)
	out = runtime.metrics(t, leader.url)
	require.Regexp(t, `(?m)^sigma_decisions_total\{cause="policy",mode="live",profile="sigma"\} [1-9]`, out)
	require.NotRegexp(t, `(?m)^sigma_fallbacks_total`, out)
	require.Regexp(t, `node-\d+`, page.run(t, "Canary, then live", 1))

	// An upgrade, with more memory requested; the policy stays in force.
	upgrade := openPage(t, c, "operations.md")
	upgrade.dir = page.dir
	upgrade.shell(t, "sed -i 's/newTag: \"test\"/newTag: next/' sigma/kustomization.yaml\ncat >> sigma/kustomization.yaml <<'EOF'\n"+
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
	// Somebody does not follow the page.
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
	page.run(t, "The way back", 1)
	runtime.sync(t)
	require.Empty(t, runtime.pods)
	c.WaitRunning(t, "default", 12+6+2)
	page.shell(t, "kubectl scale deployment left --replicas=3")
	e2e.Wait(t, "the third pod", func() (string, bool) { return "", len(c.Pods("default")) == 12+6+3 })
	out = page.run(t, "The way back", 1)
	require.Equal(t, 1, strings.Count(out, "left-"), out)
	require.Empty(t, page.blocks, "blocks that this test does not know of")
}

// awaitAll waits until all pods of a namespace that are not going are as wanted: what
// kubectl has waited for the caches hear a moment later.
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
		"crd/placementpolicies.sigma-scheduler.io", "crd/placementrules.sigma-scheduler.io")
	c.Kubectl(t, "", "apply", "-f", filepath.Join(manifests, "policy.yaml"))
	setMode(t, c, "live")
}

// startContainers starts the programs of what was just installed.
func startContainers(t *testing.T, c *e2e.Cluster) *containers {
	t.Helper()
	c.WaitRunning(t, sigmaSystem, 2)
	runtime := &containers{c: c, pods: map[types.UID]*runningPod{}}
	runtime.sync(t)
	require.Len(t, runtime.pods, 2)
	return runtime
}

func setMode(t testing.TB, c *e2e.Cluster, mode string) {
	t.Helper()
	c.Kubectl(t, "", "patch", "placementpolicy", "general", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"mode":%q}}`, mode))
}

// onSigma returns pods that Sigma is to place.
func onSigma(pods ...*v1.Pod) []*v1.Pod {
	for _, pod := range pods {
		pod.Spec.SchedulerName = "sigma"
	}
	return pods
}

// TestSecondScheduler: with the rights of its ServiceAccount alone the scheduler
// does whatever kube-scheduler does, and the dashboard asks for nothing that it
// does not tell.
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

// kinds are objects that make the scheduler use what rights it has.
const kinds = `
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: apart}
spec: {selector: {matchLabels: {apart: one}}, excludes: [{selector: {matchLabels: {apart: two}}}]}
---
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementPolicy
metadata: {name: unusable}
spec: {featureVersion: 1, model: plan, knowledge: K2}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: -10
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 10
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: yields, namespace: default}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: yields}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /mnt}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-0003]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 1Gi}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: example}
spec: {selectors: [{cel: {expression: device.driver == 'driver.example.org'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec:
  driver: driver.example.org
  nodeName: node-0003
  pool: {name: pool, generation: 1, resourceSliceCount: 1}
  devices: [{name: device}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claim, namespace: default}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: example}}]}}
`

// requireNoMoreThanUpstream compares the rights with those that the API server
// gives to its own scheduler: there are no others, and those left out are known.
func requireNoMoreThanUpstream(t *testing.T, c *e2e.Cluster) {
	t.Helper()
	rights := func(names ...string) map[string]bool {
		all := map[string]bool{}
		for _, name := range names {
			role, err := c.Client.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
			require.NoError(t, err)
			for _, rule := range role.Rules {
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						for _, verb := range rule.Verbs {
							all[verb+" "+resource+"."+group] = true
						}
					}
				}
			}
		}
		return all
	}
	ours, upstream := rights("sigma-scheduler"), rights("system:kube-scheduler", "system:volume-scheduler")
	for right := range ours {
		require.True(t, upstream[right], "%s is more than upstream has", right)
	}
	var left []string
	for _, right := range slices.Sorted(maps.Keys(upstream)) {
		if !ours[right] && !strings.HasPrefix(right, "get ") {
			left = append(left, right)
		}
	}
	require.Equal(t, leftOut, left)
}

// leftOut is what upstream's scheduler may do and ours does not: older APIs,
// leases of others (ours is in a Role), and what only alpha features do.
var leftOut = []string{
	"create bindings.", "create events.", "create leasecandidates.coordination.k8s.io", "create leases.coordination.k8s.io",
	"delete leasecandidates.coordination.k8s.io", "deletecollection leasecandidates.coordination.k8s.io",
	"list leasecandidates.coordination.k8s.io", "list leases.coordination.k8s.io", "list replicasets.extensions",
	"list resourceclaims/status.resource.k8s.io", "patch events.", "patch leasecandidates.coordination.k8s.io",
	"patch persistentvolumeclaims.", "patch persistentvolumes.", "patch resourceclaims.resource.k8s.io",
	"update events.", "update events.events.k8s.io", "update leasecandidates.coordination.k8s.io",
	"update leases.coordination.k8s.io", "update pods/finalizers.", "update pods/status.",
	"watch leasecandidates.coordination.k8s.io", "watch leases.coordination.k8s.io", "watch replicasets.extensions",
	"watch resourceclaims/status.resource.k8s.io",
}

var metricNames = regexp.MustCompile(`\b(sigma|scheduler)_[a-z_]+`)

// requireMetrics checks that a page has every metric that the dashboard shows.
func requireMetrics(t *testing.T, page string, of func(name string) bool) {
	t.Helper()
	dashboard, err := os.ReadFile(filepath.Join(repository, "manifests", "base", "dashboard.json"))
	require.NoError(t, err)
	checked := 0
	for _, name := range metricNames.FindAllString(string(dashboard), -1) {
		if of(name) {
			checked++
			require.Regexp(t, "(?m)^"+name+"[{ ]", page)
		}
	}
	require.NotZero(t, checked)
}

// TestExtenderOverlay does what docs/extender.md says: upstream's scheduler with
// the extender places as the policy says; while the extender is down pods wait,
// and say why.
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
	require.GreaterOrEqual(t, e2e.Metric(t, leader.extenderURL+"/metrics", "sigma_decisions_total", `cause="policy"`), 60.)

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
	_, metrics := scrape(t, leader.extenderURL, "")
	requireMetrics(t, metrics, func(name string) bool { return strings.HasPrefix(name, "sigma_extender_") })
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
	waitOK(t, "http://"+metricsAddress+"/readyz")
	config := strings.NewReplacer("sigma-extender.sigma-system.svc:8443", address, "/etc/sigma-extender", page.dir).
		Replace(yamlOf(t, "extender.md", "extenders:"))
	c.StartScheduler(t, "kube-scheduler", "profiles: [{schedulerName: apart}]\n"+config)
	pod := e2e.Pod("default", "tls", "10m", "16Mi")
	pod.Spec.SchedulerName = "apart"
	c.CreatePods(t, pod)
	c.WaitRunning(t, "default", 62)
	require.EqualValues(t, 1, e2e.Metric(t, "http://"+metricsAddress+"/metrics", "sigma_decisions_total", `cause="policy"`))
}

// yamlOf is the block of a page that begins so.
func yamlOf(t *testing.T, page, begin string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs", page))
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "```yaml\n"+begin)
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	return begin + block
}

// TestReplaceScheduler does what docs/replace-scheduler.md says.
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

// BenchmarkMemory measures the most memory that the scheduler ever had, with
// pods of 4 kB; docs/operations.md has the figures:
//
//	hack/e2e.sh -run '^$' -bench Memory -benchtime 1x
func BenchmarkMemory(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{1000, 10000}, {1000, 30000}, {5000, 50000}} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", size.nodes, size.pods), func(b *testing.B) {
			for b.Loop() {
				measureMemory(b, size.nodes, size.pods)
			}
		})
	}
}

func measureMemory(b *testing.B, nodes, pods int) {
	c := e2e.StartCluster(b)
	prepare(b, c)
	c.Kubectl(b, "", "apply", "-f", filepath.Join(repository, "manifests", "base", "rbac-engine.yaml"))
	c.Kubectl(b, "", "create", "clusterrolebinding", "engine", "--clusterrole=sigma-engine", "--user=system:kube-scheduler")
	all := make([]*v1.Node, nodes)
	names := make([]string, nodes)
	for i := range all {
		names[i] = fmt.Sprintf("node-%05d", i)
		all[i] = e2e.Node(names[i], "64", "256Gi")
	}
	c.CreateNodes(b, all...)
	c.Kubelet.Disown(names...) // bound is enough
	many := make([]*v1.Pod, pods)
	for i := range many {
		many[i] = e2e.Pod("default", fmt.Sprintf("pod-%06d", i), "1", "4Gi")
		many[i].Spec.NodeName = names[i%nodes]
		many[i].Labels["app"] = fmt.Sprintf("app-%d", i/10)
		// What a pod carries besides: variables, annotations, volumes.
		many[i].Annotations = map[string]string{"example.org/notes": strings.Repeat("n", 2000)}
		for v := range 20 {
			many[i].Spec.Containers[0].Env = append(many[i].Spec.Containers[0].Env,
				v1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", v), Value: fmt.Sprintf("value %d of pod %d", v, i)})
		}
	}
	c.CreatePods(b, many...)

	config := strings.Replace(readManifest(b, "config.yaml"), "leaderElect: true", "leaderElect: false", 1)
	config = strings.Replace(config, "policyName: general", "{policyName: general, appLabel: app}", 1)
	for _, program := range []string{"kube-scheduler", "sigma-scheduler"} {
		text, scheduler := config, "sigma"
		if program == "kube-scheduler" {
			text, scheduler = "profiles: [{schedulerName: upstream}]", "upstream"
		}
		s := c.StartScheduler(b, program, text)
		var fresh []*v1.Pod
		for i := range 500 {
			pod := e2e.Pod("default", fmt.Sprintf("%s-%d", program, i), "100m", "128Mi")
			pod.Spec.SchedulerName = scheduler
			pod.Labels["app"] = fmt.Sprintf("app-%d", i/10)
			fresh = append(fresh, pod)
		}
		c.CreatePods(b, fresh...)
		e2e.Wait(b, "500 pods bound", func() (string, bool) {
			return "", s.Metric(b, "scheduler_schedule_attempts_total", `result="scheduled"`) == 500
		})
		b.ReportMetric(s.Metric(b, "process_resident_memory_bytes")/(1<<20), program+"-MiB")
		b.ReportMetric(s.CPUSeconds(b), program+"-CPU-s")
		s.Stop(b)
	}
}

func readManifest(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "manifests", "base", name))
	require.NoError(t, err)
	return string(text)
}
