package nodetypes

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/plugins/pricelist"
)

// awsNode is a node whose system keeps 90 millicores and 2 GiB.
func awsNode(instance string, cores int64, gib int64) *v1.Node {
	n := &v1.Node{}
	n.Labels = map[string]string{v1.LabelInstanceTypeStable: instance}
	n.Status.Allocatable = v1.ResourceList{
		"cpu": *resource.NewMilliQuantity(1000*cores-90, resource.DecimalSI), "memory": *resource.NewQuantity((gib-2)<<30, resource.BinarySI), "pods": resource.MustParse("58"),
	}
	return n
}

func TestOverhead(t *testing.T) {
	big := awsNode("m5.4xlarge", 16, 64)
	big.Status.Allocatable["cpu"], big.Status.Allocatable["pods"] = resource.MustParse("15800m"), resource.MustParse("234")
	silent := awsNode("t3.large", 2, 8)
	silent.Status.Allocatable = nil
	require.Empty(t, newOverhead([]*v1.Node{silent}).cpu)
	o := newOverhead([]*v1.Node{awsNode("m5.2xlarge", 8, 32), big, silent})
	for cores, want := range map[int64][2]int64{2: {1910, 14}, 8: {7910, 58}, 12: {12000 - 145, 58}, 16: {15800, 234}, 32: {31600, 234}} {
		has := o.allocatable(&pricelist.Type{Cores: cores, GiB: 4 * float64(cores)})
		require.Equal(t, want, [2]int64{has["cpu"], has["pods"]}, cores)
	}
	require.EqualValues(t, 6<<30, o.allocatable(&pricelist.Type{Cores: 2, GiB: 8})["memory"])
}
