//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/flow/follow"
	flownode "github.com/sigma-scheduler/sigma/flow/node"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// TestFlowPolicy: nodes order their uplinks as their FlowPolicies say, whatever ends meanwhile, and leave them as they were
// found.
func TestFlowPolicy(t *testing.T) {
	if err := flownode.Missing(flownode.Probe()); err != nil {
		t.Skipf("no BPF here: %v", err)
	}
	s := newFlowSite(t, e2e.Node("flow-0", "4", "8Gi"), e2e.Node("flow-1", "4", "8Gi"))
	n, other := s.startReal(t, "flow-0"), s.startReal(t, "flow-1")
	got := s.shaping(t, "flow-0", metav1.ConditionFalse, v1alpha1.ReasonNoPolicy)
	require.Equal(t, "Node", got.OwnerReferences[0].Kind)
	before, otherBefore := n.dump(t), other.dump(t)
	pinned(t, s, n, before)
	hinted(t, s, n)
	s.rights(t)
	leader, page := s.found(t, n)
	s.faults(t, n, leader)
	s.canaries(t, n, other, otherBefore)

	// Central has counted what it took.
	status, _ := scrape(t, page, s.config(t, s.agentPod(t, "flow-0")).BearerToken)
	require.Equal(t, http.StatusForbidden, status, "metrics are not for everybody")
	leader.Stop(t)
	s.c.Kubectl(t, "", "delete", "flowpolicies", "--all")
	for _, real := range []*realNode{n, other} {
		s.shaping(t, real.name, metav1.ConditionFalse, v1alpha1.ReasonNoPolicy)
	}
	require.Equal(t, before, n.dump(t))
	require.Equal(t, otherBefore, other.dump(t))

	// What a node said goes with it.
	other.agent.Stop(t)
	s.c.DeleteNode(t, "flow-1")
	e2e.Wait(t, "the end of NodeFlows flow-1", func() (string, bool) { return "", s.nodeFlows(t, "flow-1").Name == "" })
}

// pinned: thresholds of the spec need no central.
func pinned(t *testing.T, s *flowSite, n *realNode, before string) {
	const spec = "{bands: 3, thresholds: [20000, 200000], rate: 200M, nodeSelector: {matchLabels: {kubernetes.io/hostname: flow-0}}"
	s.policy(t, "first", spec+"}")
	s.shaping(t, "flow-0", metav1.ConditionFalse, v1alpha1.ReasonMode)
	require.Equal(t, before, n.dump(t), "the default mode changes nothing")
	for _, way := range []string{"Disabled", "deleted"} {
		s.policy(t, "first", spec+", mode: Live}")
		n.waitOrder(t, flow.Thresholds{20_000, 200_000})
		got := s.shaping(t, "flow-0", metav1.ConditionTrue, v1alpha1.ReasonOrdered)
		require.Equal(t, []int64{20_000, 200_000}, got.Status.Thresholds)
		require.Equal(t, "first", got.Status.Policy)
		require.NotEqual(t, before, n.dump(t))
		if way == "deleted" {
			s.c.Kubectl(t, "", "delete", "flowpolicy", "first")
			s.shaping(t, "flow-0", metav1.ConditionFalse, v1alpha1.ReasonNoPolicy)
		} else {
			s.policy(t, "first", spec+", mode: Disabled}")
			s.shaping(t, "flow-0", metav1.ConditionFalse, v1alpha1.ReasonMode)
		}
		_, err := n.order(t)
		require.ErrorIs(t, err, flownode.ErrNoOrder, way)
		require.Equal(t, before, n.dump(t), way)
	}
}

