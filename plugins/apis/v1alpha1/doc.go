// Package v1alpha1 holds the objects that configure placement in a cluster. A
// PlacementPolicy chooses among the nodes on which a pod may run; a PlacementRule
// forbids nodes; a PlacementPlan says which nodes pods land on; a Rebalance asks which nodes
// a few moves would free; a PolicyPilot renews a PlacementPolicy. All are cluster-scoped. The package knows only their shape:
// binpack/policy computes a policy, plugins/sigma applies it.
//
// # PlacementPolicy
//
// A PlacementPolicy is the file that `sigma train` writes; `kubectl apply` takes
// it as it is. The API server accepts what the loader of binpack/policy accepts
// and refuses the rest with the field's name: unknown models, features and
// parameters, numbers out of range, weights that do not match the features.
// A test runs both on the same objects. The differences: an object has at most
// 128 features and 7 parameters here, a feature's name at most 320 characters,
// and a mode is not the empty string.
//
// A scheduler follows the policies that its arguments name (SigmaArgs.policyName
// and canaryPolicyName) and reports in the status. Condition Accepted: it could
// be loaded. Condition Active: it decides now. A policy that cannot be loaded
// changes nothing: the last good version stays active, and status.digest identifies
// its numbers.
//
// # PlacementRule
//
// A PlacementRule restricts where the pods that its selector picks may stand.
// Rules are checked when a pod is placed, never later: no pod is evicted.
//
//   - maxPerNode k: a node takes at most k pods of one app, for every app of
//     which the selector picks pods. Different apps do not count together.
//   - spreadMin s: a pod may join a node that holds its app only if the app then
//     stands on at least min(s, its living pods) nodes. So the first s pods of an
//     app go to s nodes, and later ones to any.
//   - excludes: with A the pods of the rule's selector and B those of an
//     exclusion, a placement is forbidden if after it a node holds at least one A
//     and more than max B. So either arrival can be refused. A pod that both
//     selectors pick counts as both.
//
// With topologyKey topology.kubernetes.io/zone they count in zones in place of nodes. A node
// without that label is in no zone: it takes no pod that maxPerNode or spreadMin binds, and
// excludes keep no pod off it. Where a node's label changes, its pods count in the other zone
// from then on. With afterMinutes m a rule no longer binds a pod that was created m minutes
// ago and still waits; what stands against the rule then shows as a conflict.
//
// plugins/podspec defines which app a pod is of; pods of different size that share
// an app count together. Native anti-affinity and topology spread stay in force
// beside the rules. Where several rules select a pod, all of them hold.
//
// Condition Accepted: the selectors could be parsed. Condition Conflicting: on
// status.conflicts nodes, or zones, the rule does not hold at present, because other schedulers
// placed pods there, labels changed, or the rule is younger than the pods.
//
// # PlacementPlan
//
// A PlacementPlan gives the pods of workloads their nodes, by a number of pods on each; the
// pods that stand there already count. `sigma plan --object` writes one. While it is Enabled
// (a new one is not), the scheduler reserves the room of what is still to come: it counts as
// used for all other pods. A pod of a listed workload goes to the first node by name with
// room reserved for it that passes the filters; where there is none, the policy decides. A
// reservation ends when a pod takes it, at the deadline, when the workload has all its pods,
// and when the node goes, is cordoned or has no room left, since what stands there grew: the
// pods that stand come first. Where room, node or pod changes before the deadline,
// it is made again.
//
// Condition Accepted: the plan could be read, and no older plan has one of its workloads.
// Condition Active: it reserves; the message says how far it is, and why no further.
//
// # Rebalance
//
// A Rebalance asks every so often which nodes a few moves of pods would free. The answer is
// that of `sigma rebalance --moves M` on a `sigma snapshot` of the same moment: both run the
// same code on the same objects, with seed 1. Which pods must not move is read from the pods,
// see docs/rebalance.md.
//
// Condition Accepted: the spec could be read. Condition Planned: status.plan is of the
// present spec and the newest that was due; the message says why not.
//
// # PolicyPilot
//
// A PolicyPilot says how the PlacementPolicy that it names is renewed from what the scheduler
// recorded; plugins/pilot decides, and sigma-pilot carries it out, see docs/pilot.md. status.memory is
// the loop's own: it goes on from there after a kill. The annotation [ApprovedAnnotation] with the digest
// of the candidate lets it in.
//
// Condition Accepted: the spec is carried out; the message names the field that keeps it from that.
// Condition Recording: the decision log can be read, and its newest whole day has no gap. Condition
// Measured: the scheduler has the policy, and has decided by it lately.
//
// Deep copies and the CustomResourceDefinitions in manifests/base/crds are
// generated: hack/codegen/run.sh.
package v1alpha1

// +kubebuilder:object:generate=true
// +groupName=sigma-scheduler.io
