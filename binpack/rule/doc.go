// Package rule holds the placement rules that nobody trained: the textbook ones,
// the strategies of kube-scheduler, and the policies that FGD's authors compare
// theirs with. One rule is one file and one line of the list that [ByName] reads.
//
// Every rule is a [binpack.Policy]: Cerebro, the plugin and the extender run these
// very values. They know a State and an item, nothing of Kubernetes, of clocks or
// of files.
//
// Two habits keep scores comparable. Amounts enter a score divided by a
// capacity, and by division, not by a stored reciprocal: the quotient of two
// whole numbers is rounded once, so equal shares give equal scores whatever the
// unit or the size of the machine, and the tie-break of State.Choose sees a tie
// where there is one. And products are rounded before they are added, which
// keeps processors with a fused multiply-add to the same bits.
package rule
