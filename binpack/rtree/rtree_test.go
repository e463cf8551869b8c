package rtree_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/rtree"
)

// TestTree: while points are inserted, moved and removed, each is in one leaf, and each node has the
// least bounds of the points below it.
func TestTree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	at := make([]rtree.Bounds, 300)
	draw := func(p int32) {
		for c := range 3 {
			v := float64(rng.IntN(20))
			at[p].At[c] = rtree.Range{Least: v, Most: v}
		}
		at[p].Kind = int32(rng.IntN(2))
	}
	var tree rtree.Tree
	there := map[int32]bool{}
	var list []int32
	for p := range int32(150) {
		draw(p)
		list = append(list, p)
		there[p] = true
	}
	tree.Reset(list, []float64{1, .5, 0}, func(p int32) rtree.Bounds { return at[p] })
	for step := range 3000 {
		p := int32(rng.IntN(len(at)))
		tree.Remove(p)
		delete(there, p)
		if rng.IntN(3) > 0 || step > 2700 && rng.IntN(2) > 0 {
			draw(p)
			tree.Insert(p)
			there[p] = true
		}
		if step%50 == 0 || step > 2950 {
			check(t, &tree, at, there)
		}
	}
	for p := range int32(len(at)) {
		tree.Remove(p)
	}
	require.EqualValues(t, rtree.None, tree.Root)
}

func check(t *testing.T, tree *rtree.Tree, at []rtree.Bounds, there map[int32]bool) {
	t.Helper()
	var below func(node int32) []int32
	below = func(node int32) []int32 {
		n := &tree.Nodes[node]
		points := slices.Clone(n.Points())
		if n.Left != rtree.None {
			points = append(below(n.Left), below(n.Right)...)
		}
		want := at[points[0]]
		for _, p := range points[1:] {
			for c := range 3 {
				want.At[c].Add(at[p].At[c])
			}
			if at[p].Kind != want.Kind {
				want.Kind = -1
			}
		}
		require.Equal(t, want, n.Bounds)
		return points
	}
	points := below(tree.Root)
	require.Len(t, points, len(there))
	for _, p := range points {
		require.True(t, there[p], p)
	}
}
