// Package pilot decides how the placement policy of a cluster is renewed: it records, trains,
// judges, promotes in steps, watches and rolls back.
//
// [Loop.Step] is a pure function of the time, the [State] and the [Evidence]; it has no clock and
// no client. Every step returns all actions that are still needed, so a program killed between
// two steps continues from its saved state. Missing or old evidence never promotes a policy; a
// broken limit of the guard rolls it back at once.
package pilot
