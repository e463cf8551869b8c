package follow

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
)

func addrs(list ...string) []netip.Addr {
	all := []netip.Addr{}
	for _, a := range list {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

func team(name string) func(s *v1alpha1.FlowPolicySpec) {
	return func(s *v1alpha1.FlowPolicySpec) {
		if s.NamespaceSelector = nil; name != "" {
			s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": name}}
		}
	}
}

// scopes are those that a Follower knows, by selector.
func (b *bench) scopes(known map[string][]netip.Addr) {
	b.Scope = func(s labels.Selector) ([]netip.Addr, bool) {
		scope, ok := known[s.String()]
		return scope, ok
	}
}

// An order begins with its scope, which then changes without a new order.
func TestScope(t *testing.T) {
	b := newBench(t)
	known := map[string][]netip.Addr{"team=a": addrs("10.0.0.1"), "team=b": addrs()}
	b.scopes(known)
	team("a")(&b.policy.Spec)
	ordered := func(s v1alpha1.NodeFlowsStatus, orders, scopes int, want []netip.Addr) {
		t.Helper()
		b.requires(s, v1alpha1.ReasonOrdered, 10_000, 20_000)
		require.Equal(t, want, b.kernel.state.Scope)
		require.Equal(t, []int{orders, scopes}, []int{b.kernel.orders, b.kernel.scopes})
	}
	ordered(b.given(found(1, 10_000, 20_000)), 1, 0, addrs("10.0.0.1"))
	ordered(b.given(nothing), 1, 0, addrs("10.0.0.1"))
	known["team=a"] = addrs("10.0.0.1", "10.0.0.2")
	ordered(b.given(nothing), 1, 1, addrs("10.0.0.1", "10.0.0.2"))
	ordered(b.given(spec(team("b"))), 1, 2, addrs())
	ordered(b.given(spec(team(""))), 1, 3, nil)
	ordered(b.given(spec(team("b"))), 1, 4, addrs())

	// Somebody has set another one.
	b.kernel.state.Scope = nil
	ordered(b.given(nothing), 1, 5, addrs())

	// What cannot be written is written later.
	b.kernel.busy = errors.New("another process is changing this order")
	s := b.given(spec(team("a")))
	require.Equal(t, metav1.ConditionTrue, s.Conditions[0].Status)
	require.Contains(t, s.Conditions[0].Message, "another process is changing this order")
	b.kernel.busy = nil
	ordered(b.given(nothing), 1, 7, addrs("10.0.0.1", "10.0.0.2"))

	// Of a spec that is refused nothing is taken, and the scope of the last one goes on.
	known["team=a"] = addrs("10.0.0.3")
	s = b.given(spec(func(s *v1alpha1.FlowPolicySpec) {
		s.Bands = 9
		team("b")(s)
	}))
	ordered(s, 1, 8, addrs("10.0.0.3"))
}

// While the addresses are not known, everything stays as it is; but the order of another policy does not stay.
func TestScopeUnknown(t *testing.T) {
	b := newBench(t)
	known := map[string][]netip.Addr{}
	unknown := func(s v1alpha1.NodeFlowsStatus, reason string, thresholds ...int64) {
		t.Helper()
		b.requires(s, reason, thresholds...)
		require.Contains(t, s.Conditions[0].Message, "the pods of the policy's namespaces are not known yet")
	}
	team("a")(&b.policy.Spec)
	unknown(b.given(found(1, 10_000, 20_000)), v1alpha1.ReasonUnknownNamespaces)
	require.Zero(t, b.kernel.tries)
	b.scopes(known)
	unknown(b.given(nothing), v1alpha1.ReasonUnknownNamespaces)
	known["team=a"] = addrs("10.0.0.1")
	b.requires(b.given(nothing), v1alpha1.ReasonOrdered, 10_000, 20_000)

	// Another selector, with other thresholds: nothing of it is written.
	unknown(b.given(func(p *v1alpha1.FlowPolicy) {
		spec(team("b"))(p)
		found(2, 30_000, 40_000)(p)
	}), v1alpha1.ReasonOrdered, 10_000, 20_000)
	require.Equal(t, addrs("10.0.0.1"), b.kernel.state.Scope)
	known["team=b"] = addrs("10.0.0.2")
	b.requires(b.given(nothing), v1alpha1.ReasonOrdered, 30_000, 40_000)
	require.Equal(t, addrs("10.0.0.2"), b.kernel.state.Scope)

	// The next agent knows nothing at first.
	delete(known, "team=b")
	said := b.given(spec(func(*v1alpha1.FlowPolicySpec) {}))
	b.Follower = Follower{Node: "node-1", Kernel: b.kernel}
	b.Resume(&said)
	b.scopes(known)
	unknown(b.given(nothing), v1alpha1.ReasonOrdered, 30_000, 40_000)
	require.Equal(t, addrs("10.0.0.2"), b.kernel.state.Scope)
	known["team=b"] = addrs("10.0.0.3")
	b.requires(b.given(nothing), v1alpha1.ReasonOrdered, 30_000, 40_000)
	require.Equal(t, addrs("10.0.0.3"), b.kernel.state.Scope)

	other := func(p *v1alpha1.FlowPolicy) {
		p.UID, p.Spec.Thresholds = "other", []int64{50_000, 60_000}
		team("c")(&p.Spec)
	}
	unknown(b.given(other), v1alpha1.ReasonUnknownNamespaces)
	require.False(t, b.kernel.state.On)
	// The way back needs no addresses.
	b.requires(b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Mode = v1alpha1.Disabled })), v1alpha1.ReasonMode)
}

