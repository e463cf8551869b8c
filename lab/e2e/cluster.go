//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// waitLimit is generous: the machine's cores may be shared by many.
const waitLimit = 3 * time.Minute

var (
	root     string // of the module
	programs string // folder of the control plane's programs
	work     string // temporary folder of this run
)

// Main is a function of a pod where this process was started as one. Else it runs the tests and then ends the shared cluster and every child, also
// when interrupted. It returns the exit status.
func Main(m *testing.M) int {
	if err := serveFunction(); err != nil {
		fmt.Fprintln(os.Stderr, "function:", err)
		return 1
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	finish := sync.OnceFunc(func() {
		running.Range(func(p, _ any) bool {
			p.(*Process).end()
			return true
		})
		_ = os.RemoveAll(work)
	})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		s := (<-signals).(syscall.Signal)
		finish()
		os.Exit(128 + int(s))
	}()
	status := m.Run()
	if shared.cluster != nil {
		shared.cluster.disconnect()
	}
	finish()
	return status
}

func prepare() (err error) {
	if root, err = os.Getwd(); err != nil {
		return err
	}
	for !exists(filepath.Join(root, "lab", "controlplane")) {
		if root == filepath.Dir(root) {
			return errors.New("no lab/controlplane above the working folder")
		}
		root = filepath.Dir(root)
	}
	build := exec.Command(filepath.Join(root, "lab", "controlplane", "build.sh"))
	build.Stderr = os.Stderr
	out, err := build.Output()
	if err != nil {
		return fmt.Errorf("build.sh: %w", err)
	}
	programs = strings.TrimSpace(string(out))
	work, err = os.MkdirTemp("", "sigma-e2e-")
	return err
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// scratch is a folder of the test's own that lives as long as the run.
func scratch(t testing.TB) string {
	t.Helper()
	require.NotEmpty(t, work, "TestMain must call e2e.Main")
	dir := filepath.Join(work, t.Name())
	require.NoError(t, os.MkdirAll(dir, 0o700))
	return dir
}

// Program is the path of a program that hack/e2e.sh built or, failing that, of
// one of the control plane's.
func Program(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range []string{filepath.Join(root, "out", "e2e"), programs} {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
	}
	t.Fatalf("no program %s: hack/e2e.sh builds it", name)
	return ""
}

// Cluster is a control plane with a fake kubelet. Its caches follow all pods and
// nodes; what they return must not be changed.
type Cluster struct {
	// Dir holds the kubeconfigs, logs and process ids of the control plane; see
	// lab/controlplane.
	Dir     string
	Config  *rest.Config // the administrator's, without a rate limit
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Kubelet *Kubelet

	plane       *Process
	pods, nodes cache.SharedIndexInformer
	disconnect  context.CancelFunc // ends the kubelet and the caches
}

var shared struct {
	sync.Mutex
	cluster *Cluster
}

// Shared returns the cluster that all tests use one after the other, and wipes
// it when the test ends.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		shared.cluster = start(t)
	}
	c := shared.cluster
	t.Cleanup(func() { c.Wipe(t) })
	return c
}

// StartCluster starts a cluster for one test alone; flags are those of
// lab/controlplane/run.sh. Most tests do with Shared.
func StartCluster(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	c := start(t, flags...)
	t.Cleanup(func() {
		c.disconnect() // the API server waits for its watches
		c.plane.end()
	})
	return c
}

func start(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	plane := &Process{
		Name: "controlplane", Log: filepath.Join(scratch(t), "controlplane.log"),
		program: filepath.Join(root, "lab", "controlplane", "run.sh"), args: append(auditFlags(t), flags...),
		death: syscall.SIGTERM, // it has children of its own to end
	}
	require.NoError(t, plane.start())
	var kubeconfig string
	printed := regexp.MustCompile(`(?m)^/.*/kubeconfig$`) // once all is ready
	Wait(t, "the control plane", func() (string, bool) {
		log, err := os.ReadFile(plane.Log)
		require.NoError(t, err)
		if !plane.Alive() {
			t.Fatalf("the control plane ended: %s", log)
		}
		kubeconfig = string(printed.Find(log))
		return string(log), kubeconfig != ""
	})

	c := &Cluster{Dir: filepath.Dir(kubeconfig), plane: plane}
	var err error
	c.Config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	c.Config.QPS = -1
	c.Dynamic, err = dynamic.NewForConfig(c.Config)
	require.NoError(t, err)
	binary := rest.CopyConfig(c.Config) // protobuf costs the API server half as much as JSON
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	c.Client, err = kubernetes.NewForConfig(binary)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithTransform(dropManagedFields))
	c.pods = factory.Core().V1().Pods().Informer()
	c.nodes = factory.Core().V1().Nodes().Informer()
	c.Kubelet = newKubelet(c.Client, c.pods, c.nodes)
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		require.True(t, synced, kind)
	}
	go c.Kubelet.run(ctx)
	c.disconnect = func() {
		cancel()
		factory.Shutdown()
	}
	return c
}

func dropManagedFields(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil {
		o.SetManagedFields(nil)
	}
	return object, nil
}

// Wait calls done until it returns true, more rarely the longer it takes. The text that
// done returns names the missing condition.
func Wait(t testing.TB, what string, done func() (string, bool)) {
	t.Helper()
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	begin := time.Now()
	for {
		missing, ok := done()
		if ok {
			return
		}
		select {
		case <-time.After(min(max(time.Since(begin)/20, 50*time.Millisecond), 250*time.Millisecond)):
		case <-limit.C:
			t.Fatalf("%s: not within %v: %s", what, waitLimit, missing)
		}
	}
}

