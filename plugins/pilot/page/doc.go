// Package page writes what a pilot came to over the weeks, as a page that loads nothing else: what
// the cluster cost, what it would have cost without the pilot and what no placement can go below,
// what was decided, and what was promised against what came. It knows no cluster.
package page
