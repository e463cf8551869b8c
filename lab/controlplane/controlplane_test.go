package controlplane_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sigma-scheduler/sigma/lab/controlplane"
)

// programs is the folder of the built programs.
var programs string

func TestMain(m *testing.M) {
	build := exec.Command("./build.sh")
	build.Stderr = os.Stderr
	out, err := build.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build.sh:", err)
		os.Exit(1)
	}
	programs = strings.TrimSpace(string(out))
	os.Exit(m.Run())
}

// kubectl runs a command as the owner of the kubeconfig.
func kubectl(ctx context.Context, kubeconfig, input string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(programs, "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+filepath.Dir(kubeconfig))
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// eventually polls for two minutes: two cores may be shared by many.
func eventually(t *testing.T, what string, ok func() (string, bool)) {
	t.Helper()
	limit := time.Now().Add(2 * time.Minute)
	for {
		last, done := ok()
		if done {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s: %s", what, last)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// running returns the ids of the processes whose command line names the folder.
func running(t *testing.T, dir string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(line, []byte(dir)) {
			continue // it ended meanwhile, or is another user's
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {kubernetes.io/hostname: node-1}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: example.org/web
        resources: {requests: {cpu: "1", memory: 1Gi}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shelves.test.example.org}
spec:
  group: test.example.org
  scope: Cluster
  names: {plural: shelves, singular: shelf, kind: Shelf}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              width: {type: integer}
            x-kubernetes-validations:
            - {rule: self.width > 0, message: a shelf has a width}
`

// status is what a kubelet would report: room for two of the three pods.
const status = `{"status":{
	"capacity":    {"cpu":"2","memory":"8Gi","pods":"10"},
	"allocatable": {"cpu":"2","memory":"8Gi","pods":"10"},
	"conditions":  [{"type":"Ready","status":"True"}]}}`

func shelf(width int) string {
	return fmt.Sprintf("{apiVersion: test.example.org/v1, kind: Shelf, metadata: {name: s}, spec: {width: %d}}", width)
}

func TestControlPlane(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer // read after Stop
	starting, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	began := time.Now()
	plane, err := controlplane.Start(starting, controlplane.Options{Programs: programs, Dir: dir, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %v", time.Since(began))
	t.Cleanup(plane.Stop)
	do := func(input string, args ...string) string {
		t.Helper()
		out, err := kubectl(ctx, plane.Kubeconfig(), input, args...)
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
		return out
	}

	pins, err := os.ReadFile(filepath.Join(os.Getenv("CONTROLPLANE_LINE"), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, release, _ := strings.Cut(string(pins), "k8s.io/kubernetes => k8s.io/kubernetes ")
	release, _, _ = strings.Cut(release, "\n")
	if out := do("", "version"); release == "" || !strings.Contains(out+"\n", "Server Version: "+release+"\n") {
		t.Errorf("version: %s", out)
	}
	do(objects, "apply", "-f", "-")
	do("", "patch", "node", "node-1", "--subresource=status", "-p", status)

	// The controllers create the pods; no scheduler binds them.
	pods := func() []string {
		t.Helper()
		return strings.Fields(do("", "get", "pods", "-n", "shop", "-l", "app=web",
			"-o", `jsonpath={range .items[*]}{.status.phase}/{.spec.nodeName}{"\n"}{end}`))
	}
	eventually(t, "three pods", func() (string, bool) {
		p := strings.Join(pods(), " ")
		return p, p == "Pending/ Pending/ Pending/"
	})

	do("", "wait", "--for=condition=Established", "--timeout=60s", "crd/shelves.test.example.org")
	eventually(t, "a shelf", func() (string, bool) { // served a moment after it is established
		out, err := kubectl(ctx, plane.Kubeconfig(), shelf(80), "apply", "-f", "-")
		return out, err == nil
	})
	if out, err := kubectl(ctx, plane.Kubeconfig(), shelf(0), "apply", "-f", "-"); err == nil || !strings.Contains(out, "a shelf has a width") {
		t.Errorf("a shelf without width: %v, %s", err, out)
	}

	// The scheduler's own account is enough for upstream's, and for no more.
	if out, err := kubectl(ctx, plane.SchedulerKubeconfig(), "", "auth", "can-i", "create", "namespaces"); err == nil {
		t.Errorf("the scheduler may create namespaces: %s", out)
	}
	scheduler := exec.CommandContext(ctx, filepath.Join(programs, "kube-scheduler"),
		"--kubeconfig="+plane.SchedulerKubeconfig(), "--leader-elect=false", "--secure-port=0")
	scheduler.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var messages bytes.Buffer
	scheduler.Stdout, scheduler.Stderr = &messages, &messages
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two pods on the node", func() (string, bool) {
		p := strings.Join(pods(), " ")
		return p, strings.Count(p, "Pending/node-1") == 2
	})
	if err := scheduler.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = scheduler.Wait() // killed

	// What dies comes back with the data.
	for _, name := range []string{"kube-apiserver", "etcd"} {
		file := filepath.Join(dir, name+".pid")
		was, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		id, err := strconv.Atoi(strings.TrimSpace(string(was)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, name+" started again", func() (string, bool) {
			is, err := os.ReadFile(file)
			return string(is), err == nil && !bytes.Equal(is, was)
		})
		eventually(t, "answers after "+name, func() (string, bool) {
			out, err := kubectl(ctx, plane.Kubeconfig(), "", "get", "shelf", "s", "-o", "jsonpath={.spec.width}", "--request-timeout=10s")
			return out, err == nil && out == "80"
		})
	}
	do("", "scale", "-n", "shop", "deployment/web", "--replicas=4")
	eventually(t, "a fourth pod", func() (string, bool) {
		p := pods()
		return strings.Join(p, " "), len(p) == 4
	})

	began = time.Now()
	plane.Stop()
	t.Logf("stopped after %v", time.Since(began))
	if ids := running(t, dir); len(ids) > 0 {
		t.Errorf("still running: %v", ids)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.pid")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if !strings.Contains(log.String(), name+": signal: killed; started again") {
			t.Errorf("the log does not name %s:\n%s", name, log.String())
		}
	}
}

// script is run.sh with a temporary folder of its own.
func script(t *testing.T, args ...string) (command *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	command = exec.Command("./run.sh", args...)
	command.Env = append(os.Environ(), "TMPDIR="+dir)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command, dir
}

// nothingLeft checks that neither a process nor a file of the folder is there.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	if ids := running(t, dir); len(ids) > 0 {
		t.Errorf("still running: %v", ids)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range left {
		if strings.HasPrefix(l.Name(), "controlplane-") {
			t.Errorf("left: %v", l)
		}
	}
}

func TestRunCommand(t *testing.T) {
	t.Parallel()
	command, dir := script(t, "--", "sh", "-c", `cat; kubectl get --raw=/readyz && test -s "$CONTROLPLANE_DIR/ca.crt" && exit 7`)
	command.Stdin = strings.NewReader("input\n")
	out, err := command.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 7 || !strings.HasSuffix(string(out), "input\nok") {
		t.Errorf("%v, want exit status 7:\n%s", err, out)
	}
	nothingLeft(t, dir)
}

func TestRunSignal(t *testing.T) {
	t.Parallel()
	// The command's parent is the launcher; the sleep is the command's child.
	command, dir := script(t, "sh", "-c", `kill -TERM $PPID; sleep 1000 & echo "$CONTROLPLANE_DIR"; wait`)
	out, err := command.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "stopped by a signal") {
		t.Errorf("%v, want exit status 1:\n%s", err, out)
	}
	nothingLeft(t, dir)
}

func TestRunKilled(t *testing.T) {
	t.Parallel()
	command, dir := script(t)
	command.Stderr = os.Stderr
	pipe, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := strings.TrimSpace(line)
	if out, err := kubectl(t.Context(), kubeconfig, "", "get", "--raw=/readyz"); err != nil || out != "ok" {
		t.Errorf("%s: %v, %s", kubeconfig, err, out)
	}
	if n := len(running(t, dir)); n != 4 {
		t.Errorf("%d processes, want the launcher and three programs", n)
	}
	// run.sh has become the launcher, which cannot do anything about this.
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, pipe)
	_ = command.Wait() // killed
	eventually(t, "its programs end", func() (string, bool) {
		ids := running(t, dir)
		return fmt.Sprint(ids), len(ids) == 0
	})
}

func TestRunBadFlag(t *testing.T) {
	t.Parallel()
	command, dir := script(t, "-apiserver", "--no-such-flag", "true")
	out, err := command.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "unknown flag: --no-such-flag") {
		t.Errorf("%v, want exit status 1 and the reason:\n%s", err, out)
	}
	nothingLeft(t, dir)
}
