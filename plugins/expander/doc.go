// Package expander answers cluster-autoscaler's expander grpc: of the node groups that it may enlarge for pods that wait, it names those on
// which these pods cost least, placed by the policy in force. Where it cannot compare them it names all of them: cluster-autoscaler's
// next expander decides, as it does after an error and after five seconds.
package expander
