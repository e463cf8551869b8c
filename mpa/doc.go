// Package mpa decides how many replicas a workload has and how large they are.
//
// It is pure: a [Controller] is told what was observed and at what time, and
// answers with an action or with the reason why it holds. It reads no clock, no
// network and no file, so the simulator and the cluster run the same code, and a
// log of observations gives the same actions when it is read again.
//
// An [Agent] says what it would like: [Static], [HPA], [VPA], both at once, or one
// of those that know the day's shape. The guards of the Controller say how much of that
// is done now: nothing on missing or stale data, within bounds and steps, one
// dimension at a time, and not too often, also when the clock jumps or a controller
// begins anew with the [Memory] of another.
package mpa
