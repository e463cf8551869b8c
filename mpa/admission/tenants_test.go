package admission

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Tenant a has objects for a Deployment of the same name, limits and quotas that allow nothing, and a ReplicaSet with the UID of
// that of tenant shop. A pod of shop has the size that its own object recommends.
func TestTwoTenantsShareTheWebhook(t *testing.T) {
	forged := replicaSet(t, "web-5d4f", "9", "2030-01-01T00:00:00Z", "7")
	forged.Namespace = "a"
	all := []client.Object{
		object(t, "", ""), replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m"), forged,
		&v1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "none"}, Spec: v1.LimitRangeSpec{Limits: []v1.LimitRangeItem{{
			Type: v1.LimitTypeContainer, Max: v1.ResourceList{"cpu": resource.MustParse("1m"), "memory": resource.MustParse("1Mi")},
		}}}},
		&v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "none"}, Spec: v1.ResourceQuotaSpec{Hard: v1.ResourceList{"requests.cpu": resource.MustParse("0")}}},
	}
	for i := range 100 {
		o := object(t, "", "")
		o.Namespace, o.Name, o.UID = "a", fmt.Sprint("web-", i), types.UID(fmt.Sprint(i))
		all = append(all, o)
	}
	answer, pod := ask(t, reader(t, all...), podText)
	require.Empty(t, answer.Warnings)
	c := pod.Spec.Containers[0].Resources
	require.Equal(t, "1 2Gi", c.Requests.Cpu().String()+" "+c.Requests.Memory().String())
}
