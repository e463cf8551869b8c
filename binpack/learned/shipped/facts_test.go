package shipped

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// TestAgain: an app comes again with its second request, not with a large one, and a scorer
// made later sees the same.
func TestAgain(t *testing.T) {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""},
		Machines: []binpack.MachineLine{{Name: "m", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{9}}},
	}
	s := binpack.NewState(inst)
	for a := range int32(3) {
		s.AddApp(binpack.App{Group: a, Demand: []int64{1}, Expected: -1, Lifetime: -1}, binpack.Group{}, 0)
	}
	followed := newFacts(s, binpack.K1)
	again := func() bool {
		fresh := newFacts(s, binpack.K1)
		require.Equal(t, fresh.now(), followed.now())
		return followed.now()&Again != 0
	}
	require.False(t, again())
	for a := range int32(3) {
		s.Arrive(a, 4)
		require.False(t, again(), "app %d", a)
	}
	s.Arrive(1, 1)
	require.True(t, again())
	s.AddApp(binpack.App{Group: 3, Demand: []int64{1}, Expected: -1, Lifetime: -1}, binpack.Group{}, 0)
	s.Arrive(3, 2)
	require.True(t, again(), "it remains so")
	h := binpack.History{Seen: []int64{4, 5, 4, 2}, Requests: []int64{1, 2, 1, 1}, SumSquares: []int64{16, 17, 16, 4}}
	s.Restore(h)
	require.True(t, again(), "of a restored state, too")
	h.Seen[1], h.Requests[1], h.SumSquares[1] = 4, 1, 16
	s.Restore(h)
	require.False(t, again(), "in this past none has")
	s.Arrive(2, 1)
	require.True(t, again())
	s.Reset()
	require.False(t, again(), "a state that is used once more")
}

// TestLimited: nearly all that is expected has a limit; apps without a forecast do not count.
func TestLimited(t *testing.T) {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""},
		Machines: []binpack.MachineLine{{Name: "m", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{9}}},
	}
	s := binpack.NewState(inst)
	for a, limit := range []int32{1, 0, 0} {
		s.AddApp(binpack.App{Group: int32(a), Demand: []int64{2}, Expected: -1, Lifetime: -1}, binpack.Group{Limit: limit}, 0)
	}
	f := newFacts(s, binpack.K1)
	for _, c := range []struct {
		expected []float64
		want     bool
	}{{nil, false}, {[]float64{19, 2, -1}, true}, {[]float64{17, 2, -1}, false}, {[]float64{18, -1, 3}, false}, {[]float64{0, 0, 0}, false}} {
		s.Known.Expected = c.expected
		require.Equal(t, c.want, f.now()&Limited != 0, "%v", c.expected)
	}
}

// The order of apps, which columns that grow and columns that are made again have in another way, changes nothing.
func TestLimitedInAnyOrder(t *testing.T) {
	type app struct {
		need     int64
		limit    int32
		expected float64
	}
	apps := []app{{1750, 1, 2}, {1100, 1, 5}, {1650, 1, 8}, {1200, 1, 1}, {2600, 0, 1}} // nearly nine of ten parts
	var want Fact
	for i, order := range [][]int{{0, 1, 2, 3, 4}, {1, 4, 2, 0, 3}, {4, 3, 2, 1, 0}, {2, 0, 4, 3, 1}} {
		inst := &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""},
			Machines: []binpack.MachineLine{{Name: "m", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{7190}}},
		}
		s := binpack.NewState(inst)
		var expected []float64
		for g, a := range order {
			s.AddApp(binpack.App{Group: int32(g), Demand: []int64{apps[a].need}, Expected: -1, Lifetime: -1}, binpack.Group{Limit: apps[a].limit}, 0)
			expected = append(expected, apps[a].expected)
		}
		s.Known.Expected = expected
		f := newFacts(s, binpack.K1)
		if got := f.now() & Limited; i == 0 {
			want = got
		} else {
			require.Equal(t, want, got, "%v", order)
		}
	}
}
