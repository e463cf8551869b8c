//go:build e2e

package snapshot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A cluster is a real API server without nodes of its own: that of $KUBECONFIG, as
// `lab/controlplane/run.sh go test -tags e2e` sets it.
type cluster struct {
	*testing.T
	client     kubernetes.Interface
	kubeconfig string
	sigma      string // the program
	space      string // a namespace
}

func theCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, kubeconfig: os.Getenv("KUBECONFIG"), sigma: filepath.Join(t.TempDir(), "sigma")}
	require.NotEmpty(t, c.kubeconfig, "KUBECONFIG")
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	c.client, err = kubernetes.NewForConfig(config)
	require.NoError(t, err)
	build := exec.Command("go", "build", "-o", c.sigma, "../../cmd/sigma")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	space, err := c.client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "snapshot-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.space = space.Name
	t.Cleanup(func() {
		c.eventually(func() error {
			return c.client.CoreV1().Nodes().DeleteCollection(context.WithoutCancel(t.Context()), metav1.DeleteOptions{}, metav1.ListOptions{})
		})
		c.eventually(func() error {
			return c.client.CoreV1().Pods(c.space).DeleteCollection(context.WithoutCancel(t.Context()), *metav1.NewDeleteOptions(0), metav1.ListOptions{})
		})
		c.eventually(func() error {
			return c.client.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), c.space, metav1.DeleteOptions{})
		})
	})
	return c
}

// patience is how long a test waits on a busy machine.
const patience = 3 * time.Minute

// eventually retries for a while: the API server may have been killed. It may have
// done what it was asked even if its answer was lost.
func (c *cluster) eventually(f func() error) {
	c.Helper()
	again := false
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := f()
		if err == nil || again && (apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)) {
			return
		}
		require.True(c, time.Now().Before(deadline), "%v", err)
		again = true
	}
}

func (c *cluster) node(name, cpu string, changes ...func(*v1.Node)) {
	c.Helper()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}
	for _, change := range changes {
		change(n)
	}
	nodes := c.client.CoreV1().Nodes()
	_, err := nodes.Create(c.Context(), n, metav1.CreateOptions{})
	require.NoError(c, err)
	c.eventually(func() error { // controllers write to it too
		made, err := nodes.Get(c.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		made.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("20")}
		made.Status.Capacity = made.Status.Allocatable
		_, err = nodes.UpdateStatus(c.Context(), made, metav1.UpdateOptions{})
		return err
	})
}

// pod makes a pod and, unless node is empty, binds it.
func (c *cluster) pod(name, app, node, cpu string) {
	c.Helper()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, GenerateName: app + "-", Labels: map[string]string{"app": app}}}
	p.Spec.Containers = []v1.Container{{Name: "c", Image: "none", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")},
	}}}
	c.eventually(func() error {
		_, err := c.client.CoreV1().Pods(c.space).Create(c.Context(), p, metav1.CreateOptions{})
		return err
	})
	if node != "" {
		c.bind(name, node)
	}
}

func (c *cluster) bind(name, node string) {
	c.Helper()
	c.eventually(func() error {
		return c.client.CoreV1().Pods(c.space).Bind(c.Context(), &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Target: v1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{})
	})
}

func (c *cluster) kill(names ...string) {
	c.Helper()
	for _, name := range names {
		c.eventually(func() error {
			return c.client.CoreV1().Pods(c.space).Delete(c.Context(), name, *metav1.NewDeleteOptions(0))
		})
	}
}

