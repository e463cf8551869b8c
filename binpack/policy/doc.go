// Package policy holds the learned models and the policy file, which says what a
// model looks at, and its numbers.
//
// Every model is a [binpack.Policy]: Cerebro, the plugin and the extender run
// these very values. They know a State and an item, nothing of Kubernetes, of
// clocks or of files.
package policy
