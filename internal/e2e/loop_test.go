//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/internal/e2e"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
	"github.com/sigma-scheduler/sigma/plugins/pilot/record"
)

const (
	loopSystem = "sigma-loop"
	// loopRecorder is a Job whose pod stands all day, beside which the others run.
	loopRecorder = "recorder"
)

// A loopRuntime stands for the container runtime of the nodes where the CronJobs of the loop run: the containers of a
// pod are the real program with the arguments and the rights of their manifest, one after the other.
type loopRuntime struct {
	c       *e2e.Cluster
	record  string            // the claim
	account map[string]string // kubeconfig by account
	edit    func(arg string) string

	mu  sync.Mutex
	log map[string]string // by container
}

func (r *loopRuntime) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	started := map[types.UID]bool{}
	all.Go(func() {
		for ctx.Err() == nil {
			for _, pod := range r.c.Pods(loopSystem) {
				if pod.Status.Phase == v1.PodRunning && pod.DeletionTimestamp == nil && !started[pod.UID] && pod.Labels["batch.kubernetes.io/job-name"] != loopRecorder {
					started[pod.UID] = true
					all.Go(func() { r.pod(ctx, t, pod) })
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
}

func (r *loopRuntime) pod(ctx context.Context, t *testing.T, pod *v1.Pod) {
	paths := strings.NewReplacer("/record", r.record, "/out", t.TempDir())
	phase := v1.PodSucceeded
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		args := []string{}
		for _, arg := range c.Args {
			args = append(args, paths.Replace(r.edit(arg)))
		}
		command := exec.CommandContext(ctx, e2e.Program(t, "sigma"), args...)
		command.Env = append(os.Environ(), "KUBECONFIG="+r.account[pod.Spec.ServiceAccountName])
		out, err := command.CombinedOutput()
		t.Logf("%s %v: %v\n%s", c.Name, args, err, out)
		r.mu.Lock()
		r.log[c.Name] = string(out)
		r.mu.Unlock()
		if err != nil {
			phase = v1.PodFailed
			break
		}
	}
	for ctx.Err() == nil {
		is, err := r.c.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return // deleted meanwhile
		}
		is.Status.Phase = phase
		if _, err = r.c.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, is, metav1.UpdateOptions{}); err == nil {
			return
		}
	}
}

// TestLoop runs every command of docs/loop.md: a cluster is recorded, a policy is learned of a record, comes to the cluster in
// shadow and is put in force by the patch, and the proof is read.
func TestLoop(t *testing.T) {
	c := e2e.StartCluster(t)
	c.CreateNodes(t, e2e.Nodes(3, 12)...)
	c.StartScheduler(t, "kube-scheduler", "")
	c.Kubectl(t, "", "apply", "-k", filepath.Join(repository, "manifests", "base", "crds"))
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/placementpolicies.sigma-scheduler.io", "crd/placementrules.sigma-scheduler.io")
	c.Kubectl(t, "", "apply", "-f", filepath.Join(repository, "manifests", "policy.yaml"))
	c.Kubectl(t, `
apiVersion: v1
kind: PersistentVolume
metadata: {name: loop}
spec: {capacity: {storage: 6Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /loop}, claimRef: {namespace: sigma-loop, name: sigma-loop}}
`, "apply", "-f", "-")

	page := openPage(t, c, "loop.md")
	require.NoError(t, os.CopyFS(page.dir, os.DirFS(e2e.Program(t, "install"))))         // the folder of a release
	follow := regexp.MustCompile(`(?m)^kubectl -n sigma-loop logs -f \S+ (job/\S+) .*$`) // logs need a kubelet
	page.edit = func(text string) string {
		return follow.ReplaceAllString(text, "kubectl -n sigma-loop wait --for=condition=Complete --timeout=5m $1")
	}
	page.run(t, "Install", 1)
	r := &loopRuntime{c: c, record: filepath.Join(t.TempDir(), "record"), account: map[string]string{}, log: map[string]string{}}
	for _, name := range []string{"sigma-loop", "sigma-loop-record", "sigma-loop-prove"} {
		r.account[name] = accountKubeconfig(t, c, loopSystem, name)
	}
	r.edit = func(arg string) string { return strings.Replace(arg, "--until=23:58", "--watch=3s", 1) }
	r.run(t)
	e2e.Wait(t, "the record", func() (string, bool) {
		text, err := os.ReadFile(filepath.Join(r.record, "decisions.jsonl"))
		return string(text), err == nil && strings.Contains(string(text), "node-0")
	})
	c.Kubectl(t, "", "wait", "-n", loopSystem, "--for=condition=Complete", "--timeout=60s", "job/today")
	c.Kubectl(t, "", "create", "job", "-n", loopSystem, "--from=cronjob/sigma-record", loopRecorder)

	// Days later, on a cluster where learning pays.
	learned := func() {
		traces := filepath.Join(r.record, "segments", "traces")
		require.NoError(t, os.RemoveAll(traces))
		generated, err := generate.Generate("kubernetes", 2005, map[string]string{"fleet": "open", "nodes": "25"})
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(traces, 0o700))
		require.NoError(t, generated.WriteTarGz(filepath.Join(traces, "days.tar.gz")))
	}
	learned()
	page.run(t, "The verdict", 1)
	require.FileExists(t, filepath.Join(page.dir, "verdict", "verdict.html"))
	require.FileExists(t, filepath.Join(page.dir, "verdict", "policy.yaml"))
	require.Contains(t, r.log["apply"], "general-candidate: none → shadow")
	numbers := func(name string) string {
		return c.Kubectl(t, "", "get", "placementpolicy", name, "-o", "jsonpath={.spec.mode} {.spec.model} {.spec.weights} {.spec.provenance}")
	}
	require.NotEqual(t, numbers("general-candidate"), numbers("general"))
	c.Kubectl(t, "", "patch", "placementpolicy", "general", "--type=merge", "-p", `{"spec":{"mode":"live","maxShareOfApp":0.3}}`)
	page.run(t, "Put it in force", 1)
	require.Equal(t, numbers("general-candidate"), numbers("general"))
	require.Contains(t, numbers("general"), "shadow linear")
	require.Equal(t, "0.3", c.Kubectl(t, "", "get", "placementpolicy", "general", "-o", "jsonpath={.spec.maxShareOfApp}"))
	for _, name := range []string{"general", "general-candidate"} { // what its account may not do
		command := exec.Command(e2e.Program(t, "kubectl"), "--kubeconfig="+filepath.Join(c.Dir, "kubeconfig"), "--as=system:serviceaccount:sigma-loop:sigma-loop", "patch", "placementpolicy", name, "--type=merge", "-p", `{"spec":{"mode":"live"}}`)
		out, err := command.CombinedOutput()
		require.Error(t, err, string(out))
		require.Regexp(t, "forbidden|in shadow, and changes none that decides", string(out))
	}

	// The record of days.
	require.NoError(t, os.RemoveAll(r.record))
	require.NoError(t, os.Mkdir(r.record, 0o700))
	log := filepath.Join(r.record, "decisions.jsonl")
	var past bytes.Buffer
	now := time.Now().UTC()
	ledgertest.Days(t, &past, now.Truncate(24*time.Hour).Add(-2*24*time.Hour-time.Hour), now, 1)
	require.NoError(t, os.WriteFile(log, past.Bytes(), 0o600))
	segments, err := record.OpenSegments(filepath.Join(r.record, "segments"), record.Limits{})
	require.NoError(t, err)
	l := record.Follow(log, segments, now)
	require.NoError(t, l.Poll(now))
	l.Close()
	require.NoError(t, segments.Complete(t.Context()))
	require.Len(t, segments.List(), 2)
	page.run(t, "The proof", 1)
	require.FileExists(t, filepath.Join(page.dir, "proof", "proof.html"))

	// A candidate that decides is not replaced, and the Job says so.
	c.Kubectl(t, "", "patch", "placementpolicy", "general-candidate", "--type=merge", "-p", `{"spec":{"mode":"canary","canaryPercent":5}}`)
	learned()
	c.Kubectl(t, "", "create", "job", "-n", loopSystem, "--from=cronjob/sigma-tune", "again")
	c.Kubectl(t, "", "wait", "-n", loopSystem, "--for=condition=Failed", "--timeout=5m", "job/again")
	require.Contains(t, r.log["apply"], "general-candidate decides (canary 5 %): it is not replaced")
	page.run(t, "And back", 1)
	require.Empty(t, page.blocks)
}
