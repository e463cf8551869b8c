//go:build e2e

package e2e_test

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/admission"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// formerVariable names the folder that hack/upgrade.sh fills: programs and manifests of
// the former version.
const formerVariable = "SIGMA_BEFORE"

// The tags of the images of the two versions.
const (
	former  = "before"
	present = "after"
)

// keptApart is a rule, and pods that a policy would put on one node without it.
const keptApart = `
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: few}
spec: {selector: {matchLabels: {app: ruled}}, maxPerNode: 2}
`

// journalVolume is what the page's kustomization names.
const journalVolume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: journal}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: "", hostPath: {path: /mnt}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: sigma-mpa-journal, namespace: sigma-mpa}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: journal, resources: {requests: {storage: 1Gi}}}
`

// devices are on a node that is for pods with claims alone.
const devices = `
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
  nodeName: devices
  pool: {name: pool, generation: 1, resourceSliceCount: 1}
  devices: [{name: one}, {name: two}, {name: three}]
`

// An upgraded is a cluster whose Sigma and autoscaler change their version, while pods come
// and go and a workload is sized.
type upgraded struct {
	*fleet
	dir      string // the user's: manifests of one version or both, and kustomizations of their own
	runtime  *containers
	leader   *runningPod
	logs     []string // decision logs, in the order of the schedulers' starts
	service  *service
	mpa      *e2e.MPA
	journals string
	recorded string // folder of a recording of the cluster
	web      *member
	stream   *stream
	specs    string // of the policy and the rule
}

// TestUpgrade goes from a former version to this one and back, as docs/operations.md and
// docs/mpa.md say.
func TestUpgrade(t *testing.T) {
	if os.Getenv(formerVariable) == "" {
		t.Skip("make e2e-upgrade builds the former version, and names it in " + formerVariable)
	}
	for _, name := range []string{"sigma-scheduler", "sigma-mpa"} {
		t.Logf("%s is built on Kubernetes %s before, %s after", name,
			kubernetesOf(t, program(t, name+":"+former)), kubernetesOf(t, program(t, name+":"+present)))
	}
	u := installFormer(t)
	u.requirePlacing()
	u.record(former)

	u.upgrade(present)
	require.True(u, u.placesClaim("after"))
	u.moveLog()
	u.grow(150, 4, 5)

	// The way back is the former tag, with the former manifests for the autoscaler.
	u.upgrade(former)
	require.True(u, u.placesClaim("back"))
	u.grow(250, 6, 8)

	// The former manifests of the scheduler on present objects.
	u.write(former, former)
	page := u.page()
	page.run(t, "Upgrade", 1)
	page.shell(t, "kubectl apply -k autoscaler/manifests/mpa/crds\nkubectl apply -k autoscaler")
	u.runtime.sync(t)
	u.leader = u.runtime.leader(t)
	u.requirePlacing()
	u.startMPA(former)
	u.settle()
	require.Equal(u, u.specs, u.objects())
	u.Logf("with the former manifests a pod with a ResourceClaim is placed: %t", u.placesClaim("former"))

	u.stream.requireOnce(t)
	u.requireSteady(u.web)
	u.requireLogs()
}

func kubernetesOf(t *testing.T, program string) string {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	for _, dep := range info.Deps {
		if dep.Path == "k8s.io/api" {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			return dep.Version
		}
	}
	t.Fatalf("%s does not say what it is built on", program)
	return ""
}

// installFormer installs the former version, with a policy that is live and a rule.
func installFormer(t *testing.T) *upgraded {
	t.Helper()
	c := e2e.StartCluster(t)
	u := &upgraded{
		fleet: &fleet{T: t, c: c, ns: c.Namespace(t), members: map[string]*member{}},
		dir:   openPage(t, c, "operations.md").dir, journals: t.TempDir(), recorded: t.TempDir(), service: startService(t),
	}
	var nodes []*v1.Node
	for i := range 6 {
		nodes = append(nodes, e2e.Node(fmt.Sprintf("node-%d", i), "16", "64Gi"))
	}
	nodes = append(nodes, e2e.Node("devices", "16", "64Gi"))
	nodes[6].Spec.Taints = []v1.Taint{{Key: "devices", Effect: v1.TaintEffectNoSchedule}}
	c.CreateNodes(t, nodes...)
	c.Kubectl(t, devices, "apply", "-f", "-")
	c.StartScheduler(t, "kube-scheduler", "")
	c.InstallMetricsAPI(t)
	u.write(former, former)
	page := u.page()
	page.shell(t, `kubectl apply -k manifests/base/crds
