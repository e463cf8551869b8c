//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

// phases collects what phases a PolicyPilot goes through.
type phases struct {
	sync.Mutex
	list []string
}

func (p *phases) seen() []string {
	p.Lock()
	defer p.Unlock()
	return slices.Clone(p.list)
}

// follow collects the phases and steps of a pilot until the test ends. A watch that breaks off is
// begun again.
func (p *phases) follow(t *testing.T, c *e2e.Cluster, name string) {
	t.Helper()
	resource := c.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("policypilots"))
	ctx := t.Context()
	go func() {
		for ctx.Err() == nil {
			w, err := resource.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
			if err != nil {
				time.Sleep(time.Second)
				continue
			}
			for e := range w.ResultChan() {
				if o, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != watch.Error {
					p.add(o)
				}
			}
		}
	}()
}

func (p *phases) add(o *unstructured.Unstructured) {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	step, _, _ := unstructured.NestedString(o.Object, "status", "step")
	text := strings.TrimSpace(phase + " " + step)
	p.Lock()
	defer p.Unlock()
	if text != "" && (len(p.list) == 0 || p.list[len(p.list)-1] != text) {
		p.list = append(p.list, text)
	}
}

// A node is the container runtime that TestPilot's Jobs run on: the first pod is evicted, of the next ones the
// container is the real program with the arguments of its manifest.
type node struct {
	c     *e2e.Cluster
	state string // the folder that pods have as the pilot's

	mu      sync.Mutex
	started map[types.UID]bool
}

// start notes a pod, and returns how many were started so far; 0 = it was started before.
func (n *node) start(pod types.UID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.started[pod] {
		return 0
	}
	n.started[pod] = true
	return len(n.started)
}

// starts is how many pods were started.
func (n *node) starts() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.started)
}

// run runs pods until the test ends.
func (n *node) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			for _, pod := range n.c.Pods(sigmaSystem) {
				if pod.Labels["app.kubernetes.io/name"] != v1alpha1.PilotTrainingTemplate || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
					continue
				}
				number := n.start(pod.UID)
				if number == 0 {
					continue
				}
				if number == 1 {
					if err := n.c.Client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}}); err != nil {
						t.Errorf("evict %s: %v", pod.Name, err)
					}
					n.ended(ctx, t, pod, 143) // by SIGTERM
					continue
				}
				all.Go(func() { n.container(ctx, t, pod) })
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
}

// container runs a pod's container, and reports how it ended.
func (n *node) container(ctx context.Context, t *testing.T, pod *corev1.Pod) {
	var args []string
	for _, arg := range pod.Spec.Containers[0].Args {
		args = append(args, strings.NewReplacer("/var/lib/sigma/pilot", n.state, "$(TRAINING)", pod.Annotations[v1alpha1.PilotTrainingAnnotation]).Replace(arg))
	}
	out, err := exec.CommandContext(ctx, e2e.Program(t, "sigma-pilot"), args...).CombinedOutput()
	if ctx.Err() != nil {
		return
	}
	t.Logf("%s ended with %v: %s", pod.Name, err, out)
	code := int32(0)
	if err != nil {
		code = 1
	}
	n.ended(ctx, t, pod, code)
}

// ended reports how a pod's container ended.
func (n *node) ended(ctx context.Context, t *testing.T, pod *corev1.Pod, code int32) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		is, err := n.c.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		is.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			is.Status.Phase = corev1.PodFailed
		}
		is.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Ended", ExitCode: code, StartedAt: *is.Status.StartTime, FinishedAt: metav1.Now(),
		}}
		is.Status.ContainerStatuses[0].Ready = false
		_, err = n.c.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, is, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Errorf("status of %s: %v", pod.Name, err)
	}
}

