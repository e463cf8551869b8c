// Package learned says what a learned placement model is: a [Model] is a name, the
// features that its weights belong to, its parameters, what it may know, what
// training searches by default, how it is built from a policy file's numbers, and
// whether a live cluster can use it. One model is one folder below this one and
// one line of the list in binpack/policy; loading, training, the ledger and the
// documents read the Model value and name no model themselves.
//
// The package knows nothing of policy files, which hold more than a [Spec], and of
// the models.
package learned
