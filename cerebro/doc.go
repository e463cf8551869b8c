// Package cerebro replays a trace on virtual time under a placement policy and
// measures what comes out. It makes exactly the decisions that the policy
// makes in a cluster: both call [binpack.State.Choose] on the same policy value.
package cerebro