// requireOnlyTemplate: the account of the pilot may make a Job like one that it has made, and no other; and it
// deletes no other.
func requireOnlyTemplate(t *testing.T, c *e2e.Cluster, account string, made *batchv1.Job) {
	t.Helper()
	as := func(input string, args ...string) (string, error) {
		command := exec.Command(e2e.Program(t, "kubectl"), append([]string{"--kubeconfig=" + account, "-n", sigmaSystem}, args...)...)
		command.Stdin = strings.NewReader(input)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	like := func(change func(*batchv1.Job)) (string, error) {
		job := &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, Spec: *made.Spec.DeepCopy()}
		job.Name, job.Spec.Selector = "sigma-pilot-train-like", nil
		for name := range job.Spec.Template.Labels {
			if strings.Contains(name, "job-name") || strings.Contains(name, "controller-uid") {
				delete(job.Spec.Template.Labels, name)
			}
		}
		change(job)
		text, err := json.Marshal(job)
		require.NoError(t, err)
		return as(string(text), "create", "--dry-run=server", "-f", "-")
	}
	out, err := like(func(*batchv1.Job) {})
	require.NoError(t, err, out)
	for name, change := range map[string]func(*batchv1.Job){
		"whose names begin with":             func(j *batchv1.Job) { j.Name = "sigma-mpa-retraining-1" },
		"with the container of the CronJob":  func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "other" },
		"with the container of the CronJob ": func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Args = []string{"--state=/"} },
		"with the container of the CronJob  ": func(j *batchv1.Job) {
			j.Spec.Template.Spec.Containers[0].SecurityContext.Privileged = new(true)
			j.Spec.Template.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
		},
		"with the container of the CronJob   ": func(j *batchv1.Job) {
			j.Spec.Template.Spec.Containers = append(j.Spec.Template.Spec.Containers, corev1.Container{Name: "b", Image: "b"})
		},
		"whose pods are those of the CronJob":  func(j *batchv1.Job) { j.Spec.Template.Spec.HostNetwork = true },
		"whose pods are those of the CronJob ": func(j *batchv1.Job) { j.Spec.Template.Spec.ServiceAccountName = "sigma-scheduler" },
		"whose pods are those of the CronJob  ": func(j *batchv1.Job) {
			j.Spec.Template.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		},
		"whose pods are those of the CronJob   ":  func(j *batchv1.Job) { j.Spec.Template.Spec.SecurityContext = nil },
		"whose pods are those of the CronJob    ": func(j *batchv1.Job) { j.Spec.Template.Spec.Affinity = nil },
		"whose pods have the labels":              func(j *batchv1.Job) { j.Spec.Template.Labels["app.kubernetes.io/name"] = "sigma-scheduler" },
		"whose pods have the labels ":             func(j *batchv1.Job) { j.Spec.Template.Annotations["other"] = "x" },
		"whose pods have the labels  ":            func(j *batchv1.Job) { delete(j.Spec.Template.Labels, "app.kubernetes.io/name") },
		"whose pods have the labels   ":           func(j *batchv1.Job) { j.Spec.Template.Finalizers = []string{"example.com/stays"} },
		"with a limit of memory": func(j *batchv1.Job) {
			delete(j.Spec.Template.Spec.Containers[0].Resources.Limits, corev1.ResourceMemory)
		},
		"with a limit of memory ":      func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{} },
		"at most ten retries":          func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32(11)) },
		"a deadline of at most a week": func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = new(int64(604801)) },
		"that select their pods by their own labels": func(j *batchv1.Job) {
			j.Spec.ManualSelector = new(true)
			j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": v1alpha1.PilotTrainingTemplate}}
		},
		"of one pod":                  func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(2)) },
		"of one pod, with a deadline": func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = nil },
	} {
		out, err := like(change)
		require.Error(t, err, out)
		require.Contains(t, out, strings.TrimSpace(name))
	}
	c.Kubectl(t, "", "create", "job", "other", "-n", sigmaSystem, "--image=other")
	out, err = as("", "delete", "job", "other")
	require.Error(t, err, out)
	require.Contains(t, out, "sigma-pilot makes and deletes Jobs whose names begin with")
	// Without the template it makes none, and may delete its own all the same.
	templates := c.Client.BatchV1().CronJobs(sigmaSystem)
	template, err := templates.Get(t.Context(), v1alpha1.PilotTrainingTemplate, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, templates.Delete(t.Context(), template.Name, metav1.DeleteOptions{}))
	e2e.Wait(t, "no Job is made without the template", func() (string, bool) {
		out, err := like(func(*batchv1.Job) {})
		return out, err != nil
	})
	out, err = as("", "delete", "job", made.Name, "--dry-run=server")
	require.NoError(t, err, out)
	template.ResourceVersion, template.UID = "", ""
	_, err = templates.Create(t.Context(), template, metav1.CreateOptions{})
	require.NoError(t, err)
	checked := c.Kubectl(t, "", "get", "validatingadmissionpolicies", "-o", "jsonpath={.items[*].status.typeChecking}")
	require.NotContains(t, checked, "warning")
}

