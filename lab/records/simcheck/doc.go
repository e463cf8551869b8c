// Package simcheck measures how far mpa/loadsim is right: against queueing theory, whose
// figures the tests of mpa/loadsim print, and against a real server, a net/http server whose
// processor the kernel limits while requests arrive when they are due. It renews the tables
// of docs/mpa-validation.md.
//
// The server needs Linux, two cores, and a cgroup file system and priorities that this
// process may change. The server has the first core, the sender of requests the second.
package simcheck
