// Package control drives the loop of plugins/pilot in a cluster: it gathers the evidence for a
// PolicyPilot, keeps the loop's state in the object's status, and carries out the loop's actions:
// trainings and judgements in this process, trainings as Jobs, and the PlacementPolicies.
//
// The state to resume from after a kill is in the status and in files below a folder of the pilot's
// own. The status is written before an action, and an action is repeated until its effect is seen.
package control
