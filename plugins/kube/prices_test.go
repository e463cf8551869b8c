package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

func TestPrices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prices.csv")
	require.NoError(t, os.WriteFile(path, []byte(`instance_type,capacity_type,region,price_per_hour,currency
m5.large,spot,eu-west-1,.03,EUR
m5.large,spot,,.04,EUR
m5.large,,,.1,EUR
,,us-east-1,.5,EUR
`), 0o600))
	prices, err := kube.ReadPrices(path)
	require.NoError(t, err)
	require.Equal(t, "EUR", prices.Currency)
	type labels = map[string]string
	const instance, region = "node.kubernetes.io/instance-type", "topology.kubernetes.io/region"
	for i, c := range []struct {
		labels labels
		cost   string // annotation
		want   float64
		by     kube.PriceSource
	}{
		{labels{instance: "m5.large", region: "eu-west-1", "karpenter.sh/capacity-type": "spot"}, "", .03, kube.ByFile},
		{labels{instance: "m5.large", "eks.amazonaws.com/capacityType": "SPOT"}, "", .04, kube.ByFile},
		{labels{instance: "m5.large", "cloud.google.com/gke-spot": "true"}, "", .04, kube.ByFile},
		{labels{instance: "m5.large", "kubernetes.azure.com/scalesetpriority": "spot"}, "", .04, kube.ByFile},
		{labels{instance: "m5.large", "eks.amazonaws.com/capacityType": "ON_DEMAND"}, "", .1, kube.ByFile},
		{labels{instance: "m5.large", region: "us-east-1"}, "", .1, kube.ByFile}, // the first line that is for it
		{labels{"beta.kubernetes.io/instance-type": "m5.large"}, "", .1, kube.ByFile},
		{labels{instance: "other", region: "us-east-1"}, "", .5, kube.ByFile},
		{labels{instance: "m5.large"}, "7", 7, kube.ByAnnotation},
		{labels{instance: "m5.large"}, "-7", .1, kube.ByFile}, // no price: as without it
		{labels{instance: "other"}, "", .194, kube.ByModel},   // 4 · .031611 + 16 · .004237
	} {
		n := nodeOf(fmt.Sprint(i), func(n *v1.Node) {
			n.Labels = c.labels
			n.Status.Capacity = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("110")}
			n.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("1")}
			if c.cost != "" {
				n.Annotations = map[string]string{kube.CostAnnotation: c.cost}
			}
		})
		cost, by := prices.Of(n)
		require.InDelta(t, c.want, cost, 1e-3, i)
		require.Equal(t, c.by, by, i)
	}
	none, err := kube.ReadPrices("")
	require.NoError(t, err)
	gpu := nodeOf("gpu", func(n *v1.Node) {
		n.Status.Capacity = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"), "nvidia.com/gpu": resource.MustParse("2")}
	})
	cost, by := none.Of(gpu)
	require.Equal(t, kube.ByModel, by)
	require.InDelta(t, 2.094, cost, 6e-3)
	empty := nodeOf("empty", func(n *v1.Node) { n.Status = v1.NodeStatus{} })
	cost, _ = none.Of(empty)
	require.Equal(t, 1., cost, "a node that reports nothing")
}
