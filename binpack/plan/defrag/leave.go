package defrag

import (
	"cmp"
	"slices"
)

// LeaveOrder returns the order, as indices of their sizes, in which the items of an overfull machine are tried for
// the one that leaves: first those of at least the excess, the smallest first, since one of them suffices; then the
// others, the largest first. Items of equal size keep their order.
func LeaveOrder(sizes []float64, excess float64) []int {
	order := make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) (lacks int, v float64) {
		if v = sizes[i]; v >= excess {
			return 0, v
		}
		return 1, -v
	}
	slices.SortStableFunc(order, func(a, b int) int {
		lacksA, x := rank(a)
		lacksB, y := rank(b)
		return cmp.Or(cmp.Compare(lacksA, lacksB), cmp.Compare(x, y))
	})
	return order
}
