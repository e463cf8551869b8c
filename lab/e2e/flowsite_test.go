//go:build e2e

package e2e_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	flownode "github.com/sigma-scheduler/sigma/flow/node"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// flowSite is a cluster with what install-flow-policy.yaml installs, and a client for its objects.
type flowSite struct {
	c       *e2e.Cluster
	objects client.Client
}

func newFlowSite(t *testing.T, nodes ...*v1.Node) *flowSite {
	t.Helper()
	c := ownFlowCluster(t, nodes...)
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	objects, err := client.New(c.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return &flowSite{c, objects}
}

func ownFlowCluster(t *testing.T, nodes ...*v1.Node) *e2e.Cluster {
	t.Helper()
	c := e2e.StartCluster(t)
	c.CreateNodes(t, nodes...)
	c.StartScheduler(t, "kube-scheduler", "")
	install := e2e.Program(t, "install")
	c.Kubectl(t, "", "apply", "-f", filepath.Join(install, "crds-flows.yaml"))
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/flowpolicies.flow.sigma-scheduler.io", "crd/nodeflows.flow.sigma-scheduler.io")
	c.Kubectl(t, "", "apply", "-f", filepath.Join(install, "install-flow-policy.yaml"))
	return c
}

// agentPod is that of the DaemonSet on a node.
func (s *flowSite) agentPod(t *testing.T, on string) *v1.Pod {
	t.Helper()
	var pod *v1.Pod
	e2e.Wait(t, "the agent's pod on "+on, func() (string, bool) {
		for _, p := range s.c.Pods("sigma-flow") {
			if p.Spec.NodeName == on && p.Labels["app.kubernetes.io/name"] == "sigma-flow" {
				pod = p
			}
		}
		return "", pod != nil
	})
	return pod
}

// config has the rights of an account, by a token of a pod of it.
func (s *flowSite) config(t *testing.T, pod *v1.Pod) *rest.Config {
	t.Helper()
	seconds := int64(7200)
	r, err := s.c.Client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(t.Context(), pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(s.c.Config)
	config.BearerToken = r.Status.Token
	return config
}

func (s *flowSite) kubeconfig(t *testing.T, pod *v1.Pod) string {
	t.Helper()
	authority, err := os.ReadFile(filepath.Join(s.c.Dir, "ca.crt"))
	require.NoError(t, err)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: s.c.Config.Host, CertificateAuthorityData: authority}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: s.config(t, pod).BearerToken}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, file))
	return file
}

func (s *flowSite) nodeFlows(t *testing.T, name string) *v1alpha1.NodeFlows {
	t.Helper()
	o := &v1alpha1.NodeFlows{}
	if err := s.objects.Get(t.Context(), client.ObjectKey{Name: name}, o); err != nil {
		require.NoError(t, client.IgnoreNotFound(err))
	}
	return o
}

// shaping waits until a node's condition has this status and reason.
func (s *flowSite) shaping(t *testing.T, on string, status metav1.ConditionStatus, reason string) *v1alpha1.NodeFlows {
	t.Helper()
	var o *v1alpha1.NodeFlows
	e2e.Wait(t, fmt.Sprintf("Shaping=%s %s of %s", status, reason, on), func() (string, bool) {
		o = s.nodeFlows(t, on)
		c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionShaping)
		return fmt.Sprintf("%+v", o.Status), c != nil && c.Status == status && c.Reason == reason
	})
	return o
}

func (s *flowSite) policy(t *testing.T, name, spec string) {
	t.Helper()
	s.c.Kubectl(t, fmt.Sprintf("apiVersion: %s\nkind: FlowPolicy\nmetadata: {name: %s}\nspec: %s\n", v1alpha1.SchemeGroupVersion, name, spec), "apply", "-f", "-")
}

// A realNode is a node of network namespaces with the agent's program.
type realNode struct {
	*nodetest.Testbed
	name, pins string
	agent      *e2e.Process
	start      func() *e2e.Process
}

// startReal starts the agent as its pod says, on a node of namespaces that reaches the API server by the address of its
// kubeconfig.
func (s *flowSite) startReal(t *testing.T, name string) *realNode {
	t.Helper()
	n := &realNode{Testbed: nodetest.New(t), name: name}
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Skipf("no bpffs here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	n.pins = filepath.Join(dir, "sigma-flow")
	nodetest.Listen(t, n.Peer, nodetest.AddressPeer+":9000")
	host, err := url.Parse(s.c.Config.Host)
	require.NoError(t, err)
	n.forward(t, host.Host)
	pod := s.agentPod(t, name)
	require.Equal(t, "NODE_NAME", pod.Spec.Containers[0].Env[0].Name)
	args := []string{fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), int(n.Node)), e2e.Program(t, "sigma-flow")}
	for _, arg := range pod.Spec.Containers[0].Args {
		arg = strings.ReplaceAll(arg, "$(NODE_NAME)", name)
		args = append(args, strings.ReplaceAll(arg, "/var/lib/sigma-flow", filepath.Join(t.TempDir(), "out")))
	}
	args = append(args, "--kubeconfig="+s.kubeconfig(t, pod), "--pins="+n.pins, "--uplink=up0", "--interface=pod1,pod2", "--every=1s", "--gap=1m")
	n.start = func() *e2e.Process { return e2e.StartProcess(t, "agent-"+name, "/usr/bin/nsenter", args...) }
	n.agent = n.start()
	return n
}

// forward carries connections of the node's loopback to an address of ours.
func (n *realNode) forward(t *testing.T, address string) {
	t.Helper()
	var l net.Listener
	require.NoError(t, nodetest.Within(n.Node, func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		return err
	}))
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				up, err := (&net.Dialer{}).Dial("tcp", address)
				if err != nil {
					return // the API server is away
				}
				go func() {
					_, _ = io.Copy(up, c)
					_ = up.Close()
				}()
				_, _ = io.Copy(c, up)
			}()
		}
	}()
}

