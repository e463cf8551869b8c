// Package agents has the agents that recommend the number and the size of a workload's
// replicas: rules of Kubernetes and of papers, one a file, with its state, its clock shift
// and its JSON.
//
// [Make] makes an agent from a name and, for one that was trained, the digest of
// its weights. To add an agent, add a file and a line to the list in agents.go.
package agents
