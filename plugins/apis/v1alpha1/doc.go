// Package v1alpha1 holds the objects that configure placement in a cluster. A
// PlacementPolicy chooses among the nodes on which a pod may run; a PlacementRule
// forbids nodes; a PlacementPlan assigns pods to nodes; a Rebalance finds the nodes that
// a few moves would free; a PolicyPilot renews a PlacementPolicy. All are cluster-scoped. The package has only their shape:
// binpack/policy computes a policy, plugins/sigma applies it.
//
// # PlacementPolicy
//
// A PlacementPolicy is the file that `sigma train` writes; `kubectl apply` takes
// it as it is. The API server accepts the same objects as the loader of binpack/policy
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
// A PlacementRule restricts the nodes of the pods that its selector picks.
// Rules are checked when a pod is placed, never later: no pod is evicted.
//
//   - maxPerNode k: a node takes at most k pods of one app, for every app of
//     which the selector picks pods. Different apps do not count together.
//   - spreadMin s: a pod may join a node that holds its app only if the app then
//     runs on at least min(s, its living pods) nodes. So the first s pods of an
//     app are placed on s nodes, and later ones on any.
//   - excludes: with A the pods of the rule's selector and B those of an
//     exclusion, a placement is forbidden if after it a node holds at least one A
//     and more than max B. So either arrival can be refused. A pod that both
//     selectors pick counts as both.
//
// With topologyKey topology.kubernetes.io/zone they count in zones in place of nodes. A node
// without that label is in no zone: it takes no pod that maxPerNode or spreadMin binds, and
// excludes keep no pod off it. If a node's label changes, its pods count in the other zone
// from then on. With afterMinutes m a rule no longer binds a pod that was created m minutes
// ago and still waits; pods placed against the rule then show as a conflict.
//
// plugins/podspec defines the app of a pod; pods of different size that share
// an app count together. Native anti-affinity and topology spread stay active
// in addition to the rules. If several rules select a pod, all of them hold.
//
// Condition Accepted: the selectors could be parsed. Condition Conflicting: on
// status.conflicts nodes, or zones, the rule does not hold at present, because other schedulers
// placed pods there, labels changed, or the rule is younger than the pods.
//
// # PlacementPlan
//
// A PlacementPlan assigns the pods of workloads to nodes, by a number of pods on each; the
// pods that run there already count. `sigma plan --object` writes one. While it is Enabled
// (a new one is not), the scheduler reserves the room of the missing pods: it counts as
// used for all other pods. A pod of a listed workload is placed on the first node by name with
// room reserved for it that passes the filters; if there is none, the policy decides. A
// reservation ends when a pod takes it, at the deadline, when the workload has all its pods,
// and when the node is removed, is cordoned or has no room any more, since its pods grew:
// running pods have precedence. If room, node or pod changes before the deadline,
// the reservation is made again.
//
// Condition Accepted: the plan could be read, and no older plan has one of its workloads.
// Condition Active: it reserves; the message has its progress and the reasons for missing pods.
//
// # Rebalance
//
// A Rebalance finds at intervals the nodes that a few moves of pods would free. The result is
// that of `sigma rebalance --moves M` on a `sigma snapshot` of the same moment: both run the
// same code on the same objects, with seed 1. The pods that must not move are derived from the
// pods, see docs/rebalance.md.
//
// Condition Accepted: the spec could be read. Condition Planned: status.plan is of the
// present spec and the newest that was due; otherwise the message has the reason.
//
// # PolicyPilot
//
// A PolicyPilot configures how the PlacementPolicy that it names is renewed from the scheduler's
// records; plugins/pilot decides, and sigma-pilot executes it, see docs/pilot.md. status.memory is
// internal to the loop, which resumes from it after a kill. The annotation [ApprovedAnnotation] with the
// digest of the candidate approves it.
//
// Condition Accepted: the spec is executed; otherwise the message names the field that prevents it.
// Condition Recording: the decision log can be read, and its newest whole day has no gap. Condition
// Measured: the scheduler has the policy, and has decided by it lately.
//
// Deep copies and the CustomResourceDefinitions in manifests/base/crds are
// generated: hack/codegen/run.sh.
package v1alpha1

// +kubebuilder:object:generate=true
// +groupName=sigma-scheduler.io
