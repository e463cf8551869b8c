//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// How the Job of an object ends, by the first part of its name.
const (
	jobBetter    = "better"    // sigma mpa retrain, as in the template
	jobNotBetter = "notbetter" // with a budget of one evaluation, which is of what serves
	jobFailing   = "failing"   // its journal is gone
	jobEndless   = "endless"   // nothing ends it but its deadline
	jobGarbage   = "garbage"   // says what is no result
	jobWrong     = "wrong"     // writes a policy with a number outside its box
)

// trainers stand for the container runtime of a node where Jobs run: a pod's container is the
// real program with the arguments, the environment and the rights of its manifest, but for what
// the object's name asks for.
type trainers struct {
	c                    *e2e.Cluster
	kubeconfig, journals string
	wrong                string // a policy's file

	started map[types.UID]bool // of the goroutine that looks for pods
	all     sync.WaitGroup
}

// run runs the containers of new pods until the test ends.
func (r *trainers) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r.all.Go(func() {
		for ctx.Err() == nil {
			for _, pod := range r.c.Pods(mpaSystem) {
				if pod.Labels["app.kubernetes.io/name"] != "sigma-mpa-retraining" || pod.Status.Phase != v1.PodRunning || pod.DeletionTimestamp != nil || r.started[pod.UID] {
					continue
				}
				r.started[pod.UID] = true
				r.all.Go(func() { r.container(ctx, t, pod) })
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		r.all.Wait()
	})
}

// container runs a pod's container, and reports how it ended.
func (r *trainers) container(ctx context.Context, t *testing.T, pod *v1.Pod) {
	c := pod.Spec.Containers[0]
	result := filepath.Join(t.TempDir(), "result")
	args, env, object := []string(nil), os.Environ(), ""
	for _, arg := range c.Args {
		args = append(args, strings.NewReplacer("/var/lib/sigma-mpa", r.journals, "/dev/termination-log", result).Replace(arg))
		if value, ok := strings.CutPrefix(arg, "--object="); ok {
			_, object, _ = strings.Cut(value, "/")
		}
	}
	for _, v := range c.Env {
		env = append(env, v.Name+"="+strings.ReplaceAll(v.Value, "$$", "$"))
	}
	kind, _, _ := strings.Cut(object, "-")
	program, args := e2e.Program(t, "sigma"), append(args, "--kubeconfig="+r.kubeconfig)
	switch kind {
	case jobNotBetter:
		args = append(args, "--evaluations=1", "--particles=1")
	case jobEndless:
		program, args = "/bin/sleep", []string{"1000"}
	case jobGarbage:
		program, args = "/bin/sh", []string{"-c", "printf '{\"policy\": \\001\\377' > " + result}
	case jobWrong:
		says := `{"policy":"wrong","digest":"sha256:1","pieces":3}`
		program, args = "/bin/sh", []string{"-c", fmt.Sprintf("%s --kubeconfig=%s create -f %s; echo '%s' > %s", e2e.Program(t, "kubectl"), r.kubeconfig, r.wrong, says, result)}
	}
	var log bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Env, command.Stdout, command.Stderr = env, &log, &log
	code := int32(0)
	if err := command.Run(); err != nil {
		code = 1
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code = int32(exit.ExitCode())
		}
	}
	if ctx.Err() != nil {
		return
	}
	says, err := os.ReadFile(result)
	if err != nil && code != 0 { // terminationMessagePolicy
		says = log.Bytes()
	}
	t.Logf("%s ended with %d: %s %s", object, code, log.String(), says)
	is, err := r.c.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return // deleted meanwhile
	}
	is.Status.Phase = v1.PodSucceeded
	if code != 0 {
		is.Status.Phase = v1.PodFailed
	}
	is.Status.ContainerStatuses[0].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		ExitCode: code, Reason: "Ended", Message: strings.ToValidUTF8(string(says), "?"), StartedAt: *is.Status.StartTime, FinishedAt: metav1.Now(),
	}}
	is.Status.ContainerStatuses[0].Ready = false
	if _, err := r.c.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, is, metav1.UpdateOptions{}); err != nil {
		t.Errorf("status of %s: %v", pod.Name, err)
	}
}

