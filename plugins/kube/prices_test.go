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

// The built-in list is behind the annotation and the file, and before the model. It is in USD.
func TestPricesOfTheList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prices.csv")
	file := func(currency string) *kube.Prices {
		require.NoError(t, os.WriteFile(path, []byte("instance_type,capacity_type,region,price_per_hour,currency\nm5.xlarge,,,7,"+currency+"\n"), 0o600))
		prices, err := kube.ReadPrices(path)
		require.NoError(t, err)
		return prices
	}
	of := func(instance, id string, change ...func(*v1.Node)) *v1.Node {
		return nodeOf("n", append(change, func(n *v1.Node) {
			n.Labels = map[string]string{v1.LabelInstanceTypeStable: instance, v1.LabelTopologyRegion: "us-east-1"}
			n.Spec.ProviderID = id
			n.Status.Capacity = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi")}
		})...)
	}
	with := func(system string) *v1.Node {
		n := of("m5.xlarge", "")
		n.Labels[v1.LabelOSStable] = system
		return n
	}
	var none *kube.Prices
	for _, c := range []struct {
		prices *kube.Prices
		node   *v1.Node
		want   float64
		by     kube.PriceSource
	}{
		{none.WithList(), of("m5.xlarge", ""), .192, kube.ByList},
		{none.WithList(), of("m5.xlarge", "aws:///us-east-1a/i-1"), .192, kube.ByList},
		{none.WithList(), of("m5.xlarge", "kwok://n"), .194, kube.ByModel},
		{none.WithList(), of("m5.xlarge", "", func(n *v1.Node) { n.Annotations = map[string]string{kube.CostAnnotation: "3"} }), 3, kube.ByAnnotation},
		{none.WithList(), of("", ""), .194, kube.ByModel},
		{none.WithList(), with("windows"), .194, kube.ByLinux},
		{none.WithList(), of("m5.xlarge", "", func(n *v1.Node) { n.Status.NodeInfo.OperatingSystem = "windows" }), .194, kube.ByLinux},
		{file("EUR").WithList(), of("", "", func(n *v1.Node) { n.Status.NodeInfo.OperatingSystem = "windows" }), .194, kube.ByLinux},
		{file("USD").WithList(), with("windows"), 7, kube.ByFile},
		{none, with("windows"), .194, kube.ByModel},
		{none.WithList(), with("linux"), .192, kube.ByList},
		{none, of("m5.xlarge", ""), .194, kube.ByModel},
		{file("USD").WithList(), of("m5.xlarge", ""), 7, kube.ByFile},
		{file("USD").WithList(), of("m5.large", ""), .096, kube.ByList},
		{file("USD"), of("m5.large", ""), .194, kube.ByModel},
		{file("EUR").WithList(), of("m5.large", ""), .194, kube.ByModel},
	} {
		cost, by := c.prices.Of(c.node)
		require.Equal(t, c.by, by)
		require.InDelta(t, c.want, cost, 1e-3)
		require.Equal(t, by == kube.ByList, c.prices.Origin(c.node) != "")
	}
	gpu := of("n1-standard-4", "gce://p/z/n")
	bare, _ := none.WithList().Of(gpu)
	gpu.Status.Capacity["nvidia.com/gpu"] = resource.MustParse("2")
	cost, _ := none.WithList().Of(gpu)
	require.InDelta(t, bare+1.9, cost, 1e-9, "Google prices GPUs apart")
}
