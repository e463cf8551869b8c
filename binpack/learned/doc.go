// Package learned defines learned placement models. A [Model] has a name, features
// with a weight each, parameters, the levels of knowledge that it can use, the
// default search of training, a function that builds it from numbers, and the reason
// why a live cluster cannot use it, if so. A model is one folder below this one and
// one line of the list in binpack/policy. Loading, training, the ledger and the
// documents read the Model value and name no model themselves.
//
// The package knows neither policy files, which hold more than a [Spec], nor the
// models.
package learned