kubectl wait --for=condition=Established --timeout=60s crd/placementpolicies.sigma-scheduler.io crd/placementrules.sigma-scheduler.io
kubectl apply -f manifests/policy.yaml
kubectl apply -k sigma
kubectl apply -k manifests/mpa/crds
kubectl wait --for=condition=Established --timeout=60s crd/multidimpodautoscalers.autoscaling.sigma-scheduler.io
kubectl apply -k autoscaler
kubectl -n sigma-system rollout status deployment/sigma-scheduler --timeout=5m`)
	u.nameServer()
	setMode(t, c, "live")
	c.Kubectl(t, keptApart, "apply", "-f", "-")
	c.Kubectl(t, journalVolume, "apply", "-f", "-")
	u.specs = u.objects()
	u.watch()

	c.WaitRunning(t, sigmaSystem, 2)
	u.runtime = &containers{c: c, pods: map[types.UID]*runningPod{}, fill: u.continueLog}
	u.runtime.sync(t)
	u.leader = u.runtime.leader(t)
	u.startMPA(former)

	placed := func(d *appsv1.Deployment) { d.Spec.Template.Spec.SchedulerName = "sigma" }
	ruled := e2e.Deployment(u.ns, "ruled", 8, "100m", "128Mi")
	placed(ruled)
	c.CreateDeployment(t, ruled)
	size := memberSpec{
		replicas: 2, max: 10, rate: 60, mode: v1alpha1.ModeInPlaceOrRecreate, algorithm: "hpa+vpa",
		usage: v1alpha1.UsageMetricsAPI, memory: "128Mi", maxMemory: "1Gi", edit: placed,
	}
	u.web = u.add("web", size)
	u.web.feed = u.web.load.FeedMetricsAPI(t)
	u.stream = startStream(t, c, u.ns)
	u.autoscale("web", size)
	u.awaitMemory(u.web, "250Mi") // the least that its agent recommends
	u.settle()
	return u
}

// write puts a tag into the user's kustomizations, and beside them the manifests that they
// name: a version's for the scheduler, and for the autoscaler those of the tag. The
// scheduler writes a decision log; of the autoscaler one replica runs, with a volume for its
// journals.
func (u *upgraded) write(tag, version string) {
	u.Helper()
	folder := map[string]string{former: filepath.Join(os.Getenv(formerVariable), "manifests"), present: filepath.Join(repository, "manifests")}
	manifests := folder[version]
	for name, from := range map[string]string{"manifests": manifests, "autoscaler/manifests": folder[tag]} {
		require.NoError(u, os.RemoveAll(filepath.Join(u.dir, name)))
		require.NoError(u, os.CopyFS(filepath.Join(u.dir, name), os.DirFS(from)))
	}
	config, err := os.ReadFile(filepath.Join(manifests, "base", "config.yaml"))
	require.NoError(u, err)
	for name, text := range map[string]string{
		"sigma/config.yaml": string(config) + "      decisionLog: /var/log/sigma/decisions.jsonl\n",
		"sigma/kustomization.yaml": `
resources: [../manifests/overlays/second-scheduler]
configMapGenerator:
- {name: sigma-scheduler-config, namespace: sigma-system, behavior: replace, files: [config.yaml]}
images:
- {name: sigma-scheduler, newName: registry.example.org/sigma-scheduler, newTag: ` + tag + `}
`,
		"autoscaler/kustomization.yaml": `
resources: [manifests/mpa]
images:
- {name: sigma-mpa, newName: registry.example.org/sigma-mpa, newTag: ` + tag + `}
` + yamlOf(u.T, "mpa.md", "# in the kustomization") + fmt.Sprintf(`
- target: {kind: MutatingWebhookConfiguration}
  patch: |
    - {op: replace, path: /webhooks/0/clientConfig, value: {url: "https://%s/size-pod"}}
    - {op: replace, path: /webhooks/0/timeoutSeconds, value: 30}
