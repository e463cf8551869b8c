// Package follow makes a node do what FlowPolicies say of it. [Follower] decides, without a client and a clock: which
// policy is the node's, whether it is in the canary, and whether what it was given is newer than what it has. [Run] watches
// the objects, and writes the node's NodeFlows.
//
// The order itself is behind [Kernel]; flow/node has the real one. Where the API server cannot be reached, nothing
// changes on the node.
package follow