// hinted: what a pod declares of its flows is used once they were as large, and while the policy wants it. Its
// namespace may be all that is in bands.
func hinted(t *testing.T, s *flowSite, n *realNode) {
	t.Helper()
	const spec = "{bands: 3, thresholds: [20000, 2000000], rate: 200M, nodeSelector: {matchLabels: {kubernetes.io/hostname: flow-0}}, mode: Live, hints: "
	s.policy(t, "first", spec+"on}")
	n.waitOrder(t, flow.Thresholds{20_000, 2_000_000})
	pod := e2e.Pod(metav1.NamespaceDefault, "db", "100m", "64Mi")
	pod.Spec.NodeName, pod.Annotations = n.name, map[string]string{v1alpha1.SizeAnnotation: "9000=3M"}
	s.c.CreatePods(t, pod)
	s.c.WaitRunning(t, metav1.NamespaceDefault, 1)
	s.c.Kubectl(t, "", "patch", "pod", "-n", metav1.NamespaceDefault, "db", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{"podIP":"%[1]s","podIPs":[{"ip":"%[1]s"}]}}`, nodetest.AddressPod1))
	send := func(flows int) {
		t.Helper()
		for range flows {
			_, err := nodetest.Exchange(n.Pod1, nodetest.AddressPeer+":9000", 1_900_000, 1)
			require.NoError(t, err)
		}
	}
	hints := func(want int) flownode.OrderStatus {
		t.Helper()
		var is flownode.OrderStatus
		e2e.Wait(t, fmt.Sprint(want, " sizes in the kernel"), func() (string, bool) {
			var err error
			is, err = n.order(t)
			return fmt.Sprintf("%+v, %v", is, err), err == nil && is.Hints == want
		})
		return is
	}
	judged := func(metric string, want int) {
		t.Helper()
		e2e.Wait(t, "the metric "+metric, func() (string, bool) {
			r, err := nodetest.Client(n.Node).Get("http://127.0.0.1:9907/metrics")
			if err != nil {
				return err.Error(), false
			}
			text, err := io.ReadAll(r.Body)
			require.NoError(t, errors.Join(err, r.Body.Close()))
			return string(text), strings.Contains(string(text), fmt.Sprintf("sigma_flow_hint_%s{port=\"9000\",size=\"3000000\",source=\"declared\",workload=\"default/db\"} %d\n", metric, want))
		})
	}
	judged("used", 0) // the agent has the pod, and judges from there on
	send(flow.TrustAfter - 1)
	judged("flows_total", flow.TrustAfter-1)
	was := hints(0)
	require.Zero(t, was.Bands[2].Packets, "by bytes they never reach the last band")
	send(1)
	was = hints(1)
	send(1)
	is := hints(1)
	require.NotZero(t, is.Hinted)
	require.Greater(t, is.Bands[2].Bytes-was.Bands[2].Bytes, uint64(1_700_000), "after the first band it is in the last")
	judged("used", 1)
	const namespace = ", namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "
	for selector, want := range map[string][]netip.Addr{namespace + "default}}": {netip.MustParseAddr(nodetest.AddressPod1)}, namespace + "kube-system}}": {}, "": nil} {
		s.policy(t, "first", spec+"on"+selector+"}")
		e2e.Wait(t, fmt.Sprint("the addresses ", want, " in the kernel"), func() (string, bool) {
			is, err := n.order(t)
			return fmt.Sprintf("%+v, %v", is, err), err == nil && (is.Scope == nil) == (want == nil) && slices.Equal(is.Scope, want)
		})
	}
	s.c.Kubectl(t, "", "delete", "pod", "-n", metav1.NamespaceDefault, "db", "--force", "--grace-period=0")
	hints(0)
	s.policy(t, "first", spec+"off}")
	s.c.Kubectl(t, "", "delete", "flowpolicy", "first")
	s.shaping(t, n.name, metav1.ConditionFalse, v1alpha1.ReasonNoPolicy)
}

// rights: an agent writes what its own node does and nothing else, central the status of policies and nothing else.
func (s *flowSite) rights(t *testing.T) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	agent, err := client.New(s.config(t, s.agentPod(t, "flow-0")), client.Options{Scheme: scheme})
	require.NoError(t, err)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"refused":7}}`))
	status := func(name string) error {
		return agent.Status().Patch(t.Context(), &v1alpha1.NodeFlows{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch)
	}
	require.NoError(t, status("flow-0"))
	require.ErrorContains(t, status("flow-1"), "an agent writes the NodeFlows of its own node, which is flow-0")
	owned := func(name, node string) error {
		o := &v1alpha1.NodeFlows{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if node != "" {
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: "x"}}
		}
		return agent.Create(t.Context(), o, client.DryRunAll)
	}
	require.ErrorContains(t, owned("flow-2", "flow-2"), "an agent writes the NodeFlows of its own node, which is flow-0")
	require.NoError(t, s.objects.Delete(t.Context(), s.nodeFlows(t, "flow-0"))) // the agent makes it again
	require.ErrorContains(t, owned("flow-0", ""), "an agent makes a NodeFlows that its Node owns")
	require.ErrorContains(t, owned("flow-0", "flow-1"), "an agent makes a NodeFlows that its Node owns")
	s.shaping(t, "flow-0", metav1.ConditionFalse, v1alpha1.ReasonNoPolicy)

	type right struct{ account, verb, resource, sub string }
	for r, want := range map[right]bool{
		{"agent", "patch", "nodeflows", "status"}: true, {"agent", "update", "nodeflows", "status"}: false, {"agent", "delete", "nodeflows", ""}: false,
		{"agent", "patch", "flowpolicies", "status"}: false, {"agent", "patch", "flowpolicies", ""}: false, {"agent", "create", "flowpolicies", ""}: false,
		{"central", "patch", "flowpolicies", "status"}: true, {"central", "patch", "flowpolicies", ""}: false, {"central", "patch", "nodeflows", "status"}: false,
		{"central", "create", "nodeflows", ""}: false, {"central", "delete", "flowpolicies", ""}: false,
	} {
		answer, err := s.c.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:sigma-flow:sigma-flow-" + r.account,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: v1alpha1.GroupName, Verb: r.verb, Resource: r.resource, Subresource: r.sub},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, want, answer.Status.Allowed, "%+v", r)
	}
}