`, u.service.address),
	} {
		file := filepath.Join(u.dir, name)
		require.NoError(u, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(u, os.WriteFile(file, []byte(text), 0o600))
	}
}

// page is docs/operations.md, in the user's folder.
func (u *upgraded) page() *reader {
	u.Helper()
	page := openPage(u.T, u.c, "operations.md")
	page.dir = u.dir
	return page
}

// upgrade applies a version's manifests and checks that it goes on where the other was.
func (u *upgraded) upgrade(version string) {
	u.Helper()
	waits := e2e.Pod(u.ns, "waits-"+version, "20", "1Gi") // until the other version leads
	u.c.CreatePods(u, onSigma(waits)...)
	u.c.WaitRefused(u, u.ns, 1)
	mark := u.stream.mark()
	u.write(version, present)
	page := u.page()
	page.run(u.T, "Upgrade", 1)
	require.Empty(u, page.blocks)
	awaitAll(u.T, u.c, sigmaSystem, func(pod *v1.Pod) bool { return strings.HasSuffix(pod.Spec.Containers[0].Image, ":"+version) })
	// Programs of both versions run side by side, until those of the former leader's end.
	u.runtime.requireAllowed(u.T)
	u.runtime.sync(u.T)
	was := u.leader
	u.leader = u.runtime.leader(u.T)
	require.NotSame(u, was, u.leader)
	u.c.CreateNodes(u, e2e.Node("large-"+version, "24", "96Gi"))
	e2e.Wait(u, waits.Name, func() (string, bool) {
		node := u.c.Placements(u.ns)[waits.Name]
		return node, node == "large-"+version
	})
	u.requirePlacing()
	wait := u.stream.longest(mark)
	require.Less(u, wait, 30*time.Second, "a pod waited for longer than a lease lasts")

	// The autoscaler: nothing changes while it is replaced, nor because of it.
	u.requireUnchanged([]*member{u.web}, func() {
		if version == former {
			u.nameServer()
		}
		page.shell(u.T, "kubectl apply -k autoscaler/manifests/mpa/crds\nkubectl apply -k autoscaler")
		u.nameServer()
		u.startMPA(version)
		e2e.Wait(u, "decisions of the other version", func() (string, bool) {
			n := u.mpa.Metric(u, "sigma_mpa_decisions_total", `name="web"`)
			return fmt.Sprint(n), n >= 20
		})
	})
	u.requireJournal(version)
	u.record(version)
	require.Equal(u, u.specs, u.objects())
	u.Logf("%s: the lease changed hands, no pod waited longer than %.1f s, sizes stayed", version, wait.Seconds())
}

// requirePlacing checks that the leader places by the policy, and keeps the rule.
func (u *upgraded) requirePlacing() {
	u.Helper()
	placed := func(cause string) float64 {
		return e2e.SumMetric(u, strings.NewReader(u.runtime.metrics(u.T, u.leader.url)), "sigma_decisions_total", cause, `mode="live"`)
	}
	before := placed(`cause="policy"`)
	u.stream.await(u.T, u.stream.mark(), 40)
	u.c.Kubectl(u, "", "rollout", "restart", "deployment/ruled", "-n", u.ns)
	u.c.Kubectl(u, "", "rollout", "status", "deployment/ruled", "-n", u.ns, "--timeout=3m")
	require.GreaterOrEqual(u, placed(`cause="policy"`)-before, 40.)
	require.NotRegexp(u, `(?m)^sigma_fallbacks_total`, u.runtime.metrics(u.T, u.leader.url))
	u.Logf("the leader placed %.0f pods by the policy, live, %.0f in all", placed(`cause="policy"`), placed(""))

	perNode, all := map[string]int{}, 0
	for _, pod := range u.c.Pods(u.ns) {
		if pod.Labels["app"] == "ruled" && pod.DeletionTimestamp == nil {
			perNode[pod.Spec.NodeName]++
			all++
			require.LessOrEqual(u, perNode[pod.Spec.NodeName], 2, "the rule: %v", perNode)
		}
	}
	require.Equal(u, 8, all)
	u.c.Kubectl(u, "", "wait", "--for=jsonpath={.status.conditions[?(@.type==\"Active\")].reason}=Live", "--timeout=60s", "placementpolicy/general")
	u.c.RequireFits(u)
	u.runtime.requireAllowed(u.T)
}

// placesClaim creates a pod that asks for a device, and reports whether it is placed soon.
func (u *upgraded) placesClaim(name string) bool {
	u.Helper()
	u.c.Kubectl(u, fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s, namespace: %s}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: example}}]}}
`, name, u.ns), "apply", "-f", "-")
	pod := e2e.Pod(u.ns, "claim-"+name, "100m", "128Mi")
	pod.Spec.Tolerations = []v1.Toleration{{Key: "devices", Operator: v1.TolerationOpExists}}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "r", ResourceClaimName: &name}}
	pod.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "r"}}
	u.c.CreatePods(u, onSigma(pod)...)
	for range 40 {
		if u.c.Placements(u.ns)[pod.Name] != "" {
			return true
		}
		<-time.NewTimer(500 * time.Millisecond).C
	}
	return false
}