// volume is the claim of the pilot, bound.
const volume = `{apiVersion: v1, kind: PersistentVolume, metadata: {name: history},
  spec: {capacity: {storage: 100Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /history}, claimRef: {namespace: sigma-system, name: sigma-history}}}`

// fastMonth is docs/first-month.md in fast motion: what takes days takes seconds, trainings are small and Jobs, and the gate lets
// the candidate through. The training is due at a minute of the day.
func fastMonth(due time.Time) *strings.Replacer {
	return strings.NewReplacer(
		`schedule: "0 3 * * 0", history: 28, validate: 2, test: 3, evaluations: 2000, seeds: 3`,
		fmt.Sprintf(`schedule: "%d %d * * *", history: 4, validate: 1, test: 2, evaluations: 4, seeds: 1, job: {cores: 2, memory: 256Mi}`, due.Minute(), due.Hour()),
		"baseline: mostallocated ", "baseline: leastallocated ", "against: [mostallocated]", "against: [leastallocated]",
		"savingPercent: 2, confidence: 0.95, unplaced: 0, waitPercent: 10", "savingPercent: 1, confidence: 0.6, unplaced: 1000, waitPercent: 1000",
		"{mode: canary, percent: 10, for: 48h}, ", "", "48h", "5s",
		"fallbackShare: 0.01, pendingP99: 60s, ruleConflicts: 0, openedVsBestFit: 1.5, costVsBestFit: 1.05", "fallbackShare: 0.05, pendingP99: 10m, ruleConflicts: 0",
	)
}

