// Package phases leads a candidate, such as an agent with a new ScalingPolicy, from a
// shadow of the rules to an agent that acts (the bootstrapping of AWARE, USENIX ATC'23).
//
// [Agent] passes each observation to the rules and the candidate and lets one of them act.
// Every so often it identifies the workload from the observations of a window, simulates
// both agents on the window's load ([Window.Judge]) and moves to the next phase or back
// ([Progress.Judge]). All of it is a function of the observations, so a replay of the
// journal gives the same phases.
package phases
