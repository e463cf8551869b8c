package volumes

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// A volume's zone may be a label, as of drivers in the tree, and terms are those of all volumes and of the pod.
func TestWhereVolumesAre(t *testing.T) {
	v := &v1.PersistentVolume{}
	v.Labels = map[string]string{v1.LabelTopologyZone: "a__b"}
	terms := where(v)
	require.Equal(t, []string{"a", "b"}, terms[0].MatchExpressions[0].Values)
	two := []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "x"}}}, {MatchExpressions: []v1.NodeSelectorRequirement{{Key: "y"}}}}
	require.Len(t, and(two, terms), 2)
	require.Len(t, and(two, two), 4)
	require.Equal(t, two, and(nil, two))
	require.Equal(t, two, and(two, nil))
}
