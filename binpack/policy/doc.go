// Package policy is the policy file: a Kubernetes object that names a learned model, its inputs,
// and its numbers, or a built-in rule with settings. It parses, checks, digests and saves the
// file, and builds the [binpack.Policy] that the file describes. The list of models is here;
// binpack/learned defines a model.
package policy
