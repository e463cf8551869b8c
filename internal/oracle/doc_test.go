// Package oracle compares Sigma's model of what kube-scheduler allows with kube-scheduler's own default filters,
// which are linked from the Kubernetes of go.mod.
//
// A cluster is drawn from a seed: nodes, namespaces, volumes, and workloads with every field of a pod that a filter reads.
// Pods come through what the API server does to a new pod, and are placed by the filters; then nodes and labels change, as they do
// in a cluster. Each pod that Sigma would move, or takes as fully known while it waits, is asked about on every node, with the pod itself
// taken away: Sigma is wider where it allows what a filter refuses, and narrower where it refuses what all filters allow.
// Of each kind of difference one cluster is made as small as it can be, and printed.
//
// Nominations are not counted: filters alone do not read them.
package oracle