// found: central finds thresholds from what a node sends, and another goes on where the leader was killed.
func (s *flowSite) found(t *testing.T, n *realNode) (leader *e2e.Process, page string) {
	t.Helper()
	var pods []*v1.Pod
	e2e.Wait(t, "the pods of central", func() (string, bool) {
		pods = slices.DeleteFunc(s.c.Pods("sigma-flow"), func(p *v1.Pod) bool { return p.Spec.ServiceAccountName != "sigma-flow-central" })
		return fmt.Sprint(len(pods)), len(pods) == 2
	})
	first, _ := s.startCentral(t, pods[0])
	s.policy(t, "first", "{mode: Live, bands: 3, rate: 200M, nodeSelector: {matchLabels: {kubernetes.io/hostname: flow-0}}}")
	s.active(t, "first", v1alpha1.ReasonNoThresholds)
	second, page := s.startCentral(t, pods[1])
	n.send(t, 800) // where the machine is busy, a sketch of a second is written over before central has seen it
	p := s.active(t, "first", v1alpha1.ReasonOrdered)
	require.Equal(t, v1alpha1.FlowPolicyNodes{Matching: 1, Acknowledged: 1, Ordered: 1}, p.Status.Nodes)
	n.waitOrder(t, p.Status.Thresholds)
	t.Logf("found %v: %s\n%s", p.Status.Thresholds, p.Status.Search, s.c.Kubectl(t, "", "get", "flowpolicies,nodeflows"))

	first.Kill(t)
	p.Spec.Thresholds = []int64{30_000, 300_000}
	require.NoError(t, s.objects.Patch(t.Context(), p, client.Merge))
	n.waitOrder(t, flow.Thresholds{30_000, 300_000}) // the spec's need no leader
	was := p.Status.Sequence
	e2e.Wait(t, "another leader", func() (string, bool) {
		require.NoError(t, s.objects.Get(t.Context(), client.ObjectKey{Name: "first"}, p))
		return fmt.Sprintf("%+v", p.Status), p.Status.Sequence == was+1 && slices.Equal(p.Status.Thresholds, []int64{30_000, 300_000})
	})
	return second, page
}

