package bound

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// No way to fill a machine is worth more than a filler says, and the ways that it
// finds are permitted: compared with all ways there are.
func TestFill(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 6))
	exactly := 0
	for range 600 {
		inst, items := tiny(rng)
		dims := make([]int, len(inst.Dimensions))
		for d := range dims {
			dims[d] = d
		}
		c := newCover(inst, items, coverOptions{dims: dims, rules: true, objective: func(*binpack.MachineLine) float64 { return 1 }})
		if c == nil {
			continue
		}
		price := make([]int64, len(c.classes))
		for i := range price {
			price[i] = max(0, rng.Int64N([]int64{1000, 8}[rng.IntN(2)])-1)
		}
		for k := range c.kinds {
			most := int64(0)
			allWays(c, k, func(count []int64) {
				sum := int64(0)
				for i, n := range count {
					sum += n * price[i]
				}
				most = max(most, sum)
			})
			f := newFiller(c, k)
			for _, nodes := range []int64{0, 3, 1 << 20} {
				work := int64(1 << 30)
				worth, exact := f.solve(price, nodes, &work)
				require.GreaterOrEqual(t, worth, most)
				if exact {
					exactly++
					require.Equal(t, most, worth)
				}
				for _, w := range slices.Concat(f.found, f.packing(&work)) {
					count := make([]int64, len(c.classes))
					for i, class := range w.class {
						count[class] = w.count[i]
					}
					require.True(t, permitted(c, k, count), "%+v %v", c, count)
				}
			}
			require.GreaterOrEqual(t, exactly, 1)
		}
	}
	require.Greater(t, exactly, 1500)
}

// The largest amounts that there are: a product of 2⁵⁰ and the steps of a table
// has 64 bits.
func TestFillLargestAmounts(t *testing.T) {
	const half = binpack.MaxValue / 2
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(binpack.Unlimited, 1, binpack.MaxValue, binpack.MaxValue)},
		[]int64{binpack.MaxValue, 1}, []int64{1, binpack.MaxValue}, []int64{half, half - 1})
	b := Best(t.Context(), inst, []int64{2, 2, 4}, Options{Work: 1e7})
	require.Equal(t, 6, b.Machines) // 2 + 2 alone, 4 by pairs
	require.Len(t, b.Each, 6)
}

// A machine with room for a million items of each class: what is tried is counted
// as work and bounded, and the bound holds.
func TestFillVeryManyItems(t *testing.T) {
	const million = 1_000_000
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(binpack.Unlimited, 1, million, million)},
		[]int64{1, 1}, []int64{0, 0}, []int64{1, 2}, []int64{3, 2})
	items := []int64{2 * million, 3 * million, 2 * million, 2 * million}
	c := newCover(inst, items, coverOptions{dims: []int{0, 1}, rules: true, objective: countOf})
	f := newFiller(c, 0)
	work := int64(0)
	worth, _ := f.solve([]int64{5, 1, 5, 5}, fewestNodes, &work)
	require.GreaterOrEqual(t, worth, int64(5*million+3*million)) // the first class and all of the second
	require.LessOrEqual(t, f.numbers, int64(mostNumbers*fewestNodes+len(items)))
	require.Less(t, work, -numberWork*f.numbers+1)
}
