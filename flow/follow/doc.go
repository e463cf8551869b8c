// Package follow applies FlowPolicies on a node. [Follower] decides, without a client and a clock: which policy is the
// node's, whether the node is in the canary, and whether a spec or status is newer than the one taken. [Run] watches
// the objects, and writes the node's NodeFlows.
//
// The order itself is behind [Kernel]; flow/node has the real one. If the API server is unreachable, nothing changes on
// the node.
package follow