// run runs sigma to its end.
func (c *cluster) run(args ...string) (code int, stdout, stderr string) {
	c.Helper()
	cmd := c.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(c, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func (c *cluster) command(args ...string) *exec.Cmd {
	cmd := exec.Command(c.sigma, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	return cmd
}

func (c *cluster) ok(args ...string) string {
	c.Helper()
	code, stdout, stderr := c.run(args...)
	require.Zero(c, code, stderr)
	return stdout
}

// TestSnapshotCompareExplain runs the commands that a user runs first.
func TestSnapshotCompareExplain(t *testing.T) {
	c := theCluster(t)
	dir := filepath.Join(t.TempDir(), "snap")
	for i := range 6 {
		c.node(fmt.Sprint("node-", i), "4")
	}
	c.node("closed", "4", func(n *v1.Node) { n.Spec.Unschedulable = true })
	c.node("gpu", "8", func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}} })
	for i := range 6 { // one a node: half would do
		c.pod(fmt.Sprint("web-", i), "web", fmt.Sprint("node-", i), "2")
	}
	c.pod("waits", "web", "", "2")
	c.pod("big", "big", "", "9")
	code, stdout, stderr := c.run("snapshot", "--out", dir)
	require.Zero(t, code, stderr)
	require.Equal(t, dir+": 8 nodes (1 cordoned), 6 pods on them, 2 waiting, 2 apps, 0 rules\n", stdout)
	require.Contains(t, stderr, "/Pod/big@cpu=9,memory=1Gi fits no node, not even an empty one: waiting pods left out: 1")

	tr, err := trace.Load(dir)
	require.NoError(t, err)
	require.Len(t, tr.Instance.Machines, 7, "closed is none")
	require.Equal(t, 6, tr.Initial)
	require.Len(t, tr.Events, 1)

	table := c.ok("compare", "--trace", dir, "--policy", "bestfit,current,learned")
	require.Regexp(t, `(?m)^the present placement, in which 1 item waits, costs 1.2, bestfit 0.8, `, table)
	require.Regexp(t, `(?m)^policy .*\ncurrent +K0 +6 `, table)
	require.Contains(t, table, "snap: as it stands no machine could be drained: of none may all items move and fit on the others in use", "nothing would replace these pods")
	var comparison []struct {
		Results []struct {
			Policy string
			Runs   []struct{ Machines, Unplaced, Violations int }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(c.ok("compare", "--trace", dir, "--policy", "bestfit,current", "--format", "json")), &comparison))
	require.Equal(t, "current", comparison[0].Results[0].Policy)
	require.Equal(t, 6, comparison[0].Results[0].Runs[0].Machines)
	require.Equal(t, 1, comparison[0].Results[0].Runs[0].Unplaced)

	archive := dir + ".tar.gz"
	c.ok("snapshot", "--out", archive, "--fleet", "fixed")
	packed, err := trace.Load(archive)
	require.NoError(t, err)
	require.Equal(t, tr.Requests, packed.Requests)

	text := c.ok("explain", "--pod", c.space+"/web-3", "--policy", "bestfit")
	require.Contains(t, text, "web-3, stands on node-3\n")
	require.Regexp(t, `(?m)^selector +1 +the pod does not tolerate the taint gpu:NoSchedule$`, text)
	require.Regexp(t, `(?m)^cordoned +1 +closed$`, text)
	require.Regexp(t, `(?m)^take it +6$`, text)
	require.Regexp(t, `(?m)^chosen +node-0 `, text)
	require.Contains(t, text, "It stands on node-3, and would go to node-0 now.")
	text = c.ok("explain", "--pod", c.space+"/big", "--policy", "bestfit")
	require.Regexp(t, `(?m)^capacity +7 +the pod requests more cpu than the node has$`, text)
	require.Contains(t, text, "The pod is larger than any node: it requests 9 cpu, and the largest node, ")
	require.Contains(t, text, "It waits, and no scheduler has said why")
	_, _, stderr = c.run("explain", "--pod", c.space+"/none", "--policy", "bestfit")
	require.Contains(t, stderr, "there is no pod "+c.space+"/none, or it has ended")
}

// TestRights: an error names what the account may not list, unless there is a trace without it.
func TestRights(t *testing.T) {
	c := theCluster(t)
	text, err := os.ReadFile(c.kubeconfig)
	require.NoError(t, err)
	raw, err := clientcmd.Load(text)
	require.NoError(t, err)
	for _, user := range raw.AuthInfos {
		user.Impersonate = "eve-" + c.space
	}
	admin := c.kubeconfig
	c.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*raw, c.kubeconfig))
	out := filepath.Join(t.TempDir(), "snap")
	code, _, stderr := c.run("snapshot", "--out", out)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "sigma: list nodes: forbidden: the account needs the verb list on nodes in all namespaces")

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: c.space}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"list"}, APIGroups: []string{"", "apps", "batch"}, Resources: []string{"nodes", "pods", "deployments", "statefulsets", "replicasets", "jobs", "cronjobs"}},
	}}
	_, err = c.client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: c.space}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: c.space},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "eve-" + c.space}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.client.RbacV1().ClusterRoleBindings().Delete(context.WithoutCancel(t.Context()), c.space, metav1.DeleteOptions{}))
		require.NoError(t, c.client.RbacV1().ClusterRoles().Delete(context.WithoutCancel(t.Context()), c.space, metav1.DeleteOptions{}))
	})
	require.Eventually(t, func() bool {
		_, _, stderr = c.run("snapshot", "--out", out)
		return !strings.Contains(stderr, "list nodes: forbidden")
	}, patience, 200*time.Millisecond)
	require.NotContains(t, stderr, "list horizontalpodautoscalers: forbidden", "a note, where the rest can be read")
	c.kubeconfig = admin
}

