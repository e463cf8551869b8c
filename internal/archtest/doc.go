// Package archtest keeps the map of packages true: its test parses the imports
// of every Go file of the module and compares them with one table in code
// (table_test.go).
//
// The table says for each package which other packages of this module it may
// import. A package that the table does not know fails the test: where a new
// one belongs is decided when it is made, by a line here. Beside the table stand
// laws about imports from elsewhere, which hold through any chain of our own
// packages: no Kubernetes in the core, no k8s.io/kubernetes in cmd/sigma, swarm
// and cerebro without knowledge of each other, glog only below cmd/.
//
// The imports are parsed and not asked of `go list`: the test cache knows which
// files a test opened, but not what a command that it started has read, and
// would answer "ok (cached)" to a new violation. Build tags are ignored, so a
// file for another system or behind `e2e` obeys too.
//
// It is laxer than the design's table in these places:
//
//   - Test files may import anything of ours (the compiler refuses cycles): a
//     test of binpack wants the rules of binpack/rule, and nothing else
//     depends on a test. The laws about Kubernetes in the core, and about swarm
//     and cerebro, hold for tests too. Folders with nothing but tests need no line.
//   - binpack/policy, swarm and cerebro/trace may import internal/durable: it knows
//     nothing, and a file that survives a kill is written in one way.
//   - cerebro/convert, cerebro/report and benchdata/generate may import binpack:
//     the signatures of cerebro/trace are made of its types.
//   - plugins/sigma, plugins/extender and plugins/snapshot may import binpack,
//     binpack/measure and cerebro/trace, for the state itself, the metrics and
//     the decision log (the design leaves the end of that line open).
//   - plugins/apis, internal/train and mpa may be several packages that import
//     each other.
//   - Packages below internal/ without a line of their own may import the
//     core and the simulator, but not swarm: joining the two is internal/train's job.
//   - mpa is one family until its own design says more; the core is closed to it
//     except binpack.
//
// What is not seen: an import of Kubernetes by a module that is not ours, and
// the modules below hack/, which are programs of their own.
package archtest
