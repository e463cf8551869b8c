// Package page writes the results of a pilot over the weeks as a page that loads nothing else: the
// cost of the cluster, its cost without the pilot, a lower bound for any placement, the decisions,
// and the promised and the realised savings. It is independent of a cluster.
package page