// faults: programs are killed, say what makes no sense, or are away, and somebody else orders the uplink. The kernel goes on
// by what it had last.
func (s *flowSite) faults(t *testing.T, n *realNode, leader *e2e.Process) {
	t.Helper()
	merge := func(spec string) {
		s.c.Kubectl(t, "", "patch", "flowpolicy", "first", "--type=merge", "-p", `{"spec":`+spec+`}`)
	}
	now := flow.Thresholds{30_000, 300_000}

	// The agent is killed: the kernel orders on, and the next agent takes what has come meanwhile.
	was, err := n.order(t)
	require.NoError(t, err)
	n.agent.Kill(t)
	merge(`{"thresholds":[40000,400000]}`)
	_, err = nodetest.Exchange(n.Pod1, nodetest.AddressPeer+":9000", 1_000_000, 1)
	require.NoError(t, err)
	is, err := n.order(t)
	require.NoError(t, err)
	require.Equal(t, now, is.Thresholds)
	require.Greater(t, is.Bands[2].Bytes, was.Bands[2].Bytes+500_000, "a long flow reaches the last band")
	n.agent.Restart(t)
	now = flow.Thresholds{40_000, 400_000}
	n.waitOrder(t, now)
	again, err := n.order(t)
	require.NoError(t, err)
	require.GreaterOrEqual(t, again.Bands[2].Bytes, is.Bands[2].Bytes, "the counters go on")

	// Central is away, and somebody writes an older sequence and garbage in its place.
	merge(`{"thresholds":null}`)
	p := s.active(t, "first", v1alpha1.ReasonOrdered)
	n.waitOrder(t, p.Status.Thresholds)
	now = p.Status.Thresholds
	e2e.Wait(t, "the sequence to be taken", func() (string, bool) { return "", s.nodeFlows(t, n.name).Status.Sequence == p.Status.Sequence })
	leader.Kill(t)
	require.Zero(t, s.nodeFlows(t, n.name).Status.Refused)
	s.says(t, "first", `{"sequence":0,"thresholds":[1000,2000]}`)
	s.stays(t, n, now, 1)
	s.says(t, "first", fmt.Sprintf(`{"sequence":%d,"thresholds":[2000,1000]}`, p.Status.Sequence+1))
	s.stays(t, n, now, 2)
	n.agent.Kill(t)
	s.says(t, "first", `{"sequence":0,"thresholds":[1000,2000]}`)
	n.agent.Restart(t)
	s.stays(t, n, now, 3)
	leader.Restart(t)
	e2e.Wait(t, "central to go on from what nodes have", func() (string, bool) {
		require.NoError(t, s.objects.Get(t.Context(), client.ObjectKey{Name: "first"}, p))
		is := s.nodeFlows(t, n.name).Status
		return fmt.Sprintf("%+v %+v", p.Status, is), p.Status.Nodes.Acknowledged == 1 && p.Status.Sequence > 0 && is.Sequence == p.Status.Sequence
	})
	n.waitOrder(t, p.Status.Thresholds)

	// The API server ends, and comes back.
	before := n.dump(t)
	s.c.RestartAPIServer(t)
	require.Equal(t, before, n.dump(t))
	now = flow.Thresholds{50_000, 500_000}
	merge(`{"thresholds":[50000,500000]}`)
	n.waitOrder(t, now)

	// Somebody orders the queue in another way: that is left alone.
	n.foreign(t, true)
	s.shaping(t, n.name, metav1.ConditionFalse, v1alpha1.ReasonForeignQdisc)
	require.Contains(t, s.active(t, "first", v1alpha1.ReasonForeignQdisc).Status.Conditions[1].Message, "flow-0: uplink up0: somebody has put the queueing discipline pfifo 77:0 there: it is left alone")
	require.Regexp(t, `(?m)^up0 queue \d+\n  pfifo .*\n  0 classes, 0 programs on the way out$`, n.dump(t))
	n.foreign(t, false)
	n.waitOrder(t, now)
	s.active(t, "first", v1alpha1.ReasonOrdered)

	// A younger policy says that it has no node, until the older one is deleted.
	s.policy(t, "second", "{mode: Live, bands: 2, thresholds: [60000], rate: 200M, nodeSelector: {matchLabels: {kubernetes.io/hostname: flow-0}}}")
	second := s.active(t, "second", "OlderPolicy")
	require.Contains(t, meta.FindStatusCondition(second.Status.Conditions, v1alpha1.ConditionActive).Message, "flow-0 follows the older policy first")
	n.waitOrder(t, now)
	s.c.Kubectl(t, "", "delete", "flowpolicy", "first")
	n.waitOrder(t, flow.Thresholds{60_000})
	s.active(t, "second", v1alpha1.ReasonOrdered)
	s.c.Kubectl(t, "", "delete", "flowpolicy", "second")
}

// canaries: of two nodes one is the canary of a percent, and Live has both.
func (s *flowSite) canaries(t *testing.T, n, other *realNode, before string) {
	t.Helper()
	const spec = "{bands: 2, thresholds: [70000], rate: 200M, canaryPercent: 1, mode: "
	s.policy(t, "all", spec+"Canary}")
	p := s.active(t, "all", v1alpha1.ReasonOrdered)
	e2e.Wait(t, "two nodes and one canary", func() (string, bool) {
		require.NoError(t, s.objects.Get(t.Context(), client.ObjectKey{Name: "all"}, p))
		return fmt.Sprintf("%+v", p.Status), p.Status.Nodes == v1alpha1.FlowPolicyNodes{Matching: 2, Acknowledged: 2, Ordered: 1}
	})
	for _, real := range []*realNode{n, other} {
		_, err := real.order(t)
		require.Equal(t, p.Orders(real.name), err == nil, "%s: %v", real.name, err)
	}
	s.policy(t, "all", spec+"Live}")
	for _, real := range []*realNode{n, other} {
		real.waitOrder(t, flow.Thresholds{70_000})
	}
	t.Logf("\n%s", s.c.Kubectl(t, "", "get", "flowpolicies"))
	s.policy(t, "all", spec+"Disabled}")
	s.shaping(t, other.name, metav1.ConditionFalse, v1alpha1.ReasonMode)
	require.Equal(t, before, other.dump(t))
}

