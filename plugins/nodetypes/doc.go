// Package nodetypes finds the instance types that the nodes of a cluster could have in place of their own: those of the built-in
// price list, with an estimate of their room for pods, and the pools of nodes that they could be in.
package nodetypes