// TestRecordingSurvives: pods come and go while the recording is killed, resumed,
// without its API server, and interrupted. In the end it has the pods that are there,
// and deletes of those that left.
func TestRecordingSurvives(t *testing.T) {
	c := theCluster(t)
	dir := filepath.Join(t.TempDir(), "day")
	recording := filepath.Join(filepath.Dir(dir), ".day.recording.jsonl")
	for i := range 3 {
		c.node(fmt.Sprint("node-", i), "8")
	}
	c.pod("first", "web", "node-0", "1")
	c.pod("waits", "web", "", "1")
	var started []*exec.Cmd
	start := func() (*exec.Cmd, *bytes.Buffer) {
		t.Helper()
		cmd := c.command("snapshot", "--out", dir, "--watch", "1h")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		require.NoError(t, cmd.Start())
		started = append(started, cmd)
		return cmd, &errs
	}
	t.Cleanup(func() {
		for _, cmd := range started {
			_ = cmd.Process.Kill() // those that are over are not there
		}
	})
	// until waits until the recording contains a text.
	until := func(part string) {
		t.Helper()
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(recording)
			return err == nil && strings.Contains(string(text), part)
		}, patience, 50*time.Millisecond, part)
	}
	uid := func(name string) string {
		t.Helper()
		p, err := c.client.CoreV1().Pods(c.space).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		return string(p.UID)
	}

	cmd, _ := start()
	until(uid("waits"))
	require.Eventually(t, func() bool { _, err := trace.Load(dir); return err == nil }, patience, 50*time.Millisecond, "a trace from the beginning")
	c.pod("second", "web", "node-1", "1")
	until(uid("second"))
	_, _, stderr := c.run("snapshot", "--out", dir, "--watch", "1h")
	require.Contains(t, stderr, "another writer has it open")
	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()

	// Nothing records meanwhile.
	c.kill("first")
	c.pod("third", "web", "node-2", "2")
	c.bind("waits", "node-1")
	cmd, errs := start()
	until(uid("third"))
	require.Contains(t, errs.String(), "resuming the recording that began at ")

	// The API server dies and is started again.
	controlplane := os.Getenv("CONTROLPLANE_DIR")
	require.NotEmpty(t, controlplane, "CONTROLPLANE_DIR")
	pid, err := os.ReadFile(filepath.Join(controlplane, "kube-apiserver.pid"))
	require.NoError(t, err)
	number, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(number, syscall.SIGKILL))
	c.pod("fourth", "db", "node-0", "1500m")
	c.kill("second")
	until(uid("fourth"))
	until(`"kind":"remove","pod":"` + c.space + `/second"`)

	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Equal(t, 130, cmd.ProcessState.ExitCode(), errs.String())
	require.Contains(t, errs.String(), "the same command resumes the recording")

	tr, err := trace.Load(dir)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"waits": "node-1", "third": "node-2", "fourth": "node-0"}, c.standing(tr))
	require.Equal(t, []string{"first"}, c.initial(tr))
	went := 0
	for _, e := range tr.Events {
		if e.Kind == trace.Delete {
			went++
		}
	}
	require.Equal(t, 2, went)

	// The recording can be compared: current repeats what happened.
	table := c.ok("compare", "--trace", dir, "--policy", "current,bestfit")
	require.Regexp(t, `(?m)^policy .*\ncurrent +K0 `, table)

	// At the end of the recording its file is removed.
	_, _, stderr = c.run("snapshot", "--out", dir)
	require.Contains(t, stderr, "a recording of "+dir+" is not finished")
	code, _, stderr := c.run("snapshot", "--out", dir, "--watch", "1s")
	require.Zero(t, code, stderr)
	require.NoFileExists(t, recording)
}

// standing returns the pods that stand at the end of a trace, with their machines.
func (c *cluster) standing(tr *trace.Trace) map[string]string {
	later, _ := tr.Source["placements"].(map[string]any)
	at := map[string]string{}
	for _, p := range tr.Placed {
		at[tr.Requests[p.Request].Name] = tr.MachineName(p.Line, p.Index)
	}
	for _, e := range tr.Events {
		name := tr.Requests[e.Request].Name
		if e.Kind == trace.Delete {
			delete(at, name)
		} else {
			at[name] = fmt.Sprint(later[name])
		}
	}
	short := map[string]string{}
	for name, node := range at {
		short[strings.TrimPrefix(name, c.space+"/")] = node
	}
	return short
}

func (c *cluster) initial(tr *trace.Trace) []string {
	set := map[string]bool{}
	for _, q := range tr.Requests[:tr.Initial] {
		set[strings.TrimPrefix(q.Name, c.space+"/")] = true
	}
	return slices.Sorted(maps.Keys(set))
}
