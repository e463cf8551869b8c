// Package placement measures placement policies against their targets: a Section is one
// kind of work, with its instances, peers, targets and commands.
//
// It runs the command line (bin/sigma) and reads what it prints; it does not call
// policies itself. Two heuristics of others (FunSearch) are written here, since no
// driver offers them.
package placement