// A fakeKernel keeps what it is told, and when.
type fakeKernel struct {
	mu    sync.Mutex
	state follow.State
	at    time.Time
}

func (k *fakeKernel) Order(s follow.Settings) (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state, k.at = follow.State{On: true, Shaping: true, Thresholds: s.Thresholds, Scope: s.Scope}, time.Now()
	return 0, nil
}

func (k *fakeKernel) Hint(flow.Hints) error { return nil }

func (k *fakeKernel) Scope([]netip.Addr) error { return nil }

func (k *fakeKernel) Off() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = follow.State{}
	return nil
}

func (k *fakeKernel) State() (follow.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state, nil
}

// TestFlowPolicyMany measures from the write of an object to the thresholds in the kernels of 50 agents, 20 times.
func TestFlowPolicyMany(t *testing.T) {
	const agents, writes, must = 50, 20, 500 * time.Millisecond
	var nodes []*v1.Node
	for i := range agents {
		nodes = append(nodes, e2e.Node(fmt.Sprintf("flow-%02d", i), "4", "8Gi"))
	}
	s := newFlowSite(t, nodes...)
	s.policy(t, "all", "{mode: Live, bands: 2, thresholds: [1000], rate: 1G}")
	ctx, stop := context.WithCancel(t.Context())
	var all errgroup.Group
	defer func() {
		stop()
		_ = all.Wait()
	}()
	kernels := make([]*fakeKernel, agents)
	for i, node := range nodes {
		kernels[i] = &fakeKernel{}
		r, err := follow.New(s.config(t, s.agentPod(t, node.Name)), follow.Options{Node: node.Name, Kernel: kernels[i], Now: time.Now})
		require.NoError(t, err)
		all.Go(func() error { return r.Run(ctx) })
	}
	has := func(want int64) {
		e2e.Wait(t, fmt.Sprint("threshold ", want), func() (string, bool) {
			missing := 0
			for _, k := range kernels {
				if is, _ := k.State(); !is.Thresholds.Equal(flow.Thresholds{want}) {
					missing++
				}
			}
			return fmt.Sprint(missing, " lack it"), missing == 0
		})
	}
	has(1000)
	for _, node := range nodes {
		s.shaping(t, node.Name, metav1.ConditionTrue, v1alpha1.ReasonOrdered)
	}
	calm := s.writes(t)
	var took []time.Duration
	for i := range writes {
		want := int64(2000 + i)
		p := &v1alpha1.FlowPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
		begin := time.Now()
		require.NoError(t, s.objects.Patch(t.Context(), p, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"thresholds":[%d]}}`, want))))
		has(want)
		for _, k := range kernels {
			took = append(took, k.at.Sub(begin))
		}
		for _, node := range nodes { // one write at a time
			e2e.Wait(t, node.Name+" to say so", func() (string, bool) {
				return "", slices.Equal(s.nodeFlows(t, node.Name).Status.Thresholds, []int64{want})
			})
		}
	}
	slices.Sort(took)
	p99 := took[(len(took)*99+99)/100-1]
	t.Logf("object written to threshold in the kernel, %d agents, %d writes: median %v, p99 %v, most %v", agents, writes, took[len(took)/2], p99, took[len(took)-1])
	if p99 > must && calm > 50*time.Millisecond {
		t.Skipf("this machine is too busy to judge: a write that nobody watches takes %v", calm)
	}
	require.LessOrEqual(t, p99, must)
}

// writes is what a write takes that nobody watches: the 95th percentile of 40.
func (s *flowSite) writes(t *testing.T) time.Duration {
	t.Helper()
	o := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "calm"}}
	maps := s.c.Client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	o, err := maps.Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	var took []time.Duration
	for i := range 40 {
		o.Data = map[string]string{"i": fmt.Sprint(i)}
		begin := time.Now()
		o, err = maps.Update(t.Context(), o, metav1.UpdateOptions{})
		require.NoError(t, err)
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[37]
}
