package v1alpha1_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
)

func policy(name string, second int64, pool string) *v1alpha1.FlowPolicy {
	p := &v1alpha1.FlowPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))}}
	if pool != "" {
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}
	}
	return p
}

// The oldest policy that selects a node is the node's, whatever the order of the list.
func TestOwn(t *testing.T) {
	all, a, twin, younger := policy("all", 3, ""), policy("a", 2, "a"), policy("b", 2, "a"), policy("0", 4, "a")
	unreadable := policy("unreadable", 1, "")
	unreadable.Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Near"}}}
	node := map[string]string{"pool": "a"}
	for _, list := range [][]*v1alpha1.FlowPolicy{{all, younger, twin, unreadable, a}, {a, twin, all, younger, unreadable}} {
		own, others := v1alpha1.Own(list, node)
		require.Equal(t, a, own)
		require.Equal(t, []*v1alpha1.FlowPolicy{twin, all, younger}, others)
	}
	own, others := v1alpha1.Own([]*v1alpha1.FlowPolicy{younger, a, twin, all}, nil)
	require.Equal(t, all, own)
	require.Empty(t, others)
	own, _ = v1alpha1.Own([]*v1alpha1.FlowPolicy{younger, unreadable}, nil)
	require.Nil(t, own)
}

// A canary has about its share of the nodes, others with another policy, more with a larger share, and the node that is named.
func TestOrders(t *testing.T) {
	p := policy("p", 1, "")
	p.UID, p.Spec.Mode = types.UID("one"), v1alpha1.Canary
	taken := func(percent int32) map[string]bool {
		p.Spec.CanaryPercent = percent
		nodes := map[string]bool{}
		for i := range 1000 {
			if name := fmt.Sprint("node-", i); p.Orders(name) {
				nodes[name] = true
			}
		}
		return nodes
	}
	ten, thirty := taken(10), taken(30)
	require.InDelta(t, 100, len(ten), 30)
	require.InDelta(t, 300, len(thirty), 45)
	for name := range ten {
		require.True(t, thirty[name], name)
	}
	p.UID = "two"
	require.NotEqual(t, ten, taken(10))
	p.Status.CanaryNode = "other"
	require.True(t, p.Orders("other"))
	for mode, want := range map[v1alpha1.Mode]bool{v1alpha1.Live: true, v1alpha1.Observe: false, v1alpha1.Disabled: false, "": false} {
		p.Spec.Mode = mode
		require.Equal(t, want, p.Orders("other"), mode)
	}
}
