package ledger

import (
	"fmt"
	"slices"
)

// Free returns the free amounts of a node by the columns, and by its capacity minus the demand of its
// pods and reservations; both empty if they agree, or the columns lack the node or are out of date.
func (l *columns) Free(n *Node) (columns, recount string) {
	if !l.ready() || n.index < 0 {
		return "", ""
	}
	free := l.amounts(n.spec.Capacity)
	for _, p := range n.pods {
		for d, need := range l.state.Instance().Apps[p.app.index].Demand {
			free[d] -= need
		}
	}
	pods := len(n.pods)
	for _, r := range n.reserved {
		pods += int(r.Pods)
		for d, need := range l.state.Instance().Apps[r.App.index].Demand {
			free[d] -= need * int64(r.Pods)
		}
	}
	has := make([]int64, len(free))
	for d := range has {
		has[d] = l.state.Free(d)[n.index]
	}
	if slices.Equal(has, free) && int(l.state.Items(n.index)) == pods {
		return "", ""
	}
	return fmt.Sprintf("%v, %d pods", has, l.state.Items(n.index)), fmt.Sprintf("%v, %d pods", free, pods)
}
