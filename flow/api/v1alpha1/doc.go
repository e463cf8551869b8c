// Package v1alpha1 holds the objects by which many nodes order their flows: FlowPolicy says
// which nodes, by which thresholds and in which step; NodeFlows is what one node does. Both are
// cluster-scoped. The package knows their shape and whose a node is, and no client.
//
// # FlowPolicy
//
// The spec is a person's. flow/central writes the status: thresholds with a sequence number that rises
// with each change, how many nodes follow, and the conditions. Condition Accepted: agents can read
// the policy. Condition Active: nodes order their uplinks by it; reason and message say why not.
//
// # NodeFlows
//
// One for each node, by its name. The agent of the node makes it, owned by the Node, and writes its
// status: the policy that it follows, the sequence number that it has put in force, the condition
// Shaping, and a sketch of the sizes that it saw last. Nobody else writes it. It goes with the Node.
//
// Deep copies and the CustomResourceDefinitions in manifests/flows/crds are
// generated: hack/codegen/run.sh.
package v1alpha1

// +kubebuilder:object:generate=true
// +groupName=flow.sigma-scheduler.io
