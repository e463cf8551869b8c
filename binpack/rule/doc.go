// Package rule holds the placement rules that have no trained numbers: the textbook
// ones, the strategies of kube-scheduler, and the policies that FGD's authors
// compare theirs with. A rule is one file and one line of the list that [ByName]
// reads.
//
// Every rule is a [binpack.Policy]: Cerebro, the plugin and the extender run these
// values. They read a State and an item; they use no Kubernetes, clock or file.
//
// Two habits keep scores comparable. Amounts enter a score divided by a
// capacity, and by division, not by a stored reciprocal: the quotient of two
// whole numbers is rounded once, so equal shares give equal scores whatever the
// unit or the size of the machine, and the ranking finds the ties that there are. And products are rounded before they are added, which
// keeps processors with a fused multiply-add to the same bits.
package rule