// TestPilot runs every command of docs/first-month.md, over install.yaml. A policy is trained by a Job on days that were recorded, judged on later ones, waits for a
// person, and goes through shadow and a canary to live; the program is killed on the way, and loses
// the API server until its lease is gone: it ends, and the Deployment starts it again. Its account
// may do no more than that.
func TestPilot(t *testing.T) {
	c := e2e.StartCluster(t)
	c.CreateNodes(t, e2e.Nodes(4, 12)...)
	installSigma(t, c)
	page := openPage(t, c, "first-month.md")
	require.NoError(t, os.CopyFS(page.dir, os.DirFS(e2e.Program(t, "install")))) // the folder of a release
	page.shell(t, "kubectl apply -f install.yaml")
	page.run(t, "Day 0: install, and begin to record", 1)
	account := accountKubeconfig(t, c, sigmaSystem, "sigma-pilot")
	c.Kubectl(t, volume, "apply", "-f", "-")
	dir, state := t.TempDir(), t.TempDir()
	now := time.Now().UTC()
	var past bytes.Buffer
	ledgertest.Days(t, &past, now.Truncate(24*time.Hour).Add(-5*24*time.Hour-time.Hour), now, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "decisions.jsonl.20260101T000000.000Z"), past.Bytes(), 0o600))
	c.StartScheduler(t, scheduler, sigmaConfig(true, fmt.Sprintf("policyName: general, canaryPolicyName: general-candidate, decisionLog: %s", filepath.Join(dir, "decisions.jsonl"))))
	proxy := c.StartProxy(t, account)
	metrics := fmt.Sprintf("127.0.0.1:%d", e2e.FreePort(t))
	pilot := e2e.StartProcess(t, "sigma-pilot", e2e.Program(t, "sigma-pilot"), "--kubeconfig="+proxy.Kubeconfig, "--namespace="+sigmaSystem,
		"--history="+dir, "--state="+state, "--metrics-bind-address="+metrics, "--health-probe-bind-address=0", "--v=2")
	starts := pilot.Supervise(t)

	var passed phases
	passed.follow(t, c, "general")
	due := time.Now().UTC().Truncate(time.Minute).Add(2 * time.Minute)
	page.edit = fastMonth(due).Replace
	object := page.blocks[0].text
	page.run(t, "Day 0: install, and begin to record", 1)
	page.shell(t, strings.Replace(page.edit(object), "{name: general}", "{name: other}", 1))
	get := func(kind, name, path string) string {
		return c.Kubectl(t, "", "get", kind, name, "-o", "jsonpath="+path)
	}
	e2e.Wait(t, "the second pilot is refused", func() (string, bool) {
		text := get("policypilot", "other", `{.status.conditions[?(@.type=="Accepted")].message}`)
		return text, text == "spec.policy: the PolicyPilot general steers a PlacementPolicy of this one, and is older"
	})
	c.Kubectl(t, "", "delete", "policypilot", "other")

	ns := c.Namespace(t)
	number := 0
	// until waits for a phase, and has pods come meanwhile.
	until := func(want string) {
		t.Helper()
		begin := time.Now()
		for time.Since(begin) < 10*time.Minute {
			if seen := passed.seen(); slices.Contains(seen, want) {
				t.Logf("%s after %v", want, time.Since(begin).Round(time.Second))
				return
			}
			number++
			c.CreateDeployment(t, e2e.Deployment(ns, fmt.Sprintf("app-%03d", number), 2, "50m", "64Mi"))
			time.Sleep(3 * time.Second)
		}
		t.Fatalf("no phase %s, but %v; %s", want, passed.seen(), c.Kubectl(t, "", "get", "policypilot", "general", "-o", "yaml"))
	}
	until("Recording")
	require.Regexp(t, `(?m)^general +general +Recording `, page.run(t, "Days 1 to 11: the record", 1))
	until("Training")
	jobs := func() []batchv1.Job {
		list, err := c.Client.BatchV1().Jobs(sigmaSystem).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + v1alpha1.PilotTrainingTemplate})
		require.NoError(t, err)
		return list.Items
	}
	e2e.Wait(t, "the Job", func() (string, bool) { return get("policypilot", "general", "{.status.reasons}"), len(jobs()) == 1 })
	pilot.Kill(t)
	requireOnlyTemplate(t, c, account, &jobs()[0])
	runtime := &node{c: c, state: state, started: map[types.UID]bool{}}
	runtime.run(t)
	until("AwaitingApproval")
	code, _ := scrape(t, "https://"+metrics, strings.TrimSpace(c.Kubectl(t, "", "create", "token", "sigma-pilot", "-n", sigmaSystem)))
	require.Equal(t, http.StatusForbidden, code, "metrics are for accounts with the right to them")
	require.Equal(t, 2, runtime.starts(), "one pod was evicted, and the next one trained")
	e2e.Wait(t, "the Job goes", func() (string, bool) { return fmt.Sprint(jobs()), len(jobs()) == 0 })
	p := &prompt{t, c, filepath.Join(c.Dir, "kubeconfig")}
	status := page.run(t, "The second Sunday: a candidate waits", 1)
	require.Regexp(t, `(?m)^general +general +AwaitingApproval +.*% \(`, status)
	require.Regexp(t, `(?m)^phase +AwaitingApproval$`, status)
	require.Regexp(t, `(?m)^because +sha256:\w+ (is better|waits for approval)`, status)
	t.Log(status)
	candidate := get("policypilot", "general", "{.status.candidate}")
	require.NotContains(t, c.Kubectl(t, "", "get", "placementpolicies", "-o", "name"), "candidate", "nothing is written before it is approved")
	require.Equal(t, "shadow", get("placementpolicy", "general", "{.spec.mode}"))

	// What the account may not do: by its rights, and of what it may patch and create.
	for _, right := range []string{"delete placementpolicies/general", "patch placementpolicies/old", "patch policypilots/general", "list secrets", "create pods", "list jobs.batch", "create cronjobs.batch", "create jobs.batch -n default"} {
		verb, resource, _ := strings.Cut(right, " ")
		args := append([]string{"auth", "can-i", verb, "--as=system:serviceaccount:sigma-system:sigma-pilot"}, strings.Fields(resource)...)
		out, err := kubectlAs(t, filepath.Join(c.Dir, "kubeconfig"), "", args...)
		require.Error(t, err, right)
		require.Contains(t, out, "no", right)
	}
	for _, refused := range []struct {
		why, input string
		args       []string
	}{
		{"sigma-pilot changes spec.mode and canaryPercent, or a whole spec", "", []string{"patch", "placementpolicy", "general", "--type=merge", "-p", `{"spec":{"model":"plan","knowledge":"K2"}}`}},
		{"sigma-pilot leaves repair, soft and maxShareOfApp", "", []string{"patch", "placementpolicy", "general", "--type=merge", "-p", `{"spec":{"maxShareOfApp":0.3,"provenance":{"pilot":"general"}}}`}},
		{"sigma-pilot makes no PlacementPolicy that is live", liveRule, []string{"create", "-f", "-"}},
	} {
		out, err := kubectlAs(t, account, refused.input, refused.args...)
		require.Error(t, err, out)
		require.Contains(t, out, refused.why)
	}

	require.Contains(t, page.run(t, "The second Sunday: a candidate waits", 1), candidate+" approved")
	until("Shadow shadow")
	until("Canary canary 50 %")
	require.Regexp(t, `(?m)^general-candidate .* canary `, page.run(t, "The week after: shadow, canary, live", 1))
	require.Equal(t, "canary 50", get("placementpolicy", "general-candidate", "{.spec.mode} {.spec.canaryPercent}"))
	before := starts()
	proxy.SetRefuse(func(*http.Request) bool { return true })
	e2e.Wait(t, "it ends without its lease", func() (string, bool) { return "it runs", starts() > before })
	proxy.SetRefuse(nil)
	log, err := os.ReadFile(pilot.Log)
	require.NoError(t, err)
	require.Contains(t, string(log), "leader election lost")
	until("Live live")
	until("Watching")
	require.Equal(t, "live general", get("placementpolicy", "general", "{.spec.mode} {.spec.provenance.pilot}"))
	require.Equal(t, candidate, get("policypilot", "general", "{.status.inForce}"))
	e2e.Wait(t, "the candidate decides nothing", func() (string, bool) {
		mode := get("placementpolicy", "general-candidate", "{.spec.mode}")
		return mode, mode == "shadow"
	})
	e2e.Wait(t, "the scheduler has it", func() (string, bool) {
		digest := get("placementpolicy", "general", "{.status.digest}")
		return digest, digest == candidate
	})
	want := []string{"Recording", "Training", "Judging", "AwaitingApproval", "Shadow shadow", "Canary canary 50 %", "Live live", "Watching"}
	require.Equal(t, want, passed.seen())
	table := page.run(t, "The end of the month: what came of it", 1)
	require.Regexp(t, `(?m)^general +general +Watching +.* % \(`, table)
	require.Regexp(t, `PhaseChanged|goes to live`, table)
	report, err := os.ReadFile(filepath.Join(page.dir, "report.html"))
	require.NoError(t, err)
	require.Contains(t, string(report), candidate[:15]+" is in force")
	code, out := p.run("pilot", "approve", "general")
	require.Equal(t, 1, code)
	require.Contains(t, out, "general waits for no approval")
	require.Regexp(t, `(?m)^general .* canary `, page.run(t, "And back", 1))
	require.Empty(t, page.blocks)

	// The way back of docs/pilot.md.
	replicas := func() string {
		return c.Kubectl(t, "", "get", "-n", sigmaSystem, "deployment/sigma-scheduler", "-o", "jsonpath={.spec.replicas} {.spec.strategy.type}")
	}
	require.Equal(t, "1 Recreate", replicas())
	c.Kubectl(t, "", "delete", "-n", sigmaSystem, "deployment/sigma-pilot")
	page.shell(t, "kubectl apply -f install.yaml")
	require.Equal(t, "2 RollingUpdate", replicas())
}

const liveRule = `{apiVersion: sigma-scheduler.io/v1alpha1, kind: PlacementPolicy, metadata: {name: sudden},
  spec: {featureVersion: 1, model: rule, knowledge: K0, features: [], weights: [], rule: {name: bestfit}, mode: live, provenance: {pilot: general}}}`
