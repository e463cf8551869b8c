// Package cerebro replays a trace on virtual time under a placement policy and
// measures the outcome. It makes exactly the decisions that the policy makes in a
// cluster. Both take the first of one ranking of the same policy value: a cluster
// calls [binpack.State.Rank] for the first few, a replay [binpack.State.Choose],
// which finds the first with short-cuts.
package cerebro
