// Package dump writes dumps of messy clusters, as kubectl get -o json does, for tests and the
// demo: pools with taints, nodes that are cordoned or unreachable, one node with a GPU, spot nodes, zones, anti-affinity,
// volumes, budgets, DaemonSets, pods that wait for different reasons, present use. It shares no code
// with the generator of standard instances, and none with the readers of dumps.
package dump
