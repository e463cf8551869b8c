// Package control drives the loop of plugins/pilot in a cluster: it gathers the evidence that a
// PolicyPilot asks for, keeps the loop's state in the object's status, and carries out what the loop
// wants: trainings and judgements in this process, trainings as Jobs, and the PlacementPolicies.
//
// What it needs after a kill lies in the status and in files below a folder of its own. The status is
// written before anything is done, and what is done is asked for again until it is seen.
package control