// Which addresses are in a scope.
func TestAddresses(t *testing.T) {
	pod := func(namespace string, change func(*corev1.Pod), ips ...string) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
		if change != nil {
			change(&p)
		}
		kept, err := strip(&p)
		require.NoError(t, err)
		return *kept.(*corev1.Pod)
	}
	pods := []corev1.Pod{
		pod("shop", nil, "10.0.0.9", "fd00::1"), pod("shop", nil, "10.0.0.1"), pod("shop", nil), pod("shop", nil, "none"),
		pod("shop", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "10.0.0.2"),
		pod("shop", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, "10.0.0.3"),
		pod("shop", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, "10.0.0.4"),
		pod("bank", nil, "10.0.0.5"), pod("gone", nil, "10.0.0.6"),
	}
	namespaces := []metav1.PartialObjectMetadata{
		{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"x": "y"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "bank", Labels: map[string]string{"team": "b"}}},
	}
	for i := range namespaces {
		kept, err := stripNamespace(&namespaces[i])
		require.NoError(t, err)
		namespaces[i] = *kept.(*metav1.PartialObjectMetadata)
		require.Empty(t, namespaces[i].Annotations)
	}
	for selector, want := range map[string][]netip.Addr{
		"team=a":        addrs("10.0.0.1", "10.0.0.9", "fd00::1"),
		"team":          addrs("10.0.0.1", "10.0.0.5", "10.0.0.9", "fd00::1"),
		"":              addrs("10.0.0.1", "10.0.0.5", "10.0.0.9", "fd00::1"), // a namespace that is not there is none
		"team=nobody":   addrs(),
		"team notin(a)": addrs("10.0.0.5"),
	} {
		s, err := labels.Parse(selector)
		require.NoError(t, err)
		require.Equal(t, want, addresses(pods, namespaces, s), selector)
	}
}

// A stubCache has pods and namespaces once they are synced.
type stubCache struct {
	cache.Cache
	synced, watched map[string]bool
	pods            []corev1.Pod
	namespaces      []metav1.PartialObjectMetadata
	fails           error
}

type stubInformer struct {
	cache.Informer
	of   *stubCache
	kind string
}

func (i stubInformer) HasSynced() bool { return i.of.synced[i.kind] }

func kindOf(o any) string {
	if _, ok := o.(*corev1.Pod); ok {
		return "pods"
	}
	return "namespaces"
}

func (c *stubCache) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	c.watched[kindOf(o)] = true
	return stubInformer{of: c, kind: kindOf(o)}, nil
}

func (c *stubCache) RemoveInformer(_ context.Context, o client.Object) error {
	delete(c.watched, kindOf(o))
	return nil
}

func (c *stubCache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.PodList:
		l.Items = c.pods
	case *metav1.PartialObjectMetadataList:
		l.Items = c.namespaces
	}
	return c.fails
}

// Addresses are known once pods and namespaces both are, and not where one of them cannot be listed. Namespaces are watched
// while a policy asks.
func TestScopeIsKnown(t *testing.T) {
	now := time.Unix(1000, 0)
	r, _ := newRunner(&now)
	c := &stubCache{synced: map[string]bool{}, watched: map[string]bool{}}
	r.cache = c
	r.leaveNamespaces(t.Context())
	for range 3 {
		_, known := r.scope(t.Context(), labels.Everything())
		require.False(t, known)
		require.Equal(t, map[string]bool{"pods": true, "namespaces": true}, c.watched)
		c.synced["pods"] = !c.synced["pods"]
		c.synced["namespaces"] = !c.synced["pods"]
	}
	c.synced = map[string]bool{"pods": true, "namespaces": true}
	scope, known := r.scope(t.Context(), labels.Everything())
	require.True(t, known)
	require.Equal(t, addrs(), scope)
	c.pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}}}
	c.namespaces = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
	scope, known = r.scope(t.Context(), labels.Everything())
	require.True(t, known)
	require.Equal(t, addrs("10.0.0.1"), scope)
	c.fails = errors.New("closed")
	_, known = r.scope(t.Context(), labels.Everything())
	require.False(t, known)
	r.leaveNamespaces(t.Context())
	require.Equal(t, map[string]bool{"pods": true}, c.watched)
}
