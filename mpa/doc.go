// Package mpa decides how many replicas a workload has and how large they are.
//
// It is pure: a [Controller] takes an [Observation] with its time and returns a
// [Decision]: an action, or the reason to hold. It reads no clock, no network and no
// file, so the simulator and the cluster run the same code, and a log of observations
// gives the same decisions again.
//
// An [Agent] recommends; package agents has them. The guards of the Controller, a list in
// guards.go, limit how much of that is done now: nothing on missing or stale data, within
// bounds and steps, one dimension at a time, and not too often. They hold when the clock
// jumps, and when another controller takes over with the [Memory] of the last.
//
// testdata/scenarios shows the behaviour of the guards.
package mpa