// WaitReady waits until the API server is ready.
func (c *Cluster) WaitReady(t testing.TB) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // Wipe calls it at the end of a test
	Wait(t, "the API server", func() (string, bool) {
		err := c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(5 * time.Second).Do(ctx).Error()
		return fmt.Sprint(err), err == nil
	})
}

// pid is the process id of etcd, kube-apiserver or kube-controller-manager.
func (c *Cluster) pid(t testing.TB, program string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.Dir, program+".pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return pid
}

// Signal sends a signal to etcd, kube-apiserver or kube-controller-manager. One
// that dies of it is started again after 0.2 s.
func (c *Cluster) Signal(t testing.TB, program string, s syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(c.pid(t, program), s), program)
}

// RestartAPIServer kills the API server and returns when another is ready.
func (c *Cluster) RestartAPIServer(t testing.TB) {
	t.Helper()
	const program = "kube-apiserver"
	before := c.pid(t, program)
	c.Signal(t, program, syscall.SIGKILL)
	Wait(t, "another API server", func() (string, bool) {
		text, err := os.ReadFile(filepath.Join(c.Dir, program+".pid"))
		return fmt.Sprintf("process %s, before %d", text, before), err == nil && strings.TrimSpace(string(text)) != strconv.Itoa(before)
	})
	c.WaitReady(t)
}

// CPUSeconds is the processor time that etcd, kube-apiserver or
// kube-controller-manager has used since its last start.
func (c *Cluster) CPUSeconds(t testing.TB, program string) float64 {
	t.Helper()
	return cpuSeconds(t, c.pid(t, program))
}

// Kubectl runs kubectl as the administrator and returns its output.
func (c *Cluster) Kubectl(t testing.TB, input string, args ...string) string {
	t.Helper()
	command := exec.Command(Program(t, "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.Dir, "kubeconfig"), "HOME="+scratch(t))
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "kubectl %v: %s", args, out)
	return string(out)
}

// Namespace creates a namespace with a name of its own.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	ns, err := c.Client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	require.NoError(t, err)
	return ns.Name
}

// Grant gives the user system:kube-scheduler further rights while the test runs.
func (c *Cluster) Grant(t testing.TB, rules ...rbacv1.PolicyRule) {
	t.Helper()
	ctx, roles, bindings := context.WithoutCancel(t.Context()), c.Client.RbacV1().ClusterRoles(), c.Client.RbacV1().ClusterRoleBindings()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}, Rules: rules}
	role, err := roles.Create(ctx, role, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = bindings.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:kube-scheduler"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, bindings.Delete(ctx, role.Name, metav1.DeleteOptions{}))
		require.NoError(t, roles.Delete(ctx, role.Name, metav1.DeleteOptions{}))
	})
}

// Wipe deletes all workloads, pods, nodes, custom objects and the namespaces that
// tests made, and the list of evictions. Definitions of custom objects stay, as do rights and other kinds
// outside of namespaces.
func (c *Cluster) Wipe(t testing.TB) {
	t.Helper()
	c.WaitReady(t)
	ctx := context.WithoutCancel(t.Context())
	namespaced, global := c.kinds(t)
	spaces, err := c.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	background := metav1.DeletePropagationBackground
	for _, ns := range spaces.Items {
		for _, kind := range namespaced {
			err := c.Dynamic.Resource(kind).Namespace(ns.Name).
				DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
			require.NoError(t, err, kind)
		}
	}
	Wait(t, "pods to vanish", func() (string, bool) { // a controller may still make some
		pods := c.Pods("")
		for i, pod := range pods { // by namespace
			if i == 0 || pod.Namespace != pods[i-1].Namespace {
				err := c.Client.CoreV1().Pods(pod.Namespace).DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{})
				require.NoError(t, err)
			}
		}
		return fmt.Sprintf("%d left", len(pods)), len(pods) == 0
	})
	if err := c.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(ctx, "sigma-evictions", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	for _, kind := range global {
		err := c.Dynamic.Resource(kind).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		require.NoError(t, err, kind)
	}
	Wait(t, "nodes to vanish", func() (string, bool) {
		left := len(c.Nodes())
		return fmt.Sprintf("%d left", left), left == 0
	})
	c.Kubelet.reset()
	for _, ns := range spaces.Items {
		if ns.Name != metav1.NamespaceDefault && !strings.HasPrefix(ns.Name, "kube-") && ns.DeletionTimestamp == nil {
			require.NoError(t, c.Client.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}))
		}
	}
}

// kinds returns the kinds that Wipe deletes apart from pods, owners before their
// dependents.
func (c *Cluster) kinds(t testing.TB) (namespaced, global []schema.GroupVersionResource) {
	t.Helper()
	namespaced = []schema.GroupVersionResource{
		{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
		{Group: "batch", Version: "v1", Resource: "cronjobs"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "apps", Version: "v1", Resource: "daemonsets"},
		{Group: "apps", Version: "v1", Resource: "replicasets"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	}
	global = []schema.GroupVersionResource{{Version: "v1", Resource: "nodes"}}
	definitions, err := c.Dynamic.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
	require.NoError(t, err)
	for _, d := range definitions.Items {
		var crd apiextensionsv1.CustomResourceDefinition
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object, &crd))
		of := &crd.Spec
		i := slices.IndexFunc(of.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served })
		if i < 0 {
			continue
		}
		kind := schema.GroupVersionResource{Group: of.Group, Version: of.Versions[i].Name, Resource: of.Names.Plural}
		if of.Scope == apiextensionsv1.NamespaceScoped {
			namespaced = append(namespaced, kind)
		} else {
			global = append(global, kind)
		}
	}
	return namespaced, global
}