// objects are the policy and the rule without their status.
func (u *upgraded) objects() string {
	u.Helper()
	text := u.c.Kubectl(u, "", "get", "placementpolicy/general", "placementrule/few", "-o",
		`jsonpath={range .items[*]}{.metadata.uid} {.metadata.generation} {.spec}{"\n"}{end}`)
	return strings.ReplaceAll(text, `,"topologyKey":"kubernetes.io/hostname"`, "") // a default that the former definition does not have
}

// continueLog gives a scheduler the present leader's decision log to continue: a copy, since
// that one still writes.
func (u *upgraded) continueLog(dir string) {
	u.Helper()
	log := filepath.Join(dir, "decisions.jsonl")
	u.logs = append(u.logs, log)
	if u.leader == nil {
		return
	}
	text, err := os.ReadFile(filepath.Join(u.leader.dir, "decisions.jsonl"))
	require.NoError(u, err)
	require.NotEmpty(u, text)
	require.NoError(u, os.WriteFile(log, text, 0o600))
}

// startMPA replaces the autoscaler's program by that of its pod: with a volume, the other
// has ended before.
func (u *upgraded) startMPA(version string) {
	u.Helper()
	var pod *v1.Pod
	e2e.Wait(u, "the autoscaler's pod", func() (string, bool) {
		pods := u.c.Pods(mpaSystem)
		if len(pods) != 1 || !strings.HasSuffix(pods[0].Spec.Containers[0].Image, ":"+version) || pods[0].Status.Phase != v1.PodRunning {
			return fmt.Sprint(len(pods)), false
		}
		pod = pods[0]
		return "", true
	})
	if u.mpa != nil {
		requireAllowed(u.T, u.mpa)
		u.mpa.Stop(u)
	}
	u.service.mu.Lock()
	u.service.replicas = nil
	u.service.mu.Unlock()
	u.mpa = u.service.startPod(u.T, u.c, &pod.Spec, u.journals, quick...)
}

// settle waits until the workload is as the autoscaler wants it.
func (u *upgraded) settle() {
	u.Helper()
	changes, since := -1, time.Now()
	u.await("calm", []*member{u.web}, func(m *member, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		if now := m.changes(); now != changes || s.Phase != v1alpha1.PhaseHolding {
			changes, since = now, time.Now()
		}
		return time.Since(since) > 15*time.Second
	})
	for _, pod := range u.pods(u.web) {
		r := pod.Spec.Containers[0].Resources.Requests
		require.Equal(u, "500m 250Mi", r.Cpu().String()+" "+r.Memory().String(), pod.Name)
	}
}

// grow sets the load, and checks that the present autoscaler scales the workload and that
// its webhook gives new pods their size.
func (u *upgraded) grow(rate float64, low, high int32) {
	u.Helper()
	before := uids(u.pods(u.web))
	u.web.set(rate)
	u.awaitReplicas([]*member{u.web}, low, high)
	u.settle()
	fresh := slices.DeleteFunc(u.pods(u.web), func(p *v1.Pod) bool { return before[p.UID] })
	require.NotEmpty(u, fresh)
	for _, pod := range fresh {
		require.Contains(u, pod.Annotations[admission.AnnotationRecommendation], "web/", pod.Name)
	}
	u.Logf("%.0f requests per second: %d replicas, %d new pods of the recommended size", rate, u.web.last(), len(fresh))
}