// jobsOf returns the Jobs that the recommender has made.
func jobsOf(t *testing.T, c *e2e.Cluster) []batchv1.Job {
	t.Helper()
	list, err := c.Client.BatchV1().Jobs(mpaSystem).List(t.Context(), metav1.ListOptions{LabelSelector: "autoscaling.sigma-scheduler.io/retrained=true"})
	require.NoError(t, err)
	return list.Items
}

// poorPolicy writes a policy whose numbers are easily beaten.
func poorPolicy(t *testing.T) (path string, p *learned.Policy) {
	t.Helper()
	p = learned.General()
	p.Name = "served"
	for i, n := range learned.Numbers {
		if n.Name == "spare" || n.Name == "betaLeast" {
			p.Values[i] = n.Max
		}
	}
	data, err := p.Marshal()
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "served.yaml")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	p, err = learned.Parse(path, data)
	require.NoError(t, err)
	return path, p
}

// changedJournal returns the journal of some hours of a simulated workload that a policy sizes. A
// new version of it needs more cpu for a request, which the last alarm tells.
func changedJournal(t *testing.T, p *learned.Policy) string {
	t.Helper()
	const hours, seed = 9.1, 304
	g, err := sim.NewGenerator("train", "")
	require.NoError(t, err)
	s, err := g.Generate(seed)
	require.NoError(t, err)
	load := s.Load
	load.PerSec = slices.Clone(load.PerSec)
	for n := len(load.PerSec); float64(len(load.PerSec))*load.Step < hours*3600; {
		load.PerSec = append(load.PerSec, load.PerSec[len(load.PerSec)-n])
	}
	folder := t.TempDir()
	a := scaling.Agent{Name: "learned", Policy: p}
	_, err = a.RunLogged(t.Context(), sim.Config{
		App: s.App, Load: load, Seconds: hours * 3600, Seed: seed, Guards: mpa.DefaultGuards(), Site: sim.DefaultSite(),
		Updates: []sim.Update{{At: 4 * 3600, CPU: 1.4, Memory: 1}},
	}, folder)
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Contains(t, string(data), `"drift":"cpu per request is higher`)
	return string(data)
}

