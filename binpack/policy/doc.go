// Package policy is the policy file: a Kubernetes object that names a learned
// model, what it looks at, and its numbers, or a built-in rule with settings. It parses, checks,
// digests and saves the file, and builds the [binpack.Policy] that the file describes. The list of
// models is here; what a model is, is binpack/learned.
package policy
