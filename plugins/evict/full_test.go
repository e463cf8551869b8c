package evict

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFull(t *testing.T) {
	pods := func(n int, namespace, node string) (list []*v1.Pod) {
		for i := range n {
			list = append(list, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i)}, Spec: v1.PodSpec{NodeName: node}})
		}
		return list
	}
	var list []entry
	for i := range 50 {
		list = append(list, entry{record{by: Rebalance, node: fmt.Sprint("n", i%2)}, "apps/Deployment/shop/web"})
	}
	l := OfRebalance
	require.NoError(t, l.full(pods(10, "shop", "n9"), list))
	require.ErrorContains(t, l.full(pods(11, "shop", "n9"), list), "limit of the namespace shop: 50 evictions within an hour and 11 to come, at most 60 are allowed")
	require.NoError(t, l.full(pods(11, "bank", "n9"), list))
	require.ErrorContains(t, l.full(pods(36, "bank", "n1"), list), "limit of the node n1")
	require.NoError(t, l.full(pods(100, "bank", "n9"), list), "more than the limit has to be free")
	l.PerHour = 60
	require.ErrorContains(t, l.full(pods(11, "bank", "n9"), list), "limit of the cluster")
	for i := range list {
		list[i].by = Batch
	}
	require.NoError(t, l.full(pods(11, "shop", "n1"), list))
}
