// Package pilot decides how a placement policy of a cluster is renewed: it records, trains,
// judges, promotes in steps, watches and goes back.
//
// [Loop.Step] is a pure function of the time, the [State] and the [Evidence]: there is no clock
// and no client in it. What it wants to be so is asked for in every step, so that a program that
// is killed between two steps goes on where it was. Evidence that is missing or old never moves a
// policy forward; a guard that is broken takes it back at once.
package pilot
