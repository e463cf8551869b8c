// Package v1alpha1 holds the objects by which many nodes order their flows: FlowPolicy sets which
// nodes, by which thresholds and in which step; NodeFlows is the state of one node. Both are
// cluster-scoped. The package defines their shape and the policy of a node, and has no client.
//
// # FlowPolicy
//
// The spec is a person's. flow/central writes the status: thresholds with a sequence number that rises
// with each change, how many nodes follow, and the conditions. Condition Accepted: agents can read the
// policy. Condition Active: nodes order their uplinks by it; otherwise reason and message have the
// cause.
//
// # NodeFlows
//
// One for each node, by its name. The agent of the node makes it, owned by the Node, and writes its
// status: the policy that it follows, the active sequence number, the condition Shaping, and a
// sketch of the sizes that it saw last. Nobody else writes it. It is deleted with the Node.
//
// Deep copies and the CustomResourceDefinitions in manifests/flows/crds are
// generated: hack/codegen/run.sh.
package v1alpha1

// +kubebuilder:object:generate=true
// +groupName=flow.sigma-scheduler.io
