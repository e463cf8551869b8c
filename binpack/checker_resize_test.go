package binpack_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Items that grow overfill their machine: the next item there is a violation until one has left.
func TestCheckerResizes(t *testing.T) {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{"n"}, Fleet: binpack.Open,
		Machines: []binpack.MachineLine{{Name: "n", Count: 2, Cost: 1, Capacity: []int64{10}}},
		Groups:   []binpack.Group{{Name: "a"}, {Name: "b"}},
		Apps:     []binpack.App{{Name: "a", Group: 0, Demand: []int64{4}}, {Name: "b", Group: 1, Demand: []int64{1}}},
	}
	c := binpack.NewChecker(inst)
	require.NoError(t, c.Place(0, 0, 0, nil))
	require.NoError(t, c.Place(0, 0, 0, nil))
	c.Resize(0, []int64{6})
	assert.Equal(t, []int64{4}, inst.Apps[0].Demand, "the instance of the caller")
	require.ErrorContains(t, c.Place(1, 0, 0, nil), "cpu: 13 used of 10")
	require.NoError(t, c.Remove(0, 0, 0, nil))
	require.NoError(t, c.Place(0, 0, 1, nil))
	require.NoError(t, c.Place(1, 0, 0, nil), "6 + 1 + 1 of 10")
	c.Resize(0, []int64{2})
	require.NoError(t, c.Place(0, 0, 0, nil), "2 + 2 + 1 + 1 of 10")
}
