// Package archtest keeps the map of packages true: its tests parse the Go files of the
// module and compare them with the rules in this package.
//
//   - The table (table_test.go) lists for each package the other packages of this
//     module that it may import. A package without a line in the table fails the test.
//     A row or a name of the table that no package needs fails too (unused_test.go).
//   - Laws forbid imports through any chain of our own packages: no Kubernetes in the
//     core nor in the ledger, no client in code that reads a pod, no k8s.io/kubernetes in
//     cmd/sigma, swarm and cerebro independent of each other, glog only below cmd/, and no package
//     imports the laboratory, lab/.
//   - A program links no package that it does not use, also through other modules:
//     plots, report pages, training, networks, the laboratory (links_test.go).
//   - docs/map.md lists every package, docs/README.md links every page, and links lead
//     somewhere (docs_test.go).
//   - Limits of size (size_test.go): 450 lines a file, 4,000 lines a package without
//     its tests. A larger package has the reason in its package comment, in a line that begins
//     with "Size: ". Generated files are free.
//   - `make race` runs the tests of every package that starts goroutines or locks
//     (race_test.go).
//   - Every server of the product is one of internal/serve (servers_test.go), which bounds
//     connections, heads, bodies and times; the list of exceptions gives the reason of each.
//   - Comments are in plain words: a list of phrases per package may only become shorter
//     (words_test.go, testdata/words.txt).
//   - No block of more than 12 equal lines is in two places (duplicates_test.go);
//     blank lines, imports, comments and lines of punctuation do not count. The list
//     of exceptions gives the reason of each.
//
// The imports are parsed and not read from `go list`: the test cache records the files
// that a test opened, but not those that a command started by it has read, and would
// answer "ok (cached)" to a new violation. Only links_test.go lists packages, for the
// imports of other modules, and opens our files first. Build tags are ignored, so a file for
// another system or behind `e2e` obeys too.
//
// The table is laxer than the design's in these places:
//
//   - Test files may import anything of ours (the compiler refuses cycles): a
//     test of binpack needs the rules of binpack/rule, and nothing else
//     depends on a test. The laws about Kubernetes in the core, and about swarm
//     and cerebro, hold for tests too. Folders with nothing but tests need no line.
//   - binpack/policy, swarm and cerebro/trace may import internal/durable: it imports
//     none of our packages, and files that survive a kill are written in one way.
//   - cerebro/report and benchdata/generate may import binpack:
//     the signatures of cerebro/trace are made of its types.
//   - plugins/sigma, plugins/extender and plugins/snapshot may import binpack,
//     binpack/measure and cerebro/trace, for the state itself, the metrics and
//     the decision log.
//   - plugins/apis, internal/train and mpa may be several packages that import
//     each other. mpa reads pods by plugins/podspec and plugins/owner.
//   - Packages below internal/ without a line of their own may import the
//     core and the simulator, but not swarm: joining the two is the job of
//     internal/train.
//
// The tests do not see an import of Kubernetes by a foreign module. Modules
// below hack/ and lab/ are programs of their own, bound by the limits of size and duplication.
package archtest