// order is what the kernel does.
func (n *realNode) order(t *testing.T) (flownode.OrderStatus, error) {
	t.Helper()
	var s flownode.OrderStatus
	err := nodetest.Within(n.Node, func() (err error) {
		s, err = flownode.ReadOrder(n.pins)
		return err
	})
	return s, err
}

// waitOrder waits until thresholds are in the kernel.
func (n *realNode) waitOrder(t *testing.T, want flow.Thresholds) {
	t.Helper()
	e2e.Wait(t, fmt.Sprintf("thresholds %v of %s", want, n.name), func() (string, bool) {
		s, err := n.order(t)
		return fmt.Sprintf("%+v, %v", s, err), err == nil && s.Shaping && s.Thresholds.Equal(want)
	})
}

// dump is what the interfaces have: queueing disciplines, classes, filters, TCX programs, lengths of queues, and the pins.
func (n *realNode) dump(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, nodetest.Within(n.Node, func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, l := range links {
			fmt.Fprintf(&b, "%s queue %d\n", l.Attrs().Name, l.Attrs().TxQLen)
			qdiscs, err := netlink.QdiscList(l)
			if err != nil {
				return err
			}
			for _, q := range qdiscs {
				fmt.Fprintf(&b, "  %s %s\n", q.Type(), q.Attrs())
			}
			classes, err := netlink.ClassList(l, netlink.HANDLE_NONE)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "  %d classes, %d programs on the way out\n", len(classes), egressPrograms(t, l.Attrs().Index))
		}
		return nil
	}))
	files, err := os.ReadDir(filepath.Dir(n.pins))
	require.NoError(t, err)
	fmt.Fprintf(&b, "pins %v\n", files)
	return b.String()
}

// egressPrograms counts those at TCX of an interface of this thread's namespace.
func egressPrograms(t *testing.T, index int) int {
	t.Helper()
	list, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXEgress})
	require.NoError(t, err)
	return len(list.Programs)
}

// startCentral starts the program as a pod of its Deployment says. Its port has the metrics.
func (s *flowSite) startCentral(t *testing.T, pod *v1.Pod) (p *e2e.Process, metrics string) {
	t.Helper()
	require.Equal(t, []string{"central"}, pod.Spec.Containers[0].Args)
	require.Equal(t, []v1.Capability{"ALL"}, pod.Spec.Containers[0].SecurityContext.Capabilities.Drop)
	require.Empty(t, pod.Spec.Containers[0].SecurityContext.Capabilities.Add)
	metrics = fmt.Sprintf("127.0.0.1:%d", e2e.FreePort(t))
	p = e2e.StartProcess(t, pod.Name, e2e.Program(t, "sigma-flow"), "central", "--every=1s", "--namespace=sigma-flow", "--kubeconfig="+s.kubeconfig(t, pod),
		"--metrics-bind-address="+metrics, fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", e2e.FreePort(t)))
	return p, "https://" + metrics
}

// active waits until a policy's condition Active has this reason.
func (s *flowSite) active(t *testing.T, name, reason string) *v1alpha1.FlowPolicy {
	t.Helper()
	o := &v1alpha1.FlowPolicy{}
	e2e.Wait(t, "Active "+reason+" of "+name, func() (string, bool) {
		require.NoError(t, s.objects.Get(t.Context(), client.ObjectKey{Name: name}, o))
		c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionActive)
		return fmt.Sprintf("%+v", o.Status), c != nil && c.Reason == reason && o.Status.ObservedGeneration == o.Generation
	})
	return o
}

// says writes a status as a central would that has gone wrong.
func (s *flowSite) says(t *testing.T, name, status string) {
	t.Helper()
	s.c.Kubectl(t, "", "patch", "flowpolicy", name, "--subresource=status", "--type=merge", "-p", `{"status":`+status+`}`)
}

// send sends flows of a pod to the peer, most of them small.
func (n *realNode) send(t *testing.T, flows int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 8))
	var group errgroup.Group
	group.SetLimit(8)
	for range flows {
		size := int64(200 * math.Exp(rng.Float64()*8))
		group.Go(func() error {
			_, err := nodetest.Exchange(n.Pod1, nodetest.AddressPeer+":9000", size, 1)
			return err
		})
	}
	require.NoError(t, group.Wait())
}

// stays checks that the kernel keeps thresholds while something is refused.
func (s *flowSite) stays(t *testing.T, n *realNode, want flow.Thresholds, refused int64) {
	t.Helper()
	e2e.Wait(t, fmt.Sprint(refused, " refusals"), func() (string, bool) {
		is := s.nodeFlows(t, n.name).Status
		return fmt.Sprintf("%+v", is), is.Refused == refused
	})
	is, err := n.order(t)
	require.NoError(t, err)
	require.Equal(t, want, is.Thresholds)
}

// foreign puts a queueing discipline on the uplink, or takes it off.
func (n *realNode) foreign(t *testing.T, on bool) {
	t.Helper()
	require.NoError(t, nodetest.Within(n.Node, func() error {
		up, err := netlink.LinkByName("up0")
		if err != nil {
			return err
		}
		q := &netlink.GenericQdisc{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: up.Attrs().Index, Handle: netlink.MakeHandle(0x77, 0), Parent: netlink.HANDLE_ROOT}, QdiscType: "pfifo"}
		if on {
			return netlink.QdiscReplace(q)
		}
		return netlink.QdiscDel(q)
	}))
}