// A policy is trained for workloads that have changed: Jobs of the component train it on their
// journals. The autoscaler is killed between alarm and Job and again when there is one, and the
// journals' volume is full while they run. Each object has one Job, the policy that is better
// goes on in the shadow, and whatever else a Job does changes no policy in use. SIGMA_ROUNDS has
// so many objects for each way in which a Job ends.
func TestMPARetraining(t *testing.T) {
	c := ownCluster(t)
	volume := t.TempDir()
	require.NoError(t, syscall.Mount("sigma", volume, "tmpfs", 0, fmt.Sprintf("size=%dm", 100*roundsOf(t))))
	t.Cleanup(func() { _ = syscall.Unmount(volume, syscall.MNT_DETACH) })
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	manifests, err := filepath.Abs(filepath.Join(repository, "manifests"))
	require.NoError(t, err)
	to := func(folder string) string {
		rel, err := filepath.Rel(dir, filepath.Join(manifests, folder))
		require.NoError(t, err)
		return rel
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil, `
resources: [%s]
components: [%s]
patches:
- target: {kind: CronJob}
  patch: |
    - {op: replace, path: /spec/jobTemplate/spec/backoffLimit, value: 0}
    - {op: add, path: /spec/jobTemplate/spec/template/spec/containers/0/args/-, value: --scenarios=8}
    - {op: add, path: /spec/jobTemplate/spec/template/spec/containers/0/args/-, value: --evaluations=24}
`, to("mpa"), to("mpa/retraining")), 0o600))
	back, err := filepath.Rel(manifests, dir)
	require.NoError(t, err)
	s := installMPA(t, c, back)
	c.Kubectl(t, `
apiVersion: v1
kind: PersistentVolume
metadata: {name: journals}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], hostPath: {path: /journals}, claimRef: {namespace: sigma-mpa, name: sigma-mpa-journal}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: sigma-mpa-journal, namespace: sigma-mpa}
spec: {accessModes: [ReadWriteMany], storageClassName: "", volumeName: journals, resources: {requests: {storage: 1Gi}}}
`, "apply", "-f", "-")
	c.WaitRunning(t, mpaSystem, 2)

	f := &fleet{T: t, c: c, ns: c.Namespace(t), members: map[string]*member{}}
	served, policy := poorPolicy(t)
	wrong, _ := changedPolicy(t, "wrong", "kappa", 99)
	f.applyPolicy("served", served)
	text := changedJournal(t, policy)
	var objects []string
	for _, kind := range []string{jobBetter, jobNotBetter, jobFailing, jobEndless, jobGarbage, jobWrong} {
		for round := range roundsOf(t) {
			objects = append(objects, fmt.Sprintf("%s-%d", kind, round))
		}
	}
	path := map[string]string{}
	for _, name := range objects {
		f.c.CreateDeployment(t, e2e.Deployment(f.ns, name, 1, "100m", "64Mi"))
		f.autoscale(name, memberSpec{
			max: 4, mode: v1alpha1.ModeOff, algorithm: "learned", policy: "served", learning: map[string]any{"begin": "Serving"},
			usage: v1alpha1.UsagePrometheus, prometheus: "default", memory: "64Mi",
		})
		uid := c.Kubectl(t, "", "get", "mpa", name, "-n", f.ns, "-o", "jsonpath={.metadata.uid}")
		path[name] = filepath.Join(volume, f.ns, name+"."+uid+".jsonl")
		require.NoError(t, os.MkdirAll(filepath.Dir(path[name]), 0o755))
		require.NoError(t, os.WriteFile(path[name], []byte(strings.ReplaceAll(text, "simulated/generated-304", f.ns+"/"+name)), 0o600))
	}
	d, err := c.Client.AppsV1().Deployments(mpaSystem).Get(t.Context(), "sigma-mpa", metav1.GetOptions{})
	require.NoError(t, err)
	start := func(flags ...string) *e2e.MPA {
		return s.startPod(t, c, &d.Spec.Template.Spec, volume, append(flags, "--interval=1s", "--leader-elect=false", "--retraining-jobs=100")...)
	}
	all := func(what string, is func(name string, s *v1alpha1.MultidimPodAutoscalerStatus) bool) {
		t.Helper()
		e2e.Wait(t, what, func() (string, bool) {
			statuses, left := f.statuses(), []string(nil)
			for _, name := range objects {
				if s := statuses[name]; s == nil || !is(name, s) {
					left = append(left, name+": "+brief(s))
				}
			}
			return strings.Join(left, "\n"), len(left) == 0
		})
	}
	retraining := func(s *v1alpha1.MultidimPodAutoscalerStatus, status metav1.ConditionStatus, reason string) bool {
		return hasCondition(s, v1alpha1.ConditionRetraining, status, reason)
	}

	// The alarms are in the journals only; the process that takes them into the status is killed.
	m := start("--retraining-after=87600h")
	all("the alarms", func(_ string, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return retraining(s, metav1.ConditionTrue, "WorkloadChanged") && strings.HasPrefix(s.Retraining.Change, "cpu per request is higher")
	})
	require.Empty(t, jobsOf(t, c))
	m.Kill(t)
	for name, file := range path {
		if strings.HasPrefix(name, jobFailing) {
			journals, err := filepath.Glob(file + "*")
			require.NoError(t, err)
			for _, j := range journals {
				require.NoError(t, os.Rename(j, j+".away"))
			}
		}
	}
	m = start()
	e2e.Wait(t, "a Job", func() (string, bool) { return "", len(jobsOf(t, c)) > 0 })
	m.Kill(t)
	m = start()
	all("the Jobs", func(_ string, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return retraining(s, metav1.ConditionTrue, "Running")
	})

	// The volume is full while they end.
	filler := filepath.Join(volume, "filler")
	var full syscall.Statfs_t
	require.NoError(t, syscall.Statfs(volume, &full))
	require.ErrorIs(t, os.WriteFile(filler, make([]byte, (int(full.Bavail)+1)*int(full.Bsize)), 0o600), syscall.ENOSPC)
	all("the full volume", func(_ string, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return hasCondition(s, v1alpha1.ConditionActive, metav1.ConditionFalse, "JournalFailed") && retraining(s, metav1.ConditionTrue, "Running")
	})
	runtime := &trainers{c: c, kubeconfig: accountKubeconfig(t, c, mpaSystem, "sigma-mpa-retraining"), journals: volume, wrong: wrong, started: map[types.UID]bool{}}
	runtime.run(t)
	for _, job := range jobsOf(t, c) {
		if strings.Contains(job.Annotations["autoscaling.sigma-scheduler.io/retrained-for"], "/"+jobEndless) {
			c.Kubectl(t, "", "patch", "job", job.Name, "-n", mpaSystem, "--type=merge", "-p", `{"spec":{"activeDeadlineSeconds":5}}`)
		}
	}
	e2e.Wait(t, "all Jobs to end", func() (string, bool) {
		left := []string(nil)
		for _, job := range jobsOf(t, c) {
			if job.Status.Succeeded+job.Status.Failed == 0 || job.Status.Active > 0 {
				left = append(left, job.Name)
			}
		}
		return fmt.Sprint(left), len(left) == 0
	})
	require.NoError(t, os.Remove(filler))

	outcomes := map[string]string{
		jobBetter: "Taken", jobNotBetter: "NotBetter", jobFailing: "Failed", jobEndless: "TimedOut", jobGarbage: "Failed", jobWrong: "Failed",
	}
	all("the outcomes", func(name string, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		kind, _, _ := strings.Cut(name, "-")
		return retraining(s, metav1.ConditionFalse, outcomes[kind])
	})
	all("what decides", func(name string, s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		if strings.HasPrefix(name, jobBetter) {
			taken := s.Retraining.Candidate
			return taken != nil && taken.Digest == s.Decision.PolicyDigest && s.Learning.Phase == string(mpa.OfflineTraining)
		}
		return s.Decision.PolicyDigest == policy.Digest && s.Learning.Phase == string(mpa.Serving)
	})
	for name, s := range f.statuses() {
		t.Log(name, s.Retraining.Outcome, s.Retraining.Message)
	}
	require.Len(t, jobsOf(t, c), len(objects))
	messages := map[string]string{
		jobNotBetter: "pieces of the journal", jobFailing: "no workload has two pieces", jobEndless: "too long", jobGarbage: "no result",
		jobWrong: "ScalingPolicy wrong: spec.numbers.kappa: 99 is not within", jobBetter: "it costs",
	}
	for name, s := range f.statuses() {
		kind, _, _ := strings.Cut(name, "-")
		require.Contains(t, s.Retraining.Message, messages[kind], name)
	}
	taken := f.statuses()[jobBetter+"-0"].Retraining.Candidate.Policy
	yaml := c.Kubectl(t, "", "get", "scalingpolicy", taken, "-o", "yaml")
	require.Contains(t, yaml, "replacesDigest: "+policy.Digest)
	require.Contains(t, yaml, "journal: sha256:")
	requireAllowed(t, m)

	// Who deletes it has the policy of the spec again.
	c.Kubectl(t, "", "delete", "scalingpolicy", taken)
	e2e.Wait(t, "the spec's policy", func() (string, bool) {
		s := f.statuses()[jobBetter+"-0"]
		return brief(s), s.Decision.PolicyDigest == policy.Digest && retraining(s, metav1.ConditionFalse, "PolicyChanged")
	})
}
